//! Whole runs: names made and removed, several targets, what is reported.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use midas_bench::ceiling::Ceiling;
use midas_bench::{Action, Cell, Event, Load, Pace, RunError, Shape, Target, run};
use midas_net::Reservation;
use midas_nfs::nfs3::{Nfsstat3, Procedure};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::{Fate, Scratch, Seen, Server, arm, config, quietly};

const CLOSED: Pace = Pace::Closed { depth: 4 };

#[test]
fn every_operation_works_and_leaves_nothing_behind() {
    for action in Action::ALL {
        let server = Server::start();
        let mut config = config(&server, Load::Op(*action), CLOSED);
        config.slice = Duration::from_millis(60);
        let arm = arm(&config);
        // Names that are not there are what some of them look for.
        assert!(arm.errors.iter().all(|error| error.expected), "{}: {:?}", action.name(), arm.errors);
        let measured = arm.procedures.iter().any(|row| row.procedure == action.procedure().name());
        assert!(measured, "{}: {:?}", action.name(), arm.procedures);
        let files = server.files();
        assert!(files.made > 18 && files.count() == 0, "{} left {} names", action.name(), files.count());
    }
}

#[test]
fn a_cell_does_not_find_what_the_one_before_it_made() {
    let (server, scratch) = (Server::start(), Scratch::new("cells"));
    let mut config = config(&server, Load::Op(Action::Create), CLOSED);
    config.cells.extend([Action::Mkdir, Action::Readdir].map(|action| Cell { load: Load::Op(action), pace: CLOSED }));
    (config.slice, config.history) = (Duration::from_millis(200), Some(scratch.0.clone()));
    quietly(&config).unwrap();
    let text = std::fs::read_to_string(&scratch.0).unwrap();
    let made = text.lines().filter(|line| line.contains("\"CREATE\"") || line.contains("\"MKDIR\"")).count();
    let lists: Vec<&str> = text.lines().filter(|line| line.contains("\"READDIR\"")).collect();
    assert!(made > 20 && lists.len() > 5, "{made} made, {} listed", lists.len());
    assert!(lists.iter().all(|line| line.ends_with("\"names\":[\"f0\",\"f1\",\"f2\",\"f3\",\"f4\"]}")), "{}", lists[0]);
}

#[test]
fn the_work_directory_is_as_large_as_asked_for_and_stays_if_it_shall() {
    let server = Server::start();
    let mut config = config(&server, Load::Op(Action::Getattr), CLOSED);
    (config.keep, config.shape) = (true, Shape { directories: 7, files: 300 });
    arm(&config);
    assert_eq!(server.files().count(), 1 + 7 + 7 * 300);
}

#[test]
fn whoever_asks_for_the_end_gets_it_with_everything_removed() {
    // During set-up, and during a slice.
    for in_slice in [false, true] {
        let server = Server::start();
        let mut config = config(&server, Load::Op(Action::Create), CLOSED);
        (config.slice, config.shape.files) = (Duration::from_secs(60), 500);
        let stop = AtomicBool::new(false);
        let result = run(&config, &stop, &mut |event| {
            let now = match event {
                Event::Names { what, done, .. } => !in_slice && what == "making files" && done > 0,
                Event::Slice { .. } => in_slice,
            };
            stop.fetch_or(now, Ordering::Relaxed);
        });
        assert!(matches!(result, Err(RunError::Interrupted)), "{result:?}");
        let files = server.files();
        assert_eq!((files.count(), files.made > 0), (0, true), "in a slice: {in_slice}");
    }
}

#[test]
fn a_set_up_that_fails_is_said_in_a_line_and_removed_again() {
    let made = AtomicBool::new(false);
    let server = Server::with(move |seen: &Seen, _| match seen.procedure {
        Procedure::Create if made.swap(true, Ordering::Relaxed) => Fate::Fail(Nfsstat3::NOSPC),
        _ => Fate::Answer,
    });
    let error = quietly(&config(&server, Load::Op(Action::Getattr), CLOSED)).unwrap_err().to_string();
    assert_eq!(error, "server: making files: NOSPC");
    assert_eq!(server.files().count(), 0);
}

#[test]
fn nobody_there_is_said_in_a_line() {
    // Bound, so that nobody else listens there either.
    let unused = Reservation::on(&[Ipv4Addr::LOCALHOST.into()]).unwrap();
    let target = Target::parse(&format!("gone=127.0.0.1:{}", unused.port())).unwrap();
    let error = quietly(&midas_bench::Config::new(target, Load::Op(Action::Null), CLOSED)).unwrap_err().to_string();
    assert!(error.starts_with("gone: MOUNT at 127.0.0.1:") && error.contains("refused"), "{error}");
}

