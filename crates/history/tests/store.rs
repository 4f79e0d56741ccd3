//! Histories of a small simulated store that is linearizable: none is flagged, and one old read in it is always found. Then the
//! same through files, whole and damaged.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use midas_core::rng::Rng;
use midas_history::{Attributes, Blocks, Checker, Kind, Mode, Name, Place, Record, Writer, check, status};
use std::collections::HashMap;
use std::path::PathBuf;

/// A store of four names and two files, with calls that take effect at a moment between their start and their end.
#[derive(Default)]
struct Store {
    names: HashMap<u32, u64>,
    sizes: HashMap<u64, u64>,
    objects: u64,
    versions: u64,
}

impl Store {
    fn execute(&mut self, record: &mut Record) {
        let number = record.at.and_then(|at| at.name).map_or(0, |name| name.number);
        let bound = self.names.get(&number).copied();
        record.status = status::OK;
        match record.kind {
            Kind::CreateNew if bound.is_some() => record.status = status::EXIST,
            Kind::CreateNew => {
                self.objects += 1;
                self.names.insert(number, self.objects);
                record.found = self.objects;
            }
            Kind::Lookup | Kind::Remove if bound.is_none() => record.status = status::NOENT,
            Kind::Lookup => record.found = bound.unwrap(),
            Kind::Remove => {
                self.names.remove(&number);
            }
            Kind::Readdir => {
                record.names = self.names.keys().map(|number| (Name { letter: b'n', number: *number }, 0)).collect();
                record.complete = true;
            }
            Kind::SetSize => {
                self.versions += 1;
                record.value = self.versions;
                self.sizes.insert(record.object, self.versions);
            }
            Kind::Write => {
                self.versions += 1;
                record.value = self.versions;
                self.sizes.entry(record.object).and_modify(|size| *size = (*size).max(self.versions));
            }
            _ => {
                let (object, size) = (record.object, self.sizes[&record.object]);
                record.seen = vec![Attributes { object, ftype: 1, size, mtime: 0, ctime: 0, nlink: 1, mode: 0 }];
            }
        }
    }
}

/// Calls of several clients, each one after another, by their starts.
fn history(seed: u64, clients: u32, calls: usize) -> Vec<Record> {
    let mut rng = Rng::new(seed);
    let mut plans: Vec<(u64, Record)> = Vec::new();
    for client in 0..clients {
        let mut now = 10;
        for _ in 0..calls {
            let kinds =
                [Kind::CreateNew, Kind::Lookup, Kind::Remove, Kind::Readdir, Kind::SetSize, Kind::Write, Kind::Getattr];
            let mut record = Record::new(kinds[rng.below(kinds.len())]);
            let name = (record.kind != Kind::Readdir).then(|| Name { letter: b'n', number: rng.below(4) as u32 });
            let of_object = [Kind::SetSize, Kind::Write, Kind::Getattr].contains(&record.kind);
            (record.client, record.start) = (client, now + rng.below(20) as u64);
            let effect = record.start + rng.below(30) as u64;
            record.end = effect + rng.below(30) as u64;
            now = record.end + 1;
            match of_object {
                true => record.object = 1000 + rng.below(2) as u64,
                false => record.at = Some(Place { dir: 0, name }),
            }
            plans.push((effect, record));
        }
    }
    plans.sort_by_key(|(effect, _)| *effect);
    let mut store = Store { sizes: [(1000, 0), (1001, 0)].into(), ..Store::default() };
    let mut records: Vec<Record> = plans.into_iter().map(|(_, record)| record).collect();
    for record in &mut records {
        store.execute(record);
    }
    records.sort_by_key(|record| record.start);
    records
}

fn violations(records: &[Record], mode: Mode) -> u64 {
    let mut checker = Checker::new(mode);
    for record in records {
        checker.add(record.clone());
    }
    let report = checker.finish();
    assert_eq!(report.undecided, 0);
    report.violations
}

