//! A reply as facts that can be compared between servers: what must be equal is told as it is, what belongs to one server
//! (handles, file numbers, times, limits) as a relation. Of attributes `atime` and `used` are left out, of a directory its
//! size: no two file systems agree on them.

use crate::transcript::Line;
use midas_nfs::nfs3::{
    Call, CreateOk, Entries, Fattr3, FileHandle, FsinfoOk, FsstatOk, Ftype3, PathconfOk, PostOpAttr, ReadOk, Reply,
    SetTime, StableHow, Verifier, WccData, WriteOk, access, fsinfo,
};

/// What is known besides the reply.
pub(crate) struct Scene<'a> {
    /// The call, with real handles.
    pub(crate) call: &'a Call<'a>,
    /// The objects of the call, as root sees them.
    pub(crate) objects: &'a [Seen],
    /// The object whose handle the reply gives, seen after the call, with the symbol that it had before.
    pub(crate) given: Option<Given>,
    /// The first write verifier of the run.
    pub(crate) verifier: Option<Verifier>,
}

/// An object of a call before and after it; none where there was no such object.
pub(crate) struct Seen {
    pub(crate) role: &'static str,
    pub(crate) before: PostOpAttr,
    pub(crate) after: PostOpAttr,
}

/// A handle that a reply gave.
pub(crate) struct Given {
    pub(crate) symbol: Option<&'static str>,
    pub(crate) after: PostOpAttr,
}

/// Adds the facts of a reply.
pub(crate) fn reply(line: &mut Line, reply: &Reply<'_>, scene: &Scene<'_>) {
    results(line, reply, scene);
    for seen in scene.objects {
        if let Some(changes) = changes(seen) {
            line.add(seen.role, changes);
        }
    }
    if let Call::Setattr { new_attributes, .. } = scene.call
        && let Some(after) = scene.objects[0].after
        && reply.status() == midas_nfs::nfs3::Nfsstat3::OK
    {
        time_as_asked(line, "atime", new_attributes.atime, after.atime);
        time_as_asked(line, "mtime", new_attributes.mtime, after.mtime);
    }
}

fn results(line: &mut Line, reply: &Reply<'_>, scene: &Scene<'_>) {
    let mut tell = Teller { line, scene };
    match reply {
        Reply::Null => {}
        Reply::Getattr(result) => tell.getattr(result.as_ref().ok()),
        Reply::Setattr(result) => tell.wcc("object", either(result)),
        Reply::Lookup(Ok(found)) => {
            tell.object(Some(found.object), &found.attributes);
            tell.post("dir", &found.dir_attributes);
        }
        Reply::Access(Ok(ok)) => {
            tell.line.add("granted", granted(ok.access));
            tell.post("object", &ok.attributes);
        }
        Reply::Readlink(Ok(ok)) => {
            tell.line.add("target", text(ok.data));
            tell.post("link", &ok.attributes);
        }
        Reply::Read(Ok(ok)) => tell.read(ok),
        Reply::Write(Ok(ok)) => tell.written(ok),
        Reply::Create(Ok(ok)) | Reply::Mkdir(Ok(ok)) | Reply::Symlink(Ok(ok)) | Reply::Mknod(Ok(ok)) => tell.made(ok),
        Reply::Create(Err(failed))
        | Reply::Mkdir(Err(failed))
        | Reply::Symlink(Err(failed))
        | Reply::Mknod(Err(failed)) => tell.wcc("dir", &failed.attributes),
        Reply::Remove(result) | Reply::Rmdir(result) => tell.wcc("dir", either(result)),
        Reply::Rename(result) => {
            let done = either(result);
            tell.wcc("from", &done.from);
            tell.wcc("to", &done.to);
        }
        Reply::Link(result) => {
            let done = either(result);
            tell.post("file", &done.attributes);
            tell.wcc("dir", &done.dir);
        }
        Reply::Readdir(Ok(ok)) => tell.page(ok.entries(), |entry| entry.name, &ok.dir_attributes),
        Reply::Readdirplus(Ok(ok)) => tell.page(ok.entries(), |plus| plus.entry.name, &ok.dir_attributes),
        Reply::Fsstat(Ok(ok)) => tell.fsstat(ok),
        Reply::Fsinfo(Ok(ok)) => tell.fsinfo(ok),
        Reply::Pathconf(Ok(ok)) => tell.pathconf(ok),
        Reply::Commit(Ok(ok)) => {
            tell.verifier(ok.verf);
            tell.wcc("file", &ok.file);
        }
        Reply::Lookup(Err(failed)) | Reply::Readdir(Err(failed)) | Reply::Readdirplus(Err(failed)) => {
            tell.post("dir", &failed.attributes);
        }
        Reply::Access(Err(failed))
        | Reply::Fsstat(Err(failed))
        | Reply::Fsinfo(Err(failed))
        | Reply::Pathconf(Err(failed)) => tell.post("object", &failed.attributes),
        Reply::Readlink(Err(failed)) => tell.post("link", &failed.attributes),
        Reply::Read(Err(failed)) => tell.post("file", &failed.attributes),
        Reply::Write(Err(failed)) | Reply::Commit(Err(failed)) => tell.wcc("file", &failed.attributes),
    }
}

