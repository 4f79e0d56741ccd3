//! What systemd is told (sd_notify(3)): datagrams of `KEY=value` lines to the socket that the environment names. Without one, nothing.

use rustix::time::{ClockId, clock_gettime};
use std::env;
use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// Whoever started us, if it wants to know.
pub(crate) struct Notify {
    socket: Option<UnixDatagram>,
    /// How often it wants a sign of life.
    watchdog: Option<Duration>,
    last_sign: Instant,
}

impl Notify {
    /// As the environment says.
    pub(crate) fn new() -> Self {
        let socket = env::var_os("NOTIFY_SOCKET").and_then(|name| connect(&name));
        let number = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
        let ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|_| ours).map(Duration::from_micros);
        Self { socket, watchdog, last_sign: Instant::now() }
    }

    /// Clients are served.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// The configuration is being read again; [`Notify::ready`] ends that.
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}\nSTATUS=reloading"));
    }

    /// The daemon ends.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=calls under way are answered");
    }

    /// A sign of life, if it is time for one and there is life.
    pub(crate) fn sign(&mut self, alive: impl FnOnce() -> bool) {
        let due = self.watchdog.is_some_and(|interval| self.last_sign.elapsed() >= interval / 2);
        if due && alive() {
            self.last_sign = Instant::now();
            self.send("WATCHDOG=1");
        }
    }

    fn send(&self, lines: &str) {
        if let Some(socket) = &self.socket {
            // Whoever wanted to know is gone, or does not listen: that is no reason to serve less.
            let _unheard = socket.send(lines.as_bytes());
        }
    }
}

/// A path, or a name without a file if it begins with `@`.
fn connect(name: &OsStr) -> Option<UnixDatagram> {
    let socket = UnixDatagram::unbound().ok()?;
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name).ok()?,
        None => SocketAddr::from_pathname(name).ok()?,
    };
    socket.connect_addr(&address).ok()?;
    // A manager that does not read must not stop us.
    socket.set_nonblocking(true).ok()?;
    Some(socket)
}
