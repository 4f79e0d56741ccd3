//! `/metrics`: what is counted, and what it is called (docs/metrics.md). Nothing is counted for it alone: a scrape reads and adds up.
//!
//! Labels are what the configuration names (exports, pools, servers, members) and fixed words. Clients, users and directories never are: the
//! number of series does not grow with them.

use super::cache::caching;
use super::openmetrics::{self, Page};
use super::status::{bypassed, unserved, writes_hang};
use crate::api::{Caching, Cluster, Fetches, Leases, Member, Shares};
use crate::cached::{Area, Kind};
use crate::counters::{BUCKETS, Bytes, Duplicate, Fate, Refused, Status, Timed, Totals, reads, served};
use crate::event::Shared;
use crate::pool::{Pool, lock};
use crate::realm::Realm;
use crate::watch::Outcome;
use midas_core::cache::Mode;
use midas_core::control::hysteresis::Band;
use midas_core::control::knobs::Knobs;
use midas_core::control::signal::Signals;
use midas_core::decision::{Exclusion, Why};
use midas_core::health::Health;
use midas_core::id::ServerId;
use midas_core::route::feasible::Bound;
use midas_core::servers::Servers;
use midas_nfs::nfs3::Procedure;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// All metrics, in the format that whoever asks reads, and its type.
pub(super) fn text(shared: &Arc<Shared>, accepts: &str) -> (&'static str, String) {
    match accepts.contains(openmetrics::OPEN) {
        true => (openmetrics::OPEN_TYPE, open(shared)),
        false => (openmetrics::CLASSIC_TYPE, openmetrics::classic(&open(shared))),
    }
}

fn open(shared: &Arc<Shared>) -> String {
    let mut registry = Registry::with_prefix("midas");
    registry.register_collector(Box::new(Scrape(Arc::clone(shared))));
    let mut out = String::new();
    text::encode(&mut out, &registry).expect("a string takes everything");
    out
}

struct Scrape(Arc<Shared>);

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (shared, totals) = (&*self.0, Totals::of(&self.0.tallies));
        let mut page = Page(encoder);
        of_daemon(&mut page, shared, &totals)?;
        of_calls(&mut page, &totals)?;
        of_decisions(&mut page, shared, &totals)?;
        of_controllers(&mut page, shared)?;
        of_caches(&mut page, shared)?;
        of_clients(&mut page, shared, &totals)?;
        of_owners(&mut page, shared)?;
        of_servers(&mut page, shared)?;
        match shared.peers().zip(shared.accord()) {
            Some((peers, accord)) => of_cluster(&mut page, &peers.status(accord)),
            None => Ok(()),
        }
    }
}

fn of_daemon(page: &mut Page<'_>, shared: &Shared, totals: &Totals) -> fmt::Result {
    let version = [([("version", env!("CARGO_PKG_VERSION"))], 1_u64)];
    page.gauges("build_info", "The version that runs", version)?;
    page.gauge("uptime_seconds", "How long the daemon runs", shared.started.elapsed().as_secs())?;
    page.gauge("ready", "Whether every export has a server", u64::from(unserved(shared).is_empty()))?;
    let writes = unserved(shared).is_empty() && writes_hang(shared, totals).is_empty();
    page.gauge("writes_ready", "Whether changes of every export are served and none hangs", u64::from(writes))?;
    page.gauge("bypass", "Whether every call goes to its home", u64::from(bypassed(shared)))
}

fn of_calls(page: &mut Page<'_>, totals: &Totals) -> fmt::Result {
    let procedures = || (0..).map_while(Procedure::from_number).zip(&totals.calls);
    let calls = procedures().flat_map(|(procedure, counts)| {
        let labels = move |status| [("procedure", procedure.name()), ("status", status)];
        Status::ALL.iter().zip(counts).map(move |((_, status), count)| (labels(*status), *count))
    });
    page.counters("calls", "NFS calls answered, by procedure and by how they ended", calls)?;
    let procedures = (0..).map_while(Procedure::from_number).zip(totals.outcomes.iter().zip(totals.misses));
    let answers = procedures.flat_map(|(procedure, (counts, misses))| {
        let labels = move |outcome| [("procedure", procedure.name()), ("outcome", outcome)];
        let others = Outcome::NAMES.into_iter().zip(counts).map(move |(outcome, count)| match outcome {
            "forwarded" => (labels(outcome), count - misses),
            _ => (labels(outcome), *count),
        });
        others.chain([(labels("miss"), misses)])
    });
    page.counters("answers", "The same calls, by procedure and by who answered", answers)?;
    of_latency(page, totals)?;
    let duplicates = Duplicate::ALL.iter().zip(&totals.duplicates).map(|((_, found), n)| ([("found", *found)], *n));
    page.counters("duplicates", "Calls that came again and were not executed again", duplicates)
}

