//! Small histories that are wrong on purpose, each found, beside right ones that look alike.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use midas_history::{Attributes, Checker, Kind, Mode, Name, Place, Record, Report, SILENT, status};

/// What is flagged: the registers, in the order of the calls.
fn flagged(history: &str, mode: Mode) -> Vec<String> {
    let report = reported(history, mode);
    assert_eq!(report.violations, report.shown.len() as u64);
    report.shown.into_iter().map(|violation| violation.register).collect()
}

fn reported(history: &str, mode: Mode) -> Report {
    let mut records: Vec<Record> = history.lines().map(str::trim).filter(|line| !line.is_empty()).map(record).collect();
    records.sort_by_key(|record| record.start);
    let mut checker = Checker::new(mode);
    for record in records {
        checker.add(record);
    }
    checker.finish()
}

/// `FROM-TO WORD ARGUMENTS`; objects are capital letters, `-` is nothing, `?` at the end is no answer, `again` that it was sent twice.
fn record(line: &str) -> Record {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (start, end) = words[0].split_once('-').unwrap();
    let mut record = shape(&words[1..]);
    (record.start, record.end) = (start.parse().unwrap(), end.parse().unwrap());
    if words.last() == Some(&"?") {
        record.status = SILENT;
    }
    record.again = u32::from(words.last() == Some(&"again"));
    record
}

fn shape(words: &[&str]) -> Record {
    let at = |text: &str| Some(Place { dir: 0, name: Name::parse(text.as_bytes()) });
    let object = |text: &str| u64::from(text.as_bytes()[0]);
    let number = |text: &str| text.parse().unwrap();
    let found = |kind, name: &str, end: &str| {
        let status = [("-", status::NOENT), ("EXIST", status::EXIST)].iter().find(|(word, _)| *word == end);
        let (status, found) = status.map_or_else(|| (status::OK, object(end)), |(_, status)| (*status, 0));
        Record { at: at(name), status, found, ..Record::new(kind) }
    };
    let done = |kind| Record { status: status::OK, ..Record::new(kind) };
    let seen = |whose: &str, size, nlink| Attributes {
        object: object(whose),
        ftype: 1,
        size,
        mtime: 0,
        ctime: 0,
        nlink,
        mode: 0o666,
    };
    match words {
        ["create", name, end, ..] => found(Kind::CreateNew, name, end),
        ["symlink", name, end, text] => Record { value: number(text), ..found(Kind::Symlink, name, end) },
        ["text", whose, text] => Record { object: object(whose), result: number(text), ..done(Kind::Readlink) },
        ["look", name, end] => found(Kind::Lookup, name, end),
        ["remove", name, end, ..] => Record { found: 0, ..found(Kind::Remove, name, end) },
        ["unlink", name, whose] => Record { at: at(name), victim: object(whose), ..done(Kind::Remove) },
        ["link", whose, name] => Record { object: object(whose), at: at(name), ..done(Kind::Link) },
        ["rename", from, to, whose, ..] => {
            Record { at: at(from), to: at(to), object: object(whose), ..done(Kind::Rename) }
        }
        ["size", whose, size, ..] => Record { object: object(whose), value: number(size), ..done(Kind::SetSize) },
        ["write", whose, size, ..] => Record { object: object(whose), value: number(size), ..done(Kind::Write) },
        ["cut", name, whose] => Record { seen: vec![seen(whose, 0, 1)], ..found(Kind::CreateOver, name, whose) },
        ["see", whose, size, links] => {
            let seen = vec![seen(whose, number(size), number(links) as u32)];
            Record { object: object(whose), seen, ..done(Kind::Getattr) }
        }
        ["mode", whose, mode] => Record { object: object(whose), value: number(mode), ..done(Kind::SetMode) },
        ["may", whose, bits] => Record { object: object(whose), result: number(bits), ..done(Kind::Access) },
        ["list", names] => {
            let names =
                names.split(',').filter_map(|name| Name::parse(name.as_bytes())).map(|name| (name, 0)).collect();
            Record { at: Some(Place { dir: 0, name: None }), names, complete: true, ..done(Kind::Readdir) }
        }
        ["page", name, whose, size] => {
            let names = Name::parse(name.as_bytes()).map(|name| (name, object(whose))).into_iter().collect();
            let (at, seen) = (Some(Place { dir: 0, name: None }), vec![seen(whose, number(size), 1)]);
            Record { at, names, seen, ..done(Kind::Readdirplus) }
        }
        ["stale", whose] => Record { object: object(whose), status: status::STALE, ..Record::new(Kind::Getattr) },
        other => panic!("what is {other:?}?"),
    }
}

