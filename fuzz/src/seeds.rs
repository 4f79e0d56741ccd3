//! Where the fuzzer starts: one valid message of every kind, and broken ones that were worth a thought.

use super::bytes;
use super::nfs3::Kind;
use midas_nfs::mount;
use midas_nfs::nfs3::{
    AccessOk, Call, CommitOk, CreateHow, CreateOk, DirOp, Entry, EntryPlus, Failed, Fattr3, FileHandle, FsinfoOk,
    FsstatOk, Ftype3, LinkDone, LookupOk, MknodData, Nfsstat3, Nfstime3, Page, PathconfOk, Procedure, ReadOk,
    ReaddirOk, ReaddirplusOk, ReadlinkOk, RenameDone, Reply, Sattr3, SetTime, Specdata3, StableHow, WccData, WriteOk,
};
use midas_nfs::rpc::{self, AuthStat, AuthSys, OpaqueAuth, Refusal, flavor};
use midas_nfs::xdr::put;

/// A file of the corpus.
pub struct Seed {
    /// Whose corpus.
    pub target: &'static str,
    /// The file's name.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

/// Every seed.
pub fn all() -> Vec<Seed> {
    let named = |target, seeds: Vec<(String, Vec<u8>)>| {
        seeds.into_iter().map(move |(name, bytes)| Seed { target, name, bytes })
    };
    let nfs3 = [calls(), replies(), mounts(), ports()].concat();
    named("record", records()).chain(named("rpc", headers())).chain(named("nfs3", nfs3)).collect()
}

/// Name, limit, cuts, and fragments: the bytes that come and the mark before them, which may claim others.
type Stream = (&'static str, u8, &'static [u8], &'static [(&'static str, u32)]);

fn records() -> Vec<(String, Vec<u8>)> {
    let drawn: [Stream; 10] = [
        ("one", 64, &[], &[("hello", LAST | 5)]),
        ("two-cut-by-ones", 64, &[0], &[("one", LAST | 3), ("two", LAST | 3)]),
        ("fragments", 64, &[2, 6], &[("a", 1), ("bc", 2), ("def", LAST | 3), ("g", LAST | 1)]),
        ("empty-fragments", 64, &[4], &[("", 0), ("a", 1), ("", 0), ("", LAST), ("", LAST)]),
        ("at-the-limit", 8, &[1, 2, 3], &[("abcd", 4), ("efgh", LAST | 4)]),
        ("room-grows-to-the-limit", 7, &[0], &[("abcd", 4), ("efg", LAST | 3)]),
        ("over-the-limit", 8, &[3], &[("abcd", 4), ("efghi", LAST | 5)]),
        ("claims-a-gigabyte", 255, &[], &[("abc", LAST | 1 << 30)]),
        ("ends-in-a-mark", 16, &[], &[("abc", LAST | 3), ("", 7)]),
        ("limit-zero", 0, &[], &[("", LAST), ("", 0), ("x", LAST | 1)]),
    ];
    let input = |(name, limit, cuts, fragments): Stream| {
        let mut out = vec![limit, cuts.len() as u8];
        out.extend_from_slice(cuts);
        for (text, mark) in fragments {
            put::u32(&mut out, *mark);
            out.extend_from_slice(text.as_bytes());
        }
        (name.to_owned(), out)
    };
    drawn.into_iter().map(input).collect()
}

