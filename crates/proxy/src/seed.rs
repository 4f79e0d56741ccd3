//! Seeds of random draws: no two daemons, exports or starts draw alike, so that proxies never move in step.

use crate::config::Config;
use midas_core::key::Key;
use std::time::{SystemTime, UNIX_EPOCH};

/// A daemon in one of its lives.
pub(crate) struct Identity(String);

impl Identity {
    /// The daemon that starts now with this configuration.
    pub(crate) fn new(config: &Config) -> Self {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        let member = config.cluster().map_or_else(String::new, |cluster| format!("{} {}", cluster.name, cluster.me));
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Self::of(&host, &member, std::process::id(), start)
    }

    fn of(host: &str, member: &str, process: u32, start: u128) -> Self {
        Self(format!("{host}\n{member}\n{process}\n{start}"))
    }

    /// The seed of an export's controller and routers.
    pub(crate) fn seed(&self, export: &str) -> u64 {
        Key::of(self.0.as_bytes()).named(export.as_bytes()).0
    }
}

/// The seed of one part of what has this seed.
pub(crate) fn of_part(seed: u64, part: u64) -> u64 {
    Key(seed).child(part).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn members_processes_starts_exports_and_parts_have_seeds_of_their_own() {
        let identities = [
            Identity::of("one", "site a", 7, 1000),
            Identity::of("two", "site a", 7, 1000),
            Identity::of("one", "site b", 7, 1000),
            Identity::of("one", "site a", 8, 1000),
            Identity::of("one", "site a", 7, 1001),
        ];
        let exports = ["/scratch", "/software"];
        let seeds = identities.iter().flat_map(|identity| exports.map(|export| identity.seed(export)));
        let parts: BTreeSet<u64> = seeds.flat_map(|seed| (0..64).map(move |part| of_part(seed, part))).collect();
        assert_eq!(parts.len(), 5 * 2 * 64);
    }
}