/// Of what has happened: a procedure that nobody called has no series.
fn of_latency(page: &mut Page<'_>, totals: &Totals) -> fmt::Result {
    let all = (0..).map_while(Procedure::from_number).zip(&totals.latency).flat_map(|(procedure, spreads)| {
        Timed::ALL.into_iter().zip(spreads).map(move |((timed, outcome), spread)| (procedure, timed, outcome, *spread))
    });
    let some = all.filter(|(.., spread)| spread.count() > 0);
    let (hits, calls): (Vec<_>, Vec<_>) = some.partition(|(_, timed, ..)| *timed == Timed::Hit);
    let calls =
        calls.iter().map(|(of, _, outcome, spread)| ([("procedure", of.name()), ("outcome", *outcome)], *spread));
    page.histograms("call_duration_seconds", "From a call's arrival to its answer: no hits", &BUCKETS, calls)?;
    let hits = hits.iter().map(|(of, _, _, spread)| ([("procedure", of.name())], *spread));
    let help = "The same of hits, of a sample: as a rule one in 128, so its count is not that of the hits";
    page.histograms("hit_duration_seconds", help, &BUCKETS, hits)
}

fn of_decisions(page: &mut Page<'_>, shared: &Shared, totals: &Totals) -> fmt::Result {
    let paths: Vec<String> = shared.exports.iter().map(|export| export.rules().path.clone()).collect();
    let routes = paths.iter().zip(&shared.exports).flat_map(|(path, export)| {
        Why::NAMES.iter().zip(export.routes()).map(|(why, count)| ([("export", path.as_str()), ("why", *why)], count))
    });
    page.counters("routes", "Calls sent to a server, by why they went there", routes)?;
    let bound = paths.iter().zip(&shared.exports).flat_map(|(path, export)| {
        Bound::NAMES.iter().zip(export.binds()).map(|(by, count)| ([("export", path.as_str()), ("by", *by)], count))
    });
    page.counters("bound", "Calls sent to the only server that might serve them, by what bound them", bound)?;
    let now = Instant::now();
    let fences = paths.iter().zip(&shared.exports);
    let fences = fences.map(|(path, export)| ([("export", path.as_str())], export.fences(now) as f64));
    page.gauges("fences", "Names and objects that one server alone may answer for, after a change", fences)?;
    let holds = Exclusion::ALL.iter().zip(&totals.holds).map(|(why, count)| ([("reason", why.name())], *count));
    page.counters("holds", "Calls that began to wait because no server may serve them", holds)?;
    page.gauge("held", "Calls that wait for a server now", totals.held)?;
    let unresolved = totals.unresolved;
    page.gauge("unresolved", "Calls that wait until the export of their handle or a name is known", unresolved)?;
    page.counter("unresolved_given_up", "Calls answered JUKEBOX since that was not known in time", totals.given_up)?;
    if let Some(journal) = super::status::journal(shared) {
        page.gauge("journal_broken", "Whether calls wait that cannot be written down", u64::from(journal.broken))?;
        page.counter("journal_written", "Entries of calls that must not be executed twice", journal.written)?;
        page.counter("journal_refused", "Times that a call waited because it could not be written", journal.refused)?;
        page.counter("journal_anew", "Times that a file could be written again after it could not", journal.anew)?;
        page.counter("journal_recalled", "Calls of the life before that came again", journal.recalled)?;
    }
    let refusals = Refused::ALL.iter().zip(&totals.refusals).map(|((_, why), count)| ([("reason", *why)], *count));
    page.counters("refusals", "Calls refused without asking a server", refusals)
}