fn headers() -> Vec<(String, Vec<u8>)> {
    let auth = AuthSys::new(7, b"node1", 1000, 100, &[4, 24, 27]).expect("three groups are few");
    let body = bytes(|out| auth.encode(out));
    let sys = OpaqueAuth { flavor: flavor::SYS, body: &body };
    let gss = OpaqueAuth { flavor: flavor::GSS, body: &[0, 0, 0, 1, 0, 0, 0] };
    let long = OpaqueAuth { flavor: flavor::NONE, body: &[9; OpaqueAuth::LONGEST] };
    let call = |credential, verifier, args| rpc::Call {
        xid: 0x0102_0304,
        program: 100_003,
        version: 3,
        procedure: 1,
        credential,
        verifier,
        args,
    };
    let calls = [
        ("call-none", call(OpaqueAuth::NONE, OpaqueAuth::NONE, &b"args"[..])),
        ("call-sys", call(sys, OpaqueAuth::NONE, b"")),
        ("call-gss", call(gss, gss, b"")),
        ("call-longest", call(long, long, b"")),
    ];
    let refusals = [
        ("prog-unavail", Refusal::ProgUnavail),
        ("prog-mismatch", Refusal::ProgMismatch { low: 3, high: 3 }),
        ("proc-unavail", Refusal::ProcUnavail),
        ("garbage-args", Refusal::GarbageArgs),
        ("system-err", Refusal::SystemErr),
        ("rpc-mismatch", Refusal::RpcMismatch { low: 2, high: 2 }),
        ("auth-error", Refusal::Auth(AuthStat::TOOWEAK)),
    ];
    let mut seeds = vec![("auth-sys".to_owned(), body.clone())];
    for (name, call) in calls {
        let record = bytes(|out| call.encode(out));
        seeds.push((format!("{name}-cut"), record[..record.len() - 5].to_vec()));
        seeds.push((name.to_owned(), record));
    }
    for (name, why) in refusals {
        seeds.push((format!("reply-{name}"), bytes(|out| rpc::Reply::refuse(out, 7, why))));
    }
    seeds.push(("reply-accepted".to_owned(), bytes(|out| rpc::Reply::accept(out, 7))));
    seeds.push(("call-rpc-version-3".to_owned(), words(&[7, 0, 3, 100_003, 3, 0, 0, 0, 0, 0])));
    seeds.push(("call-claims-long-credential".to_owned(), words(&[7, 0, 2, 100_003, 3, 0, 1, u32::MAX])));
    seeds.push(("auth-sys-17-groups".to_owned(), words(&[[7, 0, 1, 1, 17].as_slice(), &[5; 17]].concat())));
    seeds
}

fn calls() -> Vec<(String, Vec<u8>)> {
    let object = handle();
    let place = DirOp { dir: object, name: b"a name \xff" };
    let attributes = Sattr3 {
        mode: Some(0o644),
        uid: Some(1),
        gid: Some(2),
        size: Some(3),
        atime: SetTime::Server,
        mtime: SetTime::Client(TIME),
    };
    let (offset, count, cookie, cookieverf) = (1 << 40, 4096, 12, *b"cookieve");
    let calls = [
        Call::Null,
        Call::Getattr { object },
        Call::Setattr { object, new_attributes: attributes, guard: Some(TIME) },
        Call::Lookup { what: place },
        Call::Access { object, access: 0x3f },
        Call::Readlink { symlink: object },
        Call::Read { file: object, offset, count },
        Call::Write { file: object, offset, count: 5, stable: StableHow::DataSync, data: b"bytes" },
        Call::Create { place, how: CreateHow::Unchecked(Sattr3::default()) },
        Call::Create { place, how: CreateHow::Guarded(attributes) },
        Call::Create { place, how: CreateHow::Exclusive(cookieverf) },
        Call::Mkdir { place, attributes },
        Call::Symlink { place, attributes: Sattr3::default(), target: b"../there" },
        Call::Mknod { place, what: MknodData::Blk(attributes, SPEC) },
        Call::Mknod { place, what: MknodData::Chr(Sattr3::default(), SPEC) },
        Call::Mknod { place, what: MknodData::Sock(attributes) },
        Call::Mknod { place, what: MknodData::Fifo(Sattr3::default()) },
        Call::Mknod { place, what: MknodData::Other(1) },
        Call::Remove { object: place },
        Call::Rmdir { object: place },
        Call::Rename { from: place, to: DirOp { dir: object, name: b"" } },
        Call::Link { file: object, link: place },
        Call::Readdir { dir: object, cookie, cookieverf, count },
        Call::Readdirplus { dir: object, cookie, cookieverf, dircount: 512, maxcount: count },
        Call::Fsstat { fsroot: object },
        Call::Fsinfo { fsroot: object },
        Call::Pathconf { object },
        Call::Commit { file: object, offset, count },
    ];
    let named = calls.iter().enumerate().map(|(index, call)| {
        let name = format!("call-{index:02}-{}", call.procedure().name().to_lowercase());
        (name, input(Kind::Call(call.procedure()), &bytes(|out| call.encode(out))))
    });
    let long = input(Kind::Call(Procedure::Lookup), &words(&[65, 0, 0, 0]));
    let padded = input(Kind::Call(Procedure::Getattr), &[0, 0, 0, 1, 9, 1, 2, 3]);
    let broken = [("call-handle-of-65".to_owned(), long), ("call-padding-not-zero".to_owned(), padded)];
    named.chain(broken).collect()
}