/// A file A at f0, of size 0 and with one name, with which most begin.
const FILE: &str = "0-1 create f0 A\n 2-3 size A 1\n";

#[test]
fn a_removal_that_was_sent_again_may_be_presumed_and_is_counted() {
    let cases: &[(&str, (u64, u64))] = &[
        ("10-20 remove n0 X again", (1, 0)),
        ("10-20 remove n0 X", (0, 1)),
        ("5-6 create n0 B\n 10-20 remove n0 X again", (0, 0)),
        ("5-6 create n0 B\n 10-20 remove n0 X again\n 21-22 look n0 B", (0, 1)),
        // Executed twice: what somebody else made in between is gone, and he sees it.
        ("5-6 create n0 B\n 10-20 remove n0 X again\n 12-13 look n0 -\n 14-15 create n0 C\n 21-22 look n0 -", (0, 1)),
        // Executed, then refused as if it had not been.
        ("5-6 create n0 B\n 10-20 remove n0 - again\n 21-22 look n0 -", (0, 1)),
        // The name was there all the time, and that was taken for what it made.
        ("5-6 create n0 B\n 10-20 create n0 B again\n 21-22 look n0 B\n 30-31 remove n0 OK\n 32-33 look n0 -", (1, 0)),
        // A removal under way could have made room for it, but it happened later: nobody else can have taken the name then.
        ("5-6 create n0 B\n 10-20 create n0 B again\n 12-31 remove n0 OK\n 21-22 look n0 B\n 32-33 look n0 -", (0, 1)),
    ];
    for (history, (presumed, violations)) in cases {
        let report = reported(history, Mode::Linearizable);
        assert_eq!((report.presumed, report.violations), (*presumed, *violations), "{history}: {:#?}", report.shown);
    }
}