#[test]
fn targets_over_one_file_system_share_the_work_directory_and_others_get_their_own() {
    let first = Server::start();
    let (twin, other) = (first.twin(), Server::start());
    let mut config = config(&first, Load::Op(Action::Lookup), CLOSED);
    let named = |name: &str, server: &Server| Target { name: name.into(), ..server.target() };
    config.targets = vec![named("a", &first), named("b", &twin), named("c", &other)];
    config.cells.push(Cell { load: Load::Op(Action::Create), pace: CLOSED });
    (config.slice, config.slices) = (Duration::from_millis(30), 7);
    let report = quietly(&config).unwrap();
    assert_eq!(report.targets.iter().map(|target| target.made).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!((first.files().count(), other.files().count()), (0, 0));
    for cell in &report.cells {
        for (index, arm) in cell.arms.iter().enumerate() {
            assert!(arm.errors.is_empty(), "{} at {}: {:?}", cell.load, arm.target, arm.errors);
            assert_eq!((arm.slices.len(), arm.ratio.is_some()), (7, index > 0));
            // The order rotates: every arm is in every place about as often.
            let places: Vec<u32> = arm.slices.iter().map(|slice| slice.position).collect();
            assert_eq!(places, (0..7).map(|round| (index as u32 + 3 * 7 - round) % 3).collect::<Vec<_>>());
        }
        let [a, _, c] = cell.arms.as_slice() else { panic!("three arms") };
        let ratio = c.ratio.as_ref().unwrap().answered_per_second.unwrap();
        let mut rounds: Vec<f64> =
            c.slices.iter().zip(&a.slices).map(|(c, a)| c.answered_per_second / a.answered_per_second).collect();
        rounds.sort_by(f64::total_cmp);
        assert_eq!((ratio.min, ratio.median, ratio.max), (rounds[0], rounds[3], rounds[6]));
    }
}

#[test]
fn the_history_has_one_line_a_call_with_its_times_in_order() {
    let (server, scratch) = (Server::start(), Scratch::new("history"));
    let spec = midas_workload::Spec::parse("spotify").unwrap();
    let mut config = config(&server, Load::Workload(spec), Pace::Closed { depth: 16 });
    (config.connections, config.threads) = (4, 2);
    config.history = Some(scratch.0.clone());
    let arm = arm(&config);
    let text = std::fs::read_to_string(&scratch.0).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len() as u64, arm.counts.history_lines);
    let seen = server.seen();
    for line in &lines {
        let stamp = line["seq"].as_u64().unwrap();
        let call = seen.iter().find(|call| u64::from(call.stamp) == stamp).unwrap();
        assert_eq!(line["xid"].as_u64().unwrap(), u64::from(call.xid));
        assert_eq!(line["procedure"], call.procedure.name());
        let time = |name: &str| line[name].as_u64().unwrap();
        assert!(time("intended") <= time("sent") && time("sent") <= time("finished"), "{line}");
        assert_eq!((&line["target"], &line["outcome"]), (&"server".into(), &"reply".into()));
        if line["procedure"] == "GETATTR" && line["status"] == "OK" {
            let object = u64::from_str_radix(line["object"].as_str().unwrap(), 16).unwrap();
            assert_eq!(line["attributes"]["fileid"].as_u64(), Some(object), "{line}");
        }
        if line["procedure"] == "RENAME" {
            assert!(line["to_name"].is_string() && line["to_dir"].is_string(), "{line}");
        }
    }
}

#[test]
fn a_history_that_cannot_be_written_is_said_before_anything_is_made() {
    let server = Server::start();
    let mut config = config(&server, Load::Op(Action::Null), CLOSED);
    config.history = Some(std::env::temp_dir().join("no-such-directory-here").join("calls"));
    assert!(matches!(quietly(&config), Err(RunError::File(..))));
    assert_eq!(server.files().made, 0);
}

#[test]
fn the_ceiling_answers_everything_that_a_run_needs() {
    let ceiling = Ceiling::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let (address, stop) = (ceiling.address().unwrap(), Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&stop);
    let thread = std::thread::spawn(move || ceiling.run(&flag));
    let target = Target::parse(&format!("ceiling={address}/any")).unwrap();
    let mut config = midas_bench::Config::new(target, Load::Op(Action::Null), CLOSED);
    config.cells = Action::ALL.iter().map(|action| Cell { load: Load::Op(*action), pace: CLOSED }).collect();
    (config.slice, config.warmup) = (Duration::from_millis(40), Duration::ZERO);
    (config.connections, config.size) = (2, 100_000);
    let report = quietly(&config).unwrap();
    for cell in &report.cells {
        let arm = &cell.arms[0];
        assert!(arm.errors.is_empty() && arm.counts.answered > 0, "{}: {:?}", cell.load, arm.counts);
        assert_eq!((arm.counts.unmatched, arm.counts.connections_lost), (0, 0), "{}", cell.load);
    }
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap().unwrap();
}

#[test]
fn every_field_of_the_json_is_documented() {
    let server = Server::start();
    let mut config = config(&server, Load::Op(Action::Lookup), CLOSED);
    config.targets.push(Target { name: "again".into(), ..server.target() });
    (config.slice, config.slices) = (Duration::from_millis(20), 7);
    config.pids = vec![("server".into(), std::process::id())];
    let json = serde_json::to_value(quietly(&config).unwrap()).unwrap();
    assert_eq!(json["schema"], "midas-bench/1");
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bench.md");
    let document = std::fs::read_to_string(document).unwrap();
    let mut missing = Vec::new();
    names(&json, &mut |name| {
        if !document.contains(&format!("`{name}`")) {
            missing.push(name.to_owned());
        }
    });
    assert!(missing.is_empty(), "docs/bench.md does not name {missing:?}");
}

fn names(value: &Value, each: &mut dyn FnMut(&str)) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            each(name);
            names(value, each);
        }),
        Value::Array(items) => items.iter().for_each(|item| names(item, each)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
