//! Runs operations in three ways: `operations` lists them, `count ID N` runs one N times for an instruction counter, anything else is
//! criterion's. One body serves the clock and the counter, so both speak of the same code. The simulator's benchmarks use this file too.

use criterion::{BenchmarkId, Criterion, SamplingMode};
use std::time::{Duration, Instant};

/// Something that is timed.
pub(crate) struct Operation {
    /// What users read; with `size` it names the operation.
    pub(crate) name: String,
    /// What its cost depends on: servers or entries.
    pub(crate) size: usize,
    /// How many units one run is made of; the target is for one.
    pub(crate) units: Box<dyn Fn() -> u64>,
    /// How often it is timed. Many short times tell more on a busy machine; what takes long cannot have them.
    pub(crate) samples: usize,
    /// Nanoseconds that a unit may take.
    pub(crate) target: Option<u64>,
    /// Prepares, and returns what runs it so many times.
    pub(crate) prepare: Box<dyn Fn() -> Run>,
}

/// Runs an operation so many times.
pub(crate) type Run = Box<dyn FnMut(u64)>;

impl Operation {
    fn id(&self) -> String {
        format!("{}/{}", self.name, self.size)
    }
}

/// Does what the arguments ask for.
pub(crate) fn drive(operations: &[Operation]) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["operations"] => list(operations),
        ["count", id, times] => count(operations, id, times.parse().expect("a number of runs")),
        _ => time(operations),
    }
}

fn list(operations: &[Operation]) {
    for Operation { name, size, units, target, .. } in operations {
        let target = target.map_or_else(|| "-".to_owned(), |nanos| nanos.to_string());
        println!("{name}\t{size}\t{}\t{target}", units());
    }
}

fn count(operations: &[Operation], id: &str, times: u64) {
    let operation = operations.iter().find(|operation| operation.id() == id).expect("an operation of that name");
    let mut run = (operation.prepare)();
    counted(&mut run, times);
}

/// The script counts the instructions inside of this function alone.
#[inline(never)]
fn counted(run: &mut Run, times: u64) {
    run(times);
}

fn time(operations: &[Operation]) {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .nresamples(2_000)
        .without_plots()
        .configure_from_args();
    for operation in operations {
        let mut prepared: Option<Run> = None;
        let mut group = criterion.benchmark_group(&operation.name);
        group.sampling_mode(SamplingMode::Flat).sample_size(operation.samples);
        group.bench_function(BenchmarkId::from_parameter(operation.size), |bencher| {
            let run = prepared.get_or_insert_with(|| (operation.prepare)());
            bencher.iter_custom(|times| {
                let start = Instant::now();
                run(times);
                start.elapsed()
            });
        });
    }
    criterion.final_summary();
}