/// What the controllers see and turn.
fn of_controllers(page: &mut Page<'_>, shared: &Shared) -> fmt::Result {
    let of = |export: &Realm| {
        let controller = lock(&export.controller);
        let aims = controller.targets().is_some();
        (export.rules().path.clone(), controller.knobs(), controller.signals(), aims)
    };
    let all: Vec<(String, Knobs, Signals, bool)> = shared.exports.iter().map(of).collect();
    let knobs = all.iter().flat_map(|(path, knobs, ..)| {
        shown(knobs).into_iter().map(move |(knob, value)| ([("export", path.as_str()), ("knob", knob)], value))
    });
    page.gauges("knob", "Where a knob stands", knobs)?;
    let turns = all.iter().zip(&shared.exports).flat_map(|((path, ..), export)| {
        let labels = move |knob, way| [("export", path.as_str()), ("knob", knob), ("direction", way)];
        export.turns.each().map(move |(knob, way, count)| (labels(knob, way), count))
    });
    page.counters("actuations", "Times that a knob was turned", turns)?;
    let aims = all.iter().filter(|(.., aims)| *aims);
    let pressure = aims.map(|(path, _, signals, _)| ([("export", path.as_str())], signals.pressure));
    page.gauges("pressure", "How far imbalance and tail latency are past their targets", pressure)?;
    let [low, high] = Band::PAPER.thresholds();
    let sides = [([("side", "low")], low), ([("side", "high")], high)];
    page.gauges(
        "pressure_threshold",
        "Knobs turn while the pressure stays below the low or above the high one",
        sides,
    )?;
    let imbalance = all.iter().map(|(path, _, signals, _)| ([("export", path.as_str())], signals.imbalance));
    page.gauges("imbalance", "Standard deviation of the servers' smoothed queues, as a share of their mean", imbalance)
}

