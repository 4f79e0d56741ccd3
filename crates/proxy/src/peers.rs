//! This daemon as a member of its cluster: what the configuration means to the lower half, and how the cluster is.

use crate::accord::{Accord, Sharing, Standing};
use crate::api;
use crate::config::{self, Config, Table};
use crate::event::Shared;
use crate::log;
use midas_cluster::{Above, Cluster, Key, Link, Member, MemberStatus, Sender, Settings, Unequal, View};
use midas_core::peer::lease::{Life, MemberId};
use midas_core::time::Span;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A member that takes part until this is dropped.
pub(crate) struct Peers {
    name: String,
    members: Vec<String>,
    cluster: Cluster,
    suspect_after: Duration,
}

impl Peers {
    /// Takes part in the cluster of this configuration; what stands above is made with what it sends with.
    pub(crate) fn start<A: Above>(
        config: &Config,
        cluster: &config::Cluster,
        above: impl FnOnce(Sender) -> A,
    ) -> io::Result<Self> {
        let settings = settings(config, cluster)?;
        let suspect_after = settings.suspect_after;
        let members: Vec<String> = cluster.members.iter().map(|member| member.name.clone()).collect();
        let names = members.clone();
        let started = Cluster::start(settings, |sender| Listener { names, above: above(sender) })?;
        log::info("taking part", &[("cluster", &cluster.name), ("me", &cluster.me), ("listen", &cluster.listen)]);
        Ok(Self { name: cluster.name.clone(), members, cluster: started, suspect_after })
    }

    /// Takes part no longer.
    pub(crate) fn stop(&self) {
        self.cluster.stop();
    }

    /// This life of this member.
    pub(crate) fn life(&self) -> Life {
        Life { member: MemberId(self.cluster.me()), incarnation: self.cluster.incarnation() }
    }

    /// What should be equal at all members may have changed.
    pub(crate) fn reloaded(&self, config: &Config) {
        self.sender().digest(digest(config));
    }

    /// Leaves in order: the others go on without a silence. Whether they agreed, for which it waits so long, and
    /// for `suspect_after` at least; no longer than that if it is cut off, as nobody can agree then.
    pub(crate) fn leave(&self, limit: Duration) -> bool {
        self.sender().leave();
        let start = Instant::now();
        let limit = || if self.cut_off() { self.suspect_after } else { self.suspect_after.max(limit) };
        let within = || self.cluster.status().view.incarnation(self.cluster.me()) == Some(self.cluster.incarnation());
        while within() && start.elapsed() < limit() {
            std::thread::sleep(LOOK);
        }
        !within()
    }

    pub(crate) fn sender(&self) -> Sender {
        self.cluster.sender()
    }

    /// Members in the view whose configuration is another one: they may not mean the same by a name.
    pub(crate) fn differing(&self) -> Vec<String> {
        let members = self.cluster.status().members;
        members
            .into_iter()
            .filter(|member| member.in_view && member.same == Some(false))
            .map(|member| member.name)
            .collect()
    }

    /// How long the last round trips took, by member.
    pub(crate) fn round_trips(&self) -> impl Iterator<Item = (usize, Span)> {
        let members = self.cluster.status().members.into_iter().enumerate();
        members.filter_map(|(peer, member)| Some((peer, Span::from_nanos(member.rtt?.as_nanos() as u64))))
    }

    /// Whether too few members are reached to agree on anything: the last view stands, though the others may have another one.
    pub(crate) fn cut_off(&self) -> bool {
        self.cluster.cut_off()
    }

    /// How this daemon stands among the others.
    pub(crate) fn membership(&self) -> api::Membership {
        let status = self.cluster.status();
        let me = usize::from(status.me);
        api::Membership {
            name: self.name.clone(),
            me: self.members.get(me).cloned().unwrap_or_default(),
            in_view: status.members.get(me).is_some_and(|me| me.in_view),
            cut_off: status.cut_off,
            present: status.members.iter().filter(|member| member.in_view).count(),
            members: status.members.len(),
            failed: status.failed,
        }
    }

