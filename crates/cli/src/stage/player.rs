//! An open-loop client: calls leave at times that are fixed beforehand, whatever the answers do, on one connection.

use super::names;
use midas_core::op::Op;
use midas_nfs::nfs3::{self, CreateHow, DirOp, Nfsstat3, Sattr3};
use midas_nfs::record::{self, Records, Step};
use midas_nfs::rpc::{self, AuthSys, OpaqueAuth, flavor};
use midas_nfsd::Handle;
use midas_workload::Request;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A connection to a proxy.
pub(crate) struct Player<'a> {
    stream: TcpStream,
    directories: &'a [Handle],
    credential: Vec<u8>,
    /// Calls that were sent, and where this one began to count: a call's number is its xid.
    sent: u32,
}

/// What came back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    /// From when a call was due to when its answer came.
    pub(crate) latencies: Vec<Duration>,
    /// Answers that were errors.
    pub(crate) failed: u64,
}

impl<'a> Player<'a> {
    /// Numbers of several players differ: with one address and one number, two calls would be one that is sent again.
    pub(super) fn connect(address: SocketAddr, directories: &'a [Handle], number: u32) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
        let user = AuthSys::new(0, b"midas", 0, 0, &[]).expect("the name is short and there are no groups");
        let mut credential = Vec::new();
        user.encode(&mut credential);
        Ok(Self { stream, directories, credential, sent: number * CALLS_MOST })
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
            let answers = scope.spawn(|| receive(receiver, first, &due, over));
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
        let name = names::name(request.file);
        let handle = self.directories.get(request.directory as usize).ok_or(ErrorKind::NotFound)?;
        let what = DirOp { dir: handle.file_handle(), name: name.as_bytes() };
        let call = match request.op {
            Op::Lookup => nfs3::Call::Lookup { what },
            Op::Create => nfs3::Call::Create { place: what, how: CreateHow::Unchecked(Sattr3::default()) },
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
fn receive(mut stream: TcpStream, first: u32, due: &[Instant], over: impl Fn() -> bool) -> io::Result<Answers> {
    let (mut records, mut input, mut chunk) = (Records::new(RECORD_LIMIT), Vec::new(), [0; CHUNK]);
    let mut answers = Answers::default();
    while answers.latencies.len() < due.len() && !over() {
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
                    answers.take(body, first, due);
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
    Ok(answers)
}

impl Answers {
    fn take(&mut self, reply: &[u8], first: u32, due: &[Instant]) {
        let Ok(reply) = rpc::Reply::decode(reply) else { return };
        // Of an earlier play: it was not waited for.
        let Some(due) = reply.xid.checked_sub(first).and_then(|number| due.get(number as usize)) else { return };
        self.latencies.push(due.elapsed());
        let status = reply.results.ok().and_then(|results| results.first_chunk()).map(|word| u32::from_be_bytes(*word));
        self.failed += u64::from(status != Some(Nfsstat3::OK.0));
    }
}

/// Of one player.
const CALLS_MOST: u32 = 1 << 26;
/// How soon the end is seen.
const LOOK: Duration = Duration::from_millis(50);
/// Replies to LOOKUP and CREATE are a few hundred bytes.
const RECORD_LIMIT: usize = 1 << 16;
const CHUNK: usize = 1 << 14;