#[test]
fn what_is_wrong_is_found_and_what_looks_alike_is_not() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a stale read", "10-11 size A 7\n 12-13 see A 1 1", &["size of #000041"]),
        ("a read during the write sees either", "10-15 size A 7\n 11-12 see A 1 1\n 11-13 see A 7 1", &[]),
        ("an inversion", "10-20 size A 7\n 11-12 see A 7 1\n 13-14 see A 1 1", &["size of #000041"]),
        ("overlapping reads are no inversion", "10-20 size A 7\n 11-14 see A 7 1\n 13-15 see A 1 1", &[]),
        ("a lost update", "10-11 size A 7\n 12-13 size A 8\n 14-15 see A 7 1", &["size of #000041"]),
        ("two at once end in either order", "10-13 size A 7\n 11-12 size A 8\n 14-15 see A 7 1", &[]),
        (
            "but not in both",
            "10-13 size A 7\n 11-12 size A 8\n 14-15 see A 7 1\n 16-17 see A 8 1",
            &["size of #000041"],
        ),
        ("a version that nobody wrote", "10-11 see A 9 1", &["size of #000041"]),
        (
            "a write that grows does not shrink",
            "10-11 size A 9\n 12-13 write A 4\n 14-15 see A 4 1",
            &["size of #000041"],
        ),
        ("a cut file", "10-11 create n0 B\n 12-13 size B 5\n 14-15 cut n0 B\n 16-17 see B 5 1", &["size of #000042"]),
        ("a phantom name", "10-11 look n0 X", &["name d0/n0"]),
        ("seen after removal", "10-11 create n0 B\n 12-13 remove n0 OK\n 14-15 look n0 B", &["name d0/n0"]),
        ("resurrected", "10-11 create n0 B\n 12-20 remove n0 OK\n 13-14 look n0 -\n 15-16 look n0 B", &["name d0/n0"]),
        ("gone too soon", "10-11 create n0 B\n 12-13 look n0 -", &["name d0/n0"]),
        ("CREATE executed twice", "10-11 create n0 EXIST\n 12-13 look n0 B", &["name d0/n0"]),
        ("REMOVE executed twice", "10-11 create n0 B\n 12-13 remove n0 -\n 14-15 look n0 -", &["name d0/n0"]),
        (
            "two that both removed one name",
            "10-11 create n0 B\n 12-15 remove n0 OK\n 13-14 remove n0 OK",
            &["name d0/n0"],
        ),
        ("two that both made one name", "10-15 create n0 B\n 11-14 create n0 C", &["name d0/n0"]),
        ("one made it, one was told so", "10-15 create n0 B\n 11-14 create n0 EXIST\n 16-17 look n0 B", &[]),
        (
            "old object after RENAME over it",
            "10-11 create n0 B\n 12-13 create o0 C\n 14-15 rename o0 n0 C\n 16-17 look n0 B",
            &["name d0/n0"],
        ),
        ("old name after RENAME", "12-13 create o0 C\n 14-15 rename o0 n0 C\n 16-17 look o0 C", &["name d0/o0"]),
        ("a link not counted", "10-11 link A k0\n 12-13 see A 1 1", &["links of #000041"]),
        (
            "a link counted after it is gone",
            "10-11 link A k0\n 12-13 unlink k0 A\n 14-15 see A 1 2",
            &["links of #000041"],
        ),
        ("a file that stays is not gone", "10-11 stale A", &["links of #000041"]),
        ("an old right", "10-11 mode A 436\n 12-13 may A 31", &["mode of #000041"]),
        ("the text of another link", "10-11 symlink s0 B 5\n 12-13 text B 6", &["text of #000042"]),
        ("in doubt, seen later", "10-11 size A 7 ?\n 12-13 see A 1 1\n 20-21 see A 7 1", &[]),
        ("in doubt, but once", "10-11 size A 7 ?\n 12-13 see A 7 1\n 14-15 see A 1 1", &["size of #000041"]),
        ("in doubt, never seen", "10-11 remove f0 OK ?\n 12-13 look f0 A", &[]),
        ("in doubt, made something", "10-11 create n0 X ?\n 12-13 look n0 -\n 14-15 look n0 C\n 16-17 look n0 C", &[]),
    ];
    for (what, history, want) in cases {
        assert_eq!(flagged(&format!("{FILE}{history}"), Mode::Linearizable), *want, "{what}");
    }
}

#[test]
fn what_happened_while_a_register_was_in_doubt_is_not_held_against_it() {
    // Nobody made B, and until the RENAME ends the name may lead to anything.
    let doubt = "10-11 create o0 C\n 12-30 rename o0 n0 C\n 14-15 look n0 B\n";
    let cases: &[(&str, &str, usize)] = &[
        ("a creation that was undone before", "16-40 create n0 D\n 20-21 remove n0 OK\n 41-42 look n0 -", 1),
        ("or comes after", "16-40 create n0 D\n 31-32 look n0 -\n 41-42 look n0 D", 1),
        ("but once", "16-40 create n0 D\n 31-32 look n0 -\n 33-34 look n0 D\n 35-36 look n0 -", 2),
        ("and not at all after its end", "16-40 create n0 D\n 41-42 look n0 -\n 43-44 look n0 D", 2),
        ("a removal of what is no longer there", "16-40 remove n0 OK\n 31-32 look n0 C\n 41-42 look n0 C", 1),
    ];
    for (what, history, want) in cases {
        assert_eq!(flagged(&format!("{doubt}{history}"), Mode::Linearizable), vec!["name d0/n0"; *want], "{what}");
    }
    // A CREATE cuts what the name led to before another came there, also if nobody knows any more that it led there.
    let cut = "4-5 rename f0 n0 A\n 10-11 create o0 C\n 14-15 look n0 B\n 20-30 cut n0 C\n 21-29 rename o0 n0 C\n 31-32 see A 0 1";
    assert_eq!(flagged(&format!("{FILE}{cut}"), Mode::Linearizable), ["name d0/n0"]);
}

