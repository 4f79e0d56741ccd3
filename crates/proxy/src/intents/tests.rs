//! What is written down is known to the next life, whatever became of disk and file in between.

use super::*;
use midas_core::key::Key;

const REMEMBER: Span = Span::from_secs(120);
use midas_net::{CallId, RecordKey, Replays, Terms, Verdict};
use midas_nfs::nfs3::Procedure;

fn at(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}

fn intent(number: u64) -> Intent {
    Intent { operation: Operation(number.into()), at: at(number), keys: [Some(Key(number)), None] }
}

/// A directory of this test's own, and the state file in it.
fn place(name: &str) -> (PathBuf, PathBuf, Turns) {
    let place = std::env::temp_dir().join(format!("midas-intents-{name}-{}", std::process::id()));
    let _not_there = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).unwrap();
    (place.clone(), place.join("state.json"), Turns::default())
}

/// So many calls that nobody has sent before.
fn calls(count: u32) -> Vec<CallKey> {
    let mut replays = Replays::new(Terms::of_one_in(1));
    let known = |xid: u32| {
        let (client, procedure) = (std::net::Ipv4Addr::LOCALHOST.into(), Procedure::Create);
        let call = CallId::new(&RecordKey::random(), client, procedure, &xid.to_be_bytes());
        match replays.begin(std::time::Instant::now(), call, ()) {
            Verdict::New(known) => (xid, known),
            Verdict::Joined(()) | Verdict::Done(_) => panic!("it is new"),
        }
    };
    (0..count).map(known).collect()
}

fn begun(intents: &Intents, now: Time, event_loop: usize, call: CallKey, number: u128) -> bool {
    intents.begin(now, event_loop, call, || Some(Operation(number)), [Some(Key(7)), None])
}

fn answer(text: &[u8]) -> Past {
    Past::Ended(text.into())
}

/// While this is there no file takes this one's place, as on a full disk.
fn obstacle(path: &Path) -> PathBuf {
    let obstacle = aside(path);
    fs::create_dir_all(&obstacle).unwrap();
    obstacle
}

#[test]
fn a_file_that_cannot_be_begun_anew_stays_as_it_was() {
    let (place, state, turns) = place("full");
    let (first, calls) = (Intents::open(at(1000), &state, 1, &turns, at(1001), REMEMBER).unwrap(), calls(4));
    assert!((0..2).all(|number| begun(&first, at(1000), 0, calls[number], number as u128)));
    first.ended(at(1000), 0, calls[0], Some(b"made"));
    let file = place.join("intents-0");
    let obstacle = obstacle(&file);
    {
        let mut journal = lock(&first.journals[0]);
        journal.broken = true;
        assert!(!journal.begin_anew(at(1001)) && journal.file.is_some());
        assert!(!journal.turn_over(at(1001)) && !old(&file).exists());
    }
    // There is room for entries: the file goes on, and what is in it stays.
    assert!(begun(&first, at(1002), 0, calls[2], 2) && first.standing().anew == 1);
    // A torn entry stays: nothing more is written behind it.
    lock(&first.journals[0]).file = None;
    first.ended(at(1002), 0, calls[1], Some(b"later"));
    assert!(!begun(&first, at(1002), 0, calls[3], 3));
    fs::remove_dir(&obstacle).unwrap();
    let known = |number| {
        let next = Intents::open(at(1003), &copied(&place, &state), 1, &turns, at(1004), REMEMBER).unwrap();
        next.recall(Operation(number))
    };
    let begun_then = [Some(Past::Begun(at(1000))), Some(Past::Begun(at(1002)))];
    assert_eq!((known(0), [known(1), known(2)]), (Some(answer(b"made")), begun_then));
    lock(&first.journals[0]).broken = true;
    assert!(begun(&first, at(1004), 0, calls[3], 3), "there is room again");
    assert_eq!((known(1), known(3)), (Some(answer(b"later")), Some(Past::Begun(at(1004)))), "what was owed is written");
    fs::remove_dir_all(&place).unwrap();
}

/// What is on the disk now, as a daemon that was killed leaves it.
fn copied(place: &Path, state: &Path) -> PathBuf {
    let copy = place.join("copy");
    let _not_there = fs::remove_dir_all(&copy);
    fs::create_dir_all(&copy).unwrap();
    for entry in fs::read_dir(place).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    copy.join(state.file_name().unwrap())
}