/// Every knob by the word that users read.
fn shown(knobs: &Knobs) -> [(&'static str, f64); 9] {
    [
        ("choices", knobs.choices.into()),
        ("margin_load", knobs.margin_load.as_f64()),
        ("margin_latency_ms", knobs.margin_latency.as_millis_f64()),
        ("steer_share", knobs.steer_share.as_f64()),
        ("pin_ms", knobs.pin.as_millis_f64()),
        ("steering", u8::from(knobs.steering).into()),
        ("caching", u8::from(knobs.caching).into()),
        ("gap", knobs.gap.as_f64()),
        ("width_min", knobs.width_min.into()),
    ]
}

fn of_caches(page: &mut Page<'_>, shared: &Shared) -> fmt::Result {
    let areas: Vec<_> =
        shared.exports.iter().flat_map(|export| export.areas.iter().map(move |area| (export, area))).collect();
    let of = |(export, area): &(&Realm, &Area)| (area.path.clone(), area.cached.mode(), caching(shared, export, area));
    let caches: Vec<_> = areas.iter().map(of).collect();
    let counts: Vec<_> = areas.iter().map(|(_, area)| reads(&shared.tallies, area.number)).collect();
    let fates = caches.iter().zip(&counts).flat_map(|((path, ..), reads)| {
        CACHED.into_iter().flat_map(move |procedure| {
            let labels = move |fate| [("export", path.as_str()), ("procedure", procedure.name()), ("fate", fate)];
            Fate::ALL.iter().zip(reads[procedure as usize]).map(move |((_, fate), count)| (labels(*fate), count))
        })
    });
    page.counters("cache_reads", "Reads that a cache was asked for, by what became of them", fates)?;
    let modes = caches.iter().flat_map(|(path, mode, _)| {
        Mode::ALL.into_iter().map(move |it| ([("export", path.as_str()), ("mode", it.name())], u64::from(it == *mode)))
    });
    page.gauges("cache_mode", "1 for the mode that is in force", modes)?;
    let each = |value: fn(&Caching) -> u64| {
        caches.iter().map(move |(path, _, cache)| ([("export", path.as_str())], value(cache)))
    };
    page.gauges("cache_demoted", "Whether a cache was put back to strict", each(|it| it.demoted.is_some().into()))?;
    page.gauges("cache_entries", "Keys that a cache remembers", each(|it| it.entries))?;
    page.gauges("cache_bytes", "What the values in a cache take", each(|it| it.bytes))?;
    let learn = areas.iter().filter(|(_, area)| area.cached.mode() == Mode::Ttl);
    let lives = learn.flat_map(|(_, area)| {
        let labels = move |kind: Kind| [("export", area.path.as_str()), ("kind", kind.name())];
        Kind::ALL.into_iter().map(move |kind| (labels(kind), area.cached.ttl(kind).as_millis_f64() / 1e3))
    });
    page.gauges("cache_ttl_seconds", "For how long entries live in ttl mode", lives)?;
    page.counters("cache_kept", "Replies and parts of them that were kept", each(|it| it.kept))?;
    let refused = caches.iter().flat_map(|(path, _, cache)| {
        cache.refused.iter().map(move |(why, count)| ([("export", path.as_str()), ("reason", why.as_str())], *count))
    });
    page.counters("cache_refused", "Replies and parts of them that were not kept, by reason", refused)?;
    page.gauges("cache_checked", "Answers compared with the server's since the mode was set", each(|it| it.checked))?;
    page.gauges("cache_different", "Those that were not what the server answered", each(|it| it.different))
}

fn of_clients(page: &mut Page<'_>, shared: &Shared, totals: &Totals) -> fmt::Result {
    page.gauge("client_connections", "Client connections now", totals.welcomed - totals.ended)?;
    page.counter("client_connections_accepted", "Client connections taken", totals.welcomed)?;
    let (_, strangers) = shared.client_table.connections();
    page.gauge("stranger_connections", "Connections of clients on no export's list", strangers as u64)?;
    let turned = shared.turned_away.get() + totals.turned_away;
    page.counter("client_connections_refused", "Client connections closed at once, at the limit", turned)?;
    let replaced = totals.replaced;
    page.counter("client_connections_replaced", "Idle client connections ended for new ones, at the limit", replaced)?;
    let bytes = Bytes::ALL.iter().zip(&totals.bytes).map(|((_, way), count)| ([("way", *way)], *count));
    page.counters("bytes", "Bytes of records relayed", bytes)
}

/// Labels are the ways in which an owner is found, which are fixed.
fn of_owners(page: &mut Page<'_>, shared: &Shared) -> fmt::Result {
    let ways = shared.whose.counts.ways().map(|(way, count)| ([("found", way)], count));
    page.counters("handle_owners", "Handles of clients whose export was not known at once, by how it was found", ways)?;
    let unsaved = shared.whose.objects.unsaved();
    page.counter("objects_unsaved", "Names of files that could not be kept on disk", unsaved)
}

fn of_servers(page: &mut Page<'_>, shared: &Shared) -> fmt::Result {
    let of_pool = |pool: &'_ Arc<Pool>| {
        let pool = Arc::clone(pool);
        pool.servers.ids().map(move |server| (Arc::clone(&pool), server)).collect::<Vec<_>>()
    };
    let servers: Vec<(Arc<Pool>, ServerId)> = shared.pools.iter().flat_map(of_pool).collect();
    let each = |value: fn(&Servers, ServerId) -> u64| {
        servers.iter().map(move |(pool, server)| (labels(pool, *server), value(&pool.servers, *server)))
    };
    page.gauges("server_in_flight", "Calls under way at a server", each(|it, at| it.in_flight(at).into()))?;
    let queues = servers.iter().map(|(pool, at)| (labels(pool, *at), pool.servers.load(*at).as_f64()));
    page.gauges("server_queue", "The same, and what other members have there as they last told", queues)?;
    page.counters("server_calls", "Calls sent to a server", each(|it, at| it.dispatched(at).into()))?;
    page.counters("server_homed", "Calls whose home a server is", each(|it, at| it.homed(at).into()))?;
    let took = servers.iter().map(|(pool, at)| (labels(pool, *at), served(&shared.tallies, pool.links_of(*at).start)));
    page.histograms("server_duration_seconds", "From a call's departure to its server's answer", &FEW, took)?;
    let states = servers.iter().flat_map(|(pool, server)| {
        let [pool_label, server_label] = labels(pool, *server);
        let is = |state: Health| u64::from(pool.servers.health(*server) == state);
        Health::ALL.into_iter().map(move |state| ([pool_label, server_label, ("state", state.name())], is(state)))
    });
    page.gauges("server_health", "1 for the state that a server is in", states)?;
    let connects = servers.iter().map(|(pool, server)| (labels(pool, *server), pool.connects(*server)));
    page.counters("server_connects", "Connections made to a server", connects)?;
    let fences = servers.iter().flat_map(|(pool, server)| {
        let results = ["fenced", "failed"].into_iter().zip(pool.fences(*server));
        let [first, second] = labels(pool, *server);
        results.map(move |(result, count)| ([first, second, ("result", result)], count))
    });
    page.counters("server_fences", "Ends of the command that fences a server, by its result", fences)
}

