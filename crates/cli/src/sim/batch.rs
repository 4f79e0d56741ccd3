//! Many runs at once, on all cores; results in the order of the runs, whoever finished first.

use crate::failure::Failure;
use crate::progress::Progress;
use midas_sim::config::Config;
use midas_sim::report::Run;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs everything; the first violation, in the order of the runs, ends it.
pub(crate) fn run_all(configs: &[Config], progress: &mut Progress) -> Result<Vec<Run>, Failure> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<Result<Run, String>>>> = Mutex::new(configs.iter().map(|_| None).collect());
    let progress = Mutex::new(progress);
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers.min(configs.len()) {
            scope.spawn(|| {
                while let Some((index, config)) = claim(configs, &next) {
                    let name = format!("{} {}", config.policy, config.workload);
                    let result = midas_sim::run(config).map_err(|violation| format!("{name}: {violation}"));
                    done.lock().expect("no thread panics while it holds this")[index] = Some(result);
                    progress.lock().expect("no thread panics while it holds this").step(&name);
                }
            });
        }
    });
    let done = done.into_inner().expect("all threads have ended");
    done.into_iter().flatten().collect::<Result<_, _>>().map_err(Failure::Broken)
}

fn claim<'a>(configs: &'a [Config], next: &AtomicUsize) -> Option<(usize, &'a Config)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    configs.get(index).map(|config| (index, config))
}
