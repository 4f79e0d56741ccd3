//! Small stories, one call a line: `[user> ]verb arguments [= expected]`. Without `=` a call must succeed.
//!
//! A path is walked by root from the export's root (`/`) or from a handle that was held (`hold NAME PATH`, then `@NAME`);
//! its last name belongs to the call, with `%xx` for any byte and `*n` for n letters. A user is `uid[:gid[,gid..]]`.

use crate::world::{Client, ROOT, World};
use midas_nfs::nfs3::{
    Call, CreateHow, DirOp, Ftype3, MknodData, Nfsstat3, Nfstime3, Reply, Sattr3, SetTime, Specdata3, StableHow, access,
};
use midas_nfsd::{Handle, User};
use std::collections::HashMap;

/// Runs a story over every world given.
pub(crate) fn tell(worlds: impl IntoIterator<Item = World>, story: &str) {
    for world in worlds {
        let mut teller = Teller { world: &world, held: HashMap::new() };
        for line in story.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            teller.line(line);
        }
    }
}

struct Teller<'a> {
    world: &'a World,
    held: HashMap<String, Handle>,
}

/// How a line ended: a status and what was read.
type Told = Result<String, Nfsstat3>;

impl Teller<'_> {
    fn line(&mut self, line: &str) {
        let (what, expected) = line.split_once(" =").unwrap_or((line, ""));
        let expected = expected.trim();
        let (who, what) = what.split_once("> ").map_or((ROOT, what), |(who, what)| (parse_user(who), what));
        let words: Vec<&str> = what.split_whitespace().collect();
        let told = self.run(self.world.by(who), &words);
        let told = told.unwrap_or_else(|status| status.name().unwrap_or("a status of no name").to_owned());
        assert_eq!(told, expected, "{}: {line}", self.world.name);
    }

    fn run(&mut self, by: Client<'_>, words: &[&str]) -> Told {
        match *words {
            ["hold", name, path] => {
                let handle = self.handle(path)?;
                self.held.insert(name.to_owned(), handle);
                Ok(String::new())
            }
            ["lookup", path] => self.place(path, |dir, name| by.lookup(dir, name)).map(|_| String::new()),
            ["stat", path] => by.attributes(&self.handle(path)?).map(|attributes| {
                let kind = format!("{:?}", attributes.ftype).to_lowercase();
                let size =
                    if attributes.ftype == Ftype3::Dir { String::new() } else { format!(" {}", attributes.size) };
                let owners = self.world.owners(&attributes);
                format!("{kind} {:o} {} {owners}{size}", attributes.mode, attributes.nlink)
            }),
            ["same", a, b] => {
                let [a, b] = [self.handle(a)?, self.handle(b)?];
                let [first, second] = [by.attributes(&a)?.fileid, by.attributes(&b)?.fileid];
                Ok(((a == b) && first == second).to_string())
            }
            ["ls", path] => crate::listing::names(by, &self.handle(path)?).map(|mut names| {
                names.sort();
                names.join(" ")
            }),
            ["access", path, asked] => self.access(by, path, asked),
            ["readlink", path] => {
                let link = self.handle(path)?;
                by.call(&Call::Readlink { symlink: link.file_handle() }, |reply| match reply {
                    Reply::Readlink(result) => {
                        result.map(|ok| String::from_utf8_lossy(ok.data).into_owned()).map_err(|failed| failed.status)
                    }
                    other => panic!("{other:?}"),
                })
            }
            ["read", path, offset, count] => {
                let file = self.handle(path)?;
                let call = Call::Read { file: file.file_handle(), offset: number(offset), count: number(count) };
                by.call(&call, |reply| match reply {
                    Reply::Read(Ok(ok)) => {
                        assert_eq!(ok.count as usize, ok.data.len());
                        let end = if ok.eof { "$" } else { "" };
                        Ok(format!("{}{end}", String::from_utf8_lossy(ok.data).replace('\0', "0")))
                    }
                    Reply::Read(Err(failed)) => Err(failed.status),
                    other => panic!("{other:?}"),
                })
            }
            _ => self.change(by, words),
        }
    }

    fn access(&self, by: Client<'_>, path: &str, asked: &str) -> Told {
        let bits = asked.chars().fold(0, |bits, letter| bits | bit(letter));
        let object = self.handle(path)?;
        let call = Call::Access { object: object.file_handle(), access: bits };
        by.call(&call, |reply| match reply {
            Reply::Access(Ok(ok)) => Ok(asked.chars().filter(|letter| ok.access & bit(*letter) != 0).collect()),
            Reply::Access(Err(failed)) => Err(failed.status),
            other => panic!("{other:?}"),
        })
    }

    fn change(&self, by: Client<'_>, words: &[&str]) -> Told {
        let made = |path: &str, call: &dyn for<'a> Fn(DirOp<'a>) -> Call<'a>| {
            self.place(path, |dir, name| by.make(&call(DirOp { dir: dir.file_handle(), name })))
        };
        let done = |status| if status == Nfsstat3::OK { Ok(String::new()) } else { Err(status) };
        let spec = Specdata3 { specdata1: 1, specdata2: 3 };
        let result = match *words {
            ["create", path, ref rest @ ..] => {
                let wanted = new(rest);
                made(path, &|place| Call::Create { place, how: CreateHow::Guarded(wanted) })
            }
            ["unchecked", path, ref rest @ ..] => {
                let wanted = new(rest);
                made(path, &|place| Call::Create { place, how: CreateHow::Unchecked(wanted) })
            }
            ["exclusive", path, verifier] => {
                let verifier = verifier.as_bytes().try_into().expect("eight letters");
                made(path, &|place| Call::Create { place, how: CreateHow::Exclusive(verifier) })
            }
            ["mkdir", path, ref rest @ ..] => {
                let attributes = new(rest);
                made(path, &|place| Call::Mkdir { place, attributes })
            }
            ["symlink", path, target] => {
                let target = name_of(target);
                self.place(path, |dir, name| {
                    let place = DirOp { dir: dir.file_handle(), name };
                    by.make(&Call::Symlink { place, attributes: Sattr3::default(), target: &target })
                })
            }
            ["mknod", path, kind, ref rest @ ..] => {
                let wanted = new(rest);
                let what = match kind {
                    "fifo" => MknodData::Fifo(wanted),
                    "sock" => MknodData::Sock(wanted),
                    "chr" => MknodData::Chr(wanted, spec),
                    "blk" => MknodData::Blk(wanted, spec),
                    _ => MknodData::Other(Ftype3::Reg as u32),
                };
                made(path, &|place| Call::Mknod { place, what })
            }
            _ => return self.call(by, words).and_then(done),
        };
        result.map(|_| String::new())
    }

    fn call(&self, by: Client<'_>, words: &[&str]) -> Result<Nfsstat3, Nfsstat3> {
        match *words {
            ["rm", path] => self.place(path, |dir, name| {
                Ok(by.status(&Call::Remove { object: DirOp { dir: dir.file_handle(), name } }))
            }),
            ["rmdir", path] => self.place(path, |dir, name| {
                Ok(by.status(&Call::Rmdir { object: DirOp { dir: dir.file_handle(), name } }))
            }),
            ["mv", from, to] => self.place(from, |from_dir, from_name| {
                self.place(to, |dir, name| {
                    let from = DirOp { dir: from_dir.file_handle(), name: from_name };
                    Ok(by.status(&Call::Rename { from, to: DirOp { dir: dir.file_handle(), name } }))
                })
            }),
            ["ln", file, path] => {
                let file = self.handle(file)?;
                self.place(path, |dir, name| {
                    let link = DirOp { dir: dir.file_handle(), name };
                    Ok(by.call(&Call::Link { file: file.file_handle(), link }, |reply| {
                        let told = crate::world::linked(reply).expect("LINK was called");
                        assert_eq!(told.attributes, by.attributes(&file).ok());
                        reply.status()
                    }))
                })
            }
            ["set", path, ref rest @ ..] => {
                let object = self.handle(path)?;
                let new_attributes = settings(rest);
                Ok(by.status(&Call::Setattr { object: object.file_handle(), new_attributes, guard: None }))
            }
            ["write", path, offset, text] => {
                let file = self.handle(path)?;
                let (data, stable) = (text.as_bytes(), StableHow::FileSync);
                let (offset, count) = (number(offset), data.len() as u32);
                Ok(by.status(&Call::Write { file: file.file_handle(), offset, count, stable, data }))
            }
            ["commit", path] => {
                let file = self.handle(path)?;
                Ok(by.status(&Call::Commit { file: file.file_handle(), offset: 0, count: 0 }))
            }
            _ => panic!("{words:?} is no call"),
        }
    }

    /// The directory and the last name of a path.
    fn place<R>(&self, path: &str, then: impl FnOnce(&Handle, &[u8]) -> Result<R, Nfsstat3>) -> Result<R, Nfsstat3> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let dir = self.handle(if dir.is_empty() { "/" } else { dir })?;
        then(&dir, &name_of(name))
    }

    /// What a path leads to.
    fn handle(&self, path: &str) -> Result<Handle, Nfsstat3> {
        let (start, rest) = match path.strip_prefix('@') {
            Some(held) => {
                let (name, rest) = held.split_once('/').unwrap_or((held, ""));
                (self.held[name], rest)
            }
            None => (self.world.root(), path),
        };
        let names = rest.split('/').filter(|name| !name.is_empty());
        names.map(name_of).try_fold(start, |dir, name| self.world.by(ROOT).lookup(&dir, &name))
    }
}