#[test]
fn what_is_under_way_is_never_in_the_file_before_alone() {
    let (place, state, turns) = place("turned");
    let first = Intents::open(at(1000), &state, 1, &turns, at(1001), REMEMBER).unwrap();
    assert!(begun(&first, at(1000), 0, calls(1)[0], 1));
    drop(first);
    // The next life was sending nothing of it, and turns over.
    let second = Intents::open(at(1010), &state, 1, &turns, at(1011), REMEMBER).unwrap();
    second.tick(at(1011) + REMEMBER, 0);
    let file = place.join("intents-0");
    assert!(old(&file).exists());
    fs::remove_file(old(&file)).unwrap();
    let next = Intents::open(at(1140), &copied(&place, &state), 1, &turns, at(1141), REMEMBER).unwrap();
    assert_eq!(next.recall(Operation(1)), Some(Past::Begun(at(1000))));
    // Killed between the two renames: the file before is all there is.
    fs::rename(&file, old(&file)).unwrap();
    let next = Intents::open(at(1140), &copied(&place, &state), 1, &turns, at(1141), REMEMBER).unwrap();
    assert_eq!(next.recall(Operation(1)), Some(Past::Begun(at(1000))));
    fs::remove_dir_all(&place).unwrap();
}

#[test]
fn a_call_of_the_life_before_that_was_found_out_about_is_known_after_a_second_crash() {
    let (place, state, turns) = place("twice");
    let first = Intents::open(at(1000), &state, 2, &turns, at(1001), REMEMBER).unwrap();
    assert!(begun(&first, at(1000), 0, calls(1)[0], 1));
    drop(first);
    let second = Intents::open(at(1010), &state, 2, &turns, at(1011), REMEMBER).unwrap();
    assert_eq!(second.recall(Operation(1)), Some(Past::Begun(at(1000))));
    let again = calls(1)[0];
    second.resume(at(1010), 1, again, (Operation(1), at(1000)), [None, None]);
    second.ended(at(1011), 1, again, Some(b"made"));
    // The first file is begun anew meanwhile.
    second.tick(at(1011) + REMEMBER, 0);
    drop(second);
    let third = Intents::open(at(1020), &state, 2, &turns, at(1021), REMEMBER).unwrap();
    assert_eq!(third.recall(Operation(1)), Some(answer(b"made")));
    fs::remove_dir_all(&place).unwrap();
}

#[test]
fn a_call_that_one_loop_gave_up_and_another_sent_is_known() {
    let (place, state, turns) = place("loops");
    let (first, calls) = (Intents::open(at(1000), &state, 2, &turns, at(1001), REMEMBER).unwrap(), calls(2));
    assert!(begun(&first, at(1000), 1, calls[0], 1));
    first.ended(at(1000), 1, calls[0], None);
    assert!(begun(&first, at(1001), 0, calls[1], 1));
    drop(first);
    let second = Intents::open(at(1010), &state, 2, &turns, at(1011), REMEMBER).unwrap();
    assert_eq!(second.recall(Operation(1)), Some(Past::Begun(at(1001))));
    fs::remove_dir_all(&place).unwrap();
}

#[test]
fn files_of_the_life_before_stay_until_the_first_one_holds_what_they_say() {
    let (place, state, turns) = place("gathered");
    let (first, calls) = (Intents::open(at(1000), &state, 2, &turns, at(1001), REMEMBER).unwrap(), calls(3));
    assert!(begun(&first, at(1000), 1, calls[0], 1));
    drop(first);
    let obstacle = obstacle(&place.join("intents-0"));
    let second = Intents::open(at(1010), &state, 2, &turns, at(1011), REMEMBER).unwrap();
    second.tick(at(1010) + REMEMBER, 1);
    assert!(second.standing().broken && !begun(&second, at(1010), 1, calls[1], 2));
    let next = Intents::open(at(1011), &copied(&place, &state), 2, &turns, at(1012), REMEMBER).unwrap();
    assert_eq!(next.recall(Operation(1)), Some(Past::Begun(at(1000))));
    fs::remove_dir(&obstacle).unwrap();
    assert!(begun(&second, at(1011), 1, calls[1], 2) && !second.standing().broken);
    let next = Intents::open(at(1012), &copied(&place, &state), 2, &turns, at(1013), REMEMBER).unwrap();
    let known = [1, 2].map(|number| next.recall(Operation(number)));
    assert_eq!(known, [Some(Past::Begun(at(1000))), Some(Past::Begun(at(1011)))]);
    fs::remove_dir_all(&place).unwrap();
}

