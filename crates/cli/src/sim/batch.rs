//! Many runs at once, on all cores; results in the order of the runs, whoever finished first.

use crate::failure::Failure;
use crate::progress::Progress;
use midas_sim::config::Config;
use midas_sim::report::Run;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs everything; the first violation, in the order of the runs, ends it.
pub(crate) fn run_all(configs: &[Config], progress: &mut Progress) -> Result<Vec<Run>, Failure> {
    let name = |config: &Config| format!("{} {}", config.policy, config.workload);
    let run = |config: &Config| midas_sim::run(config).map_err(|violation| format!("{}: {violation}", name(config)));
    on_all_cores(configs, name, run, progress).into_iter().collect::<Result<_, _>>().map_err(Failure::Broken)
}

/// The results of `work` on every item.
pub(crate) fn on_all_cores<T: Sync, R: Send>(
    items: &[T],
    name: impl Fn(&T) -> String + Sync,
    work: impl Fn(&T) -> R + Sync,
    progress: &mut Progress,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<R>>> = Mutex::new(items.iter().map(|_| None).collect());
    let progress = Mutex::new(progress);
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers.min(items.len()) {
            scope.spawn(|| {
                while let Some((index, item)) = claim(items, &next) {
                    let result = work(item);
                    done.lock().expect("no thread panics while it holds this")[index] = Some(result);
                    progress.lock().expect("no thread panics while it holds this").step(&name(item));
                }
            });
        }
    });
    done.into_inner().expect("all threads have ended").into_iter().flatten().collect()
}

fn claim<'a, T>(items: &'a [T], next: &AtomicUsize) -> Option<(usize, &'a T)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    items.get(index).map(|item| (index, item))
}