struct Teller<'a> {
    line: &'a mut Line,
    scene: &'a Scene<'a>,
}

impl Teller<'_> {
    fn getattr(&mut self, found: Option<&Fattr3>) {
        if let Some(attributes) = found {
            self.line.add("is", object(attributes));
            self.post("object", &Some(*attributes));
        }
    }

    /// Attributes after a call: whether they are what a GETATTR then says.
    fn post(&mut self, role: &str, attributes: &PostOpAttr) {
        let now = self.scene.objects.iter().find(|seen| seen.role == role).and_then(|seen| seen.after);
        self.line.add(format!("{role}.post"), same(attributes.as_ref(), now.as_ref()));
    }

    fn wcc(&mut self, role: &str, data: &WccData) {
        let seen = self.scene.objects.iter().find(|seen| seen.role == role);
        let was = seen.and_then(|seen| seen.before);
        let pre = match (data.before, was) {
            (None, _) => "none",
            (Some(before), Some(was)) if before == was.wcc_attr() => "same",
            (Some(_), _) => "differs",
        };
        self.line.add(format!("{role}.pre"), pre);
        self.post(role, &data.after);
    }

    fn made(&mut self, made: &CreateOk<'_>) {
        self.object(made.object, &made.attributes);
        self.wcc("dir", &made.dir);
    }

    fn object(&mut self, handle: Option<FileHandle<'_>>, attributes: &PostOpAttr) {
        let given = self.scene.given.as_ref();
        let relation = match (handle, given.and_then(|given| given.symbol)) {
            (None, _) => "none".to_owned(),
            (Some(_), None) => "new".to_owned(),
            (Some(_), Some(symbol)) => format!("that of {symbol}"),
        };
        self.line.add("handle", relation);
        let now = given.and_then(|given| given.after);
        self.line.add("is", now.as_ref().map_or("gone".to_owned(), object));
        self.line.add("is.post", same(attributes.as_ref(), now.as_ref()));
    }

    fn read(&mut self, ok: &ReadOk<'_>) {
        self.line.add("data", data(ok.data));
        self.line.add("eof", ok.eof.to_string());
        if ok.count as usize != ok.data.len() {
            self.line.add("count", ok.count.to_string());
        }
        self.post("file", &ok.attributes);
    }

    fn verifier(&mut self, verifier: Verifier) {
        let first = self.scene.verifier.is_none_or(|first| first == verifier);
        self.line.add("verf", if first { "same" } else { "another" });
    }

    fn written(&mut self, ok: &WriteOk) {
        self.line.add("count", ok.count.to_string());
        self.line.add("committed", stability(ok.committed));
        self.verifier(ok.verf);
        self.wcc("file", &ok.file);
    }

    /// Which names come first is the server's business: they are told when they are all.
    fn page<'e, T>(&mut self, mut entries: Entries<'e, T>, name: fn(T) -> &'e [u8], dir: &PostOpAttr) {
        let mut names: Vec<Vec<u8>> = entries.by_ref().flatten().map(|entry| name(entry).to_vec()).collect();
        names.sort();
        let told = match (entries.eof(), names.is_empty()) {
            (Some(true), _) | (_, true) => listed(&names),
            (Some(false) | None, false) => "some".to_owned(),
        };
        self.line.add("names", told);
        self.line.add("eof", entries.eof().map_or("unreadable".to_owned(), |eof| eof.to_string()));
        self.post("dir", dir);
    }

    fn fsstat(&mut self, ok: &FsstatOk) {
        let bytes = ok.tbytes >= ok.fbytes && ok.fbytes >= ok.abytes;
        let files = ok.tfiles >= ok.ffiles && ok.ffiles >= ok.afiles;
        self.line.add("room", if bytes && files { "fits" } else { "more free than there is" });
        self.post("object", &ok.attributes);
    }

    fn fsinfo(&mut self, ok: &FsinfoOk) {
        let reads = (1..=ok.rtmax).contains(&ok.rtpref) && ok.rtmult > 0 && ok.rtmax >= SMALLEST_MAX;
        let writes = (1..=ok.wtmax).contains(&ok.wtpref) && ok.wtmult > 0 && ok.wtmax >= SMALLEST_MAX;
        let sizes = reads && writes && ok.dtpref > 0;
        self.line.add("sizes", if sizes { "usable" } else { "unusable" });
        self.line.add("64-bit files", (ok.maxfilesize > u32::MAX.into()).to_string());
        self.line.add("times finer than 1 s", (ok.time_delta.seconds == 0).to_string());
        let properties = [
            (fsinfo::LINK, "LINK"),
            (fsinfo::SYMLINK, "SYMLINK"),
            (fsinfo::HOMOGENEOUS, "HOMOGENEOUS"),
            (fsinfo::CANSETTIME, "CANSETTIME"),
        ];
        self.line.add("properties", bits(ok.properties, &properties));
        self.post("object", &ok.attributes);
    }

    fn pathconf(&mut self, ok: &PathconfOk) {
        self.line.add("several links", (ok.linkmax > 1).to_string());
        self.line.add("name_max", ok.name_max.to_string());
        let flags = [
            (ok.no_trunc, "no_trunc"),
            (ok.chown_restricted, "chown_restricted"),
            (ok.case_insensitive, "case_insensitive"),
            (ok.case_preserving, "case_preserving"),
        ];
        let set: Vec<&str> = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
        self.line.add("flags", set.join(" "));
        self.post("object", &ok.attributes);
    }
}

