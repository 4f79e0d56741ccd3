//! Embedded servers and a proxy, or a cluster of them, over them, in this process and on free ports of the loopback: a stage for calls that can be
//! counted at both ends. Nothing of it outlives the value.

mod company;
pub(crate) mod names;
mod place;
mod player;
mod work;

pub(crate) use company::Company;
pub(crate) use place::Place;
pub(crate) use player::{Answers, Player, Role};
pub(crate) use work::Work;

use crate::failure::Failure;
use midas_core::key::Key;
use midas_core::route::policy::Policy;
use midas_nfsd::{Config, Handle, Limits, Namespace, Nfsd, ServiceTimes};
use midas_proxy::Proxy;
use midas_proxy::config::Config as ProxyConfig;
use midas_sim::config::Homes;
use midas_workload::{Request, Service};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is put up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How the proxy routes.
    pub(crate) policy: Policy,
    pub(crate) servers: u32,
    /// What a LOOKUP or CREATE takes; other calls take no time.
    pub(crate) service: Service,
    pub(crate) directories: u32,
    /// In each directory.
    pub(crate) files: u32,
    pub(crate) proxies: u32,
    /// Whether several proxies tell each other their load.
    pub(crate) shares: bool,
}

/// The servers and their proxies. The servers are dropped first: a proxy that waits for one of them then waits no longer.
pub(crate) struct Stage {
    nfsd: Nfsd,
    proxies: Vec<Proxy>,
    directories: Vec<Handle>,
    /// Where the proxies, if there are several, know each other from.
    _company: Option<Company>,
}

impl Stage {
    /// Puts it up; every server takes calls when this returns.
    pub(crate) fn start(plan: &Plan) -> Result<Self, Failure> {
        let namespace = Arc::new(Namespace::memory(Limits::default()));
        let directories = names::make(&namespace, plan.directories, plan.files)
            .map_err(|status| Failure::Broken(format!("the names could not be made: {status}")))?;
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let service = ServiceTimes::parse(&format!("lookup={0},create={0}", plan.service), 1);
        let config = Config {
            listen: vec![any_port; plan.servers as usize],
            service: service.map_err(Failure::Broken)?,
            truth: true,
            ..Config::default()
        };
        let nfsd = Nfsd::start(&config, &namespace).map_err(broken)?;
        let text = proxy_config(plan, &nfsd.addresses());
        let together = || Company::new((plan.proxies, 0), plan.shares, SILENCE);
        let company = (plan.proxies > 1).then(together).transpose().map_err(broken)?;
        let start = |member: u32| {
            let more = company.as_ref().map_or_else(String::new, |company| company.table(member));
            let config = ProxyConfig::parse(&(text.clone() + &more)).map_err(broken)?;
            Proxy::start_member(&config).map_err(broken)
        };
        let proxies = (0..plan.proxies).map(start).collect::<Result<_, _>>()?;
        let stage = Self { nfsd, proxies, directories, _company: company };
        stage.wait_until_open(plan)?;
        Ok(stage)
    }

    /// Where keys are at home here, for the simulator.
    pub(crate) fn homes(&self) -> Homes {
        // As the configuration calls them: the proxy places its servers by these names.
        let identity = |server: &SocketAddr| Key::of(server.to_string().as_bytes()).0;
        Homes {
            servers: self.nfsd.addresses().iter().map(identity).collect(),
            directories: self.directories.iter().map(|handle| Key::of(handle.bytes())).collect(),
        }
    }

    /// A client of every proxy, in their order.
    pub(crate) fn players(&self) -> Result<Vec<Player<'_>>, Failure> {
        let listening = self.proxies.iter().filter_map(|proxy| proxy.nfs().first());
        let connect = |(number, address): (usize, &SocketAddr)| {
            let name = |request: &Request| names::name(request.file);
            let (number, source) = (number as u32, Ipv4Addr::UNSPECIFIED);
            Player::connect(
                *address,
                Role { directories: &self.directories, name, number, source, user: 0, guarded: false },
            )
            .map_err(broken)
        };
        listening.enumerate().map(connect).collect()
    }

    /// What every server did so far, and its queue from one time to another.
    pub(crate) fn work(&self, from: Instant, to: Instant) -> Vec<Work> {
        let now = Instant::now();
        let seen = self.nfsd.truth().expect("the servers were told to keep it").look(now);
        let at = |time: Instant| seen.at.saturating_sub(now.saturating_duration_since(time));
        let servers = seen.calls.iter().zip(&seen.queues);
        servers.map(|(calls, queue)| Work::of(calls, queue, at(from), at(to))).collect()
    }

    fn wait_until_open(&self, plan: &Plan) -> Result<(), Failure> {
        let start = Instant::now();
        let whole = |proxy: &Proxy| {
            let members = proxy.among_peers().map(|standing| standing.view.map_or(0, |view| view.lives.len()));
            proxy.open() >= plan.servers as usize && members.is_none_or(|members| members == plan.proxies as usize)
        };
        while !self.proxies.iter().all(whole) {
            if start.elapsed() > PATIENCE {
                return Err(Failure::Broken("the proxies did not admit their servers, or each other".into()));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// A proxy whose limits are out of the way, and which asks its servers for their health so rarely that it adds no load.
fn proxy_config(plan: &Plan, servers: &[SocketAddr]) -> String {
    let listed: Vec<String> = servers.iter().map(|server| format!("\"{server}\"")).collect();
    let capacity = f64::from(plan.servers) / plan.service.mean().as_secs_f64();
    format!(
        "threads = 1\n\
         [listen]\nnfs = \"127.0.0.1:0\"\n\
         [[pool]]\nname = \"stage\"\nservers = [{}]\nstaleness = \"0s\"\nfailover_after = \"24h\"\n\
         in_flight_max = 65536\ncall_timeout = \"10m\"\nprobe_interval = \"10s\"\nprobe_timeout = \"10m\"\nrate_peak = {}\n\
         [[export]]\npath = \"/\"\npool = \"stage\"\nclients = \"127.0.0.0/8\"\naccess = \"rw\"\nsquash = \"none\"\n\
         insecure = true\npolicy = \"{}\"\n\
         [limits]\ncalls_per_client = 65536\n[log]\nlevel = \"error\"\n",
        listed.join(", "),
        capacity.ceil().max(1.0) as u64,
        plan.policy,
    )
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn broken(error: impl ToString) -> Failure {
    Failure::Broken(error.to_string())
}

/// How long the servers may take to be admitted.
const PATIENCE: Duration = Duration::from_secs(60);
/// A member that is only late is not left out: what is compared is not how views change.
const SILENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);
