//! The daemon as a whole: listeners, event loops, keepers.

use crate::accord::{Joining, Leases, Standing};
use crate::admin::Admin;
use crate::cached::Told;
use crate::clerk;
use crate::client_table::Admission;
use crate::clock::Clock;
use crate::config::{self, Caching, Change, Config, Export, Level, Writers};
use crate::datagram;
use crate::event::{Loop, Mail, Mailbox, Shared, WAKER};
use crate::fence;
use crate::intents::Intents;
use crate::keeper;
use crate::life::Life;
use crate::log;
use crate::mountd::Mountd;
use crate::objects;
use crate::pool::Pool;
use crate::realm::Realm;
use crate::regulate;
use crate::reload;
use crate::sampling;
use crate::seed::Identity;
use crate::state::State;
use crate::watch::labels;
use midas_core::cache::{CleanStart, Mode, Rules, Settings};
use midas_core::key::Key;
use midas_nfs::portmap::Mapping;
use midas_nfs::{mount, nfs3, nlm, portmap};
use mio::net::{TcpListener, TcpStream, UdpSocket};
use mio::{Events, Interest, Poll, Token, Waker};
use rustix::process::setpriority_process;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A running proxy; it ends when this is dropped.
pub struct Proxy {
    pub(crate) shared: Arc<Shared>,
    mailboxes: Vec<Mailbox>,
    threads: Vec<JoinHandle<()>>,
    nfs: Vec<SocketAddr>,
    mount: Vec<SocketAddr>,
    admin: Option<Admin>,
    /// As far as it is in force.
    config: Config,
    life: Life,
}

impl Proxy {
    /// Starts; it listens when this returns. The servers may come later: calls wait for them.
    pub fn start(config: &Config) -> io::Result<Self> {
        let (mut life, start) = Life::begin(&config.state().file)?;
        let (state, common) = (State::load(&config.state().file), (Rules::ALL, config.cluster()));
        match Self::launch(config, state, Some(config.admin()), start, common) {
            Ok(mut proxy) => {
                proxy.life = life;
                Ok(proxy)
            }
            Err(error) => {
                // No call was sent: the next start is as clean as this one.
                if start == CleanStart::Yes {
                    life.end();
                }
                Err(error)
            }
        }
    }

    /// The same without a control plane and without memory: for one that is a part of something else and leaves nothing behind, but for its votes
    /// if it is a member of a cluster.
    pub fn start_member(config: &Config) -> io::Result<Self> {
        Self::launch(config, State::nowhere(), None, CleanStart::Yes, (Rules::ALL, config.cluster()))
    }

    /// For tests only: one whose cache breaks a rule, to see that stale answers are found.
    #[doc(hidden)]
    pub fn start_broken(config: &Config, rules: Rules) -> io::Result<Self> {
        Self::launch(config, State::nowhere(), None, CleanStart::Yes, (rules, None))
    }

