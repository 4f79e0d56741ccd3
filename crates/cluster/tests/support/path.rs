//! The path from one member to another: TCP connections and datagrams are carried on, or cut, or bent.

use midas_lab::free_port;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A path that can be cut. Connections are carried from where it listens to where it leads.
pub struct Path {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    cut: AtomicBool,
    ended: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
    /// What the one who dials says, of the last connection.
    said: Mutex<Vec<u8>>,
    /// One bit of what passes next is changed.
    bend: AtomicBool,
}

impl Path {
    pub fn new(from: SocketAddr, to: SocketAddr) -> Self {
        let address = SocketAddr::new(from.ip(), free_port(from.ip()));
        let listener = TcpListener::bind(address).expect("the port is ours");
        let state = Arc::new(State {
            cut: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            streams: Mutex::default(),
            said: Mutex::default(),
            bend: AtomicBool::new(false),
        });
        let udp = UdpSocket::bind(address).expect("the port is ours for datagrams too");
        let shared = Arc::clone(&state);
        thread::spawn(move || carry_datagrams(&udp, to, &shared));
        let shared = Arc::clone(&state);
        thread::spawn(move || accept(&listener, to, &shared));
        Self { address, state }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Nothing passes any more, and what stood is broken.
    pub fn cut(&self) {
        self.state.cut.store(true, Ordering::SeqCst);
        self.break_all();
    }

    pub fn heal(&self) {
        self.state.cut.store(false, Ordering::SeqCst);
    }

    pub fn break_all(&self) {
        for stream in self.state.streams.lock().unwrap().drain(..) {
            let _closed = stream.shutdown(Shutdown::Both);
        }
    }

    /// What was said by the one who dials, since the last connection began.
    pub fn said(&self) -> Vec<u8> {
        self.state.said.lock().unwrap().clone()
    }

    pub fn bend(&self) {
        self.state.bend.store(true, Ordering::SeqCst);
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        self.cut();
        // Wakes the threads, which see the end.
        let _refused = TcpStream::connect(self.address);
        if let Ok(socket) = UdpSocket::bind((self.address.ip(), 0)) {
            let _sent = socket.send_to(b"", self.address);
        }
    }
}

fn accept(listener: &TcpListener, to: SocketAddr, state: &Arc<State>) {
    while let Ok((near, _)) = listener.accept() {
        if state.ended.load(Ordering::SeqCst) {
            return;
        }
        let far = TcpStream::connect(to).ok().filter(|_| !state.cut.load(Ordering::SeqCst));
        let Some(far) = far else { continue };
        let ends = [&near, &far].map(|stream| stream.try_clone().expect("a socket can be shared"));
        state.streams.lock().unwrap().extend(ends);
        state.said.lock().unwrap().clear();
        let (back_from, back_to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
        let shared = Arc::clone(state);
        thread::spawn(move || carry(near, far, &shared, true));
        let shared = Arc::clone(state);
        thread::spawn(move || carry(back_from, back_to, &shared, false));
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, state: &State, forward: bool) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if forward {
            state.said.lock().unwrap().extend_from_slice(&bytes[..count]);
            if state.bend.swap(false, Ordering::SeqCst) {
                bytes[count - 1] ^= 1;
            }
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _closed = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn carry_datagrams(udp: &UdpSocket, to: SocketAddr, state: &State) {
    let mut bytes = [0; 2048];
    while let Ok(count) = udp.recv(&mut bytes) {
        if state.ended.load(Ordering::SeqCst) {
            return;
        }
        if !state.cut.load(Ordering::SeqCst) {
            let _lost = udp.send_to(&bytes[..count], to);
        }
    }
}
