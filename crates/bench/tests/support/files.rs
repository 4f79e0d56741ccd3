//! Files in memory: names, sizes and links, no permissions and no data.

use midas_nfs::nfs3::{
    AccessOk, Call, CommitOk, CreateHow, CreateOk, DirOp, Entry, EntryPlus, Fattr3, FileHandle, FsstatOk, Ftype3,
    LinkDone, LookupOk, Nfsstat3, Nfstime3, Page, ReadOk, ReaddirOk, ReaddirplusOk, ReadlinkOk, RenameDone, Reply,
    Specdata3, StableHow, WccData, WriteOk,
};
use std::collections::{BTreeMap, HashMap};

pub(crate) const ROOT: [u8; 8] = 1u64.to_be_bytes();

#[derive(Debug)]
pub(crate) struct Files {
    nodes: HashMap<u64, Node>,
    next: u64,
    /// How many objects there ever were.
    pub(crate) made: usize,
}

#[derive(Debug)]
struct Node {
    ftype: Ftype3,
    size: u64,
    names: BTreeMap<Vec<u8>, u64>,
    changes: u32,
    links: u32,
}

impl Default for Files {
    fn default() -> Self {
        let root = Node { ftype: Ftype3::Dir, size: 0, names: BTreeMap::new(), changes: 0, links: 1 };
        Self { nodes: HashMap::from([(1, root)]), next: 2, made: 0 }
    }
}

impl Files {
    /// Names under the root, at any depth.
    pub(crate) fn count(&self) -> usize {
        self.nodes.values().map(|node| node.names.len()).sum()
    }

    /// The number behind a path from the root.
    pub(crate) fn find(&self, path: &[&[u8]]) -> Option<u64> {
        path.iter().try_fold(1, |at, name| self.nodes[&at].names.get(*name).copied())
    }

    /// The only name in the root.
    pub(crate) fn work_directory(&self) -> Option<Vec<u8>> {
        self.nodes[&1].names.keys().next().cloned()
    }

    fn attributes(&self, number: u64) -> Option<Fattr3> {
        let node = self.nodes.get(&number)?;
        let time = Nfstime3 { seconds: 1000, nseconds: node.changes };
        Some(Fattr3 {
            ftype: node.ftype,
            mode: 0o777,
            nlink: node.links,
            uid: 0,
            gid: 0,
            size: node.size,
            used: 0,
            rdev: Specdata3::default(),
            fsid: 1,
            fileid: number,
            atime: time,
            mtime: time,
            ctime: time,
        })
    }

    fn wcc(&self, number: u64) -> WccData {
        WccData { before: None, after: self.attributes(number) }
    }

    fn make(&mut self, place: &DirOp<'_>, ftype: Ftype3, exclusive: bool) -> Result<u64, Nfsstat3> {
        let dir = number(place.dir);
        let names = &self.nodes.get(&dir).ok_or(Nfsstat3::STALE)?.names;
        if let Some(there) = names.get(place.name) {
            return if exclusive { Err(Nfsstat3::EXIST) } else { Ok(*there) };
        }
        let made = self.next;
        (self.next, self.made) = (made + 1, self.made + 1);
        self.nodes.insert(made, Node { ftype, size: 0, names: BTreeMap::new(), changes: 0, links: 1 });
        self.change(dir).names.insert(place.name.to_vec(), made);
        Ok(made)
    }

    fn change(&mut self, number: u64) -> &mut Node {
        let node = self.nodes.get_mut(&number).expect("was looked up before");
        node.changes += 1;
        node
    }

    fn remove(&mut self, place: &DirOp<'_>, directory: bool) -> Result<(), Nfsstat3> {
        let dir = number(place.dir);
        let there = *self.nodes.get(&dir).ok_or(Nfsstat3::STALE)?.names.get(place.name).ok_or(Nfsstat3::NOENT)?;
        let node = &self.nodes[&there];
        match (node.ftype == Ftype3::Dir, directory) {
            (true, false) => return Err(Nfsstat3::ISDIR),
            (false, true) => return Err(Nfsstat3::NOTDIR),
            (true, true) if !node.names.is_empty() => return Err(Nfsstat3::NOTEMPTY),
            (true, true) | (false, false) => {}
        }
        self.change(dir).names.remove(place.name);
        self.forget(there);
        Ok(())
    }