    fn launch(
        config: &Config,
        state: State,
        admin: Option<&config::Admin>,
        start: CleanStart,
        (rules, cluster): (Rules, Option<&config::Cluster>),
    ) -> io::Result<Self> {
        let listeners = Listeners::bind(config)?;
        let (nfs, mount) = (addresses(&listeners.nfs)?, addresses(&listeners.mount)?);
        let portmap = addresses(&listeners.portmap)?;
        let mappings = mappings(&nfs, if mount.is_empty() { &nfs } else { &mount }, &portmap);
        let clock = Clock::new();
        let member = cluster.map(|cluster| Joining::new(clock, config, cluster, start)).transpose()?;
        let accord = member.as_ref().map(|member| Arc::clone(&member.accord));
        // What a former life may have left is the cluster's to know.
        let start = if accord.is_some() { CleanStart::Yes } else { start };
        let leases = accord.as_ref().map(|accord| Arc::clone(&accord.leases));
        let (pools, exports) = realms(clock, config, &state, &(start, rules, leases));
        let shared = Arc::new(Shared::new(
            pools,
            exports,
            Mountd::new(mappings),
            config.limits(),
            config.threads().max(1),
            (accord, state.objects().as_deref()),
        ));
        if config.state().journal && shared.accord().is_none() && state.lasts() {
            let now = clock.now();
            let hold = config.exports().iter().map(|export| export.caching.server_hold_max).max().unwrap_or_default();
            let (file, loops) = (&config.state().file, config.threads().max(1));
            let intents = Intents::open(now, file, loops, &shared.turns, now + hold, config.limits().answers_kept)?;
            assert!(shared.intents.set(intents).is_ok(), "it is set once");
        }
        let admin = admin.map(|admin| Admin::start(&shared, admin)).transpose()?;
        let (config, life) = (config.clone(), Life::alone());
        let (mailboxes, threads) = (Vec::new(), Vec::new());
        let mut proxy = Self { shared, mailboxes, threads, nfs, mount, admin, config, life };
        proxy.start_loops(proxy.config.threads())?;
        if let Some(member) = member {
            member.join(&proxy.shared, &proxy.mailboxes);
        }
        proxy.threads.extend(keeper::start(&proxy.shared));
        proxy.threads.extend(fence::start(&proxy.shared));
        let shared = Arc::clone(&proxy.shared);
        proxy.threads.push(thread::spawn(move || regulate::run(&shared, state)));
        let shared = Arc::clone(&proxy.shared);
        proxy.threads.push(thread::spawn(move || sampling::run(&shared)));
        let shared = Arc::clone(&proxy.shared);
        proxy.threads.push(thread::Builder::new().name("objects".to_owned()).spawn(move || objects::run(&shared))?);
        let (shared, watch) = (Arc::clone(&proxy.shared), proxy.config.watch().clone());
        proxy.threads.push(thread::Builder::new().name("jobs".to_owned()).spawn(move || labels::run(&shared, &watch))?);
        proxy.start_acceptor(listeners)?;
        Ok(proxy)
    }

    /// Whether answers may come from the cache as far as other proxies are concerned.
    pub fn leased(&self) -> bool {
        self.shared.accord().is_none_or(|accord| accord.leases.live())
    }

    /// How things stand between this proxy and the others; none without any.
    pub fn among_peers(&self) -> Option<Standing> {
        self.shared.accord().map(|accord| accord.standing())
    }

    /// Where NFS is answered.
    pub fn nfs(&self) -> &[SocketAddr] {
        &self.nfs
    }

    /// Where MOUNT is answered; where NFS is, if nowhere else.
    pub fn mount(&self) -> &[SocketAddr] {
        if self.mount.is_empty() { &self.nfs } else { &self.mount }
    }

    /// Where the read-only part of the control plane is answered over TCP, if anywhere.
    pub fn admin_tcp(&self) -> Option<SocketAddr> {
        self.admin.as_ref().and_then(Admin::tcp)
    }

    /// Waits until clients can be served: every export has a server, and every server was judged once. False after `patience`.
    pub fn ready(&self, patience: Duration) -> bool {
        let start = Instant::now();
        let agreed = || self.shared.exports.iter().all(|export| export.agreed().is_some());
        let judged = || self.shared.pools.iter().all(|pool| pool.judged());
        while !(agreed() && judged()) {
            if start.elapsed() > patience {
                return false;
            }
            thread::sleep(READY_LOOK);
        }
        true
    }

    /// Exports that no server was found for yet, by their paths.
    pub fn unserved(&self) -> Vec<String> {
        let without = self.shared.exports.iter().filter(|export| export.agreed().is_none());
        without.map(|export| export.rules().path.clone()).collect()
    }

    /// Takes over from a new configuration what a running daemon can; says and returns what differs. No connection
    /// is touched but those of clients that are on no list any more, or on one for the first time.
    pub fn reload(&mut self, new: &Config) -> Vec<Change> {
        let changes = reload::reload(&self.shared, &mut self.config, new);
        self.shared.client_table.judge(|client| self.shared.listed(client));
        self.mailboxes.iter().for_each(|mailbox| mailbox.send(Mail::Relisted));
        if let Some(peers) = self.shared.peers() {
            peers.reloaded(&self.config);
        }
        reload::tell(&self.shared, &changes);
        changes
    }

