//! What all event loops share, and everyone beside them.

use crate::accord::Accord;
use crate::client_table::{Caps, ClientTable};
use crate::clock::{Clock, duration};
use crate::counters::{Count, Tally};
use crate::event::Asker;
use crate::exclusive::Turns;
use crate::intents::Intents;
use crate::made::Made;
use crate::mountd::Mountd;
use crate::peers::Peers;
use crate::pool::Pool;
use crate::presence::Presence;
use crate::realm::Realm;
use crate::unresolved::Room;
use crate::wakes::Wakes;
use crate::watch::Watch;
use crate::whose::{Place, Whose};
use midas_net::{Budget, CallId, RecordKey, Replays, Terms};
use midas_nfs::nfs3::Procedure;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// What all event loops share.
pub(crate) struct Shared {
    pub(crate) pools: Vec<Arc<Pool>>,
    /// In the order of the configuration.
    pub(crate) exports: Vec<Realm>,
    pub(crate) whose: Whose,
    pub(crate) mountd: Mountd,
    pub(crate) limits: crate::config::Limits,
    /// Bytes of calls and answers under way.
    pub(crate) memory: Budget,
    /// Bytes of strangers' unfinished records.
    pub(crate) stranger_memory: Budget,
    pub(crate) client_table: ClientTable,
    /// Set when no more calls are read, and the daemon ends when those under way are answered.
    pub(crate) draining: AtomicBool,
    pub(crate) stop: AtomicBool,
    pub(crate) started: Instant,
    pub(crate) clock: Clock,
    /// What each event loop counts.
    pub(crate) tallies: Box<[Tally]>,
    /// Clients that found no place; counted by the acceptor.
    pub(crate) turned_away: Count,
    /// What can be seen of all this from outside.
    pub(crate) watch: Watch,
    /// Whether somebody has a cache filled: one at a time.
    pub(crate) warming: AtomicBool,
    /// The cluster that it belongs to.
    pub(crate) peers: OnceLock<Peers>,
    /// Whose turn it is at a name.
    pub(crate) wakes: Arc<Wakes>,
    /// Which clients are there.
    pub(crate) presence: Presence,
    /// What calls are known by in this process.
    digests: RecordKey,
    /// Whose turn it is at what calls change.
    pub(crate) turns: Arc<Turns>,
    /// The objects that answered calls have made lately.
    pub(crate) made: Made,
    /// What must not be executed twice, on disk, if the configuration says so.
    pub(crate) intents: OnceLock<Intents>,
    replays: [Mutex<Replays<Asker>>; REPLAYS],
    accord: Option<Arc<Accord>>,
}

impl Shared {
    /// The other proxies, if there are such.
    pub(crate) const fn accord(&self) -> Option<&Arc<Accord>> {
        self.accord.as_ref()
    }

    pub(crate) fn new(
        pools: Vec<Arc<Pool>>,
        exports: Vec<Realm>,
        mountd: Mountd,
        limits: crate::config::Limits,
        loops: usize,
        (accord, objects): (Option<Arc<Accord>>, Option<&Path>),
    ) -> Self {
        let areas = exports.iter().map(|export| export.areas.iter().len()).sum();
        let links = pools.iter().map(|pool| pool.links()).sum();
        let tallies = (0..loops).map(|_| Tally::new(areas, links)).collect();
        let terms = Terms { kept: duration(limits.answers_kept), ..Terms::of_one_in(REPLAYS) };
        let replays = std::array::from_fn(|_| Mutex::new(Replays::new(terms)));
        let presence = Presence::new(loops, limits.connections);
        let number = |export: &Realm| pools.iter().position(|pool| Arc::ptr_eq(pool, &export.pool)).unwrap_or_default();
        let place = |export: &Realm| {
            let (rules, name) = (export.rules(), export.areas.own().cached.name());
            Place { pool: number(export), path: rules.path.clone(), source: rules.source.clone(), name }
        };
        let whose = Whose::new(exports.iter().map(place).collect(), objects);
        let (memory, stranger_memory) = (Budget::new(limits.memory), Budget::new(STRANGER_RECORDS * limits.record));
        let wakes = Arc::new(Wakes::new(loops.max(1)));
        for export in &exports {
            export.areas.wake_by(&wakes);
        }
        let clock = pools.first().map_or_else(Clock::new, |pool| pool.clock);
        let (draining, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        let (started, turned_away) = (Instant::now(), Count::default());
        Self {
            pools,
            exports,
            whose,
            mountd,
            limits,
            memory,
            stranger_memory,
            client_table: ClientTable::default(),
            draining,
            stop,
            started,
            clock,
            tallies,
            turned_away,
            watch: Watch::new(loops),
            warming: AtomicBool::new(false),
            peers: OnceLock::new(),
            wakes,
            presence,
            digests: RecordKey::random(),
            turns: Arc::default(),
            made: Made::default(),
            intents: OnceLock::new(),
            replays,
            accord,
        }
    }

    /// Whether an address is on any export's list.
    pub(crate) fn listed(&self, client: IpAddr) -> bool {
        self.exports.iter().any(|export| export.rules().admits(client))
    }

    /// How many client connections there may be.
    pub(crate) const fn caps(&self) -> Caps {
        Caps { connections: self.limits.connections, strangers: self.limits.strangers }
    }

    /// Bytes of calls that may wait in one event loop until something is resolved.
    pub(crate) fn room_for_unresolved(&self) -> Room {
        let share = |part: usize| (self.limits.memory / part / self.tallies.len().max(1)).max(2 * self.limits.record);
        Room { of_address: share(UNRESOLVED_OF_ADDRESS), of_all: share(UNRESOLVED) }
    }

    /// What a client's record is known by.
    pub(crate) fn call_id(&self, client: IpAddr, procedure: Procedure, record: &[u8]) -> CallId {
        CallId::new(&self.digests, client, procedure, record)
    }

    /// The duplicate requests of calls with this xid.
    pub(crate) fn replays(&self, xid: u32) -> MutexGuard<'_, Replays<Asker>> {
        self.replays[(xid / IN_A_ROW) as usize % REPLAYS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Large records of strangers that are read at once.
const STRANGER_RECORDS: usize = 4;
/// The parts of the memory that calls may take which wait until something is resolved: in all, and of one address.
const UNRESOLVED: usize = 4;
const UNRESOLVED_OF_ADDRESS: usize = 16;
/// Locks of the duplicate request cache.
const REPLAYS: usize = 16;
/// Calls with consecutive xids that have the same lock: clients count, and what lies together is in the processor's cache together.
const IN_A_ROW: u32 = 64;