fn either<T>(result: &Result<T, midas_nfs::nfs3::Failed<T>>) -> &T {
    match result {
        Ok(value) => value,
        Err(failed) => &failed.attributes,
    }
}

/// Whether attributes are those that the observer saw.
pub(crate) fn same(told: Option<&Fattr3>, seen: Option<&Fattr3>) -> String {
    match (told, seen) {
        (None, _) => "none".to_owned(),
        (Some(_), None) => "of an object that is gone".to_owned(),
        (Some(told), Some(seen)) => {
            let other = different(told, seen);
            if other.is_empty() { "same".to_owned() } else { format!("other {}", other.join(" ")) }
        }
    }
}

fn different(a: &Fattr3, b: &Fattr3) -> Vec<&'static str> {
    let pairs = [
        ("type", a.ftype == b.ftype),
        ("mode", a.mode == b.mode),
        ("nlink", a.nlink == b.nlink),
        ("uid", a.uid == b.uid),
        ("gid", a.gid == b.gid),
        ("size", a.size == b.size),
        ("rdev", a.rdev == b.rdev),
        ("fsid", a.fsid == b.fsid),
        ("fileid", a.fileid == b.fileid),
        ("mtime", a.mtime == b.mtime),
        ("ctime", a.ctime == b.ctime),
    ];
    pairs.iter().filter(|(_, equal)| !equal).map(|(name, _)| *name).collect()
}

