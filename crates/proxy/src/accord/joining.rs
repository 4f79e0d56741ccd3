//! A member on its way into its cluster: the protocol needs the cluster's thread, that needs the daemon, and the daemon's caches need the protocol.

use super::journal::{self, Journal};
use super::{Accord, Running, Slot, Upper};
use crate::clock::Clock;
use crate::config::{self, Config};
use crate::event::{Mailbox, Shared};
use crate::peers::Peers;
use midas_cluster::Key;
use midas_core::cache::CleanStart;
use midas_core::peer::lease::{Past, Terms};
use midas_core::time::Span;
use midas_net::DigestKey;
use std::io;
use std::sync::Arc;

/// A member whose daemon is not complete yet.
pub(crate) struct Joining {
    peers: Peers,
    slot: Slot,
    running: Running,
    pub(crate) accord: Arc<Accord>,
}

impl Joining {
    pub(crate) fn new(clock: Clock, config: &Config, cluster: &config::Cluster, start: CleanStart) -> io::Result<Self> {
        let late = |export: &&config::Export| {
            let staleness = config.pools().get(export.pool).map_or(Span::ZERO, |pool| pool.staleness);
            export.caching.writers == config::Writers::MidasOnly && staleness > Span::ZERO
        };
        if let Some(export) = config.exports().iter().find(late) {
            let said = format!(
                "{}: in a cluster, writers = \"midas-only\" needs servers that know of each other's changes at once (staleness = \"0s\")",
                export.path
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, said));
        }
        if let Some(export) = config.exports().iter().find(|export| !export.subtrees.is_empty()) {
            let said = format!(
                "{}: the members of a cluster do not tell each other where subtrees lie: leave them out",
                export.path
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, said));
        }
        let (members, slot) = (cluster.members.len(), Slot::default());
        let peers = Peers::start(config, cluster, |sender| Upper::new(Arc::clone(&slot), sender))?;
        let hold = config.exports().iter().map(|export| export.caching.server_hold_max).max().unwrap_or_default();
        let stale = Span::ZERO;
        let terms = Terms { size: members, lease: cluster.lease, hold, stale, drift: DRIFT, remember: REMEMBER };
        let life = peers.life();
        let serving: Vec<bool> = cluster.members.iter().map(|member| !member.witness).collect();
        let (journal, intents) = Journal::open(journal::place(&config.state().file), REMEMBER);
        let past = Past { tidy: start == CleanStart::Yes, intents };
        let digests = DigestKey::new(Key::load(&cluster.key_file)?.digests());
        let accord = Arc::new(Accord::new(clock, (life, &serving), (terms, past), journal, digests));
        let running = Running {
            accord: Arc::clone(&accord),
            shared: None,
            clock,
            members,
            me: life.member.0,
            shares: cluster.shares,
        };
        Ok(Self { peers, slot, running, accord })
    }

    pub(crate) fn join(self, shared: &Arc<Shared>, mailboxes: &[Mailbox]) {
        let sender = self.peers.sender();
        self.accord.attach(shared, mailboxes.to_vec(), Box::new(move || sender.wake()));
        let running = Running { shared: Some(Arc::clone(shared)), ..self.running };
        assert!(self.slot.set(running).is_ok(), "joins once");
        self.peers.sender().wake();
        shared.join(self.peers);
    }
}

/// Clocks of members may run apart by so much, in thousandths.
const DRIFT: u32 = 20;
/// For so long after its end an operation that comes again is known.
const REMEMBER: Span = Span::from_secs(120);
