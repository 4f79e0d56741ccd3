use super::*;
use midas_core::rng::mix;
use midas_core::time::Span;
use std::collections::BTreeMap;
use std::string::ToString;
use std::vec::Vec;

fn spec(text: &str) -> Spec {
    Spec::parse(text).unwrap()
}

fn calls(text: &str, setting: &Setting) -> Vec<Request> {
    stream(&spec(text), setting).collect()
}

fn everything() -> impl Iterator<Item = Spec> {
    Spec::list().iter().map(|described| spec(described.example))
}

/// 8 servers of 1 ms: a hundred times as many calls as the default, for narrow statistics.
fn fast() -> Setting {
    Setting { service_mean: Span::from_millis(1), ..Setting::default() }
}

fn digest(calls: impl Iterator<Item = Request>) -> u64 {
    calls.fold(0, |sum, call| {
        let (to_directory, to_file) = call.target.unwrap_or((u32::MAX, u32::MAX));
        let kind = call.op.code() as u32 * 2 + u32::from(call.missing);
        [call.client, call.directory, call.file, kind, to_directory, to_file]
            .into_iter()
            .fold(mix(sum ^ call.at.as_nanos()), |sum, field| mix(sum ^ u64::from(field)))
    })
}

fn share(calls: &[Request], of: impl Fn(&Request) -> bool) -> f64 {
    calls.iter().filter(|call| of(call)).count() as f64 / calls.len() as f64
}

#[test]
fn same_seed_same_digest() {
    for spec in everything() {
        let run = |seed| digest(stream(&spec, &Setting { seed, ..Setting::default() }));
        assert_eq!(run(1), run(1), "{spec}");
        assert_ne!(run(1), run(2), "{spec}");
    }
}

#[test]
fn times_ascend_and_stay_before_the_end() {
    for spec in everything() {
        let calls: Vec<Request> = stream(&spec, &Setting::default()).collect();
        assert!(calls.is_sorted_by_key(|call| call.at), "{spec}");
        assert!(calls.last().unwrap().at < Time::ZERO + Setting::default().duration, "{spec}");
    }
}

#[test]
fn numbers_stay_within_the_namespace() {
    let setting = Setting { directories: 3, files: 5, clients: 7, ..Setting::default() };
    for spec in everything().filter(|spec| *spec != self::spec("epoch")) {
        for call in stream(&spec, &setting) {
            let (directory, file) = call.target.unwrap_or((0, 0));
            assert!(call.client < 7 && call.directory < 3 && directory < 3 && file < 5, "{spec}: {call:?}");
            assert_eq!(call.missing, call.file >= 5, "{spec}: {call:?}");
            assert_eq!(call.target.is_some(), call.op == Op::Rename, "{spec}: {call:?}");
        }
    }
}

#[test]
fn workloads_of_one_rate_arrive_at_identical_times_and_do_the_same() {
    let project = |text| -> Vec<_> {
        calls(text, &Setting::default()).into_iter().map(|call| (call.at, call.op, call.client, call.file)).collect()
    };
    let uniform = project("uniform");
    for other in ["zipf:0", "zipf:0.9", "zipf:1.4"] {
        assert_eq!(project(other), uniform, "{other}");
    }
}

#[test]
fn a_change_of_one_question_leaves_the_others_as_they_were() {
    let base = calls("zipf:0.9", &Setting::default());
    let wrote = calls("zipf:0.9", &Setting { write_share: 0.9, ..Setting::default() });
    let crowd = calls("zipf:0.9", &Setting { clients: 3, ..Setting::default() });
    assert!(
        base.iter()
            .zip(&wrote)
            .all(|(a, b)| (a.at, a.client, a.directory, a.file) == (b.at, b.client, b.directory, b.file))
    );
    assert!(
        base.iter().zip(&crowd).all(|(a, b)| (a.at, a.op, a.directory, a.file) == (b.at, b.op, b.directory, b.file))
    );
}

#[test]
fn questions_are_answered_independently() {
    let calls =
        calls("uniform", &Setting { clients: 2, directories: 2, files: 2, file_skew: 0.0, write_share: 0.5, ..fast() });
    let mut cells: BTreeMap<_, f64> = BTreeMap::new();
    for call in &calls {
        *cells.entry((call.client, call.directory, call.file, call.op)).or_default() += 1.0;
    }
    let want = calls.len() as f64 / 16.0;
    let chi_square: f64 = cells.values().map(|count| libm::pow(count - want, 2.0) / want).sum();
    assert!(cells.len() == 16 && chi_square < 40.0, "chi-square {chi_square} with 15 degrees of freedom");
}