/// Makes one read old: its version was written, and overwritten, before the read began. None if there is no such read.
fn spoil(records: &[Record]) -> Option<Vec<Record>> {
    let sets = |object| records.iter().filter(move |record| record.kind == Kind::SetSize && record.object == object);
    for (index, read) in records.iter().enumerate().filter(|(_, record)| record.kind == Kind::Getattr) {
        for old in sets(read.object).filter(|old| old.end < read.start) {
            if sets(read.object).any(|newer| newer.start > old.end && newer.end < read.start) {
                let mut spoilt = records.to_vec();
                spoilt[index].seen[0].size = old.value;
                return Some(spoilt);
            }
        }
    }
    None
}

#[test]
fn a_linearizable_store_is_never_flagged_and_one_old_read_always_is() {
    let mut spoilt = 0;
    for seed in 0..2000 {
        let records = history(seed, 2 + (seed % 7) as u32, 25);
        assert_eq!(violations(&records, Mode::Linearizable), 0, "seed {seed}");
        assert_eq!(violations(&records, Mode::Bounded(0)), 0, "seed {seed}");
        if let Some(wrong) = spoil(&records) {
            spoilt += 1;
            assert!(violations(&wrong, Mode::Linearizable) > 0, "seed {seed}");
            assert!(violations(&wrong, Mode::Bounded(0)) > 0, "seed {seed}");
            assert_eq!(violations(&wrong, Mode::Bounded(1_000_000)), 0, "seed {seed}");
        }
    }
    assert!(spoilt > 1500, "{spoilt}");
}

#[test]
fn sixteen_clients_on_two_files_and_four_names_are_decided() {
    for seed in 0..5 {
        assert_eq!(violations(&history(seed, 16, 800), Mode::Linearizable), 0, "seed {seed}");
    }
}

/// A file that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("midas-history-{name}-{}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn write(path: &Scratch, records: &[Record]) {
    let writer = Writer::create(&path.0).unwrap();
    let clients = records.iter().map(|record| record.client).max().unwrap();
    for client in 0..=clients {
        let mut scribe = writer.scribe();
        records.iter().filter(|record| record.client == client).for_each(|record| scribe.add(record));
    }
    assert_eq!(writer.close().unwrap(), records.len() as u64);
}

#[test]
fn files_are_read_in_the_order_of_time_and_several_are_one_history() {
    let (whole, even, odd) = (Scratch::new("whole"), Scratch::new("even"), Scratch::new("odd"));
    let records = history(7, 8, 3000);
    write(&whole, &records);
    let (evens, odds): (Vec<Record>, Vec<Record>) = records.iter().cloned().partition(|record| record.client % 2 == 0);
    write(&even, &evens);
    write(&odd, &odds);
    for paths in [vec![whole.0.clone()], vec![even.0.clone(), odd.0.clone()]] {
        let read: Vec<Record> = Blocks::open(&paths).unwrap().map(Result::unwrap).collect();
        assert!(read.is_sorted_by_key(|record| record.start));
        assert_eq!(read.len(), records.len());
        assert_eq!(check(&paths, Mode::Linearizable, &mut |_, _| {}).unwrap().violations, 0);
    }
    assert!(
        check(std::slice::from_ref(&even.0), Mode::Linearizable, &mut |_, _| {}).unwrap().violations > 0,
        "half is not all"
    );
}

#[test]
fn a_damaged_file_is_refused_in_words() {
    let file = Scratch::new("damaged");
    write(&file, &history(3, 4, 200));
    let bytes = std::fs::read(&file.0).unwrap();
    let flip = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x40;
        bytes
    };
    let cases: &[(Vec<u8>, &str)] = &[
        (Vec::new(), "not a history"),
        (b"{\"seq\":1}\n{\"seq\":2}\n".to_vec(), "not a history"),
        (bytes[..bytes.len() - 24].to_vec(), "no end mark"),
        (bytes[..bytes.len() / 2].to_vec(), "no end mark"),
        (flip(100), "checksum"),
        (flip(19), "claims"),
        ([bytes.clone(), b"more".to_vec()].concat(), "end mark"),
    ];
    for (bytes, want) in cases {
        std::fs::write(&file.0, bytes).unwrap();
        let error = check(std::slice::from_ref(&file.0), Mode::Linearizable, &mut |_, _| {}).unwrap_err().to_string();
        assert!(error.contains(want) && !error.contains('\n'), "{error}");
    }
}
