//! A wire on which answers take a while: what a server has done is seen by others before the one who asked for it hears.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A listener in front of a server. Calls pass at once, answers after a random delay, in order on each connection.
#[derive(Debug)]
pub struct Delay {
    /// Where it listens.
    pub address: SocketAddr,
    /// Everything that ends with it.
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Delay {
    /// In front of this server; answers take up to `most` longer.
    pub fn before(server: SocketAddr, most: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (address, open) = (listener.local_addr()?, Arc::<Mutex<Vec<TcpStream>>>::default());
        let kept = Arc::clone(&open);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(upstream) = TcpStream::connect(server) else { continue };
                if connect(&kept, client, upstream, most).is_err() {
                    return;
                }
            }
        });
        Ok(Self { address, open })
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        for stream in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _closed_already = stream.shutdown(Shutdown::Both);
        }
    }
}

fn connect(open: &Mutex<Vec<TcpStream>>, client: TcpStream, server: TcpStream, most: Duration) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    open.lock().unwrap_or_else(PoisonError::into_inner).extend([client.try_clone()?, server.try_clone()?]);
    let (mut calls, mut to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ended = io::copy(&mut calls, &mut to_server);
        let _closed_already = to_server.shutdown(Shutdown::Both);
    });
    let (later, answers) = channel();
    thread::spawn(move || deliver(&answers, client));
    let (random, mut answers) = (RandomState::new(), server);
    thread::spawn(move || {
        let mut chunk = vec![0; CHUNK];
        let mut number = 0u64;
        while let Ok(length @ 1..) = answers.read(&mut chunk) {
            number += 1;
            let share = random.hash_one(number) as f64 / u64::MAX as f64;
            let due = Instant::now() + most.mul_f64(share);
            if later.send((due, chunk[..length].to_vec())).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Gives the client what came when it is due.
fn deliver(answers: &Receiver<(Instant, Vec<u8>)>, mut client: TcpStream) {
    // Nobody ever sends on this: waiting for it is waiting for the time.
    let (_never, clock) = channel::<()>();
    for (due, answer) in answers {
        let _time_is_up = clock.recv_timeout(due.saturating_duration_since(Instant::now()));
        if client.write_all(&answer).is_err() {
            break;
        }
    }
    let _closed_already = client.shutdown(Shutdown::Both);
}

/// What is read at once.
const CHUNK: usize = 64 << 10;