/// The mean rate in units of the capacity over 300 s at load 0.7.
#[test]
fn mean_rates_are_as_described() {
    let checkpoint = 0.3 + 10.0 * 30.0 * 8.0 / (300.0 * 8000.0);
    let job = 0.3 + 5.0 * 256.0 * 500.0 / (300.0 * 8000.0);
    let cases = [
        ("uniform", 0.7),
        ("zipf:0.9", 0.7),
        ("zipf:1.4", 0.7),
        ("hot:0.5", 0.7),
        ("bursts", 0.9 * 0.3 + 0.1 * 4.0),
        ("flash:10", 0.3 + 3.0 * 2.0 * 3.0 / 300.0),
        ("flash:100", 0.3 + 3.0 * 0.5 * 30.0 / 300.0),
        ("checkpoint", checkpoint),
        ("diurnal", 0.6),
        ("shifting", 0.6),
        ("job-start", job),
        ("epoch", 0.7),
        ("spotify", 0.7),
    ];
    for (text, want) in cases {
        let got = stream(&spec(text), &fast()).count() as f64 / 300.0 / fast().capacity();
        assert!((got / want - 1.0).abs() < 0.01, "{text}: {got} is not {want}");
    }
}

#[test]
fn on_off_is_on_half_of_the_time() {
    let setting = Setting { duration: Span::from_secs(100_000), ..Setting::default() };
    let got = stream(&spec("on-off"), &setting).count() as f64 / 100_000.0 / setting.capacity();
    assert!((got / 0.75 - 1.0).abs() < 0.03, "{got}");
}

#[test]
fn the_stated_rate_integrates_to_the_calls() {
    const STEPS: u64 = 300_000;
    for spec in everything() {
        let stream = stream(&spec, &fast());
        let integral: f64 = (0..STEPS).map(|ms| stream.rate_at(Time::from_nanos(ms * 1_000_000)) * 1e-3).sum();
        let count = stream.count() as f64;
        assert!((count / integral - 1.0).abs() < 0.01, "{spec}: {count} calls, {integral} stated");
    }
}

#[test]
fn load_scales_the_calls_linearly() {
    for spec in everything().filter(|spec| !spec.to_string().starts_with("job-start")) {
        let count = |load| stream(&spec, &Setting { load, ..fast() }).count() as f64;
        let base = count(0.7);
        for load in [0.1, 0.35, 1.4] {
            let ratio = count(load) / base / (load / 0.7);
            assert!((ratio - 1.0).abs() < 0.02, "{spec} at {load}: {ratio} of what it should be");
        }
    }
}

#[test]
fn a_load_that_is_no_positive_number_is_no_calls() {
    for spec in everything() {
        for load in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let first = stream(&spec, &Setting { load, ..Setting::default() }).next();
            assert_eq!(first, None, "{spec} at {load}");
        }
    }
}

#[test]
fn directories_are_popular_by_zipf_and_which_is_seeded() {
    let most = |seed| {
        let mut counts = std::vec![0_u32; 1024];
        let calls = calls("zipf:1.1", &Setting { seed, ..fast() });
        for call in &calls {
            counts[call.directory as usize] += 1;
        }
        let top = (0..1024).max_by_key(|&directory| counts[directory]).unwrap();
        (top, f64::from(counts[top]) / calls.len() as f64)
    };
    let weights: f64 = (1..=1024).map(|rank| libm::pow(f64::from(rank), -1.1)).sum();
    let ((first, share), (second, _)) = (most(1), most(2));
    assert!((share * weights - 1.0).abs() < 0.01, "{share} is not {}", 1.0 / weights);
    assert_ne!(first, second);
}