/// What the call changed of an object; none if nothing.
fn changes(seen: &Seen) -> Option<String> {
    let (before, after) = match (seen.before, seen.after) {
        (Some(before), Some(after)) => (before, after),
        (Some(_), None) => return Some("gone".to_owned()),
        (None, Some(_)) => return Some("came back".to_owned()),
        (None, None) => return None,
    };
    let told: Vec<String> = different(&before, &after)
        .into_iter()
        .filter(|name| *name != "size" || after.ftype != Ftype3::Dir)
        .map(|name| match name {
            "mode" => format!("mode {:04o}>{:04o}", before.mode, after.mode),
            "nlink" => format!("nlink {}>{}", before.nlink, after.nlink),
            "uid" => format!("uid {}>{}", before.uid, after.uid),
            "gid" => format!("gid {}>{}", before.gid, after.gid),
            "size" => format!("size {}>{}", before.size, after.size),
            name => name.to_owned(),
        })
        .collect();
    (!told.is_empty()).then(|| told.join(" "))
}

fn time_as_asked(line: &mut Line, which: &str, asked: SetTime, found: midas_nfs::nfs3::Nfstime3) {
    if let SetTime::Client(asked) = asked {
        line.add(which, if asked == found { "as asked" } else { "another" });
    }
}

fn object(of: &Fattr3) -> String {
    let kind = match of.ftype {
        Ftype3::Reg => "REG",
        Ftype3::Dir => "DIR",
        Ftype3::Blk => "BLK",
        Ftype3::Chr => "CHR",
        Ftype3::Lnk => "LNK",
        Ftype3::Sock => "SOCK",
        Ftype3::Fifo => "FIFO",
    };
    let rest = match of.ftype {
        Ftype3::Reg | Ftype3::Lnk => format!(" size {}", of.size),
        Ftype3::Blk | Ftype3::Chr => format!(" device {}:{}", of.rdev.specdata1, of.rdev.specdata2),
        Ftype3::Dir | Ftype3::Sock | Ftype3::Fifo => String::new(),
    };
    format!("{kind} {:04o} nlink {} owner {}:{}{rest}", of.mode, of.nlink, of.uid, of.gid)
}

fn granted(bits_granted: u32) -> String {
    let names = [
        (access::READ, "READ"),
        (access::LOOKUP, "LOOKUP"),
        (access::MODIFY, "MODIFY"),
        (access::EXTEND, "EXTEND"),
        (access::DELETE, "DELETE"),
        (access::EXECUTE, "EXECUTE"),
    ];
    bits(bits_granted, &names)
}

fn bits(set: u32, names: &[(u32, &str)]) -> String {
    let known = names.iter().fold(0, |all, (bit, _)| all | bit);
    let mut told: Vec<String> =
        names.iter().filter(|(bit, _)| set & bit != 0).map(|(_, name)| (*name).to_owned()).collect();
    if set & !known != 0 {
        told.push(format!("{:#x}", set & !known));
    }
    if told.is_empty() { "nothing".to_owned() } else { told.join(" ") }
}

fn stability(how: StableHow) -> &'static str {
    match how {
        StableHow::Unstable => "UNSTABLE",
        StableHow::DataSync => "DATA_SYNC",
        StableHow::FileSync => "FILE_SYNC",
    }
}

/// Few names are told, of many the number and the ends.
pub(crate) fn listed(sorted: &[Vec<u8>]) -> String {
    match sorted {
        [first, .., last] if sorted.len() > NAMES_TOLD => {
            format!("{} from {} to {}", sorted.len(), text(first), text(last))
        }
        [] => "none".to_owned(),
        few => few.iter().map(|name| text(name)).collect::<Vec<_>>().join(" "),
    }
}