fn replies() -> Vec<(String, Vec<u8>)> {
    let named = |reply: &Reply<'_>, procedure: Procedure, how: &str| {
        let name = format!("reply-{}-{how}", procedure.name().to_lowercase());
        (name, input(Kind::Reply(procedure), &bytes(|out| reply.encode(out))))
    };
    let (names, plus) = (names(), names_plus());
    let ok = successes(&names, &plus).into_iter().zip(Procedure::ALL);
    let ok = ok.map(|(reply, procedure)| named(&reply, procedure, "ok"));
    let failed = Procedure::ALL
        .into_iter()
        .skip(1)
        .map(|procedure| named(&Reply::failed(procedure, Nfsstat3::STALE), procedure, "failed"));
    let known = Failed { status: Nfsstat3(4711), attributes: wcc() };
    let told = named(&Reply::Write(Err(known)), Procedure::Write, "failed-with-attributes");
    let cut = ReaddirOk { dir_attributes: None, cookieverf: *b"cookieve", list: &names[..names.len() - 12] };
    let cut = named(&Reply::Readdir(Ok(cut)), Procedure::Readdir, "cut");
    ok.chain(failed).chain([told, cut]).collect()
}

/// In the order of the procedures.
fn successes<'a>(names: &'a [u8], plus: &'a [u8]) -> [Reply<'a>; 22] {
    let (object, attributes, wcc, verf) = (handle(), Some(fattr()), wcc(), *b"verifier");
    let made = CreateOk { object: Some(object), attributes, dir: wcc };
    let bare = CreateOk { object: None, attributes: None, dir: WccData::default() };
    let fsstat = FsstatOk { attributes, tbytes: 1, fbytes: 2, abytes: 3, tfiles: 4, ffiles: 5, afiles: 6, invarsec: 7 };
    let fsinfo = FsinfoOk {
        attributes,
        rtmax: 1 << 20,
        rtpref: 1 << 20,
        rtmult: 4096,
        wtmax: 1 << 20,
        wtpref: 1 << 20,
        wtmult: 4096,
        dtpref: 8192,
        maxfilesize: i64::MAX as u64,
        time_delta: TIME,
        properties: 0x1b,
    };
    let pathconf = PathconfOk {
        attributes: None,
        linkmax: 32000,
        name_max: 255,
        no_trunc: true,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    };
    [
        Reply::Null,
        Reply::Getattr(Ok(fattr())),
        Reply::Setattr(Ok(wcc)),
        Reply::Lookup(Ok(LookupOk { object, attributes, dir_attributes: None })),
        Reply::Access(Ok(AccessOk { attributes, access: 0x1f })),
        Reply::Readlink(Ok(ReadlinkOk { attributes: None, data: b"there" })),
        Reply::Read(Ok(ReadOk { attributes, count: 5, eof: true, data: b"bytes" })),
        Reply::Write(Ok(WriteOk { file: wcc, count: 5, committed: StableHow::FileSync, verf })),
        Reply::Create(Ok(made)),
        Reply::Mkdir(Ok(made)),
        Reply::Symlink(Ok(bare)),
        Reply::Mknod(Ok(bare)),
        Reply::Remove(Ok(wcc)),
        Reply::Rmdir(Ok(WccData::default())),
        Reply::Rename(Ok(RenameDone { from: wcc, to: WccData::default() })),
        Reply::Link(Ok(LinkDone { attributes, dir: wcc })),
        Reply::Readdir(Ok(ReaddirOk { dir_attributes: attributes, cookieverf: verf, list: names })),
        Reply::Readdirplus(Ok(ReaddirplusOk { dir_attributes: None, cookieverf: verf, list: plus })),
        Reply::Fsstat(Ok(fsstat)),
        Reply::Fsinfo(Ok(fsinfo)),
        Reply::Pathconf(Ok(pathconf)),
        Reply::Commit(Ok(CommitOk { file: wcc, verf })),
    ]
}

fn names() -> Vec<u8> {
    let mut page = Page::readdir(u32::MAX, &None);
    for (cookie, name) in (1..).zip([&b"."[..], b"..", b"a file", b"\xff\xfe"]) {
        assert!(page.push(&Entry { fileid: 10 + cookie, name, cookie }), "the page has no limit");
    }
    page.finish(true)
}

