//! Many calls at once over one blocking connection, for set-up: a wave of calls in one write, then all of its replies.
//!
//! Waves are short enough that neither side's socket buffers fill up while the other does not read.

use crate::tree::Handle;
use crate::wire::{Mark, Template};
use midas_net::{Source, dial};
use midas_nfs::nfs3::{Call, Procedure, Reply};
use midas_nfs::record::{Records, Step};
use midas_nfs::rpc;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A connection for waves of calls.
#[derive(Debug)]
pub(crate) struct Pipe<'a> {
    stream: TcpStream,
    records: Records,
    input: Vec<u8>,
    output: Vec<u8>,
    template: &'a Template,
    stamps: &'a AtomicU32,
    uid: u32,
    xid: u32,
    /// The procedures of the wave under way; none where the reply came.
    waiting: Vec<Option<Procedure>>,
}

impl<'a> Pipe<'a> {
    pub(crate) fn connect(
        address: SocketAddr,
        template: &'a Template,
        stamps: &'a AtomicU32,
        uid: u32,
        patience: Duration,
    ) -> io::Result<Self> {
        let stream = dial(address, Source::Reserved, patience)?;
        Ok(Self {
            stream,
            records: Records::new(RECORD_LIMIT),
            input: Vec::new(),
            output: Vec::new(),
            template,
            stamps,
            uid,
            // A server's duplicate request cache outlives a connection: no two may count from the same number.
            xid: RandomState::new().hash_one(address) as u32,
            waiting: Vec::new(),
        })
    }

    /// Makes `count` calls; `call` gives the call of a number to what it is handed, `reply` takes each reply. `go_on` is asked
    /// before every wave.
    pub(crate) fn all(
        &mut self,
        count: usize,
        mut call: impl FnMut(usize, &mut dyn FnMut(&Call<'_>)),
        mut reply: impl FnMut(usize, &Reply<'_>) -> Result<(), String>,
        mut go_on: impl FnMut(usize) -> bool,
    ) -> Result<(), String> {
        let mut done = 0;
        while done < count {
            if !go_on(done) {
                return Err("interrupted".to_owned());
            }
            let first = self.xid.wrapping_add(1);
            while done + self.waiting.len() < count && self.waiting.len() < WAVE && self.output.len() < WAVE_BYTES {
                let number = done + self.waiting.len();
                call(number, &mut |call| self.put(call));
            }
            self.stream.write_all(&self.output).map_err(|error| silent(&error))?;
            self.output.clear();
            self.replies(first, |index, answer| reply(done + index, answer))?;
            done += self.waiting.len();
            self.waiting.clear();
        }
        Ok(())
    }

    fn put(&mut self, call: &Call<'_>) {
        self.xid = self.xid.wrapping_add(1);
        let stamp = self.stamps.fetch_add(1, Ordering::Relaxed);
        self.template.put(&mut self.output, Mark { xid: self.xid, stamp, uid: self.uid }, call);
        self.waiting.push(Some(call.procedure()));
    }

    /// Reads until every call of the wave is answered.
    fn replies(
        &mut self,
        first: u32,
        mut each: impl FnMut(usize, &Reply<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut left = self.waiting.len();
        while left > 0 {
            let mut used = 0;
            loop {
                match self.records.next(&self.input[used..]).map_err(|error| error.to_string())? {
                    Step::Record { body, consumed } => {
                        used += consumed;
                        let answer = rpc::Reply::decode(body).map_err(|error| format!("unreadable reply: {error}"))?;
                        let index = answer.xid.wrapping_sub(first) as usize;
                        let Some(procedure) = self.waiting.get_mut(index).and_then(Option::take) else { continue };
                        let results = answer.results.map_err(|refusal| format!("{procedure} refused: {refusal}"))?;
                        let answer = Reply::decode(procedure, results)
                            .map_err(|error| format!("unreadable reply to {procedure}: {error}"))?;
                        each(index, &answer)?;
                        left -= 1;
                    }
                    Step::More { consumed, .. } => {
                        used += consumed;
                        break;
                    }
                }
            }
            self.input.drain(..used);
            if left > 0 {
                self.read()?;
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), String> {
        let held = self.input.len();
        self.input.resize(held + CHUNK, 0);
        let read = self.stream.read(&mut self.input[held..]).map_err(|error| silent(&error))?;
        self.input.truncate(held + read);
        match read {
            0 => Err("the server closed the connection".to_owned()),
            _ => Ok(()),
        }
    }

    /// One call.
    pub(crate) fn one<T>(
        &mut self,
        call: &Call<'_>,
        take: impl FnOnce(&Reply<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let (mut take, mut taken) = (Some(take), None);
        let reply = |_, reply: &Reply<'_>| {
            taken = take.take().map(|take| take(reply)).transpose()?;
            Ok(())
        };
        self.all(1, |_, put| put(call), reply, |_| true)?;
        taken.ok_or_else(|| "no reply".to_owned())
    }
}

/// A handle that a reply must have; some servers leave it out after CREATE and the like.
pub(crate) fn handle_of(reply: &Reply<'_>) -> Result<Option<Handle>, String> {
    if let Reply::Lookup(Ok(found)) = reply {
        return Ok(Some(found.object.into()));
    }
    if let Reply::Create(Ok(made)) | Reply::Mkdir(Ok(made)) | Reply::Symlink(Ok(made)) = reply {
        return Ok(made.object.map(Handle::from));
    }
    Err(reply.status().to_string())
}

fn silent(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer in time".to_owned(),
        _ => error.to_string(),
    }
}

/// Calls in a wave, and bytes after which no further call is added.
const WAVE: usize = 256;
const WAVE_BYTES: usize = 64 << 10;
const CHUNK: usize = 64 << 10;
const RECORD_LIMIT: usize = 4 << 20;
