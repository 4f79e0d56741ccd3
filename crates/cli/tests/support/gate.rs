//! A gate before one server: calls of a procedure are held there until it is opened. Answers pass.
//! So a test decides what happens between a call's leaving and its arrival.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use midas_nfs::nfs3::{PROGRAM, Procedure};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// A gate that listens on a port of its own.
pub(crate) struct Gate {
    pub(crate) address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    /// The procedures whose calls are held.
    held: Vec<u32>,
    /// Calls that came, by procedure.
    came: [u64; 22],
    ended: bool,
}

impl Gate {
    /// A gate before this server.
    pub(crate) fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (address, state) = (listener.local_addr().unwrap(), Arc::<(Mutex<State>, Condvar)>::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                if shared.0.lock().unwrap().ended {
                    return;
                }
                // A server that is down refuses: so does its gate, by closing.
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else { continue };
                let Ok((there, back)) = both(&client, &server) else { continue };
                let shared = Arc::clone(&shared);
                thread::spawn(move || calls(there.0, there.1, &shared));
                thread::spawn(move || answers(back.1, back.0));
            }
        });
        Self { address, state }
    }

    /// Holds the calls of these procedures from now on.
    pub(crate) fn hold(&self, procedures: &[Procedure]) {
        self.state.0.lock().unwrap().held = procedures.iter().map(|procedure| *procedure as u32).collect();
    }

    /// Lets everything pass.
    pub(crate) fn open(&self) {
        self.state.0.lock().unwrap().held.clear();
        self.state.1.notify_all();
    }

    /// Calls of a procedure that came so far, held or not.
    pub(crate) fn came(&self, procedure: Procedure) -> u64 {
        self.state.0.lock().unwrap().came[procedure as usize]
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.state.0.lock().unwrap().ended = true;
        self.open();
        // The listener looks whether it is over when something comes.
        let _woken = TcpStream::connect(self.address);
    }
}

type Ends = (TcpStream, TcpStream);

fn both(client: &TcpStream, server: &TcpStream) -> io::Result<(Ends, Ends)> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    Ok(((client.try_clone()?, server.try_clone()?), (client.try_clone()?, server.try_clone()?)))
}

fn calls(mut from: TcpStream, mut to: TcpStream, state: &(Mutex<State>, Condvar)) {
    while let Ok(record) = record(&mut from) {
        let word = |at: usize| record.get(at..at + 4).map(|word| u32::from_be_bytes(word.try_into().unwrap()));
        let procedure = word(24).filter(|procedure| word(16) == Some(PROGRAM) && *procedure < 22);
        let mut now = state.0.lock().unwrap();
        if let Some(procedure) = procedure {
            now.came[procedure as usize] += 1;
            now = state.1.wait_while(now, |now| now.held.contains(&procedure) && !now.ended).unwrap();
        }
        drop(now);
        if to.write_all(&record).is_err() {
            break;
        }
    }
    close(&from, &to);
}

/// The next record with its mark.
fn record(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut record = vec![0; 4];
    from.read_exact(&mut record)?;
    let length = u32::from_be_bytes([record[0] & 0x7f, record[1], record[2], record[3]]) as usize;
    record.resize(4 + length, 0);
    from.read_exact(&mut record[4..])?;
    Ok(record)
}

fn answers(mut from: TcpStream, mut to: TcpStream) {
    // However it ends, both ends are closed.
    let _ended = io::copy(&mut from, &mut to);
    close(&from, &to);
}

fn close(from: &TcpStream, to: &TcpStream) {
    for end in [from, to] {
        let _closed_already = end.shutdown(Shutdown::Both);
    }
}
