//! A member of a cluster that serves nobody: it votes, so that two proxies have a third.

use crate::accord::Joining;
use crate::admin::Admin;
use crate::clock::Clock;
use crate::config::Config;
use crate::event::Shared;
use crate::mountd::Mountd;
use midas_core::cache::CleanStart;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A running witness; it ends when this is dropped.
pub struct Witness {
    shared: Arc<Shared>,
    _admin: Admin,
    listen: SocketAddr,
}

impl Witness {
    /// Takes part in the cluster of this configuration, as the member that it says.
    pub fn start(config: &Config) -> io::Result<Self> {
        let wrong = |said: &str| io::Error::new(ErrorKind::InvalidInput, said);
        let cluster = config.cluster().ok_or_else(|| wrong("a witness needs a [cluster] in its configuration"))?;
        let me = cluster.members.iter().find(|member| member.name == cluster.me);
        if !me.is_some_and(|me| me.witness) {
            return Err(wrong(&format!("'{}' is not a witness in 'members'", cluster.me)));
        }
        // It has no calls of its own: none was left behind.
        let member = Joining::new(Clock::new(), config, cluster, CleanStart::Yes)?;
        let accord = Some(Arc::clone(&member.accord));
        let shared = Shared::new(Vec::new(), Vec::new(), Mountd::new(Vec::new()), config.limits(), 1, (accord, None));
        let shared = Arc::new(shared);
        member.join(&shared, &[]);
        let admin = Admin::start(&shared, config.admin())?;
        Ok(Self { shared, _admin: admin, listen: cluster.listen })
    }

    /// Where the other members reach it.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Leaves in order.
    pub fn leave(&self) {
        if let Some(peers) = self.shared.peers() {
            peers.leave(Duration::ZERO);
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if let Some(peers) = self.shared.peers() {
            peers.stop();
        }
    }
}
