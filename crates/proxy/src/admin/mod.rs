//! The control plane: HTTP and JSON on a unix socket, a read-only part of it on TCP, metrics for Prometheus.
//!
//! A thread of its own with its own runtime: no call waits for it, and what it reads are counters and short locks. It decides nothing:
//! what it changes are the same values that a reload changes.

mod cache;
mod change;
mod explain;
pub(crate) mod hot;
mod listen;
mod live;
mod metrics;
mod openmetrics;
mod page;
mod query;
mod routes;
mod socket;
mod status;
mod trace;
mod warm;

use crate::api;
use crate::config::{self, Level};
use crate::event::Shared;
use crate::log;
use socket::{File, Socket};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

/// A control plane that answers; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Admin {
    tcp: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _file: Option<File>,
}

impl Admin {
    /// Listens before it returns. Without the default socket the daemon still serves, and says so.
    pub(crate) fn start(shared: &Arc<Shared>, config: &config::Admin) -> io::Result<Self> {
        let socket = match Socket::bind(&config.socket) {
            Err(error) if config.socket == Path::new(api::SOCKET) && error.kind() != io::ErrorKind::AddrInUse => {
                let why = format!("{error}; `midas status` and the like will not work");
                log::answer(Level::Warn, "serving without a control socket", &[("why", &why)]);
                None
            }
            bound => Some(bound?),
        };
        let tcp = config.tcp.map(bind_tcp).transpose()?;
        let address = tcp.as_ref().map(TcpListener::local_addr).transpose()?;
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING).build()?;
        let (stop, stopped) = oneshot::channel();
        let (listener, file) = socket.map(|Socket { listener, file }| (listener, file)).unzip();
        if let Some(listener) = listener {
            let _guard = runtime.enter();
            let listener = tokio::net::UnixListener::from_std(listener)?;
            runtime.spawn(listen::unix(listener, routes::all(Arc::clone(shared))));
        }
        if let Some(listener) = tcp {
            let _guard = runtime.enter();
            let listener = tokio::net::TcpListener::from_std(listener)?;
            runtime.spawn(listen::tcp(listener, routes::read_only(Arc::clone(shared))));
        }
        runtime.spawn(live::make(Arc::clone(shared)));
        let run = move || run(runtime, stopped);
        let thread = thread::Builder::new().name("control".to_owned()).spawn(run)?;
        Ok(Self { tcp: address, stop: Some(stop), thread: Some(thread), _file: file })
    }

    /// Where the read-only part is answered over TCP.
    pub(crate) fn tcp(&self) -> Option<SocketAddr> {
        self.tcp
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// Answers until told to stop; what is asked then gets no answer.
fn run(runtime: Runtime, stopped: oneshot::Receiver<()>) {
    let _told = runtime.block_on(stopped);
    runtime.shutdown_timeout(LAST);
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("admin address {address}: {error}"));
    let listener = TcpListener::bind(address).map_err(named)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Questions that wait for servers, at once; more wait for these.
const BLOCKING: usize = 4;
/// How long the daemon's end waits for them.
const LAST: Duration = Duration::from_millis(100);
