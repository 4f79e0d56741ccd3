//! The way from one member of a cluster to another, TCP and UDP, that can be cut and healed. What is under way when it is cut stays where it is, as
//! segments do that are sent again and again: it arrives late, when the way is healed. Datagrams are lost.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

pub(crate) struct Way {
    pub(crate) address: SocketAddr,
    passing: Arc<Passing>,
}

#[derive(Default)]
struct Passing {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    cut: bool,
    ended: bool,
    open: Vec<TcpStream>,
}

impl Way {
    /// A way to somebody who listens there, now or later.
    pub(crate) fn to(target: SocketAddr, from: Ipv4Addr) -> Self {
        let (listener, datagrams) = both(from);
        let (address, passing) = (listener.local_addr().unwrap(), Arc::<Passing>::default());
        let (streams, packets) = (Arc::clone(&passing), Arc::clone(&passing));
        thread::spawn(move || accept(&listener, target, &streams));
        thread::spawn(move || pass_datagrams(&datagrams, target, &packets));
        Self { address, passing }
    }

    pub(crate) fn cut(&self) {
        self.passing.change(|state| state.cut = true);
    }

    pub(crate) fn heal(&self) {
        self.passing.change(|state| state.cut = false);
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.passing.change(|state| {
            state.ended = true;
            // One that is closed already is cut.
            state.open.drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        });
        // Both listeners look whether it is over when something comes.
        let _woken = TcpStream::connect(self.address);
        let _woken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.send_to(&[], self.address));
    }
}

impl Passing {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    /// Waits until things pass; false if that is over.
    fn passes(&self) -> bool {
        let waits = |state: &mut State| state.cut && !state.ended;
        !self.changed.wait_while(self.state.lock().unwrap(), waits).unwrap().ended
    }

    /// Whether a datagram passes; none if that is over.
    fn passes_now(&self) -> Option<bool> {
        let state = self.state.lock().unwrap();
        (!state.ended).then_some(!state.cut)
    }
}

/// One port for streams and datagrams.
fn both(address: Ipv4Addr) -> (TcpListener, UdpSocket) {
    let at = (address, midas_lab::free_port(address));
    (TcpListener::bind(at).unwrap(), UdpSocket::bind(at).unwrap())
}

fn accept(listener: &TcpListener, target: SocketAddr, passing: &Arc<Passing>) {
    for client in listener.incoming() {
        if !passing.passes() {
            return;
        }
        let (Ok(client), Ok(server)) = (client, TcpStream::connect(target)) else { continue };
        for end in [&client, &server] {
            end.set_nodelay(true).unwrap();
        }
        let ends = || Ok::<_, io::Error>((client.try_clone()?, server.try_clone()?));
        let (Ok(there), Ok(back), Ok((kept, other))) = (ends(), ends(), ends()) else { continue };
        passing.change(|state| state.open.extend([kept, other]));
        for (from, to) in [there, (back.1, back.0)] {
            let passing = Arc::clone(passing);
            thread::spawn(move || carry(from, to, &passing));
        }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, passing: &Passing) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        if !passing.passes() || to.write_all(&chunk[..length]).is_err() {
            break;
        }
    }
    // An end is something that is sent, too.
    if passing.passes() {
        for end in [&from, &to] {
            let _closed_already = end.shutdown(Shutdown::Both);
        }
    }
}

fn pass_datagrams(from: &UdpSocket, target: SocketAddr, passing: &Passing) {
    let mut datagram = vec![0; CHUNK];
    loop {
        // An answer to what was sent to nobody: the next one may be good.
        let received = from.recv_from(&mut datagram);
        match (passing.passes_now(), received) {
            (None, _) => return,
            (Some(true), Ok((length, _))) => drop(from.send_to(&datagram[..length], target)),
            (Some(_), Ok(_) | Err(_)) => {}
        }
    }
}

/// What is read at once.
const CHUNK: usize = 64 << 10;
