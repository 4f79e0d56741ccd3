//! An open-loop client: calls leave at times that are fixed beforehand, whatever the answers do, on one connection.

use midas_core::op::Op;
use midas_nfs::nfs3::{self, CreateHow, DirOp, Nfsstat3, Sattr3};
use midas_nfs::record::{self, Records, Step};
use midas_nfs::rpc::{self, AuthSys, OpaqueAuth, flavor};
use midas_nfsd::Handle;
use midas_workload::Request;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Who a player is, and what it calls things.
#[derive(Clone, Copy)]
pub(crate) struct Role<'a> {
    /// By their numbers in calls.
    pub(crate) directories: &'a [Handle],
    /// What the name is that a call is about.
    pub(crate) name: fn(&Request) -> String,
    /// Numbers of several players differ: with one address and one number, two calls would be one that is sent again.
    pub(crate) number: u32,
    /// The address that it comes from; unspecified is any.
    pub(crate) source: Ipv4Addr,
    pub(crate) user: u32,
    /// Whether what it creates must not be there yet. What may be is looked up first by a proxy that knows all changes.
    pub(crate) guarded: bool,
}

impl Role<'_> {
    fn how(&self) -> CreateHow {
        match self.guarded {
            true => CreateHow::Guarded(Sattr3::default()),
            false => CreateHow::Unchecked(Sattr3::default()),
        }
    }
}

/// A connection to a proxy.
pub(crate) struct Player<'a> {
    stream: TcpStream,
    role: Role<'a>,
    credential: Vec<u8>,
    /// Calls that were sent, and where this one began to count: a call's number is its xid.
    sent: u32,
}

/// What came back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    /// From when a call was due to when its answer came.
    pub(crate) latencies: Vec<Duration>,
    /// Answers that were errors, or should have been.
    pub(crate) failed: u64,
}

impl<'a> Player<'a> {
    pub(crate) fn connect(address: SocketAddr, role: Role<'a>) -> io::Result<Self> {
        let stream = dial(address, role.source)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
        let user = AuthSys::new(0, b"midas", role.user, role.user, &[]);
        let mut credential = Vec::new();
        user.expect("the name is short and there are no groups").encode(&mut credential);
        Ok(Self { stream, role, credential, sent: role.number * CALLS_MOST })
    }

    /// One call, and the results of its answer.
    pub(crate) fn ask(&mut self, call: &nfs3::Call<'_>) -> io::Result<Vec<u8>> {
        self.send_call(call)?;
        let (xid, end, mut results) = (self.sent, Instant::now() + PATIENCE, None);
        records(
            &mut self.stream,
            || Instant::now() >= end,
            |reply| {
                if let Ok(reply) = rpc::Reply::decode(reply)
                    && reply.xid == xid
                {
                    results = reply.results.ok().map(<[u8]>::to_vec);
                    return false;
                }
                true
            },
        )?;
        results.ok_or_else(|| ErrorKind::TimedOut.into())
    }

    /// Sends every call at its time, counted from `origin`, and waits until all are answered, at most until `end`; no longer once
    /// told to stop.
    pub(crate) fn play(
        &mut self,
        calls: &[Request],
        origin: Instant,
        end: Instant,
        stop: &AtomicBool,
    ) -> io::Result<Answers> {
        let first = self.sent + 1;
        let due: Vec<Instant> = calls.iter().map(|call| origin + Duration::from_nanos(call.at.as_nanos())).collect();
        let receiver = self.stream.try_clone()?;
        let over = || Instant::now() >= end || stop.load(Ordering::Relaxed);
        thread::scope(|scope| {
            let answers = scope.spawn(|| receive(receiver, first, (calls, &due), over));
            let sent = calls.iter().zip(&due).try_for_each(
                |(call, due)| {
                    if wait(*due, stop) { self.send(call) } else { Ok(()) }
                },
            );
            if sent.is_err() {
                // Nobody waits for answers to what was not sent.
                let _gone = self.stream.shutdown(Shutdown::Both);
            }
            let answers = answers.join().expect("the receiver does not panic");
            sent.and(answers)
        })
    }

