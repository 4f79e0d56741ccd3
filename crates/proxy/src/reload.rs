//! A reload: the file is read again, and what a running daemon can take over holds for the calls
//! that come from then on. The connections of clients that the lists no longer name are ended. What
//! needs a restart is told, every time until there was one.

use crate::config::{Applies, Change, Config, Level};
use crate::event::Shared;
use crate::log;
use crate::watch::Said;
use std::sync::Arc;
use std::time::Instant;

/// Takes over what differs and can be, into the running configuration and the daemon.
pub(crate) fn reload(shared: &Shared, running: &mut Config, new: &Config) -> Vec<Change> {
    let changes = running.differences(new);
    running.take_live(new);
    log::set(running.log());
    for (export, rules) in shared.exports.iter().zip(running.exports()) {
        if **export.rules() != *rules {
            export.reload(rules.clone());
        }
    }
    for (pool, config) in shared.pools.iter().zip(running.pools()) {
        if pool.staleness() != config.staleness {
            pool.set_staleness(config.staleness);
            let now = Instant::now();
            shared.exports.iter().filter(|it| Arc::ptr_eq(&it.pool, pool)).for_each(|it| it.reload_staleness(now));
        }
    }
    changes
}

/// Says what a reload did.
pub(crate) fn tell(shared: &Shared, changes: &[Change]) {
    for change in changes {
        match change.applies {
            Applies::Live => log::answer(Level::Info, "changed", &[("what", change)]),
            Applies::Restart => log::answer(Level::Warn, "not changed", &[("what", change)]),
        }
    }
    for change in changes {
        let why = match change.applies {
            Applies::Live => "the configuration was reloaded",
            Applies::Restart => "the configuration was reloaded, but this needs a restart",
        };
        shared.watch.journal.say(Said::Change, "configuration", change.outline(), why);
    }
    let live = changes.iter().filter(|change| change.applies == Applies::Live).count();
    log::answer(Level::Info, "reloaded", &[("changed", &live), ("at_restart", &(changes.len() - live))]);
}