fn labels(pool: &Pool, server: ServerId) -> [(&str, &str); 2] {
    [("pool", pool.config.name.as_str()), ("server", pool.server(server).name.as_str())]
}

/// Labels are members, at most 16 of them, and reasons, which are fixed.
fn of_cluster(page: &mut Page<'_>, cluster: &Cluster) -> fmt::Result {
    let each = |value: fn(&Member) -> u64| {
        cluster.members.iter().map(move |member| ([("member", member.name.as_str())], value(member)))
    };
    page.gauges("cluster_member_up", "Whether messages pass both ways", each(|it| it.up.into()))?;
    page.gauges("cluster_member_in_view", "Whether a member is in the view", each(|it| it.in_view.into()))?;
    let differs = |it: &Member| u64::from(it.in_view && it.same_config == Some(false));
    let differing = cluster.members.iter().map(differs).sum::<u64>();
    page.gauge("cluster_differing", "Members in the view whose configuration is another one", differing)?;
    page.gauge("cluster_view_epoch", "The number of the view", cluster.epoch)?;
    page.gauge("cluster_in_view", "Whether this daemon is in the view", u64::from(cluster.in_view))?;
    page.gauge(
        "cluster_cut_off",
        "Whether it hears no majority, so that the view may be old",
        u64::from(cluster.cut_off),
    )?;
    let refused = cluster.refused.iter().map(|(why, count)| ([("reason", why.as_str())], *count));
    page.counters("cluster_refused", "What came from the network and was refused, by reason", refused)?;
    page.counter("cluster_lost", "Frames and datagrams that had no way", cluster.lost)?;
    of_leases(page, &cluster.leases)?;
    let Fetches { asked, fetched, refused, late, lent, declined } = cluster.fetches;
    let fates = [
        ([("fate", "asked")], asked),
        ([("fate", "fetched")], fetched),
        ([("fate", "refused")], refused),
        ([("fate", "late")], late),
        ([("fate", "lent")], lent),
        ([("fate", "declined")], declined),
    ];
    page.counters("cluster_fetches", "Reads that members asked each other for", fates)?;
    let Shares { told, heard, refused, lag_ms, bytes } = cluster.shares;
    let ways = [([("way", "told")], told), ([("way", "heard")], heard), ([("way", "refused")], refused)];
    page.counters("cluster_shares", "Load shares", ways)?;
    page.gauge("cluster_share_bytes", "The largest load share that was told", bytes)?;
    page.gauge("cluster_share_lag_seconds", "How old a change of load is on average when it is told", lag_ms / 1e3)
}