    fn send(&mut self, request: &Request) -> io::Result<()> {
        let name = (self.role.name)(request);
        let handle = self.role.directories.get(request.directory as usize).ok_or(ErrorKind::NotFound)?;
        let what = DirOp { dir: handle.file_handle(), name: name.as_bytes() };
        let call = match request.op {
            Op::Lookup => nfs3::Call::Lookup { what },
            Op::Create => nfs3::Call::Create { place: what, how: self.role.how() },
            Op::Getattr
            | Op::Access
            | Op::Readlink
            | Op::Statfs
            | Op::List
            | Op::Read
            | Op::Remove
            | Op::Rename
            | Op::Link
            | Op::Setattr
            | Op::Write
            | Op::Commit => return Err(io::Error::new(ErrorKind::Unsupported, "only LOOKUP and CREATE are played")),
        };
        self.send_call(&call)
    }

    fn send_call(&mut self, call: &nfs3::Call<'_>) -> io::Result<()> {
        self.sent += 1;
        let head = rpc::Call {
            xid: self.sent,
            program: nfs3::PROGRAM,
            version: nfs3::VERSION,
            procedure: call.procedure() as u32,
            credential: OpaqueAuth { flavor: flavor::SYS, body: &self.credential },
            verifier: OpaqueAuth::NONE,
            args: &[],
        };
        let mut record = Vec::new();
        record::put(&mut record, |out| {
            head.encode(out);
            call.encode(out);
        });
        self.stream.write_all(&record)
    }
}

/// Connects from an address of ours.
fn dial(address: SocketAddr, source: Ipv4Addr) -> io::Result<TcpStream> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddr::from((source, 0)))?;
    connect(&socket, &address)?;
    Ok(TcpStream::from(socket))
}

/// Sleeps until a time; false if told to stop.
fn wait(until: Instant, stop: &AtomicBool) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match (stop.load(Ordering::Relaxed), left.is_zero()) {
            (true, _) => return false,
            (false, true) => return true,
            (false, false) => thread::sleep(left.min(LOOK)),
        }
    }
}

/// Takes answers until there is one for every call.
fn receive(
    mut stream: TcpStream,
    first: u32,
    (calls, due): (&[Request], &[Instant]),
    over: impl Fn() -> bool,
) -> io::Result<Answers> {
    let mut answers = Answers::default();
    if !calls.is_empty() {
        records(&mut stream, over, |reply| {
            answers.take(reply, first, (calls, due));
            answers.latencies.len() < calls.len()
        })?;
    }
    Ok(answers)
}

/// Hands every record over until one is the last, or nobody waits any longer.
fn records(stream: &mut TcpStream, over: impl Fn() -> bool, mut take: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    let (mut records, mut input, mut chunk) = (Records::new(RECORD_LIMIT), Vec::new(), [0; CHUNK]);
    while !over() {
        let read = match stream.read(&mut chunk) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(error) => return Err(error),
        };
        input.extend_from_slice(&chunk[..read]);
        let mut more = true;
        while more {
            let consumed = match records.next(&input).map_err(io::Error::other)? {
                Step::Record { body, consumed } => {
                    if !take(body) {
                        return Ok(());
                    }
                    consumed
                }
                Step::More { consumed, .. } => {
                    more = false;
                    consumed
                }
            };
            input.drain(..consumed);
        }
    }
    Ok(())
}

impl Answers {
    fn take(&mut self, reply: &[u8], first: u32, (calls, due): (&[Request], &[Instant])) {
        let Ok(reply) = rpc::Reply::decode(reply) else { return };
        // Of an earlier play: it was not waited for.
        let Some(number) = reply.xid.checked_sub(first).map(|number| number as usize) else { return };
        let (Some(call), Some(due)) = (calls.get(number), due.get(number)) else { return };
        self.latencies.push(due.elapsed());
        let status = reply.results.ok().and_then(|results| results.first_chunk()).map(|word| u32::from_be_bytes(*word));
        self.failed += u64::from(status != Some(expected(call).0));
    }

    /// What several players saw.
    pub(crate) fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.failed += other.failed;
    }
}

/// A name that is not there is no error of whoever says so.
fn expected(call: &Request) -> Nfsstat3 {
    if call.missing && call.op == Op::Lookup { Nfsstat3::NOENT } else { Nfsstat3::OK }
}

/// Of one player.
const CALLS_MOST: u32 = 1 << 26;
/// For one answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How soon the end is seen.
const LOOK: Duration = Duration::from_millis(50);
/// Replies to LOOKUP and CREATE are a few hundred bytes; listings are asked for in pages below this.
const RECORD_LIMIT: usize = 1 << 16;
const CHUNK: usize = 1 << 14;
