//! What is allowed and probably not meant.

use super::{Cluster, Config, Export, Squash};
use midas_core::time::Span;

impl Config {
    /// What an administrator should look at again, one line each.
    pub fn warnings(&self) -> Vec<String> {
        let unused = (0..self.pools.len()).filter(|pool| self.exports.iter().all(|export| export.pool != *pool));
        let mut warnings: Vec<String> =
            unused.map(|pool| format!("pool '{}' has no export", self.pools[pool].name)).collect();
        warnings.extend(self.exports.iter().filter_map(anyone_is_anyone));
        warnings.extend(self.exports.iter().enumerate().filter_map(|(index, export)| self.same_source(index, export)));
        warnings.extend(self.exports.iter().filter_map(|export| self.runs_late(export)));
        warnings.extend(self.cluster.as_ref().and_then(no_majority));
        warnings
    }

    /// What a server that hangs for longer has under way may run when it has been done elsewhere,
    /// and again changed since.
    fn runs_late(&self, export: &Export) -> Option<String> {
        let (pool, hold) = (self.pool_of(export), export.caching.server_hold_max);
        let short = hold < HOLD_USUAL && pool.on_down.is_none() && pool.servers.len() > 1;
        let (path, hold) = (&export.path, hold.as_nanos() / 1_000_000_000);
        short.then(|| {
            format!(
                "export '{path}': a server that hangs for longer than server_hold_max ({hold} s) and goes on may undo later changes; \
                 heads of CephFS may for 300 s; raise it, or fence dead servers with on_down"
            )
        })
    }

    /// A handle does not say through which export it was found: the rules of two exports of the same files cannot be told apart.
    fn same_source(&self, index: usize, export: &Export) -> Option<String> {
        let mut before = self.exports[..index].iter();
        let other = before.find(|other| (other.pool, &other.source) == (export.pool, &export.source))?;
        let (path, pool) = (&export.path, &self.pool_of(export).name);
        Some(format!(
            "exports '{}' and '{path}' are the same files of pool '{pool}': whoever may use one can use its handles in the other",
            other.path
        ))
    }
}

fn no_majority(cluster: &Cluster) -> Option<String> {
    (cluster.members.len() == 2).then(|| {
        let Cluster { name, .. } = cluster;
        format!(
            "cluster '{name}' has two members and no witness: when one is lost the other is no majority, forwards reads uncached and \
             holds changes on lease exports until it is back; a third member with ' witness' needs no more than a small machine"
        )
    })
}

fn anyone_is_anyone(export: &Export) -> Option<String> {
    let network = export.clients.iter().find(|network| !network.is_loopback())?;
    let whom = match export.squash {
        Squash::None => "any other, root included",
        Squash::Root => "any other but root",
        Squash::All => return None,
    };
    let path = &export.path;
    export
        .insecure
        .then(|| format!("export '{path}': insecure lets every user of a client in {network} speak as {whom}"))
}

/// Who sets a shorter `server_hold_max` than the default should know why.
const HOLD_USUAL: Span = Span::from_secs(60);
