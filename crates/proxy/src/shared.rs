//! What all event loops share, and everyone beside them.

use crate::accord::Accord;
use crate::clock::Clock;
use crate::counters::{Count, Tally};
use crate::event::Asker;
use crate::mountd::Mountd;
use crate::peers::Peers;
use crate::pool::Pool;
use crate::realm::Realm;
use crate::wakes::Wakes;
use crate::watch::Watch;
use crate::whose::Whose;
use midas_net::{Budget, Replays};
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
        accord: Option<Arc<Accord>>,
    ) -> Self {
        let areas = exports.iter().map(|export| export.areas.iter().len()).sum();
        let links = pools.iter().map(|pool| pool.links()).sum();
        let tallies = (0..loops).map(|_| Tally::new(areas, links)).collect();
        let replays = std::array::from_fn(|_| Mutex::default());
        let number = |export: &Realm| pools.iter().position(|pool| Arc::ptr_eq(pool, &export.pool)).unwrap_or_default();
        let whose = Whose::new(&exports.iter().map(number).collect::<Vec<_>>());
        let memory = Budget::new(limits.memory);
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
            replays,
            accord,
        }
    }

    /// The duplicate requests of calls with this xid.
    pub(crate) fn replays(&self, xid: u32) -> MutexGuard<'_, Replays<Asker>> {
        self.replays[(xid / IN_A_ROW) as usize % REPLAYS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks of the duplicate request cache.
const REPLAYS: usize = 16;
/// Calls with consecutive xids that have the same lock: clients count, and what lies together is in the processor's cache together.
const IN_A_ROW: u32 = 64;