/// Attributes of a new object; where no mode is told, one that a server needs no privilege to work with.
fn new(words: &[&str]) -> Sattr3 {
    let wanted = settings(words);
    Sattr3 { mode: wanted.mode.or(Some(0o755)), ..wanted }
}

/// `mode=640 uid=1 gid=2 size=9 atime=server mtime=7`.
fn settings(words: &[&str]) -> Sattr3 {
    let mut wanted = Sattr3::default();
    for word in words {
        let (what, value) = word.split_once('=').expect("what=value");
        let time = || match value {
            "server" => SetTime::Server,
            seconds => SetTime::Client(Nfstime3 { seconds: number(seconds), nseconds: 5 }),
        };
        match what {
            "mode" => wanted.mode = Some(u32::from_str_radix(value, 8).expect("an octal number")),
            "uid" => wanted.uid = Some(number(value)),
            "gid" => wanted.gid = Some(number(value)),
            "size" => wanted.size = Some(number(value)),
            "atime" => wanted.atime = time(),
            "mtime" => wanted.mtime = time(),
            _ => panic!("{what} cannot be set"),
        }
    }
    wanted
}

fn name_of(word: &str) -> Vec<u8> {
    if let Some(count) = word.strip_prefix('*') {
        return vec![b'n'; number(count)];
    }
    let mut bytes = Vec::new();
    let mut letters = word.bytes();
    while let Some(letter) = letters.next() {
        match letter {
            b'%' => {
                let digits: String = letters.by_ref().take(2).map(char::from).collect();
                bytes.extend(u8::from_str_radix(&digits, 16));
            }
            letter => bytes.push(letter),
        }
    }
    bytes
}

fn parse_user(text: &str) -> User {
    let (uid, groups) = text.split_once(':').unwrap_or((text, text));
    let groups: Vec<u32> = groups.split(',').map(number).collect();
    User::new(number(uid), groups[0], &groups[1..])
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

fn bit(letter: char) -> u32 {
    match letter {
        'r' => access::READ,
        'l' => access::LOOKUP,
        'm' => access::MODIFY,
        'e' => access::EXTEND,
        'd' => access::DELETE,
        'x' => access::EXECUTE,
        _ => panic!("{letter} is no right"),
    }
}