fn of_leases(page: &mut Page<'_>, leases: &Leases) -> fmt::Result {
    page.gauge("cluster_leased", "Whether answers may come from the cache", u64::from(leases.live_ms > 0.0))?;
    page.gauge("cluster_acts", "Whether mutations may leave", u64::from(leases.acts))?;
    page.gauge("cluster_waiting", "Mutations that wait for other members now", leases.waiting as u64)?;
    page.gauge("cluster_waiting_longest_seconds", "For how long the first of them has", leases.longest_ms / 1e3)?;
    page.gauge("cluster_pending", "Mutations in the cluster that are not over", leases.pending as u64)?;
    page.gauge("cluster_holds", "Keys under write pressure that are held", leases.holds as u64)?;
    page.counter("cluster_announced", "Mutations announced", leases.announced)?;
    page.counter("cluster_held", "Mutations that left under a hold, without an announcement", leases.held)?;
    page.counter("cluster_permitted", "Announcements that the others let through", leases.permitted)?;
    let waited = leases.wait_mean_ms / 1e3 * leases.permitted as f64;
    page.counter("cluster_wait_seconds", "How long those waited in all", waited)?;
    page.counter("cluster_announcements_refused", "Announcements that were refused", leases.refused)?;
    page.counter("cluster_marked", "Mutations of others that were marked here", leases.marked)?;
    page.counter("cluster_flushed", "Times that all was forgotten because leases were lost", leases.flushed)?;
    page.counter("cluster_messages", "Messages said to other members", leases.messages)?;
    page.counter("cluster_frames", "Frames that they went in", leases.frames)?;
    page.counter("cluster_malformed", "Messages of others that could not be read", leases.malformed)
}

