//! Processors: who used them, from /proc, and which of them we run on. Where /proc tells nothing, nothing is claimed.

use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs;
use std::io;
use std::time::Instant;

/// Processor time used up to now, in ticks.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    at: Instant,
    /// Of the whole machine.
    machine: Option<u64>,
    own: Option<u64>,
    /// Of the processes that were asked for, in order.
    others: Vec<Option<u64>>,
}

/// Processor time used over an interval, in processors.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Used {
    /// By this process.
    pub(crate) own: Option<f64>,
    /// By the processes that were asked for.
    pub(crate) others: Vec<Option<f64>>,
    /// By everyone else.
    pub(crate) foreign: Option<f64>,
    pub(crate) seconds: f64,
}

impl Usage {
    pub(crate) fn now(pids: &[u32]) -> Self {
        Self {
            at: Instant::now(),
            machine: fs::read_to_string("/proc/stat").ok().and_then(|text| machine_ticks(&text)),
            own: process("self"),
            others: pids.iter().map(|pid| process(&pid.to_string())).collect(),
        }
    }

    pub(crate) fn since(&self, before: &Self) -> Used {
        let seconds = self.at.duration_since(before.at).as_secs_f64();
        let per_second = 1.0 / (rustix::param::clock_ticks_per_second().max(1) as f64 * seconds.max(1e-9));
        let used = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?) as f64 * per_second);
        let own = used(self.own, before.own);
        let others: Vec<Option<f64>> =
            self.others.iter().zip(&before.others).map(|(now, before)| used(*now, *before)).collect();
        let known = own.unwrap_or(0.0) + others.iter().flatten().sum::<f64>();
        let foreign = used(self.machine, before.machine).map(|all| (all - known).max(0.0));
        Used { own, others, foreign, seconds }
    }
}

/// Whether there is such a process.
pub(crate) fn is_there(pid: u32) -> bool {
    process(&pid.to_string()).is_some()
}

fn process(pid: &str) -> Option<u64> {
    process_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal. Guests are counted in user already.
fn machine_ticks(text: &str) -> Option<u64> {
    let mut fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map(str::parse::<u64>);
    let mut field = || fields.next()?.ok();
    let (user, nice, system, _idle, _iowait) = (field()?, field()?, field()?, field()?, field()?);
    Some(user + nice + system + field()? + field()? + field().unwrap_or(0))
}

/// /proc/PID/stat: fields 14 and 15 are user and system time; the name before them is in parentheses and may hold anything.
fn process_ticks(text: &str) -> Option<u64> {
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut field = || fields.next()?.parse::<u64>().ok();
    Some(field()? + field()?)
}

/// The calling thread runs on these processors only.
pub fn pin(processors: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for processor in processors {
        if *processor < CpuSet::MAX_CPU {
            set.set(*processor);
        }
    }
    sched_setaffinity(None, &set).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("cannot run on processors {processors:?}: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_from_what_the_kernel_writes() {
        assert_eq!(machine_ticks("cpu  10 20 30 1000 500 1 2 3 99 99\ncpu0 1 1 1 1"), Some(66));
        assert_eq!(machine_ticks("intr 5"), None);
        let stat = "12 (a) b) S 1 12 12 0 -1 4194560 100 0 0 0 7 5 0 0 20 0 1 0 33 0 0";
        assert_eq!(process_ticks(stat), Some(12));
        assert_eq!(process_ticks("12 (short) S 1"), None);
    }

    #[test]
    fn a_processor_that_is_not_there_is_named() {
        for processors in [vec![CpuSet::MAX_CPU - 1], vec![usize::MAX]] {
            let error = pin(&processors).unwrap_err().to_string();
            assert!(error.contains(&format!("{processors:?}")), "{error}");
        }
        assert!(is_there(std::process::id()) && !is_there(u32::MAX));
    }

    #[test]
    fn busy_work_is_our_own_time() {
        let before = Usage::now(&[]);
        while before.at.elapsed().as_millis() < 120 {
            std::hint::black_box(0);
        }
        let used = Usage::now(&[]).since(&before);
        assert!(used.own.is_some_and(|own| own > 0.1), "{used:?}");
    }
}