#[test]
fn listings_show_what_is_there_and_attributes_of_what_was_there_when_they_began() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a phantom in a listing", "10-11 list f0,n1", &["name d0/n1"]),
        ("a name that a listing misses", "10-11 create n0 B\n 12-13 list f0", &["name d0/n0"]),
        ("a listing during the creation", "10-15 create n0 B\n 11-12 list f0\n 13-14 list f0,n0", &[]),
        ("old attributes in a listing", "4-5 see A 1 1\n 10-11 size A 7\n 12-13 page f0 A 1", &["size of #000041"]),
        (
            "a listing that overlaps a creation shows what was there before",
            "10-20 create n0 B\n 11-14 page n0 B 9\n 21-22 see B 0 1",
            &[],
        ),
        (
            "a listing that overlaps a RENAME shows what was there before",
            "10-11 create n0 B\n 12-13 size B 5\n 14-15 create o0 C\n 16-17 see C 0 1\n 20-25 page n0 C 5\n 21-24 rename o0 n0 C",
            &[],
        ),
        (
            "but not one that begins after it",
            "10-11 create n0 B\n 12-13 size B 5\n 14-15 create o0 C\n 16-17 see C 0 1\n 20-21 rename o0 n0 C\n 22-23 page n0 C 5",
            &["size of #000043"],
        ),
        ("its name counts", "10-11 page n0 B 9\n 12-13 create n0 B", &["name d0/n0"]),
    ];
    for (what, history, want) in cases {
        assert_eq!(flagged(&format!("{FILE}{history}"), Mode::Linearizable), *want, "{what}");
    }
}

#[test]
fn a_value_may_be_as_old_as_the_bound_and_no_older() {
    let cases: &[(&str, &str, u64, &[&str])] = &[
        ("old, but not too old", "10-11 size A 7\n 30-31 see A 1 1", 20, &[]),
        ("too old", "10-11 size A 7\n 32-33 see A 1 1", 20, &["size of #000041"]),
        ("never written", "32-33 see A 9 1", 20, &["size of #000041"]),
        ("a name that is gone", "10-11 create n0 B\n 12-13 remove n0 OK\n 30-31 look n0 B", 10, &["name d0/n0"]),
        ("a name that is gone, in time", "10-11 create n0 B\n 12-13 remove n0 OK\n 30-31 look n0 B", 20, &[]),
        ("a name that is there", "10-11 create n0 B\n 40-41 look n0 -", 10, &["name d0/n0"]),
        ("an inversion is no sin", "10-11 size A 7\n 12-13 see A 7 1\n 14-15 see A 1 1", 10, &[]),
    ];
    for (what, history, bound, want) in cases {
        assert_eq!(flagged(&format!("{FILE}{history}"), Mode::Bounded(*bound)), *want, "{what}");
    }
}

#[test]
fn the_time_of_an_object_does_not_run_backwards() {
    let time = |start, ctime| {
        let mut record = shape(&["see", "A", "1", "1"]);
        (record.start, record.end, record.seen[0].ctime) = (start, start + 10, ctime);
        record
    };
    for (second, want) in [(5, 0), (11, 1)] {
        let mut checker = Checker::new(Mode::Linearizable);
        checker.add(time(0, 100));
        checker.add(time(second, 99));
        assert_eq!(checker.finish().violations, want, "overlapping calls may see it in any order");
    }
}

#[test]
fn a_time_with_old_seconds_and_new_nanoseconds_is_torn_and_no_violation() {
    let time = |start, ctime| {
        let mut record = shape(&["see", "A", "1", "1"]);
        (record.start, record.end, record.seen[0].ctime) = (start, start + 10, ctime);
        record
    };
    // (what is seen after 863.999, what is seen at last, torn, violations)
    let cases = [
        (863_021_000_000, 864_021_000_000, 1, 0),
        (863_021_000_000, 864_022_000_000, 0, 1),
        (862_021_000_000, 864_021_000_000, 0, 1),
        (863_021_000_000, 863_999_000_000, 0, 1),
    ];
    for (second, last, torn, violations) in cases {
        let mut checker = Checker::new(Mode::Linearizable);
        checker.add(time(0, 863_999_000_000));
        checker.add(time(20, second));
        checker.add(time(40, last));
        let report = checker.finish();
        assert_eq!((report.torn, report.violations), (torn, violations), "{second} {last}");
    }
}
