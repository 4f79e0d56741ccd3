//! Dead servers are fenced by the administrator's command (`on_down` of a pool), so that nothing that was sent to them
//! can run late.
//!
//! One thread a pool, one server at a time: a server that took calls and has been down for half of `failover_after`,
//! while another server is open. The command has a bounded time and is tried a few times. If it succeeds, calls in
//! doubt at that server need not wait for `server_hold_max`.
//!
//! In a cluster the majority decides: members tell each other which servers they find down, and the command is run when
//! more than half of all that serve clients say so of a server. The first of those in the view runs it, and only while
//! it is with the majority.

use crate::accord::{Down, digest};
use crate::clock::duration;
use crate::event::Shared;
use crate::keeper::pause;
use crate::log;
use crate::pool::Pool;
use crate::watch::Said;
use crate::watch::labels::said_by;
use midas_core::health::Health;
use midas_core::id::ServerId;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Starts a thread for every pool that has a command; they end with the daemon.
pub(crate) fn start(shared: &Arc<Shared>) -> Vec<JoinHandle<()>> {
    let fenced = shared.pools.iter().enumerate().filter(|(_, pool)| pool.config.on_down.is_some());
    let start = |(number, _)| {
        let shared = Arc::clone(shared);
        thread::spawn(move || run(&shared, number))
    };
    fenced.map(start).collect()
}

/// What is known of a server that is down.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    down_since: Option<Instant>,
    tries: u32,
    next: Option<Instant>,
}

impl Seen {
    /// Whether its turn has come, by how it is now.
    fn is_due(&mut self, now: Instant, down: bool, wait: Duration) -> bool {
        if !down {
            *self = Self::default();
            return false;
        }
        let since = *self.down_since.get_or_insert(now);
        let again = self.next.is_none_or(|next| now >= next);
        now.saturating_duration_since(since) >= wait && self.tries < TRIES_MAX && again
    }
}

fn run(shared: &Shared, number: usize) {
    let pool = &shared.pools[number];
    let Some(command) = &pool.config.on_down else { return };
    let wait = duration(pool.config.failover_after) / 2;
    let mut seen = vec![Seen::default(); pool.config.servers.len()];
    let mut told = Told::default();
    while pause(shared, LOOK) {
        told.tell(shared, pool);
        for server in pool.servers.ids() {
            let down = pool.servers.health(server) == Health::Down && !idle(shared, (number, server), pool);
            let seen = &mut seen[server.index()];
            let due = seen.is_due(Instant::now(), down && !pool.fenced(server), wait);
            let another = pool.some_open(server.index() + 1).is_some_and(|other| other != server);
            if due && another && decides(shared, pool, server) {
                seen.tries += 1;
                fence(shared, (number, server), pool, command);
                seen.next = Some(Instant::now() + AGAIN);
            }
        }
    }
}

/// Whether a server was drained and has nothing left to run: it may be stopped by whoever drained it.
/// What other members have there is not known here.
fn idle(shared: &Shared, (number, server): (usize, ServerId), pool: &Pool) -> bool {
    let empty = || pool.servers.in_flight(server) == 0 && shared.turns.late_at((number, server)) == 0;
    shared.accord().is_none() && pool.drained(server) && empty()
}

/// What the other members were told last, and when.
#[derive(Default)]
struct Told {
    down: Vec<Down>,
    at: Option<Instant>,
}

impl Told {
    /// Tells them which servers are down, at once when that changes, and again and again while it is so.
    fn tell(&mut self, shared: &Shared, pool: &Pool) {
        let Some(accord) = shared.accord() else { return };
        let down = pool.servers.ids().filter(|server| pool.servers.health(*server) == Health::Down);
        let said = |server: ServerId| (digest(&pool.server(server).name), pool.connects(server) > 0);
        let (down, now): (Vec<Down>, _) = (down.map(said).collect(), Instant::now());
        let again = self.at.is_none_or(|at| now.saturating_duration_since(at) >= TELL);
        if down != self.down || (again && !down.is_empty()) {
            accord.tell_down(digest(&pool.config.name), &down);
            (self.down, self.at) = (down, Some(now));
        }
    }
}

/// Whether a server that is down is to be fenced, and by this daemon: a lone one, or the first of the view that serves,
/// when the majority of those that serve find it down.
fn decides(shared: &Shared, pool: &Pool, server: ServerId) -> bool {
    // One that never took a call has nothing to run late.
    let took = pool.connects(server) > 0;
    let Some(accord) = shared.accord() else { return took };
    let which = (digest(&pool.config.name), digest(&pool.server(server).name));
    let with_majority = shared.peers().is_some_and(|peers| !peers.cut_off());
    with_majority && (took || accord.took_calls(which)) && accord.leads_serving() && accord.agree_down(which)
}

fn fence(shared: &Shared, (number, server): (usize, ServerId), pool: &Pool, command: &str) {
    let of = pool.server(server);
    let address = of.address.to_string();
    let told = [("MIDAS_POOL", pool.config.name.as_str()), ("MIDAS_SERVER", &of.name), ("MIDAS_ADDRESS", &address)];
    log::warn("a server that is down is fenced", &[("server", &of.name), ("why", &pool.closed(server))]);
    let (begun, connects) = (Instant::now(), pool.connects(server));
    let done = said_by(command, &told, PATIENCE, &shared.stop);
    let took_ms = begun.elapsed().as_millis();
    // It may have come back meanwhile, and gone again: what it was sent then may run.
    let stayed_down = pool.servers.health(server) == Health::Down && pool.connects(server) == connects;
    let result = match &done {
        Ok(_) if stayed_down => {
            pool.set_fenced(server);
            let late = shared.turns.late_at((number, server));
            shared.turns.fenced((number, server));
            if let Some(accord) = shared.accord() {
                accord.lates_ended();
            }
            format!("fenced by on_down in {took_ms} ms; {late} calls that it may have run need not be waited for")
        }
        Ok(_) => "it is back, or was in the meantime: the fence does not count".to_owned(),
        Err(error) => format!("not fenced: on_down failed after {took_ms} ms: {error}"),
    };
    pool.count_fence(server, done.is_ok() && stayed_down);
    log::warn("the fence's end", &[("server", &of.name), ("result", &result)]);
    shared.watch.journal.say(Said::Health, of.name.as_str(), result, "on_down of its pool");
}

/// How often servers are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How often members are told which are down.
const TELL: Duration = Duration::from_secs(1);
/// A command that has not ended after so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// A command that failed is tried again after so long, and so often in all.
const AGAIN: Duration = Duration::from_secs(10);
const TRIES_MAX: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_due_when_it_was_down_for_long_enough_and_only_so_often() {
        let (start, wait) = (Instant::now(), Duration::from_secs(5));
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut seen = Seen::default();
        assert!(!seen.is_due(at(0), true, wait) && !seen.is_due(at(4), true, wait) && seen.is_due(at(5), true, wait));
        (seen.tries, seen.next) = (1, Some(at(15)));
        assert!(!seen.is_due(at(14), true, wait) && seen.is_due(at(15), true, wait));
        seen.tries = TRIES_MAX;
        assert!(!seen.is_due(at(99), true, wait));
        assert!(!seen.is_due(at(100), false, wait), "it is back");
        assert!(!seen.is_due(at(101), true, wait) && seen.is_due(at(106), true, wait), "and down again");
    }
}