fn data(bytes: &[u8]) -> String {
    if bytes.iter().all(|byte| *byte == 0) { format!("{} zeros", bytes.len()) } else { text(bytes) }
}

/// Printable; of long text the length and both ends.
pub(crate) fn text(bytes: &[u8]) -> String {
    match bytes.len() {
        0..=TEXT_TOLD => format!("'{}'", bytes.escape_ascii()),
        length => {
            let (head, tail) = (&bytes[..TEXT_END], &bytes[length - TEXT_END..]);
            format!("'{}' to '{}' ({length} bytes)", head.escape_ascii(), tail.escape_ascii())
        }
    }
}

/// Names that a line tells one by one.
const NAMES_TOLD: usize = 24;
/// Bytes that a line tells in full.
const TEXT_TOLD: usize = 64;
const TEXT_END: usize = 8;
/// No server that Linux can work with reads or writes less at a time.
const SMALLEST_MAX: u32 = 1 << 12;

#[cfg(test)]
mod tests {
    use super::*;
    use midas_nfs::nfs3::{Nfstime3, Specdata3};

    const FILE: Fattr3 = Fattr3 {
        ftype: Ftype3::Reg,
        mode: 0o640,
        nlink: 1,
        uid: 1,
        gid: 2,
        size: 3,
        used: 4096,
        rdev: Specdata3 { specdata1: 0, specdata2: 0 },
        fsid: 5,
        fileid: 6,
        atime: Nfstime3 { seconds: 1, nseconds: 0 },
        mtime: Nfstime3 { seconds: 1, nseconds: 0 },
        ctime: Nfstime3 { seconds: 1, nseconds: 0 },
    };
    const LATER: Nfstime3 = Nfstime3 { seconds: 2, nseconds: 0 };

    #[test]
    fn changes_are_told_but_for_atime_used_and_the_size_of_a_directory() {
        let dir = Fattr3 { ftype: Ftype3::Dir, ..FILE };
        let cases = [
            (Some(FILE), Some(Fattr3 { atime: LATER, used: 0, ..FILE }), None),
            (Some(FILE), Some(Fattr3 { size: 9, mtime: LATER, ..FILE }), Some("size 3>9 mtime")),
            (Some(dir), Some(Fattr3 { size: 9, nlink: 2, ..dir }), Some("nlink 1>2")),
            (Some(FILE), Some(Fattr3 { mode: 0o4755, ctime: LATER, ..FILE }), Some("mode 0640>4755 ctime")),
            (Some(FILE), None, Some("gone")),
            (None, None, None),
        ];
        for (before, after, expected) in cases {
            assert_eq!(changes(&Seen { role: "file", before, after }).as_deref(), expected);
        }
    }

    #[test]
    fn attributes_are_the_same_another_or_missing() {
        assert_eq!(same(Some(&FILE), Some(&FILE)), "same");
        assert_eq!(same(Some(&FILE), Some(&Fattr3 { fileid: 7, ctime: LATER, ..FILE })), "other fileid ctime");
        assert_eq!(same(None, Some(&FILE)), "none");
        assert_eq!(same(Some(&FILE), None), "of an object that is gone");
    }

    #[test]
    fn bits_bytes_and_names_read_as_text() {
        assert_eq!(granted(0), "nothing");
        assert_eq!(granted(access::READ | access::EXECUTE | 0x100), "READ EXECUTE 0x100");
        assert_eq!(text(b"a\xff\0"), "'a\\xff\\x00'");
        assert_eq!(text(&[b'n'; 255]), "'nnnnnnnn' to 'nnnnnnnn' (255 bytes)");
        assert_eq!(data(&[0; 70]), "70 zeros");
        assert_eq!(listed(&[b"a".to_vec(), b"b".to_vec()]), "'a' 'b'");
        assert_eq!(listed(&vec![b"a".to_vec(); 25]), "25 from 'a' to 'a'");
    }
}