    /// Reads no more calls, and waits until those under way are answered and the connections closed, but no longer than this. How many
    /// connections are left.
    pub fn drain(&self, limit: Duration) -> usize {
        log::answer(Level::Info, "draining", &[("clients", &self.clients()), ("limit_s", &limit.as_secs())]);
        self.shared.draining.store(true, Ordering::Relaxed);
        let start = Instant::now();
        while self.clients() > 0 && start.elapsed() < limit {
            thread::sleep(READY_LOOK);
        }
        if let Some(accord) = self.shared.accord() {
            accord.release();
        }
        if let Some(peers) = self.shared.peers() {
            let agreed = peers.leave(limit.saturating_sub(start.elapsed()));
            log::answer(Level::Info, "left the cluster", &[("agreed", &agreed)]);
        }
        let left = self.clients();
        let level = if left == 0 { Level::Info } else { Level::Warn };
        log::answer(level, "drained", &[("clients_left", &left), ("took_ms", &start.elapsed().as_millis())]);
        left
    }

    /// Whether every event loop has gone round since this was last asked; asked at most every second.
    pub fn alive(&self) -> bool {
        self.mailboxes.iter().all(|mailbox| mailbox.alive.swap(false, Ordering::Relaxed))
    }

    /// Whether no call of this daemon can run at a server any more.
    fn quiet(&self) -> bool {
        let idle = |pool: &Arc<Pool>| pool.servers.ids().all(|server| pool.servers.in_flight(server) == 0);
        let clusters = self.shared.accord().is_some();
        let known = |export: &Realm| clusters || export.areas.settled(export.pool.time(Instant::now()));
        let told = self.shared.accord().is_none_or(|accord| accord.quiet());
        told && self.shared.pools.iter().all(idle) && self.shared.exports.iter().all(known)
    }

    fn clients(&self) -> usize {
        self.mailboxes.iter().map(|mailbox| mailbox.clients.load(Ordering::Relaxed)).sum()
    }

    /// Servers that take calls now, over all pools.
    pub fn open(&self) -> usize {
        let of_pool = |pool: &Arc<Pool>| pool.servers.ids().filter(|server| pool.open(*server)).count();
        self.shared.pools.iter().map(of_pool).sum()
    }

    /// Calls forwarded to each server so far, in the order of the configuration.
    pub fn dispatched(&self) -> Vec<u32> {
        let of_pool = |pool: &Arc<Pool>| pool.servers.ids().map(|server| pool.servers.dispatched(server)).collect();
        self.shared.pools.iter().flat_map(|pool| -> Vec<u32> { of_pool(pool) }).collect()
    }

    /// Servers that answer but do not belong to their pool, and why.
    pub fn foreign(&self) -> Vec<(String, String)> {
        let of_pool = |pool: &Arc<Pool>| -> Vec<(String, String)> {
            let why = |server| Some((pool.server(server).name.clone(), pool.foreign(server)?));
            pool.servers.ids().filter_map(why).collect()
        };
        self.shared.pools.iter().flat_map(of_pool).collect()
    }

    fn start_loops(&mut self, count: usize) -> io::Result<()> {
        let mut parts = Vec::new();
        for _ in 0..count.max(1) {
            let poll = Poll::new()?;
            let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
            let (mail, received) = channel();
            let (clients, alive) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
            self.mailboxes.push(Mailbox { mail, waker, clients, alive });
            parts.push((poll, received));
        }
        self.shared.turns.wake_by(self.mailboxes.clone());
        let (desk, jobs) = clerk::desk();
        for (number, (poll, received)) in parts.into_iter().enumerate() {
            let event_loop =
                Loop::new(number, Arc::clone(&self.shared), poll, received, (self.mailboxes.clone(), desk.clone()));
            let run = move || {
                let vital = Vital(number);
                if let Err(error) = event_loop.run() {
                    eprintln!("midas: event loop {number}: {error}");
                    std::process::abort();
                }
                std::mem::forget(vital);
            };
            self.threads.push(thread::Builder::new().name(format!("loop {number}")).spawn(run)?);
        }
        self.threads.extend(clerk::start(&self.shared, &self.mailboxes, jobs));
        Ok(())
    }

    fn start_acceptor(&mut self, mut listeners: Listeners) -> io::Result<()> {
        let poll = Poll::new()?;
        for (index, listener) in listeners.all().enumerate() {
            poll.registry().register(listener, Token(index), Interest::READABLE)?;
        }
        for socket in &mut listeners.datagrams {
            poll.registry().register(socket, DATAGRAM, Interest::READABLE)?;
        }
        let (shared, mailboxes) = (Arc::clone(&self.shared), self.mailboxes.clone());
        let run = move || accept(&shared, poll, &mut listeners, &mailboxes);
        self.threads.push(thread::Builder::new().name("accept".to_owned()).spawn(run)?);
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for mailbox in &self.mailboxes {
            let _ended = mailbox.waker.wake();
        }
        for thread in self.threads.drain(..) {
            let _panicked = thread.join();
        }
        if let Some(peers) = self.shared.peers() {
            peers.stop();
        }

        if self.quiet() {
            self.life.end();
        }
    }
}

