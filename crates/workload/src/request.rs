//! The two plain records at the crate's edge: the cluster that a workload is aimed at, and the call that comes out.

use midas_core::op::Op;
use midas_core::time::{Span, Time};

/// One call as a client issues it.
///
/// Streams do not track the namespace: a name that was removed or renamed away is called again as if it were still there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// When the client issues it.
    pub at: Time,
    /// What it does.
    pub op: Op,
    /// Who issues it, from 0.
    pub client: u32,
    /// The directory's number, from 0.
    pub directory: u32,
    /// The name's number inside the directory. Numbers below [`Setting::files`] exist from the start. 0 for [`Op::List`], which
    /// is about the directory itself.
    pub file: u32,
    /// The name does not exist when the call is issued: a lookup that fails, or the creation of a new name.
    pub missing: bool,
    /// Where a rename goes: the other directory and name.
    pub target: Option<(u32, u32)>,
}

/// The cluster that a workload is aimed at, and the world's seed. Zero counts are taken for one; a rate that is no positive
/// number is no calls at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Metadata servers.
    pub servers: u32,
    /// Calls that a server works on at once.
    pub workers: u32,
    /// Mean service time of a call.
    pub service_mean: Span,
    /// Offered calls in units of the capacity; workloads with rates of their own are scaled by load / 0.7.
    pub load: f64,
    /// Calls are issued from 0 to before this; at most 30 days.
    pub duration: Span,
    /// Directories in the namespace.
    pub directories: u32,
    /// Names in a directory.
    pub files: u32,
    /// Zipf exponent of the popularity of names inside a directory.
    pub file_skew: f64,
    /// Share of calls that write.
    pub write_share: f64,
    /// Clients that issue the calls.
    pub clients: u32,
    /// One seed is one world.
    pub seed: u64,
}

impl Setting {
    /// Calls per second that the servers can complete.
    pub fn capacity(&self) -> f64 {
        f64::from(self.servers) * f64::from(self.workers) / self.service_mean.as_secs_f64()
    }

    /// Calls per second of a workload that is described as `share` of the capacity at load 0.7.
    pub(crate) fn scaled(&self, share: f64) -> f64 {
        share * self.scale() * self.capacity()
    }

    /// The load, relative to the one that the workloads are described at.
    pub(crate) fn scale(&self) -> f64 {
        self.load / DESCRIBED_AT
    }

    /// The duration in seconds, within its bound.
    pub(crate) fn seconds(&self) -> f64 {
        self.duration.min(LONGEST).as_secs_f64()
    }
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            servers: 8,
            workers: 1,
            service_mean: Span::from_millis(100),
            load: 0.7,
            duration: Span::from_secs(300),
            directories: 1024,
            files: 63,
            file_skew: 1.0,
            write_share: 0.2,
            clients: 1024,
            seed: 1,
        }
    }
}

/// The load at which the workloads' own rates are stated.
const DESCRIBED_AT: f64 = 0.7;
/// Bounds the tables of rates: bursts every 10 s make half a million steps in 30 days.
const LONGEST: Span = Span::from_secs(30 * 86_400);