#[test]
fn a_flash_hits_one_new_directory_each_time_and_rarely_writes() {
    let calls = calls("flash:100", &fast());
    let mut hit = Vec::new();
    for from in [20.0, 120.0, 220.0] {
        let within = |call: &Request| (from..from + 0.5).contains(&call.at.as_secs_f64());
        let storm: Vec<Request> = calls.iter().copied().filter(within).collect();
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for call in &storm {
            *counts.entry(call.directory).or_default() += 1;
        }
        let (&directory, &count) = counts.iter().max_by_key(|(_, count)| **count).unwrap();
        assert!(count as f64 / storm.len() as f64 > 0.98);
        assert!((share(&storm, |call| call.op.mutates()) - 0.022).abs() < 0.005);
        hit.push(directory);
    }
    hit.sort_unstable();
    hit.dedup();
    assert_eq!(hit.len(), 3);
}

#[test]
fn a_flash_is_shorter_the_larger_it_is() {
    for (factor, want) in [(1.0, 2.0), (10.0, 2.0), (31.622_776_601_683_793, 1.25), (100.0, 0.5), (1000.0, 0.5)] {
        assert!((flash_seconds(factor) - want).abs() < 1e-12, "{factor}");
    }
}

#[test]
fn a_checkpoint_creates_new_names_in_four_directories() {
    let calls = calls("checkpoint", &Setting::default());
    let creates: Vec<&Request> = calls.iter().filter(|call| call.missing).collect();
    assert_eq!(creates.len(), 10 * 240);
    assert!(creates.iter().enumerate().all(|(n, call)| call.file == 63 + n as u32 && call.op == Op::Create));
    for (index, batch) in creates.chunks(240).enumerate() {
        let opens = 10.0 + 30.0 * index as f64;
        assert!(batch.iter().all(|call| (opens - 1e-6..opens + 0.2).contains(&call.at.as_secs_f64())));
        let mut directories: Vec<u32> = batch.iter().map(|call| call.directory).collect();
        directories.sort_unstable();
        directories.dedup();
        assert_eq!(directories.len(), 4);
    }
}

#[test]
fn the_kinds_are_as_described() {
    let all = 99.45;
    let cases = [
        ("uniform", Op::Lookup, 0.8),
        ("uniform", Op::Create, 0.2),
        ("epoch", Op::Lookup, 0.5),
        ("epoch", Op::Getattr, 0.5),
        ("spotify", Op::Lookup, 68.7 / all),
        ("spotify", Op::Getattr, 17.0 / all),
        ("spotify", Op::List, 9.0 / all),
        ("spotify", Op::Create, 2.7 / all),
        ("spotify", Op::Rename, 1.3 / all),
        ("spotify", Op::Remove, 0.75 / all),
    ];
    for (text, op, want) in cases {
        let got = share(&calls(text, &fast()), |call| call.op == op);
        assert!((got - want).abs() < 0.002, "{text}, {}: {got} is not {want}", op.name());
    }
}

#[test]
fn shifting_sends_two_in_five_calls_to_the_directory_of_the_moment() {
    let calls = calls("shifting", &fast());
    for from in [0.0, 20.0, 280.0] {
        let now: Vec<Request> =
            calls.iter().copied().filter(|call| (from..from + 20.0).contains(&call.at.as_secs_f64())).collect();
        let most = (0..1024).map(|directory| share(&now, |call| call.directory == directory)).fold(0.0, f64::max);
        assert!((most - 0.4).abs() < 0.01, "from {from}: {most}");
    }
}

#[test]
fn a_hot_directory_draws_its_share_throughout() {
    let calls = calls("hot:0.5", &fast());
    let hot = (0..1024).max_by_key(|directory| calls.iter().filter(|call| call.directory == *directory).count());
    for from in [0.0, 150.0, 290.0] {
        let now: Vec<Request> =
            calls.iter().copied().filter(|call| (from..from + 10.0).contains(&call.at.as_secs_f64())).collect();
        let got = share(&now, |call| Some(call.directory) == hot);
        assert!((got - 0.5).abs() < 0.01, "from {from}: {got}");
    }
}

#[test]
fn an_epoch_reaches_a_million_files() {
    let calls = calls("epoch", &fast());
    let mut files: Vec<(u32, u32)> = calls.iter().map(|call| (call.directory, call.file)).collect();
    files.sort_unstable();
    files.dedup();
    let want = 1e6 * (1.0 - libm::exp(-(calls.len() as f64) / 1e6));
    assert!((files.len() as f64 / want - 1.0).abs() < 0.01, "{} of {want}", files.len());
}
