//! What the demo runs on: four servers over one namespace, two proxies and the witness that makes them a cluster, all in this process.
//! Nothing of it outlives the value.

use super::arm::Arm;
use super::figures::Servers;
use super::town::{self, CLIENTS, Town};
use crate::control;
use crate::failure::Failure;
use crate::stage::{Company, Player, Role, Work};
use midas_nfs::nfs3::{Call, DirOp};
use midas_nfsd::{Config, Handle, Limits, Namespace, Nfsd, Seen, ServiceTimes};
use midas_proxy::config::Config as ProxyConfig;
use midas_proxy::{Proxy, Witness, api};
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The servers come first: they are dropped first, and a proxy that waits for one of them then waits no longer.
pub(super) struct Site {
    nfsd: Nfsd,
    proxies: Vec<Proxy>,
    _witness: Witness,
    town: Town,
    company: Company,
}

impl Site {
    /// Puts it up: the proxies' pages are there when this returns, the servers are not yet admitted.
    pub(super) fn start(seed: u64) -> Result<Self, Failure> {
        let namespace = Arc::new(Namespace::memory(Limits::default()));
        let town = Town::build(&namespace)
            .map_err(|status| Failure::Broken(format!("the names could not be made: {status}")))?;
        let config = Config {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0)); SERVERS],
            service: ServiceTimes::parse(SERVICE, seed).map_err(Failure::Broken)?,
            truth: true,
            ..Config::default()
        };
        let nfsd = Nfsd::start(&config, &namespace).map_err(broken)?;
        let company = Company::new((PROXIES, 1), true, SILENCE).map_err(broken)?;
        let common = common(&nfsd.addresses());
        let config = |member: u32| {
            let admin = company.own(member).join("socket");
            let tcp = if member < PROXIES { "tcp = \"127.0.0.1:0\"\n" } else { "" };
            let admin = format!("[admin]\nsocket = \"{}\"\n{tcp}", admin.display());
            std::fs::write(company.own(member).join("state"), targets().to_string()).map_err(broken)?;
            ProxyConfig::parse(&(common.clone() + &admin + &company.table(member))).map_err(broken)
        };
        let proxy = |member: u32| Proxy::start(&config(member)?).map_err(broken);
        let proxies = (0..PROXIES).map(proxy).collect::<Result<_, Failure>>()?;
        let witness = Witness::start(&config(PROXIES)?).map_err(broken)?;
        Ok(Self { nfsd, proxies, _witness: witness, town, company })
    }

    /// Where each proxy shows itself.
    pub(super) fn pages(&self) -> Vec<String> {
        let address = |proxy: &Proxy| Some(format!("http://{}/", proxy.admin_tcp()?));
        self.proxies.iter().filter_map(address).collect()
    }

    /// Where each proxy is controlled.
    pub(super) fn sockets(&self) -> Vec<PathBuf> {
        (0..PROXIES).map(|member| self.company.own(member).join("socket")).collect()
    }

    /// Waits until every server takes calls and the proxies have found each other.
    pub(super) fn wait(&self, stop: &AtomicBool) -> Result<(), Failure> {
        let whole = |proxy: &Proxy| {
            let members = proxy.among_peers().and_then(|standing| standing.view).map_or(0, |view| view.lives.len());
            proxy.open() >= SERVERS && members == self.company.members() && proxy.leased()
        };
        until(stop, "the proxies did not admit their servers, or each other", || self.proxies.iter().all(whole))
    }

    /// From now on calls are routed, and answered from the cache or not, like this. As an administrator would: on the control sockets.
    pub(super) fn set(&self, arm: Arm, stop: &AtomicBool) -> Result<(), Failure> {
        let (policy, mode) = (Some(arm.policy.to_string()), Some(arm.mode().to_owned()));
        let set = api::Set { export: EXPORT.to_owned(), policy, mode };
        for socket in self.sockets() {
            control::tell(&socket, api::SET, &set)?;
        }
        let leased = |proxy: &Proxy| proxy.leased() && proxy.among_peers().is_some_and(|standing| !standing.blocked);
        until(stop, "the proxies have no leases", || self.proxies.iter().all(leased))
    }

    /// Every client of the town, connected to its proxy.
    pub(super) fn clients(&self) -> Result<Vec<Player<'_>>, Failure> {
        (0..CLIENTS)
            .map(|number| {
                let (source, user) = town::client(number);
                let (directories, name) = (&*self.town.directories, town::name);
                let role = Role { directories, name, number, source, user, guarded: true };
                let proxy = &self.proxies[(number % PROXIES) as usize];
                let address = proxy.nfs().first().ok_or_else(|| broken("a proxy listens nowhere"))?;
                Player::connect(*address, role).map_err(broken)
            })
            .collect()
    }

    /// What everyone who comes to town does first, through every proxy: look around. So the proxies learn what is called how.
    pub(super) fn look_around(&self, clients: &mut [Player<'_>]) -> Result<(), Failure> {
        for client in clients.iter_mut().take(PROXIES as usize) {
            for handle in std::iter::once(&self.town.root).chain(&self.town.above) {
                client.ask(&list(handle)).map_err(broken)?;
            }
            for name in ["project", "checkpoints"] {
                let what = DirOp { dir: self.town.root.file_handle(), name: name.as_bytes() };
                client.ask(&Call::Lookup { what }).map_err(broken)?;
            }
        }
        Ok(())
    }

    /// How many calls are at each server now.
    pub(super) fn queues(&self) -> Vec<usize> {
        self.nfsd.truth().map_or_else(Vec::new, midas_nfsd::Truth::lengths)
    }

    /// What the servers did from one time to another.
    pub(super) fn servers(&self, from: Instant, to: Instant) -> Servers {
        let now = Instant::now();
        let seen = self.nfsd.truth().expect("the servers were told to keep it").look(now);
        let at = |time: Instant| seen.at.saturating_sub(now.saturating_duration_since(time));
        servers(&seen, at(from), at(to))
    }
}