    /// How the cluster is.
    pub(crate) fn status(&self, accord: &Accord) -> api::Cluster {
        let status = self.cluster.status();
        let name = |member: u8| self.members.get(usize::from(member)).cloned();
        let in_view = |member: &&MemberStatus| member.in_view;
        api::Cluster {
            name: self.name.clone(),
            me: name(status.me).unwrap_or_default(),
            epoch: status.view.epoch,
            in_view: status.members.get(usize::from(status.me)).is_some_and(|me| me.in_view),
            cut_off: status.cut_off,
            present: status.members.iter().filter(in_view).count(),
            leader: status.leader.and_then(name),
            term: status.term,
            members: status.members.iter().map(of_member).collect(),
            refused: status.refused.iter().map(|(why, count)| (why.name().to_owned(), count)).collect(),
            lost: status.lost,
            failed: status.failed,
            leases: of_accord(accord, status.cut_off),
            fetches: accord.fetches.counted(),
            shares: of_shares(accord),
        }
    }
}

fn of_shares(accord: &Accord) -> api::Shares {
    let Sharing { told, heard, refused, largest } = &*accord.sharing;
    api::Shares {
        told: told.get(),
        heard: heard.get(),
        refused: refused.get(),
        lag_ms: accord.share_age().as_millis_f64(),
        bytes: largest.get(),
    }
}

fn of_accord(accord: &Accord, cut_off: bool) -> api::Leases {
    let Standing { acts, leased_for, pending, holds, waiting, longest, blocked, counts, .. } = accord.standing();
    api::Leases {
        live_ms: leased_for.as_millis_f64(),
        blocked: blocked.then(|| "a member in the view has another configuration".to_owned()),
        acts: acts && !cut_off,
        pending,
        waiting,
        longest_ms: longest.as_millis_f64(),
        announced: counts.announced,
        held: counts.held,
        holds,
        permitted: counts.permitted,
        wait_mean_ms: counts.waited.as_millis_f64() / counts.permitted.max(1) as f64,
        wait_max_ms: counts.waited_max.as_millis_f64(),
        refused: counts.refused,
        marked: counts.marked,
        flushed: counts.flushed,
        messages: counts.messages,
        frames: counts.frames,
        malformed: counts.malformed,
    }
}

fn of_member(member: &MemberStatus) -> api::Member {
    let millis = |span: Duration| span.as_secs_f64() * 1e3;
    api::Member {
        name: member.name.clone(),
        address: member.address.to_string(),
        witness: member.witness,
        incarnation: member.incarnation.map(|incarnation| format!("{incarnation:016x}")),
        up: member.up,
        in_view: member.in_view,
        leaving: member.leaving,
        same_config: member.same,
        epoch: member.epoch,
        version: member.version,
        software: member.software.clone(),
        unequal: member.unequal.as_ref().map(speaks),
        rtt_ms: member.rtt.map(millis),
        silent_ms: member.silent.map(millis),
        frames_sent: member.traffic.frames_sent,
        bytes_sent: member.traffic.bytes_sent,
        frames_received: member.traffic.frames_received,
        bytes_received: member.traffic.bytes_received,
        datagrams_sent: member.traffic.datagrams_sent,
        datagrams_received: member.traffic.datagrams_received,
    }
}

fn settings(config: &Config, cluster: &config::Cluster) -> io::Result<Settings> {
    let span = |span: midas_core::time::Span| Duration::from_nanos(span.as_nanos());
    let member = |member: &config::ClusterMember| Member {
        name: member.name.clone(),
        address: member.address,
        witness: member.witness,
    };
    let suspect_after = span(cluster.suspect_after);
    Ok(Settings {
        name: cluster.name.clone(),
        me: cluster.me.clone(),
        listen: cluster.listen,
        members: cluster.members.iter().map(member).collect(),
        key: Key::load(&cluster.key_file)?,
        state_dir: config.state().file.parent().map_or_else(PathBuf::new, Into::into),
        digest: digest(config),
        versions: VERSION..=VERSION,
        software: env!("CARGO_PKG_VERSION").to_owned(),
        suspect_after,
        heartbeat: suspect_after / BEATS,
    })
}