/// What every cache of this daemon shares: how it starts, its rules, its leases.
type Common = (CleanStart, Rules, Option<Arc<Leases>>);

/// The pools, and the exports that they serve.
fn realms(clock: Clock, config: &Config, state: &State, common: &Common) -> (Vec<Arc<Pool>>, Vec<Realm>) {
    let (start, rules, leases) = common;
    let mut first_link = 0;
    let mut pools = Vec::new();
    for pool in config.pools() {
        let pool = Arc::new(Pool::new(clock, pool.clone(), first_link));
        first_link += pool.links();
        pools.push(pool);
    }
    let mut first_area = 0;
    let identity = Identity::new(config);
    let export = |(number, export): (usize, &Export)| {
        let told = |(path, mode, caching): (&String, Mode, &Caching)| {
            let told = told(config, (mode, caching), !export.subtrees.is_empty(), *start);
            let name = Key::of(export.path.as_bytes()).0 as u32;
            (path.clone(), Told { rules: *rules, leases: leases.clone(), name, ..told })
        };
        let own = (&export.path, export.mode, &export.caching);
        let subtrees = export.subtrees.iter().map(|subtree| (&subtree.path, subtree.mode, &subtree.caching));
        let told: Vec<_> = std::iter::once(own).chain(subtrees).map(told).collect();
        let pool = Arc::clone(&pools[export.pool]);
        let first = first_area;
        first_area += told.len();
        let seed = identity.seed(&export.path);
        log::debug("seeded", &[("export", &export.path), ("seed", &format!("{seed:016x}"))]);
        Realm::new((number, first), seed, export.clone(), pool, state.targets(&export.path), &told)
    };
    let exports = config.exports().iter().enumerate().map(export).collect();
    (pools, exports)
}

/// What the cache of a part of an export is told; `several` if it is one of several.
fn told(config: &Config, (mode, caching): (Mode, &Caching), several: bool, start: CleanStart) -> Told {
    let Caching { writers, lease_age_max, server_hold_max, immutable_age_max, stale_target, ttl_max, absent_max } =
        *caching;
    let areas = config.exports().iter().map(|export| 1 + export.subtrees.len()).sum::<usize>();
    let settings = Settings {
        mode,
        bytes_max: config.cache().memory / areas.max(1),
        lease_age_max,
        server_hold_max,
        immutable_age_max,
        stale_target,
        ttl_max,
        // Clients choose names: where these lie in tables is not theirs to know.
        spread: RandomState::new().hash_one(0_u8),
        ..Settings::default()
    };
    let watches = several || writers == Writers::MidasOnly;
    Told { settings, absent_max, watches, start, rules: Rules::ALL, leases: None, name: 0 }
}

/// A loop that dies takes its clients with it: they reconnect to a daemon that starts anew, not to one that never answers.
struct Vital(usize);

impl Drop for Vital {
    fn drop(&mut self) {
        eprintln!("midas: event loop {} died", self.0);
        std::process::abort();
    }
}

struct Listeners {
    nfs: Vec<TcpListener>,
    mount: Vec<TcpListener>,
    portmap: Vec<TcpListener>,
    datagrams: Vec<UdpSocket>,
}

impl Listeners {
    fn bind(config: &Config) -> io::Result<Self> {
        let all = |addresses: &[SocketAddr]| {
            let bind = |address: &SocketAddr| TcpListener::bind(*address).map_err(|error| at(*address, &error));
            addresses.iter().map(bind).collect::<io::Result<Vec<_>>>()
        };
        let listen = config.listen();
        let (nfs, mount, portmap) = (all(&listen.nfs)?, all(&listen.mount)?, all(&listen.portmap)?);
        // Where portmap has any free port, it has the same one over both.
        let same = addresses(&portmap)?;
        let bind = |address: &SocketAddr| UdpSocket::bind(*address).map_err(|error| at(*address, &error));
        Ok(Self { nfs, mount, portmap, datagrams: same.iter().map(bind).collect::<io::Result<_>>()? })
    }

