//! The physical limit: a responder that reads a call's header and answers from memory, on the parts that our servers use.
//!
//! It has no file system: every name exists, every change succeeds, and replies are as long as a real server's. A name's handle
//! is a checksum of directory and name, the same from every responder, so that a proxy has several to place. Nothing that keeps a
//! promise can be faster with these parts, so a server is measured against it.

use midas_core::rng::mix;
use midas_net::{Budget, Buffers, Connection, Flow, Go, Scratch};
use midas_nfs::mount::{self, Mounted};
use midas_nfs::nfs3::{
    self, AccessOk, CommitOk, CreateOk, Entry, EntryPlus, Fattr3, FileHandle, FsinfoOk, FsstatOk, Ftype3, LinkDone,
    LookupOk, Nfstime3, Page, PathconfOk, Procedure, ReadOk, ReaddirOk, ReaddirplusOk, ReadlinkOk, RenameDone, Reply,
    Specdata3, StableHow, WccData, WriteOk, access, fsinfo,
};
use midas_nfs::rpc::{self, Refusal};
use midas_nfs::{record, rpc::NotACall};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A responder that listens already.
#[derive(Debug)]
pub struct Ceiling {
    listener: TcpListener,
    poll: Poll,
    canned: Canned,
    buffers: Buffers,
    scratch: Scratch,
    budget: Budget,
    /// By token; a connection that ended leaves its place to the next.
    clients: Vec<Option<Connection>>,
    /// Connections whose sockets may hold more than was read.
    unread: Vec<usize>,
}

