//! A TCP switch: an address whose target changes while clients hold connections through it, as a floating address does. It passes
//! RPC records on, whole, and counts the calls.
//!
//! Moving cuts every connection; the client makes a new one, which leads to the new target. Given some patience, calls under way are
//! answered first: a call that changes something and is cut off is sent again by its client, to a server that does not know it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use midas_lab::raw::in_one_fragment;
use midas_nfs::nfs3;
use midas_nfs::rpc;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// What becomes of a call on its way: another record in its place, without its mark, or none.
pub(crate) type Change = dyn Fn(&rpc::Call<'_>) -> Option<Vec<u8>> + Send + Sync;

pub(crate) struct Switch {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    target: SocketAddr,
    pipes: Vec<Arc<Pipe>>,
    /// Calls of NFS procedures that were passed on since the last move.
    calls: BTreeMap<u32, u64>,
    ended: bool,
}

/// A client's connection and the one that was made for it.
struct Pipe {
    client: TcpStream,
    server: TcpStream,
    /// Held while a record is passed on: calls that were not answered, and whether no more are taken.
    under_way: Mutex<(i64, bool)>,
    /// Told of every answer.
    answered: Condvar,
}

impl Switch {
    /// Listens there and leads to the target.
    pub(crate) fn start(listen: SocketAddr, target: SocketAddr) -> Self {
        Self::changing(listen, target, Box::new(|_| None))
    }

    /// The same, where calls arrive changed.
    pub(crate) fn changing(listen: SocketAddr, target: SocketAddr, change: Box<Change>) -> Self {
        let listener = TcpListener::bind(listen).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State { target, pipes: Vec::new(), calls: BTreeMap::new(), ended: false }));
        let (shared, change) = (Arc::clone(&state), Arc::from(change));
        thread::spawn(move || accept(&listener, &shared, &change));
        Self { address, state }
    }

    /// From now on it leads elsewhere. Connections are cut, after calls under way were answered or `patience` is over; returns whether
    /// all were answered, and the calls of each NFS procedure that went where it led before.
    pub(crate) fn lead_to(&self, target: SocketAddr, patience: Duration) -> (bool, BTreeMap<u32, u64>) {
        let (pipes, calls) = {
            let mut state = self.state.lock().unwrap();
            state.target = target;
            (std::mem::take(&mut state.pipes), std::mem::take(&mut state.calls))
        };
        for pipe in &pipes {
            pipe.under_way.lock().unwrap().1 = true;
        }
        let limit = Instant::now() + patience;
        let idle = |pipe: &Arc<Pipe>| {
            let left = limit.saturating_duration_since(Instant::now());
            let under_way = pipe.under_way.lock().unwrap();
            let (now, _) = pipe.answered.wait_timeout_while(under_way, left, |under_way| under_way.0 > 0).unwrap();
            now.0 <= 0
        };
        let answered = pipes.iter().all(idle);
        for pipe in &pipes {
            pipe.cut();
        }
        (answered, calls)
    }

    /// Puts these bytes between a server's answers, on every connection.
    pub(crate) fn inject(&self, bytes: &[u8]) -> usize {
        let state = self.state.lock().unwrap();
        for pipe in &state.pipes {
            let _between_records = pipe.under_way.lock().unwrap();
            // One that is closed takes nothing any more.
            let _closed = (&pipe.client).write_all(bytes);
        }
        state.pipes.len()
    }

    /// Calls of each NFS procedure that went where it leads now.
    pub(crate) fn calls(&self) -> BTreeMap<u32, u64> {
        self.state.lock().unwrap().calls.clone()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap();
        state.ended = true;
        state.pipes.iter().for_each(|pipe| pipe.cut());
        drop(state);
        // The listener looks whether it is over when somebody comes.
        let _woken = TcpStream::connect(self.address);
    }
}

impl Pipe {
    fn cut(&self) {
        for end in [&self.client, &self.server] {
            // One that is closed already is cut.
            let _closed = end.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, state: &Arc<Mutex<State>>, change: &Arc<Change>) {
    for client in listener.incoming() {
        let mut known = state.lock().unwrap();
        if known.ended {
            return;
        }
        let (Ok(client), Ok(server)) = (client, TcpStream::connect(known.target)) else { continue };
        for end in [&client, &server] {
            end.set_nodelay(true).unwrap();
        }
        let pipe = Arc::new(Pipe { client, server, under_way: Mutex::new((0, false)), answered: Condvar::new() });
        known.pipes.push(Arc::clone(&pipe));
        let (there, back, counts) = (Arc::clone(&pipe), pipe, Arc::clone(state));
        let change = Arc::clone(change);
        thread::spawn(move || {
            let _ended = carry_calls(&there, &counts, &*change);
            there.cut();
        });
        thread::spawn(move || {
            let _ended = carry_answers(&back);
            back.cut();
        });
    }
}

fn carry_calls(pipe: &Arc<Pipe>, state: &Mutex<State>, change: &Change) -> io::Result<()> {
    loop {
        let record = record(&pipe.client)?;
        let mut under_way = pipe.under_way.lock().unwrap();
        if under_way.1 {
            // It is moving: the client will ask the next target.
            return Ok(());
        }
        under_way.0 += 1;
        drop(under_way);
        let call = rpc::Call::decode(&record[4..]).ok();
        let changed = call.as_ref().and_then(change).map(|body| in_one_fragment(&body));
        if let Some(call) = call
            && call.program == nfs3::PROGRAM
        {
            let mut state = state.lock().unwrap();
            if state.pipes.iter().any(|known| Arc::ptr_eq(known, pipe)) {
                *state.calls.entry(call.procedure).or_default() += 1;
            }
        }
        (&pipe.server).write_all(changed.as_ref().unwrap_or(&record))?;
    }
}

fn carry_answers(pipe: &Pipe) -> io::Result<()> {
    loop {
        let record = record(&pipe.server)?;
        let mut under_way = pipe.under_way.lock().unwrap();
        (&pipe.client).write_all(&record)?;
        under_way.0 -= 1;
        pipe.answered.notify_all();
    }
}

/// The next record with its mark. Those who are connected here send one fragment each.
fn record(mut from: &TcpStream) -> io::Result<Vec<u8>> {
    let mut record = vec![0; 4];
    from.read_exact(&mut record)?;
    let word = u32::from_be_bytes(*record.first_chunk().unwrap());
    assert!(word >= 0x8000_0000, "one fragment a record");
    record.resize(4 + (word & 0x7fff_ffff) as usize, 0);
    from.read_exact(&mut record[4..])?;
    Ok(record)
}