    /// An object without a name is gone.
    fn forget(&mut self, number: u64) {
        let node = self.change(number);
        node.links -= 1;
        if node.links == 0 {
            self.nodes.remove(&number);
        }
    }

    fn rename(&mut self, from: &DirOp<'_>, to: &DirOp<'_>) -> Result<(), Nfsstat3> {
        let (dir, target) = (number(from.dir), number(to.dir));
        let moved = self.nodes.get_mut(&dir).ok_or(Nfsstat3::STALE)?.names.remove(from.name).ok_or(Nfsstat3::NOENT)?;
        self.change(dir);
        let replaced = self.change(target).names.insert(to.name.to_vec(), moved);
        if let Some(replaced) = replaced {
            self.forget(replaced);
        }
        Ok(())
    }

    fn list(&self, dir: u64, cookie: u64, plus: bool, limit: usize) -> Vec<u8> {
        let mut page = Page::readdirplus(u32::MAX, limit as u32, &None);
        let mut all = true;
        for (index, (name, there)) in self.nodes[&dir].names.iter().enumerate().skip(cookie as usize) {
            let entry = Entry { fileid: *there, name, cookie: index as u64 + 1 };
            let handle = there.to_be_bytes();
            let fits = match plus {
                true => {
                    let (attributes, handle) = (self.attributes(*there), FileHandle::new(&handle));
                    page.push_plus(&EntryPlus { entry, attributes, handle })
                }
                false => page.push(&entry),
            };
            if !fits {
                all = false;
                break;
            }
        }
        page.finish(all)
    }