impl Ceiling {
    /// Listens.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let mut listener = TcpListener::bind(address)?;
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self {
            listener,
            poll,
            canned: Canned::new(),
            buffers: Buffers::new(),
            scratch: Scratch::new(),
            budget: Budget::new(MEMORY),
            clients: Vec::new(),
            unread: Vec::new(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop`.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        while !stop.load(Ordering::Relaxed) {
            let patience = if self.unread.is_empty() { PATIENCE } else { Duration::ZERO };
            match self.poll.poll(&mut events, Some(patience)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    Token(index) => {
                        self.serve(index);
                        // Data and the end of it may come with one event: the end is found by reading on.
                        if event.is_read_closed() {
                            self.unread.push(index);
                        }
                    }
                }
            }
            for index in std::mem::take(&mut self.unread) {
                self.serve(index);
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => self.welcome(socket)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // The client went away before it was accepted, or there are no more descriptors for now.
                Err(_) => return Ok(()),
            }
        }
    }

    fn welcome(&mut self, socket: TcpStream) -> io::Result<()> {
        let free = self.clients.iter().position(Option::is_none).unwrap_or(self.clients.len());
        if free == CLIENTS {
            return Ok(());
        }
        let mut connection = Connection::new(socket, RECORD_LIMIT, self.budget.clone())?;
        self.poll.registry().register(connection.socket(), Token(free), Interest::READABLE | Interest::WRITABLE)?;
        match self.clients.get_mut(free) {
            Some(place) => *place = Some(connection),
            None => self.clients.push(Some(connection)),
        }
        Ok(())
    }

    /// One read, all answers, one write.
    fn serve(&mut self, index: usize) {
        let Some(connection) = self.clients.get_mut(index).and_then(Option::as_mut) else { return };
        connection.output(&mut self.buffers);
        // A client that does not read its answers is not read either.
        let flow = match connection.unsent() > UNSENT {
            true => Ok(Flow::Drained),
            false => connection.receive(&mut self.scratch, |record, out| {
                self.canned.answer(record, out);
                if out.len() > UNSENT { Go::Break(()) } else { Go::Continue(()) }
            }),
        };
        let was_full = connection.unsent() > UNSENT;
        let sent = connection.flush(&mut self.buffers);
        match (flow, sent) {
            (Ok(flow), Ok(all)) => {
                if flow != Flow::Drained || was_full && all {
                    self.unread.push(index);
                }
            }
            (Err(_), _) | (_, Err(_)) => self.clients[index] = None,
        }
    }
}

/// Replies, whole but for their xids.
#[derive(Debug)]
struct Canned {
    replies: Vec<Vec<u8>>,
    mounted: Vec<u8>,
}

impl Canned {
    fn new() -> Self {
        let put = |results: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            record::put(&mut out, |out| {
                rpc::Reply::accept(out, 0);
                results(out);
            });
            out
        };
        let handle = FileHandle::new(&HANDLE).expect("shorter than the longest");
        let mounted = Mounted { handle, flavors: vec![rpc::flavor::SYS] };
        Self {
            replies: Procedure::ALL.iter().map(|p| put(&|out| with_reply(*p, |reply| reply.encode(out)))).collect(),
            mounted: put(&|out| Mounted::encode(Ok(&mounted), out)),
        }
    }

    fn answer(&self, call: &[u8], out: &mut Vec<u8>) {
        let head = call.first_chunk::<HEAD>();
        let word =
            |at: usize| head.map_or(0, |head| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
        let (program, procedure) = (word(12), word(20));
        match (program, Procedure::from_number(procedure)) {
            (nfs3::PROGRAM, Some(Procedure::Read)) => read(call, out),
            (nfs3::PROGRAM, Some(Procedure::Lookup)) => {
                let handle = out.len() + record::MARK + LOOKUP_HANDLE;
                put(out, &self.replies[Procedure::Lookup as usize], word(0));
                out[handle + HANDLE.len() - 8..handle + HANDLE.len()].copy_from_slice(&name(call).to_be_bytes());
            }
            (nfs3::PROGRAM, Some(procedure)) => put(out, &self.replies[procedure as usize], word(0)),
            (mount::PROGRAM, Some(_)) if procedure == MNT => put(out, &self.mounted, word(0)),
            // NULL, UMNT and UMNTALL have no results, as NFS's NULL.
            (mount::PROGRAM, Some(_)) => put(out, &self.replies[Procedure::Null as usize], word(0)),
            (_, _) => refuse(call, out),
        }
    }
}

fn put(out: &mut Vec<u8>, reply: &[u8], xid: u32) {
    let at = out.len();
    out.extend_from_slice(reply);
    out[at + record::MARK..at + record::MARK + 4].copy_from_slice(&xid.to_be_bytes());
}

/// A LOOKUP ends with the directory's handle, which ends with its checksum, and the name.
fn name(call: &[u8]) -> u64 {
    let tail = call.len().saturating_sub(NAME_TAIL);
    call[tail..]
        .chunks(8)
        .fold(0, |sum, bytes| bytes.iter().fold(mix(sum), |sum, byte| sum.rotate_left(8) ^ u64::from(*byte)))
}

/// As many bytes as were asked for.
fn read(record: &[u8], out: &mut Vec<u8>) {
    let Ok(call) = rpc::Call::decode(record) else { return refuse(record, out) };
    let Ok(nfs3::Call::Read { count, .. }) = nfs3::Call::decode(Procedure::Read, call.args) else {
        return refuse(record, out);
    };
    let count = (count as usize).min(DATA.len());
    let reply = ReadOk { attributes: Some(FILE), count: count as u32, eof: true, data: &DATA[..count] };
    record::put(out, |out| {
        rpc::Reply::accept(out, call.xid);
        Reply::Read(Ok(reply)).encode(out);
    });
}

fn refuse(call: &[u8], out: &mut Vec<u8>) {
    let (xid, why) = match rpc::Call::decode(call) {
        Ok(call) if call.program == nfs3::PROGRAM || call.program == mount::PROGRAM => (call.xid, Refusal::ProcUnavail),
        Ok(call) => (call.xid, Refusal::ProgUnavail),
        Err(NotACall::Refuse { xid, why }) => (xid, why),
        Err(NotACall::Unanswerable) => return,
    };
    record::put(out, |out| rpc::Reply::refuse(out, xid, why));
}

/// The reply of a procedure that went well, for as long as `take` runs.
fn with_reply<T>(procedure: Procedure, take: impl FnOnce(Reply<'_>) -> T) -> T {
    let object = FileHandle::new(&HANDLE).expect("shorter than the longest");
    let (file, dir) = (Some(FILE), WccData { before: Some(DIR.wcc_attr()), after: Some(DIR) });
    let wcc = WccData { before: Some(FILE.wcc_attr()), after: file };
    let made = CreateOk { object: Some(object), attributes: file, dir };
    let (names, plus) = (listing(false), listing(true));
    take(match procedure {
        Procedure::Null => Reply::Null,
        Procedure::Getattr => Reply::Getattr(Ok(FILE)),
        Procedure::Setattr => Reply::Setattr(Ok(wcc)),
        Procedure::Lookup => Reply::Lookup(Ok(LookupOk { object, attributes: file, dir_attributes: Some(DIR) })),
        Procedure::Access => Reply::Access(Ok(AccessOk { attributes: file, access: access::ALL })),
        Procedure::Readlink => Reply::Readlink(Ok(ReadlinkOk { attributes: file, data: b"f0" })),
        Procedure::Read => Reply::Read(Ok(ReadOk { attributes: file, count: 0, eof: true, data: &[] })),
        Procedure::Write => {
            Reply::Write(Ok(WriteOk { file: wcc, count: 0, committed: StableHow::FileSync, verf: [0; 8] }))
        }
        Procedure::Create => Reply::Create(Ok(made)),
        Procedure::Mkdir => Reply::Mkdir(Ok(CreateOk { attributes: Some(DIR), ..made })),
        Procedure::Symlink => Reply::Symlink(Ok(made)),
        Procedure::Mknod => Reply::Mknod(Ok(made)),
        Procedure::Remove => Reply::Remove(Ok(dir)),
        Procedure::Rmdir => Reply::Rmdir(Ok(dir)),
        Procedure::Rename => Reply::Rename(Ok(RenameDone { from: dir, to: dir })),
        Procedure::Link => Reply::Link(Ok(LinkDone { attributes: file, dir })),
        Procedure::Readdir => {
            Reply::Readdir(Ok(ReaddirOk { dir_attributes: Some(DIR), cookieverf: [0; 8], list: &names }))
        }
        Procedure::Readdirplus => {
            Reply::Readdirplus(Ok(ReaddirplusOk { dir_attributes: Some(DIR), cookieverf: [0; 8], list: &plus }))
        }
        Procedure::Fsstat => Reply::Fsstat(Ok(FSSTAT)),
        Procedure::Fsinfo => Reply::Fsinfo(Ok(FSINFO)),
        Procedure::Pathconf => Reply::Pathconf(Ok(PATHCONF)),
        Procedure::Commit => Reply::Commit(Ok(CommitOk { file: wcc, verf: [0; 8] })),
    })
}

/// A directory of as many names as the generator makes unless told otherwise.
fn listing(plus: bool) -> Vec<u8> {
    let handle = FileHandle::new(&HANDLE);
    let mut page = Page::readdirplus(u32::MAX, u32::MAX, &Some(DIR));
    for number in 0..NAMES {
        let name = format!("f{number}");
        let entry = Entry { fileid: 1000 + number, name: name.as_bytes(), cookie: number + 1 };
        let fits = match plus {
            true => page.push_plus(&EntryPlus { entry, attributes: Some(FILE), handle }),
            false => page.push(&entry),
        };
        assert!(fits, "the page has no limit");
    }
    page.finish(true)
}

const fn attributes(ftype: Ftype3, mode: u32, size: u64, fileid: u64) -> Fattr3 {
    let time = Nfstime3 { seconds: 1_700_000_000, nseconds: 123_456_789 };
    Fattr3 {
        ftype,
        mode,
        nlink: 1,
        uid: 0,
        gid: 0,
        size,
        used: size,
        rdev: Specdata3 { specdata1: 0, specdata2: 0 },
        fsid: 1,
        fileid,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

const FILE: Fattr3 = attributes(Ftype3::Reg, 0o644, 4096, 1000);
const DIR: Fattr3 = attributes(Ftype3::Dir, 0o755, 4096, 2);
const FSSTAT: FsstatOk = FsstatOk {
    attributes: Some(DIR),
    tbytes: 1 << 40,
    fbytes: 1 << 39,
    abytes: 1 << 39,
    tfiles: 1 << 30,
    ffiles: 1 << 29,
    afiles: 1 << 29,
    invarsec: 0,
};
const FSINFO: FsinfoOk = FsinfoOk {
    attributes: Some(DIR),
    rtmax: 1 << 20,
    rtpref: 1 << 20,
    rtmult: 4096,
    wtmax: 1 << 20,
    wtpref: 1 << 20,
    wtmult: 4096,
    dtpref: 32 << 10,
    maxfilesize: 1 << 60,
    time_delta: Nfstime3 { seconds: 0, nseconds: 1 },
    properties: fsinfo::LINK | fsinfo::SYMLINK | fsinfo::HOMOGENEOUS | fsinfo::CANSETTIME,
};
const PATHCONF: PathconfOk = PathconfOk {
    attributes: Some(DIR),
    linkmax: 32_000,
    name_max: 255,
    no_trunc: true,
    chown_restricted: true,
    case_insensitive: false,
    case_preserving: true,
};
/// As long as a real server's.
const HANDLE: [u8; 32] = *b"midas ceiling's only file handle";
const NAMES: u64 = 64;
static DATA: [u8; 1 << 20] = [0x5a; 1 << 20];
/// Where a LOOKUP's reply has its handle: after the header, the status and the handle's length.
const LOOKUP_HANDLE: usize = 24 + 4 + 4;
/// A checksum, a length and a short name.
const NAME_TAIL: usize = 24;
/// A call up to its procedure's number.
const HEAD: usize = 24;
const MNT: u32 = 1;
const LISTENER: Token = Token(usize::MAX - 1);
const EVENTS: usize = 1024;
/// How late `stop` is seen.
const PATIENCE: Duration = Duration::from_millis(50);
/// Connections, memory of unfinished records, answers that wait for one client, the largest call.
const CLIENTS: usize = 10_000;
const MEMORY: usize = 256 << 20;
const UNSENT: usize = 4 << 20;
const RECORD_LIMIT: usize = 2 << 20;