/// Of what must be equal at all members: servers, exports, who the members are, and the term of leases. Not where they are: a member is known
/// by its name and the key, and paths to it may differ.
fn digest(config: &Config) -> [u8; 32] {
    let shared = |entry: &config::Entry| match entry.place.table {
        Table::Pool | Table::Export | Table::Subtree => true,
        Table::Cluster => matches!(entry.key, "name" | "lease"),
        Table::Top
        | Table::Listen
        | Table::Cache
        | Table::Limits
        | Table::Log
        | Table::Admin
        | Table::Watch
        | Table::State => false,
    };
    let lines = config.entries().into_iter().filter(shared);
    let lines = lines.map(|entry| format!("{} {} {}\n", entry.place, entry.key, entry.value));
    let members = config.cluster().into_iter().flat_map(|cluster| &cluster.members);
    let members = members.map(|member| format!("{} {}\n", member.name, member.witness));
    midas_cluster::digest(&lines.chain(members).collect::<String>())
}

impl Shared {
    /// Belongs to a cluster from now on.
    pub(crate) fn join(&self, peers: Peers) {
        assert!(self.peers.set(peers).is_ok(), "a daemon joins once");
    }

    /// The cluster that it belongs to, if it is not alone.
    pub(crate) fn peers(&self) -> Option<&Peers> {
        self.peers.get()
    }
}

/// Says what changes, and passes it on.
struct Listener<A> {
    names: Vec<String>,
    above: A,
}

impl<A: Above> Above for Listener<A> {
    fn view(&mut self, view: &View) {
        let names: Vec<&str> = view
            .members
            .iter()
            .filter_map(|(member, _)| Some(self.names.get(usize::from(*member))?.as_str()))
            .collect();
        log::info("a view of the cluster", &[("epoch", &view.epoch), ("members", &names.join(" "))]);
        self.above.view(view);
    }

    fn frame(&mut self, from: u8, incarnation: u64, version: u16, bytes: &[u8]) {
        self.above.frame(from, incarnation, version, bytes);
    }

    fn datagram(&mut self, from: u8, incarnation: u64, bytes: &[u8]) {
        self.above.datagram(from, incarnation, bytes);
    }

    fn link(&mut self, peer: u8, link: Link) {
        let name = self.names.get(usize::from(peer)).map_or("", String::as_str);
        match link {
            Link::Up { .. } => log::info("a member is reached", &[("member", &name)]),
            Link::Down => log::warn("a member is not reached", &[("member", &name)]),
        }
        self.above.link(peer, link);
    }

    fn unequal(&mut self, peer: u8, unequal: &Unequal) {
        let name = self.names.get(usize::from(peer)).map_or("", String::as_str);
        let (theirs, ours) = (speaks(unequal), VERSION);
        log::error("a member is of another version", &[("member", &name), ("it", &theirs), ("ours", &ours)]);
        self.above.unequal(peer, unequal);
    }

    fn tick(&mut self) -> Option<Instant> {
        self.above.tick()
    }
}

/// What a member says of itself that we do not understand.
fn speaks(unequal: &Unequal) -> String {
    let Unequal { versions, software } = unequal;
    match versions.start() == versions.end() {
        true => format!("speaks version {} (midas {software})", versions.start()),
        false => format!("speaks versions {} to {} (midas {software})", versions.start(), versions.end()),
    }
}

/// Of what members say to each other above frames and datagrams: another one whenever they would
/// misread each other. Since 2 a call is known by a digest under the cluster's key.
const VERSION: u16 = 2;
/// Heartbeats in `suspect_after`.
const BEATS: u32 = 12;
/// How often it is looked whether the others have agreed.
const LOOK: Duration = Duration::from_millis(10);
