//! The servers: N of them in one process over one namespace, each a thread with its own sockets, queue and faults.

mod attribute_cache;
mod dispatch;
mod event;
mod fault;
mod service;
mod station;
mod truth;

pub use event::{Bounds, Command};
pub use fault::Fault;
pub use service::{ServiceTimes, kind};
pub use truth::{CHANGES_MOST, Executed, Mark, Queue, Seen, Truth};

use crate::{Identity, Namespace};
use dispatch::{Parts, Server, write_verifier};
use event::{Doors, Loop, Order};
use midas_net::Reservation;
use midas_nfs::portmap::Mapping;
use midas_nfs::{mount, nfs3, portmap};
use mio::net::{TcpListener, UdpSocket};
use mio::{Poll, Waker};
use std::hash::RandomState;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the servers are to be.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where each server listens, for NFS, MOUNT and portmap alike; port 0 is any free one.
    pub listen: Vec<SocketAddr>,
    /// Where the first server also answers portmap and rpcbind, over TCP and UDP.
    pub portmap: Option<SocketAddr>,
    /// The path that clients mount.
    pub export: String,
    /// How long calls take.
    pub service: ServiceTimes,
    /// Calls that one server works on at once, where they take any time.
    pub workers: NonZeroUsize,
    /// What one server takes at most.
    pub bounds: Bounds,
    /// Whether the truth is kept: it costs a lock a call.
    pub truth: bool,
    /// Whether a READ moves the atime of a file in memory.
    pub atime: bool,
    /// How long a server answers with attributes and names that it once knew, whatever others change; zero: never.
    pub attribute_cache: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            portmap: None,
            export: "/".to_owned(),
            service: ServiceTimes::none(),
            workers: NonZeroUsize::MIN,
            bounds: Bounds::default(),
            truth: false,
            atime: false,
            attribute_cache: Duration::ZERO,
        }
    }
}

/// Running servers; they end when this is dropped.
pub struct Nfsd {
    running: Vec<Running>,
    truth: Option<Arc<Truth>>,
}

struct Running {
    address: SocketAddr,
    commands: Sender<Order>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Nfsd {
    /// Starts the servers over one namespace; they listen when this returns.
    pub fn start(config: &Config, namespace: &Arc<Namespace>) -> io::Result<Self> {
        let truth = config.truth.then(|| Arc::new(Truth::new(Instant::now(), config.listen.len())));
        let machines = RandomState::new();
        let mut nfsd = Self { running: Vec::new(), truth: truth.clone() };
        for (number, listen) in config.listen.iter().enumerate() {
            // A server that is down keeps its port: another program that took it could not be told to give it back.
            let kept = Reservation::beside(*listen).map_err(|error| at(*listen, &error))?;
            let address = SocketAddr::new(listen.ip(), kept.port());
            let listener = TcpListener::bind(address).map_err(|error| at(address, &error))?;
            let portmap = config.portmap.filter(|_| number == 0).map(doors_of_portmap).transpose()?;
            let mapper = portmap.as_ref().map(|(tcp, _)| tcp.local_addr()).transpose()?;
            let server = number as u16;
            let identity = Identity { server, write_verifier: write_verifier(server), salt: 0 };
            let parts = Parts {
                identity,
                namespace: Arc::clone(namespace),
                export: config.export.clone().into_bytes(),
                mappings: mappings(address, mapper),
                service: config.service.clone(),
                workers: config.workers.get(),
                truth: truth.clone(),
                machines: machines.clone(),
                atime: config.atime,
                attribute_cache: config.attribute_cache,
            };
            let (commands, received) = channel();
            let doors = Doors { poll: Poll::new()?, listener, kept, portmap, commands: received };
            let (event_loop, waker) = Loop::new(doors, Server::new(Instant::now(), parts), config.bounds)?;
            let thread = std::thread::Builder::new().name(format!("nfsd {number}")).spawn(|| event_loop.run())?;
            nfsd.running.push(Running { address, commands, waker, thread: Some(thread) });
        }
        Ok(nfsd)
    }

    /// Where the servers listen.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.running.iter().map(|server| server.address).collect()
    }

    /// Tells a server what to do, and waits until it has done so; an error if there is no such server,
    /// it has ended, or it does not obey.
    pub fn command(&self, server: usize, command: Command) -> io::Result<()> {
        let running = self.running.get(server).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("there is no server {server}; there are {}", self.running.len()),
            )
        })?;
        let ended = || io::Error::other(format!("server {server} has ended"));
        let (obeyed, done) = channel();
        running.commands.send(Order { command, obeyed }).map_err(|_| ended())?;
        running.waker.wake()?;
        done.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Disconnected => ended(),
            RecvTimeoutError::Timeout => io::Error::other(format!("server {server} does not obey")),
        })
    }

    /// What really happened, if it is kept.
    pub fn truth(&self) -> Option<&Truth> {
        self.truth.as_deref()
    }

    /// A server whose thread has ended, which none should by itself.
    pub fn dead(&self) -> Option<usize> {
        self.running.iter().position(|server| server.thread.as_ref().is_none_or(JoinHandle::is_finished))
    }
}

impl Drop for Nfsd {
    fn drop(&mut self) {
        for server in &mut self.running {
            // One that has ended already cannot be told.
            let (obeyed, _) = channel();
            let _ended = server.commands.send(Order { command: Command::Stop, obeyed });
            let _ended = server.waker.wake();
            if let Some(thread) = server.thread.take() {
                let _result = thread.join();
            }
        }
    }
}

/// Longer than any command takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn doors_of_portmap(address: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let tcp = TcpListener::bind(address).map_err(|error| at(address, &error))?;
    let udp = UdpSocket::bind(tcp.local_addr()?).map_err(|error| at(address, &error))?;
    Ok((tcp, udp))
}

fn mappings(address: SocketAddr, mapper: Option<SocketAddr>) -> Vec<Mapping> {
    let here = |program, version| Mapping { program, version, address };
    let own = [
        here(nfs3::PROGRAM, nfs3::VERSION),
        here(mount::PROGRAM, mount::VERSION),
        here(mount::PROGRAM, mount::VERSION_OLD),
    ];
    let mapper = mapper.unwrap_or(address);
    let versions = portmap::VERSIONS.0..=portmap::VERSIONS.1;
    let maps = versions.map(|version| Mapping { program: portmap::PROGRAM, version, address: mapper });
    own.into_iter().chain(maps).collect()
}

fn at(address: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{address}: {error}"))
}