fn servers(seen: &Seen, from: Duration, to: Duration) -> Servers {
    let mut servers = Servers { executed: vec![0; seen.calls.len()], ..Servers::default() };
    for call in seen.executed.iter().filter(|call| (from..to).contains(&call.at)) {
        servers.executed[usize::from(call.server)] += 1;
        servers.sojourns.push(call.took);
    }
    let queues = seen.calls.iter().zip(&seen.queues).map(|(calls, queue)| Work::of(calls, queue, from, to));
    servers.worst_queue = queues.map(|work| work.worst_queue).max().unwrap_or(0);
    servers
}

/// The first page of a directory.
fn list(directory: &Handle) -> Call<'_> {
    let (cookie, cookieverf) = (0, [0; 8]);
    Call::Readdirplus { dir: directory.file_handle(), cookie, cookieverf, dircount: PAGE, maxcount: PAGE }
}

/// What all proxies have in common: limits that are out of the way, and health checks so rare that they add no load.
fn common(servers: &[SocketAddr]) -> String {
    let listed: Vec<String> = servers.iter().map(|server| format!("\"{server}\"")).collect();
    format!(
        "threads = 1\n\
         [listen]\nnfs = \"127.0.0.1:0\"\n\
         [[pool]]\nname = \"demo\"\nservers = [{}]\nstaleness = \"0s\"\nfailover_after = \"24h\"\n\
         in_flight_max = 65536\ncall_timeout = \"10m\"\nprobe_interval = \"10s\"\nprobe_timeout = \"10m\"\nrate_peak = {}\n\
         [[export]]\npath = \"{EXPORT}\"\npool = \"demo\"\nclients = \"127.0.0.0/8\"\naccess = \"rw\"\nsquash = \"none\"\n\
         insecure = true\npolicy = \"{}\"\nmode = \"strict\"\nwriters = \"midas-only\"\n\
         [limits]\ncalls_per_client = 65536\n[log]\nlevel = \"error\"\n",
        listed.join(", "),
        CAPACITY as u64,
        Arm::PLACED.policy,
    )
}

/// What a warm-up of `paper` would leave in the state file: it needs a quiet minute, and the demo has none.
fn targets() -> serde_json::Value {
    let (imbalance, latency_p99_ns, rtt_ns) = TARGETS;
    let kept = json!({ "imbalance": imbalance, "latency_p99_ns": latency_p99_ns, "rtt_ns": rtt_ns });
    json!({ "version": 1, "exports": { EXPORT: kept } })
}

fn until(stop: &AtomicBool, otherwise: &str, so: impl Fn() -> bool) -> Result<(), Failure> {
    let start = Instant::now();
    while !so() {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        if start.elapsed() > PATIENCE {
            return Err(broken(otherwise));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(super) fn broken(error: impl ToString) -> Failure {
    Failure::Broken(error.to_string())
}

pub(super) const SERVERS: usize = 4;
pub(super) const PROXIES: u32 = 2;
/// Of every call, so that whatever a cache asks for costs what clients' calls cost.
const SERVICE: &str = "const:5ms";
/// What the servers can do, in calls a second.
pub(super) const CAPACITY: f64 = SERVERS as f64 * 200.0;
/// Imbalance, tail latency and round trip, in nanoseconds.
pub(super) const TARGETS: (f64, u64, u64) = (0.25, 15_000_000, 200_000);
const EXPORT: &str = "/";
/// A page of a listing.
const PAGE: u32 = 32 << 10;
/// How long a member of the cluster may be silent. Nobody wants to wait for the first view, which takes a third of it.
const SILENCE: Duration = Duration::from_secs(5);
/// How long the servers may take to be admitted.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