fn names_plus() -> Vec<u8> {
    let mut page = Page::readdirplus(u32::MAX, u32::MAX, &None);
    let entry = Entry { fileid: 11, name: b"bare", cookie: 1 };
    let bare = EntryPlus { entry, attributes: None, handle: None };
    let full = EntryPlus { entry, attributes: Some(fattr()), handle: Some(handle()) };
    assert!(page.push_plus(&bare) && page.push_plus(&full), "the page has no limit");
    page.finish(false)
}

fn mounts() -> Vec<(String, Vec<u8>)> {
    let calls = [
        mount::Call::Null,
        mount::Call::Mnt(b"/export"),
        mount::Call::Dump,
        mount::Call::Umnt(b"/export/x"),
        mount::Call::Umntall,
        mount::Call::Export,
    ];
    let mut seeds = Vec::new();
    for (version, call) in calls.iter().flat_map(|call| [(mount::VERSION, call), (mount::VERSION_OLD, call)]) {
        let mut message = vec![version as u8];
        call.encode(&mut message);
        let procedure = call.procedure();
        let name = format!("mount-v{version}-call-{procedure}");
        seeds.push((name, input(Kind::MountCall(procedure as u8), &message)));
    }
    let mounted = mount::Mounted { handle: handle(), flavors: vec![flavor::NONE, flavor::SYS] };
    let ok = bytes(|out| mount::Mounted::encode(Ok(&mounted), out));
    let failed = bytes(|out| mount::Mounted::encode(Err(mount::MountStat::ACCES), out));
    let groups: [&[u8]; 2] = [b"10.0.0.0/8", b"node1"];
    let everyone: &[&[u8]] = &[];
    let exports = bytes(|out| mount::put_exports(out, [(&b"/a"[..], &groups[..]), (b"/b", everyone)]));
    let many = words(&[0, 0, u32::MAX]);
    let results = [("ok", ok), ("failed", failed), ("claims-many-flavors", many)];
    seeds.extend(results.map(|(name, results)| (format!("mount-mnt-{name}"), input(Kind::Mounted, &results))));
    seeds.push(("mount-exports-cut".to_owned(), input(Kind::Exports, &exports[..exports.len() - 4])));
    seeds.push(("mount-exports".to_owned(), input(Kind::Exports, &exports)));
    seeds
}

/// The first byte of a message chooses the version: 2, 3 or 4.
fn ports() -> Vec<(String, Vec<u8>)> {
    let getport = words(&[100_003, 3, 6, 0]);
    let mut getaddr = words(&[100_005, 3]);
    for text in ["tcp", "127.0.0.1.0.111", "superuser"] {
        put::opaque(&mut getaddr, text.as_bytes());
    }
    let drawn: [(&str, u8, u8, &[u8]); 9] = [
        ("null", 0, 0, &[]),
        ("set", 1, 0, &getport),
        ("getport", 3, 0, &getport),
        ("getport-cut", 3, 0, &getport[..9]),
        ("getaddr", 3, 1, &getaddr),
        ("getversaddr", 9, 2, &getaddr),
        ("dump-v2", 4, 0, &[]),
        ("dump-v4", 4, 2, &[]),
        ("gettime", 6, 1, &[]),
    ];
    let named = |(name, procedure, version, args): (&str, u8, u8, &[u8])| {
        (format!("portmap-{name}"), input(Kind::Portmap(procedure), &[&[version], args].concat()))
    };
    drawn.into_iter().map(named).collect()
}

fn input(kind: Kind, message: &[u8]) -> Vec<u8> {
    let index = Kind::all().iter().position(|of_all| *of_all == kind).expect("every kind has an index");
    [&[index as u8], message].concat()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn handle() -> FileHandle<'static> {
    FileHandle::new(b"a handle of 23 bytes...").expect("23 bytes are few")
}

fn fattr() -> Fattr3 {
    Fattr3 {
        ftype: Ftype3::Dir,
        mode: 0o755,
        nlink: 2,
        uid: 1000,
        gid: 100,
        size: 4096,
        used: 4096,
        rdev: Specdata3::default(),
        fsid: 1,
        fileid: 42,
        atime: TIME,
        mtime: TIME,
        ctime: TIME,
    }
}

fn wcc() -> WccData {
    WccData { before: Some(fattr().wcc_attr()), after: Some(fattr()) }
}

const LAST: u32 = 1 << 31;
const TIME: Nfstime3 = Nfstime3 { seconds: 1_700_000_000, nseconds: 999_999_999 };
const SPEC: Specdata3 = Specdata3 { specdata1: 8, specdata2: 1 };