/// What a cache may be asked for.
const CACHED: [Procedure; 8] = [
    Procedure::Getattr,
    Procedure::Lookup,
    Procedure::Access,
    Procedure::Readlink,
    Procedure::Readdir,
    Procedure::Readdirplus,
    Procedure::Fsinfo,
    Procedure::Pathconf,
];
/// Upper bounds of the buckets that are shown of each server, in microseconds: some of [`BUCKETS`].
const FEW: [u64; 12] = [250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Proxy;
    use crate::config::Config;
    use crate::dispatch::{self, Batch, Forward, Moment, Origin, Taken};
    use crate::event::Asker;
    use crate::fetching::Loans;
    use crate::link::Flight;
    use crate::realm::Wishes;
    use crate::relay::{Relay, Waits};
    use midas_core::time::Time;
    use midas_net::{Buffers, Caller, Purse};
    use midas_nfs::nfs3::{self, Fattr3, FileHandle, Ftype3, Nfstime3, Reply, Specdata3};
    use midas_nfs::rpc::{self, OpaqueAuth, flavor};
    use slab::Slab;
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};
    use std::time::Instant;

    /// An event loop without sockets: what clients say is taken, and what must be asked of a server is answered as one would.
    struct Loop<'s> {
        shared: &'s Shared,
        memo: crate::cached::Memo,
        purse: Purse,
    }

    impl Loop<'_> {
        /// A client asks for attributes.
        fn getattr(&mut self, client: u32, handle: &[u8]) {
            let client = Ipv4Addr::from_bits(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + client);
            let (mut args, mut record) = (Vec::new(), Vec::new());
            let credential = Caller { uid: client.to_bits(), gid: 7, gids: Vec::new() }.encode(0, b"node");
            let call = nfs3::Call::Getattr { object: FileHandle::new(handle).unwrap() };
            call.encode(&mut args);
            let credential = OpaqueAuth { flavor: flavor::SYS, body: &credential };
            let (program, version, procedure) = (nfs3::PROGRAM, nfs3::VERSION, call.procedure() as u32);
            let verifier = OpaqueAuth::NONE;
            rpc::Call { xid: 1, program, version, procedure, credential, verifier, args: &args }.encode(&mut record);
            let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
            let (client, stranger, closed) = (SocketAddr::from((client, 700)), false, false);
            let origin = Origin { asker: ASKER, client, local, stranger, closed };
            let time = self.shared.clock.now();
            let (moment, mut out) = (Moment { instant: Instant::now(), time }, Vec::new());
            let mut batch = Batch::new(self.shared, 0, &mut self.memo);
            match dispatch::take(moment, self.shared, &origin, &mut batch, &record, &mut out) {
                Taken::Done => {}
                Taken::Forward(forward, None, claim) => self.relay(time, &forward, (claim, &record)),
                _ => panic!("neither answered nor forwarded"),
            }
        }

        /// Its server answers.
        fn relay(&mut self, now: Time, forward: &Forward, (claim, record): (Option<crate::claim::Claim>, &[u8])) {
            let Forward { xid, procedure, known, realm, owner, cost, whom, meaning } = *forward;
            let export = &self.shared.exports[realm];
            let sent = loop {
                if let Ok(sent) = export.send(now, &meaning, Wishes::default()) {
                    break sent;
                }
                // Nobody is at its address, and the keeper notices that.
                let servers = &export.pool.servers;
                servers.ids().for_each(|server| servers.set_health(now, server, Health::Up));
            };
            let waits = Waits { asker: ASKER, xid, procedure, known, cost, whom };
            let mut flight = Flight {
                waits,
                owner,
                realm,
                sent,
                since: now,
                sent_at: now,
                left: true,
                resent: false,
                reconnected: false,
                overdue: false,
                asked: false,
                tries: 0,
                claim,
                turn: None,
            };
            let mut reply = Vec::new();
            rpc::Reply::accept(&mut reply, xid);
            Reply::Getattr(Ok(Fattr3 { fileid: meaning.place.0, ..attributes() })).encode(&mut reply);
            self.purse.spend(cost);
            let mut relay = Relay {
                shared: self.shared,
                clients: &mut Slab::new(),
                buffers: &mut Buffers::new(),
                others: &[],
                number: 0,
                touched: &mut Vec::new(),
                purse: &mut self.purse,
                loans: &mut Loans::default(),
                now: std::time::Instant::now(),
            };
            relay.reply(now, "server", &mut flight, record, &reply);
        }
    }

    fn attributes() -> Fattr3 {
        let (time, ftype) = (Nfstime3 { seconds: 1, nseconds: 0 }, Ftype3::Dir);
        let rdev = Specdata3 { specdata1: 0, specdata2: 0 };
        let (mode, nlink, size) = (0o755, 2, 4096);
        let (uid, gid, used, fsid, fileid) = (0, 0, size, 1, 1);
        Fattr3 { ftype, mode, nlink, uid, gid, size, used, rdev, fsid, fileid, atime: time, mtime: time, ctime: time }
    }

    #[test]
    fn ten_thousand_clients_and_a_million_directories_add_no_line() {
        let text = "[listen]\nnfs = [\"127.0.0.1:0\"]\n[[pool]]\nname = \"p\"\nservers = [\"127.0.0.1:1\", \"127.0.0.2:1\"]\nstaleness = \"0s\"\n\
                    [[export]]\npath = \"/\"\npool = \"p\"\nclients = \"10.0.0.0/8\"\nwriters = \"midas-only\"\nmode = \"lease\"\n";
        let proxy = Proxy::start_member(&Config::parse(text).unwrap()).unwrap();
        let shared = &proxy.shared;
        let mut event_loop =
            Loop { shared, memo: crate::cached::Memo::default(), purse: Purse::new(shared.memory.clone()) };
        let mut all = |directories: std::ops::Range<u32>| {
            for number in directories {
                event_loop.getattr(number % CLIENTS, &number.to_be_bytes());
                // Of every eighth, another client asks too: a hit.
                if number % 8 == 0 {
                    event_loop.getattr((number + 1) % CLIENTS, &number.to_be_bytes());
                }
            }
        };
        let lines = || super::text(shared, "").1.lines().count();
        all(0..2_000);
        let before = lines();
        assert!(before > 100, "{before}");
        all(2_000..DIRECTORIES);
        let answers = Totals::of(&shared.tallies).outcomes[Procedure::Getattr as usize];
        let [hits, .., forwarded, _] = answers;
        assert_eq!(hits + forwarded, u64::from(DIRECTORIES / 8 + DIRECTORIES), "{answers:?}");
        // Two keys that share a place refuse each other's fills now and then.
        assert!(hits <= u64::from(DIRECTORIES / 8) && hits > u64::from(DIRECTORIES / 8) - 100, "{answers:?}");
        assert_eq!(lines(), before);
    }

    const ASKER: Asker = Asker { event_loop: 0, slot: 0, generation: 0 };
    const CLIENTS: u32 = 10_000;
    const DIRECTORIES: u32 = 1_000_000;
}