    /// Executes a call; `take` gets the reply.
    pub(crate) fn execute(&mut self, call: &Call<'_>, take: impl FnOnce(&Reply<'_>)) {
        let procedure = call.procedure();
        match self.named(call) {
            Err(status) => take(&Reply::failed(procedure, status)),
            Ok(Some((dir, there))) => {
                let handle = there.to_be_bytes();
                let object = FileHandle::new(&handle).unwrap();
                let attributes = self.attributes(there);
                let dir_attributes = self.attributes(dir);
                let made = CreateOk { object: Some(object), attributes, dir: self.wcc(dir) };
                take(&match call {
                    Call::Lookup { .. } => Reply::Lookup(Ok(LookupOk { object, attributes, dir_attributes })),
                    Call::Create { .. } => Reply::Create(Ok(made)),
                    Call::Mkdir { .. } => Reply::Mkdir(Ok(made)),
                    _ => Reply::Symlink(Ok(made)),
                });
            }
            Ok(None) => self.other(call, take),
        }
    }

    /// Calls that find or make an object by its name: the directory and the object.
    fn named(&mut self, call: &Call<'_>) -> Result<Option<(u64, u64)>, Nfsstat3> {
        let there = match call {
            Call::Lookup { what } => {
                let dir = self.nodes.get(&number(what.dir)).ok_or(Nfsstat3::STALE)?;
                (what, *dir.names.get(what.name).ok_or(Nfsstat3::NOENT)?)
            }
            Call::Create { place, how } => {
                let exclusive = !matches!(how, CreateHow::Unchecked(_));
                (place, self.make(place, Ftype3::Reg, exclusive)?)
            }
            Call::Mkdir { place, .. } => (place, self.make(place, Ftype3::Dir, true)?),
            Call::Symlink { place, .. } => (place, self.make(place, Ftype3::Lnk, true)?),
            _ => return Ok(None),
        };
        Ok(Some((number(there.0.dir), there.1)))
    }

    fn other(&mut self, call: &Call<'_>, take: impl FnOnce(&Reply<'_>)) {
        let procedure = call.procedure();
        let changed = match call {
            Call::Remove { object } => Some(self.remove(object, false)),
            Call::Rmdir { object } => Some(self.remove(object, true)),
            Call::Rename { from, to } => Some(self.rename(from, to)),
            _ => None,
        };
        if let Some(Err(status)) = changed {
            return take(&Reply::failed(procedure, status));
        }
        let object = object_of(call);
        let Some(attributes) = self.attributes(object) else {
            return take(&Reply::failed(procedure, Nfsstat3::STALE));
        };
        let (some, wcc) = (Some(attributes), WccData { before: None, after: Some(attributes) });
        let (list, data) = match call {
            Call::Readdir { cookie, count, .. } => (self.list(object, *cookie, false, *count as usize), Vec::new()),
            Call::Readdirplus { cookie, maxcount, .. } => {
                (self.list(object, *cookie, true, *maxcount as usize), Vec::new())
            }
            Call::Read { count, .. } => (Vec::new(), vec![0; (*count as usize).min(attributes.size as usize)]),
            _ => (Vec::new(), Vec::new()),
        };
        take(&match call {
            Call::Null => Reply::Null,
            Call::Getattr { .. } => Reply::Getattr(Ok(attributes)),
            Call::Setattr { .. } => {
                self.change(object);
                Reply::Setattr(Ok(self.wcc(object)))
            }
            Call::Access { access, .. } => Reply::Access(Ok(AccessOk { attributes: some, access: *access })),
            Call::Readlink { .. } => Reply::Readlink(Ok(ReadlinkOk { attributes: some, data: b"f0" })),
            Call::Read { .. } => {
                Reply::Read(Ok(ReadOk { attributes: some, count: data.len() as u32, eof: true, data: &data }))
            }
            Call::Write { count, .. } => {
                self.change(object).size = u64::from(*count);
                let file = self.wcc(object);
                Reply::Write(Ok(WriteOk { file, count: *count, committed: StableHow::FileSync, verf: [0; 8] }))
            }
            Call::Remove { .. } => Reply::Remove(Ok(wcc)),
            Call::Rmdir { .. } => Reply::Rmdir(Ok(wcc)),
            Call::Rename { .. } => Reply::Rename(Ok(RenameDone { from: wcc, to: wcc })),
            Call::Link { link, .. } => {
                self.change(number(link.dir)).names.insert(link.name.to_vec(), object);
                self.change(object).links += 1;
                Reply::Link(Ok(LinkDone { attributes: some, dir: wcc }))
            }
            Call::Readdir { .. } => {
                Reply::Readdir(Ok(ReaddirOk { dir_attributes: some, cookieverf: [0; 8], list: &list }))
            }
            Call::Readdirplus { .. } => {
                Reply::Readdirplus(Ok(ReaddirplusOk { dir_attributes: some, cookieverf: [0; 8], list: &list }))
            }
            Call::Commit { .. } => Reply::Commit(Ok(CommitOk { file: wcc, verf: [0; 8] })),
            Call::Fsstat { .. } => Reply::Fsstat(Ok(FsstatOk {
                attributes: some,
                tbytes: 1,
                fbytes: 1,
                abytes: 1,
                tfiles: 1,
                ffiles: 1,
                afiles: 1,
                invarsec: 0,
            })),
            _ => Reply::failed(procedure, Nfsstat3::NOTSUPP),
        });
    }
}

/// The object, or the directory, that a call is about.
fn object_of(call: &Call<'_>) -> u64 {
    number(match call {
        Call::Getattr { object } | Call::Setattr { object, .. } | Call::Access { object, .. } => *object,
        Call::Readlink { symlink } => *symlink,
        Call::Read { file, .. } | Call::Write { file, .. } | Call::Commit { file, .. } | Call::Link { file, .. } => {
            *file
        }
        Call::Remove { object } | Call::Rmdir { object } => object.dir,
        Call::Rename { from, .. } => from.dir,
        Call::Readdir { dir, .. } | Call::Readdirplus { dir, .. } => *dir,
        Call::Fsstat { fsroot } => *fsroot,
        _ => FileHandle::new(&ROOT).unwrap(),
    })
}

fn number(handle: FileHandle<'_>) -> u64 {
    u64::from_be_bytes(handle.bytes().try_into().expect("handles are ours"))
}