    fn all(&mut self) -> impl Iterator<Item = &mut TcpListener> {
        self.nfs.iter_mut().chain(&mut self.mount).chain(&mut self.portmap)
    }
}

fn at(address: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{address}: {error}"))
}

fn addresses(listeners: &[TcpListener]) -> io::Result<Vec<SocketAddr>> {
    listeners.iter().map(TcpListener::local_addr).collect()
}

fn mappings(nfs: &[SocketAddr], mount: &[SocketAddr], mapper: &[SocketAddr]) -> Vec<Mapping> {
    let mut known = Vec::new();
    let mut learn = |program, versions: &[u32], at: &[SocketAddr]| {
        for (&address, &version) in at.iter().flat_map(|address| versions.iter().map(move |version| (address, version)))
        {
            known.push(Mapping { program, version, address });
        }
    };
    learn(nfs3::PROGRAM, &[nfs3::VERSION], nfs);
    // Where locks are refused: see `nlm`.
    learn(nlm::PROGRAM, &nlm::VERSIONS, nfs);
    learn(mount::PROGRAM, &[mount::VERSION, mount::VERSION_OLD], mount);
    let (low, high) = portmap::VERSIONS;
    learn(portmap::PROGRAM, &(low..=high).collect::<Vec<_>>(), mapper);
    known
}

/// Hands every new client to the loop that has the fewest.
fn accept(shared: &Shared, mut poll: Poll, listeners: &mut Listeners, mailboxes: &[Mailbox]) {
    let mut events = Events::with_capacity(64);
    // Those who are served already come before those who come: a flood of connections must not take
    // the processor from them.
    let _as_before = setpriority_process(None, BEHIND_LOOPS);
    while !shared.stop.load(Ordering::Relaxed) && !shared.draining.load(Ordering::Relaxed) {
        // Woken from time to time to see the end, and to try again what no event will tell of twice.
        if poll.poll(&mut events, Some(ACCEPT_LOOK)).is_err_and(|error| error.kind() != ErrorKind::Interrupted) {
            return;
        }
        for socket in &listeners.datagrams {
            datagram::answer(&shared.mountd, socket, |client| shared.listed(client));
        }
        for listener in listeners.all() {
            loop {
                let (socket, client) = match listener.accept() {
                    Ok(accepted) => accepted,
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock) => break,
                    Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {
                        continue;
                    }
                    Err(error) => {
                        log::warn("cannot accept", &[("why", &error)]);
                        break;
                    }
                };
                // Who came over IPv4 to a listener for both is an IPv4 client in every list.
                let client = SocketAddr::new(client.ip().to_canonical(), client.port());
                admit(shared, mailboxes, socket, client);
            }
        }
    }
}

/// Hands a new client to an event loop, if there is room or room can be made.
fn admit(shared: &Shared, mailboxes: &[Mailbox], socket: TcpStream, client: SocketAddr) {
    let listed = |client: IpAddr| shared.listed(client);
    let give = |event_loop: usize, mail: Mail| {
        // Counted here, so that a burst cannot pass the limit while its mail waits.
        shared.client_table.enter(client.ip(), event_loop, listed);
        mailboxes[event_loop].clients.fetch_add(1, Ordering::Relaxed);
        mailboxes[event_loop].send(mail);
    };
    match shared.client_table.admit(Instant::now(), client.ip(), shared.caps(), listed) {
        Admission::Free => {
            let clients = |event_loop: &usize| mailboxes[*event_loop].clients.load(Ordering::Relaxed);
            let least = (0..mailboxes.len()).min_by_key(clients).unwrap_or_default();
            give(least, Mail::Client(socket, client));
        }
        Admission::InsteadOf { event_loop, address } => give(event_loop, Mail::Instead(socket, client, address)),
        Admission::Full => {
            shared.turned_away.add(1);
            log::warn("connection limit reached", &[("client", &client.ip())]);
        }
    }
}

/// Beyond every listener's.
const DATAGRAM: Token = Token(usize::MAX - 1);

const READY_LOOK: Duration = Duration::from_millis(10);
const ACCEPT_LOOK: Duration = Duration::from_millis(100);
/// The nice value of the thread that accepts connections.
const BEHIND_LOOPS: i32 = 10;