#[test]
fn a_key_that_cannot_be_read_or_kept_is_an_error() {
    let (place, state, turns) = place("key");
    let open =
        || Intents::open(at(1000), &state, 1, &turns, at(1001), REMEMBER).map(|intents| intents.digests.of(b"x"));
    let first = open().unwrap();
    assert_eq!(open().unwrap(), first);
    let key = place.join("intents.key");
    fs::remove_file(&key).unwrap();
    fs::create_dir(&key).unwrap();
    let error = open().unwrap_err().to_string();
    assert!(error.contains("intents.key cannot be read"), "{error}");
    fs::remove_dir(&key).unwrap();
    let obstacle = obstacle(&key);
    let error = open().unwrap_err().to_string();
    assert!(error.contains("intents.key cannot be kept"), "{error}");
    fs::remove_dir(obstacle).unwrap();
    assert!(open().unwrap() != first);
    fs::remove_dir_all(&place).unwrap();
}

#[test]
fn a_long_file_forgets_no_answer_that_may_be_asked_for_unless_it_is_far_too_long() {
    let (place, ..) = place("long");
    let mut journal = Journal::new(place.join("intents-0"), REMEMBER);
    assert!(journal.begin_anew(at(1000)) && !journal.is_long(at(1000)));
    journal.length = LENGTH_MAX + 1;
    assert!(journal.is_long(at(1000)) && journal.turn_over(at(1000)));
    journal.length = LENGTH_MAX + 1;
    assert!(!journal.is_long(at(1001)) && journal.is_long(at(1000) + REMEMBER));
    journal.length = LENGTH_MAX * 4 + 1;
    assert!(journal.is_long(at(1001)), "it does not grow for ever");
    fs::remove_dir_all(&place).unwrap();
}

#[test]
fn entries_are_read_back_as_far_as_they_were_written() {
    let ended = Entry::Ended { operation: Operation(1), at: at(9), results: Box::from(&b"done"[..]) };
    let both = Intent { keys: [Some(Key(3)), Some(Key(4))], ..intent(2) };
    let all = [Entry::Begun(intent(1)), ended, Entry::Begun(both), Entry::Cancelled(Operation(2))];
    let bytes: Vec<u8> = all.iter().flat_map(Entry::encoded).collect();
    let read = |mut rest: &[u8]| {
        let mut read = Vec::new();
        while let Some((entry, behind)) = Entry::decode(rest) {
            read.push(entry);
            rest = behind;
        }
        read
    };
    assert_eq!(read(&bytes), all);
    for cut in 0..bytes.len() {
        let read = read(&bytes[..cut]);
        assert!(read.len() < all.len() && read == all[..read.len()], "cut at {cut}");
    }
    for (entry, most) in all.iter().zip([BEGUN_MAX, ENDED_MAX, BEGUN_MAX, BEGUN_MAX]) {
        assert!(entry.encoded().len() as u64 <= most);
    }
}

#[test]
fn what_was_begun_and_what_was_answered_is_known_to_the_next_life() {
    let (place, state, turns) = place("known");
    let first = Intents::open(at(1000), &state, 2, &turns, at(1001), REMEMBER).unwrap();
    let calls = calls(3);
    for (number, call) in calls.iter().enumerate() {
        let operation = || Some(Operation(number as u128));
        assert!(first.begin(at(1000), number % 2, *call, operation, [Some(Key(number as u64)), None]));
    }
    first.ended(at(1000), 0, calls[0], Some(b"made"));
    first.ended(at(1000), 1, calls[1], None);
    // A file is turned over: nothing is forgotten by that.
    first.tick(at(1000) + REMEMBER + Span::from_secs(1), 0);
    drop(first);
    let second = Intents::open(at(1100), &state, 1, &turns, at(1200), REMEMBER).unwrap();
    assert!(second.remembers());
    assert_eq!(second.recall(Operation(0)), Some(Past::Ended(Box::from(&b"made"[..]))));
    assert_eq!(second.recall(Operation(1)), None);
    assert_eq!((second.recall(Operation(2)), second.recall(Operation(2))), (Some(Past::Begun(at(1000))), None));
    drop(second);
    let third = Intents::open(at(1100) + REMEMBER, &state, 1, &turns, at(1200), REMEMBER).unwrap();
    assert_eq!(third.recall(Operation(0)), None, "it is too long ago");
    assert_eq!(third.recall(Operation(2)), Some(Past::Begun(at(1000))), "nobody knows how it ended");
    fs::remove_dir_all(&place).unwrap();
}
