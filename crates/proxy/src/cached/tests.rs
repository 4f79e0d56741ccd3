//! nfs3.md D and E, a test for each line, on an export's cache alone. What needs sockets or servers is tested with those.

use super::*;
use crate::event::Asker;
use crate::samples::attributes;
use crate::wakes::Waiter;
use midas_core::cache::{Ended, Next, Verdict};
use midas_nfs::nfs3::{
    AccessOk, Call, CreateHow, CreateOk, DirOp, Failed, Fattr3, FileHandle, Ftype3, LookupOk, Nfsstat3, Nfstime3, Page,
    Procedure, ReaddirOk, ReaddirplusOk, Reply, Sattr3, StableHow, WccData, WriteOk,
};
use midas_nfs::rpc::{AuthSys, Credential};
use std::cell::RefCell;
use std::sync::mpsc::sync_channel;

mod past_us;
mod twins;

const DIR: FileHandle<'static> = handle(b"directory");
const FILE: FileHandle<'static> = handle(b"file");
const OTHER: FileHandle<'static> = handle(b"other");
const NAME: DirOp<'static> = DirOp { dir: DIR, name: b"name" };
const LOOKUP: Call<'static> = Call::Lookup { what: NAME };
const GETATTR: Call<'static> = Call::Getattr { object: FILE };

const fn handle(bytes: &'static [u8]) -> FileHandle<'static> {
    match FileHandle::new(bytes) {
        Some(handle) => handle,
        None => panic!("a handle of 1 to 64 bytes"),
    }
}

fn at(seconds: u64) -> Time {
    Time::from_nanos(1_000_000_000_000) + Span::from_secs(seconds)
}

fn user(uid: u32) -> Who {
    Who::of(&Credential::Sys(AuthSys::new(0, b"", uid, uid, &[]).unwrap()))
}

/// How many were made: each has a number of its own.
static CACHES: AtomicU32 = AtomicU32::new(0);

fn cached(mode: Mode) -> Cached {
    beside(mode, None)
}

/// A cache whose entries are true while these leases of other proxies last.
fn beside(mode: Mode, leases: Option<Arc<Leases>>) -> Cached {
    let settings = Settings { mode, ..Settings::default() };
    let told = Told {
        settings,
        absent_max: Span::from_secs(10),
        watches: true,
        start: CleanStart::Yes,
        rules: Rules::ALL,
        leases,
        name: CACHES.fetch_add(1, Ordering::Relaxed),
    };
    Cached::new(at(0), &told).unwrap()
}

fn file(version: u32) -> Fattr3 {
    attributes(Ftype3::Reg, version)
}

fn dir(version: u32) -> Fattr3 {
    attributes(Ftype3::Dir, version)
}

/// The attributes of this file: each has a number of its own.
fn of(object: FileHandle<'static>, version: u32) -> Fattr3 {
    let fileid = if object == OTHER { 3 } else { file(version).fileid };
    Fattr3 { fileid, ..file(version) }
}

fn found(object: FileHandle<'static>, version: u32) -> Reply<'static> {
    Reply::Lookup(Ok(LookupOk { object, attributes: Some(of(object, version)), dir_attributes: Some(dir(1)) }))
}

fn absent() -> Reply<'static> {
    Reply::Lookup(Err(Failed { status: Nfsstat3::NOENT, attributes: Some(dir(1)) }))
}

fn bytes(reply: &Reply<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    reply.encode(&mut out);
    out
}

thread_local! {
    /// Of all tests: whatever may be given again must be what the cache would say.
    static MEMO: RefCell<Memo> = RefCell::default();
}

/// What is given again, as a record.
fn given(cached: &Cached, now: Time, asks: &Asks<'_>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    MEMO.with_borrow_mut(|memo| memo.give(now, cached, asks, 7, &mut out)).map(|_| out)
}

/// A call, asked of the cache: what it is told, or what it becomes.
enum Was {
    Told(Vec<u8>),
    Joined,
    Fetch(Box<Fetching>),
    /// Nothing is kept of it, and it waits with nobody.
    Passed,
}

fn ask(cached: &Cached, now: Time, call: &Call<'_>, who: &Who) -> Was {
    let mut args = Vec::new();
    call.encode(&mut args);
    let (place, _) = crate::translate::handles(call).unwrap();
    let asker = Asker { event_loop: 0, slot: 0, generation: 0 };
    let waits =
        Waits { asker, xid: 7, procedure: call.procedure(), known: None, cost: 0, whom: crate::watch::Whom::PEER };
    let mut out = Vec::new();
    let question = Question::of(call, &crate::translate::Meaning::of(call).unwrap()).expect("a read that is kept");
    let (procedure, place) = (call.procedure(), Key::of(place.bytes()));
    let asks = Asks { area: cached.name as usize, procedure, question: &question, args: &args, place, who };
    let again = given(cached, now, &asks);
    let asked = cached.ask(now, (&question, &args), (place, who), waits, &mut out);
    if let Asked::Answered(kind, Some(basis)) = asked {
        MEMO.with_borrow_mut(|memo| memo.keep(now, &asks, (kind, basis), &out));
    }
    if let Some(again) = again {
        // It may leave out what was not known yet.
        assert!(matches!(asked, Asked::Answered(..)) && (again == out || again.len() < out.len()), "{call:?}");
    }
    match asked {
        // After a record mark and an RPC header.
        Asked::Answered(..) => Was::Told(out[28..].to_vec()),
        Asked::Joined => Was::Joined,
        Asked::Fetch(fetching) => Was::Fetch(fetching),
        Asked::Pass => Was::Passed,
    }
}

fn told(cached: &Cached, now: Time, call: &Call<'_>, who: &Who) -> Option<Vec<u8>> {
    match ask(cached, now, call, who) {
        Was::Told(results) => Some(results),
        Was::Fetch(fetching) => {
            assert!(cached.forsaken(fetching).is_none());
            None
        }
        Was::Joined => panic!("nothing else is under way"),
        Was::Passed => None,
    }
}

/// A read that must be fetched, and is answered so.
fn read(cached: &Cached, now: Time, call: &Call<'_>, who: &Who, reply: &Reply<'_>) {
    let Was::Fetch(fetching) = ask(cached, now, call, who) else { panic!("{call:?} is known already") };
    cached.landed(now, *fetching, Some(&bytes(reply)));
}

fn claim(cached: &Cached, now: Time, call: &Call<'_>) -> (Touched, Vec<Unfound>) {
    match cached.claim(now, came(now), call) {
        Claimed::Marked(touched, unfound) => (touched, unfound),
        Claimed::Busy(_) => panic!("nothing else changes it"),
    }
}

/// A mutation that ends with this reply.
fn change(cached: &Cached, now: Time, call: &Call<'_>, reply: &Reply<'_>) {
    let (touched, _) = claim(cached, now, call);
    cached.ended(now, touched, Ended::Done, Some((call.procedure(), &bytes(reply))));
}

fn write() -> Call<'static> {
    Call::Write { file: FILE, offset: 0, count: 0, stable: StableHow::FileSync, data: b"" }
}

fn written(version: u32) -> Reply<'static> {
    let file = WccData { before: None, after: Some(file(version)) };
    Reply::Write(Ok(WriteOk { file, count: 0, committed: StableHow::FileSync, verf: [0; 8] }))
}

fn remove() -> Call<'static> {
    Call::Remove { object: NAME }
}

fn removed() -> Reply<'static> {
    Reply::Remove(Ok(WccData { before: None, after: Some(dir(2)) }))
}

#[test]
fn d1_a_change_of_a_name_drops_it_its_directory_and_what_it_led_to_and_keeps_other_names() {
    let (cached, who) = (cached(Mode::Lease), user(1));
    let sibling = Call::Lookup { what: DirOp { name: b"sibling", ..NAME } };
    read(&cached, at(1), &LOOKUP, &who, &found(FILE, 5));
    read(&cached, at(1), &sibling, &who, &found(OTHER, 6));
    assert!(told(&cached, at(2), &GETATTR, &who).is_some(), "a name's attributes are the object's");
    change(&cached, at(2), &remove(), &removed());
    assert_eq!(told(&cached, at(3), &GETATTR, &who), None);
    assert_eq!(
        told(&cached, at(3), &LOOKUP, &who),
        Some(bytes(&Reply::Lookup(Err(Failed { status: Nfsstat3::NOENT, attributes: Some(dir(2)) })))),
        "the reply told what is left"
    );
    let siblings =
        Reply::Lookup(Ok(LookupOk { object: OTHER, attributes: Some(of(OTHER, 6)), dir_attributes: Some(dir(2)) }));
    assert_eq!(told(&cached, at(3), &sibling, &who), Some(bytes(&siblings)));
}

#[test]
fn d1_the_target_of_a_remove_a_rename_and_an_unchecked_create_must_be_known_or_found() {
    let to = DirOp { dir: OTHER, name: b"to" };
    let unchecked = Call::Create { place: NAME, how: CreateHow::Unchecked(Sattr3::default()) };
    let guarded = Call::Create { place: NAME, how: CreateHow::Guarded(Sattr3::default()) };
    let cases = [
        (remove(), vec![(b"name".to_vec(), false)]),
        (Call::Rename { from: NAME, to }, vec![(b"name".to_vec(), true), (b"to".to_vec(), false)]),
        (unchecked, vec![(b"name".to_vec(), false)]),
        (guarded, vec![]),
    ];
    for (call, want) in cases {
        let cached = cached(Mode::Lease);
        let (mut touched, unfound) = claim(&cached, at(1), &call);
        let names: Vec<_> = unfound.iter().map(|it| (it.name.to_vec(), it.target == Target::Moved)).collect();
        assert_eq!(names, want, "{call:?}");
        // Its attributes were read under another name, while the call waits for its target.
        read(&cached, at(1), &GETATTR, &user(1), &Reply::Getattr(Ok(file(5))));
        for unfound in &unfound {
            cached.found(at(2), Key::of(FILE.bytes()), unfound, &mut touched);
        }
        assert_eq!(told(&cached, at(2), &GETATTR, &user(1)).is_some(), unfound.is_empty());
        cached.ended(at(3), touched, Ended::Done, None);
        read_names(&cached, at(4), &user(1));
        assert!(claim(&cached, at(5), &remove()).1.is_empty(), "a name that is known need not be looked up");
    }
}

fn read_names(cached: &Cached, now: Time, who: &Who) {
    read(cached, now, &LOOKUP, who, &found(FILE, 5));
}

#[test]
fn d1_one_mutation_of_a_name_at_a_time() {
    let cached = cached(Mode::Lease);
    let (touched, _) = claim(&cached, at(1), &remove());
    let rename = Call::Rename { from: DirOp { name: b"from", ..NAME }, to: NAME };
    let Claimed::Busy(names) = cached.claim(at(1), came(at(1)), &rename) else { panic!("it is under way") };
    assert_eq!(names.len(), 2, "it waits for both of its names");
    cached.ended(at(2), touched, Ended::Done, None);
    for name in names {
        cached.leave(name, came(at(1)));
    }
    let (touched, _) = claim(&cached, at(3), &rename);
    cached.ended(at(4), touched, Ended::Done, None);
}

/// A mutation of this age.
fn came(since: Time) -> Waiter {
    Waiter { since, number: since.as_nanos(), event_loop: 0 }
}

#[test]
fn d1_a_mutation_that_waits_is_next_for_all_of_its_names() {
    let cached = cached(Mode::Lease);
    let wakes = Arc::new(Wakes::new(1));
    cached.wake_by(&wakes);
    let from = DirOp { name: b"from", ..NAME };
    let rename = Call::Rename { from, to: NAME };
    let (running, _) = claim(&cached, at(1), &remove());
    let Claimed::Busy(names) = cached.claim(at(3), came(at(2)), &rename) else { panic!("it is under way") };
    assert!(!wakes.any(0), "what it gives back wakes nobody");
    let mut others = Vec::new();
    for (younger, since) in [(Call::Remove { object: from }, at(3)), (remove(), at(4))] {
        let Claimed::Busy(names) = cached.claim(at(4), came(since), &younger) else { panic!("not its turn") };
        others.push((names, came(since)));
    }
    cached.ended(at(5), running, Ended::Done, None);
    assert_eq!(wakes.take(0), [at(2).as_nanos()], "the oldest alone is woken");
    let Claimed::Marked(touched, _) = cached.claim(at(5), came(at(2)), &rename) else { panic!("it is its turn") };
    for name in names {
        cached.leave(name, came(at(2)));
    }
    assert!(!wakes.any(0), "it has what it waited for");
    cached.ended(at(5), touched, Ended::Done, None);
    assert_eq!(wakes.take(0), [at(3).as_nanos(), at(4).as_nanos()], "one for each of its names");
    for (names, who) in others {
        for name in names {
            cached.leave(name, who);
        }
    }
}

#[test]
fn d1_a_mutation_that_is_given_up_passes_its_turn_on() {
    let cached = cached(Mode::Lease);
    let wakes = Arc::new(Wakes::new(1));
    cached.wake_by(&wakes);
    let (running, _) = claim(&cached, at(1), &remove());
    let waiting = [2, 3, 4].map(|since| match cached.claim(at(5), came(at(since)), &remove()) {
        Claimed::Busy(names) => (names[0], came(at(since))),
        Claimed::Marked(..) => panic!("it is under way"),
    });
    let [first, second, third] = waiting;
    cached.leave(second.0, second.1);
    assert!(!wakes.any(0), "the name is taken");
    cached.ended(at(5), running, Ended::Done, None);
    assert_eq!(wakes.take(0), [first.1.number]);
    cached.leave(first.0, first.1);
    assert_eq!(wakes.take(0), [third.1.number], "its client has gone");
    cached.leave(third.0, third.1);
    assert!(!wakes.any(0));
}

#[test]
fn d1_a_write_updates_the_attributes_unless_another_runs_meanwhile() {
    let (cached, who) = (cached(Mode::Lease), user(1));
    change(&cached, at(1), &write(), &written(8));
    assert_eq!(told(&cached, at(2), &GETATTR, &who), Some(bytes(&Reply::Getattr(Ok(file(8))))));
    let (first, _) = claim(&cached, at(3), &write());
    change(&cached, at(4), &write(), &written(10));
    cached.ended(at(5), first, Ended::Done, Some((Procedure::Write, &bytes(&written(9)))));
    assert_eq!(told(&cached, at(6), &GETATTR, &who), None, "which came last is not known");
}

#[test]
fn d2_a_reply_from_before_a_mutation_fills_nothing_after_it() {
    let (cached, who) = (cached(Mode::Lease), user(1));
    let Was::Fetch(late) = ask(&cached, at(1), &LOOKUP, &who) else { panic!() };
    change(&cached, at(2), &write(), &written(8));
    cached.landed(at(3), *late, Some(&bytes(&found(FILE, 5))));
    assert_eq!(told(&cached, at(4), &GETATTR, &who), Some(bytes(&Reply::Getattr(Ok(file(8))))), "not the late reply's");
    let Was::Told(results) = ask(&cached, at(4), &LOOKUP, &who) else { panic!("the name itself is still true") };
    let Ok(Reply::Lookup(Ok(ok))) = Reply::decode(Procedure::Lookup, &results) else { panic!() };
    assert_eq!(ok.attributes, Some(file(8)));
}

#[test]
fn d3_time_does_not_run_backwards() {
    let (cached, who) = (cached(Mode::Lease), user(1));
    read(&cached, at(1), &GETATTR, &who, &Reply::Getattr(Ok(file(8))));
    // Its life is over, and another server answers from an old cache.
    read(&cached, at(40), &GETATTR, &who, &Reply::Getattr(Ok(file(7))));
    assert_eq!(told(&cached, at(41), &GETATTR, &who), None);
}

#[test]
fn d4_each_mode_answers_and_joins_as_far_as_it_may() {
    // mode, then whether a second call is answered, and whether one is joined while the first is on its way and after a mutation
    let cases = [
        (Mode::Strict, false, false, false),
        (Mode::Lease, true, true, false),
        (Mode::Ttl, true, true, true),
        (Mode::Immutable, true, true, true),
    ];
    for (mode, answers, joins, joins_after) in cases {
        let (cached, who) = (cached(mode), user(1));
        let first = match ask(&cached, at(1), &GETATTR, &who) {
            Was::Fetch(first) => first,
            Was::Passed => sent(&cached, &GETATTR),
            Was::Told(_) | Was::Joined => panic!("it is the first"),
        };
        let joined = |now| match ask(&cached, now, &GETATTR, &who) {
            Was::Joined => true,
            Was::Fetch(fetching) => cached.forsaken(fetching).is_some(),
            Was::Passed => false,
            Was::Told(_) => panic!("not known yet"),
        };
        assert_eq!(joined(at(1)), joins, "{mode:?}");
        change(&cached, at(2), &write(), &Reply::failed(Procedure::Write, Nfsstat3::ACCES));
        assert_eq!(joined(at(3)), joins_after, "{mode:?}");
        cached.landed(at(4), *first, Some(&bytes(&Reply::Getattr(Ok(file(5))))));
        if let Was::Fetch(second) = ask(&cached, at(5), &GETATTR, &who) {
            cached.landed(at(5), *second, Some(&bytes(&Reply::Getattr(Ok(file(5))))));
        }
        assert_eq!(told(&cached, at(5), &GETATTR, &who).is_some(), answers, "{mode:?}");
    }
}

/// A call that waited here and has left, where nothing is kept.
fn sent(cached: &Cached, call: &Call<'_>) -> Box<Fetching> {
    let (mut args, place) = (Vec::new(), crate::translate::handles(call).unwrap().0);
    call.encode(&mut args);
    let mut held = cached.waits(at(1), &args, (Key::of(place.bytes()), &Who::ANYONE), call.procedure());
    cached.leaves(&mut held);
    held
}

#[test]
fn d4_who_joins_is_not_told_attributes_that_changed_since_the_call_left() {
    let (cached, who) = (cached(Mode::Lease), user(1));
    let Was::Fetch(first) = ask(&cached, at(1), &LOOKUP, &who) else { panic!() };
    change(&cached, at(2), &write(), &written(8));
    assert!(matches!(ask(&cached, at(3), &LOOKUP, &who), Was::Joined), "the name has not changed");
    let Landed { waits, all, joined } = cached.landed(at(4), *first, Some(&bytes(&found(FILE, 5))));
    assert_eq!((waits.len(), all, joined), (1, None, Some(bytes(&without_attributes()))));
}

fn without_attributes() -> Reply<'static> {
    Reply::Lookup(Ok(LookupOk { object: FILE, attributes: None, dir_attributes: Some(dir(1)) }))
}

/// Servers look at a name twice, for attributes and for a handle.
#[test]
fn d4_nobody_is_told_attributes_of_what_came_to_its_name_while_it_was_looked_up() {
    let other = DirOp { dir: DIR, name: b"other" };
    // (the mutation, whether it ran when the call came, whether attributes may be another file's)
    let renamed = Call::Rename { from: other, to: NAME };
    let removed = Call::Remove { object: NAME };
    let elsewhere = Call::Remove { object: other };
    let cases = [(&renamed, false, true), (&removed, false, true), (&renamed, true, true), (&elsewhere, false, false)];
    for (mutation, before, mixed) in cases {
        let (cached, who) = (cached(Mode::Lease), user(1));
        let early = before.then(|| claim(&cached, at(1), mutation).0);
        let Was::Fetch(looks) = ask(&cached, at(2), &LOOKUP, &who) else { panic!() };
        let touched = early.unwrap_or_else(|| claim(&cached, at(3), mutation).0);
        cached.ended(at(4), touched, Ended::Done, None);
        let Landed { all, .. } = cached.landed(at(5), *looks, Some(&bytes(&found(FILE, 5))));
        assert_eq!(all, mixed.then(|| bytes(&without_attributes())), "{mutation:?}");
        assert_eq!(told(&cached, at(6), &GETATTR, &who).is_none(), mixed, "{mutation:?}: nor are they kept");
    }
}

#[test]
fn d4_nobody_is_told_attributes_of_what_came_to_its_name_while_it_was_listed() {
    use midas_nfs::nfs3::{Entry, EntryPlus};
    let (cached, who) = (cached(Mode::Lease), user(1));
    let list = Call::Readdirplus { dir: DIR, cookie: 0, cookieverf: [0; 8], dircount: 100, maxcount: 1000 };
    let page = |of_name: Option<Fattr3>| {
        let mut page = Page::readdirplus(u32::MAX, u32::MAX, &Some(dir(1)));
        for (name, handle, attributes) in [(&b"name"[..], FILE, of_name), (b"other", OTHER, Some(file(7)))] {
            let entry = Entry { fileid: 2, name, cookie: 77 };
            assert!(page.push_plus(&EntryPlus { entry, attributes, handle: Some(handle) }));
        }
        let list = page.finish(false);
        bytes(&Reply::Readdirplus(Ok(ReaddirplusOk { dir_attributes: Some(dir(1)), cookieverf: [9; 8], list: &list })))
    };
    let Was::Fetch(lists) = ask(&cached, at(1), &list, &who) else { panic!() };
    let (touched, _) = claim(&cached, at(2), &Call::Remove { object: NAME });
    let Landed { all, .. } = cached.landed(at(3), *lists, Some(&page(Some(file(5)))));
    assert_eq!(all, Some(page(None)), "of the other name they are as the server said");
    cached.ended(at(4), touched, Ended::Done, None);
}

#[test]
fn d8_a_missing_name_is_known_until_it_is_created_its_bound_is_over_or_another_asks() {
    let (cached, who) = (cached(Mode::Lease), user(1));
    read(&cached, at(1), &LOOKUP, &who, &absent());
    assert_eq!(told(&cached, at(2), &LOOKUP, &who), Some(bytes(&absent())));
    assert_eq!(told(&cached, at(2), &LOOKUP, &user(2)), None, "whether this user may look is not known");
    assert_eq!(told(&cached, at(11), &LOOKUP, &who), None, "no name is believed missing for longer");
    read(&cached, at(12), &LOOKUP, &who, &absent());
    let create = Call::Create { place: NAME, how: CreateHow::Guarded(Sattr3::default()) };
    change(&cached, at(13), &create, &Reply::failed(Procedure::Create, Nfsstat3::EXIST));
    assert_eq!(told(&cached, at(14), &LOOKUP, &who), None);
}

#[test]
fn e1_names_are_told_to_those_whom_the_server_has_let_look() {
    let cached = cached(Mode::Lease);
    let (one, two) = (user(1), user(2));
    let sibling = Call::Lookup { what: DirOp { name: b"sibling", ..NAME } };
    read(&cached, at(1), &LOOKUP, &one, &found(FILE, 5));
    assert_eq!(told(&cached, at(1), &LOOKUP, &two), None);
    read(&cached, at(1), &sibling, &two, &Reply::failed(Procedure::Lookup, Nfsstat3::ACCES));
    assert_eq!(told(&cached, at(1), &LOOKUP, &two), None, "a refusal proves nothing");
    read(&cached, at(1), &sibling, &two, &absent());
    assert!(told(&cached, at(2), &LOOKUP, &two).is_some(), "the server let it look for another name there");
    let chmod = Call::Setattr { object: DIR, new_attributes: Sattr3::default(), guard: None };
    change(&cached, at(3), &chmod, &Reply::Setattr(Ok(WccData::default())));
    assert_eq!([&one, &two].map(|who| told(&cached, at(4), &LOOKUP, who)), [None, None], "the mode may be another");
}

#[test]
fn e1_access_and_listings_are_never_shared_over_credentials() {
    let cached = cached(Mode::Lease);
    let access = Call::Access { object: FILE, access: 1 };
    let may = Reply::Access(Ok(AccessOk { attributes: Some(file(5)), access: 1 }));
    let list = Call::Readdirplus { dir: DIR, cookie: 0, cookieverf: [0; 8], dircount: 100, maxcount: 1000 };
    let page = Page::readdirplus(u32::MAX, u32::MAX, &None).finish(true);
    let listed =
        Reply::Readdirplus(Ok(ReaddirplusOk { dir_attributes: Some(dir(1)), cookieverf: [0; 8], list: &page }));
    for (call, reply, object) in [(access, may, FILE), (list, listed, DIR)] {
        read(&cached, at(1), &call, &user(1), &reply);
        assert_eq!(told(&cached, at(2), &call, &user(1)), Some(bytes(&reply)));
        for other in [user(2), Who::of(&Credential::None)] {
            assert_eq!(told(&cached, at(2), &call, &other), None);
        }
        let chown = Call::Setattr { object, new_attributes: Sattr3::default(), guard: None };
        change(&cached, at(3), &chown, &Reply::Setattr(Ok(WccData::default())));
        assert_eq!(told(&cached, at(4), &call, &user(1)), None);
    }
}

#[test]
fn a_listing_keeps_the_servers_cookies_and_shows_attributes_as_they_are() {
    use midas_nfs::nfs3::{Entry, EntryPlus};
    let (cached, who) = (cached(Mode::Lease), user(1));
    let list = Call::Readdirplus { dir: DIR, cookie: 0, cookieverf: [0; 8], dircount: 100, maxcount: 1000 };
    let page = |version| {
        let mut page = Page::readdirplus(u32::MAX, u32::MAX, &Some(dir(1)));
        let entry = Entry { fileid: 2, name: b"name", cookie: 77 };
        assert!(page.push_plus(&EntryPlus { entry, attributes: version, handle: Some(FILE) }));
        let list = page.finish(false);
        bytes(&Reply::Readdirplus(Ok(ReaddirplusOk { dir_attributes: Some(dir(1)), cookieverf: [9; 8], list: &list })))
    };
    let Was::Fetch(fetching) = ask(&cached, at(1), &list, &who) else { panic!() };
    cached.landed(at(1), *fetching, Some(&page(Some(file(5)))));
    assert!(told(&cached, at(2), &GETATTR, &who).is_some(), "a page fills attributes");
    assert_eq!(told(&cached, at(2), &list, &who), Some(page(Some(file(5)))));
    change(&cached, at(3), &write(), &written(8));
    assert_eq!(told(&cached, at(4), &list, &who), Some(page(Some(file(8)))), "as they are now");
    change(&cached, at(5), &write(), &Reply::failed(Procedure::Write, Nfsstat3::IO));
    assert_eq!(told(&cached, at(6), &list, &who), Some(page(None)), "not known: left out");
    change(&cached, at(7), &remove(), &removed());
    assert_eq!(told(&cached, at(8), &list, &who), None);
}

#[test]
fn a_mutation_whose_end_is_unknown_keeps_its_objects_out_for_as_long_as_it_may_still_run() {
    let (cached, who) = (cached(Mode::Lease), user(1));
    let (touched, _) = claim(&cached, at(1), &write());
    cached.ended(at(2), touched, Ended::Unknown, None);
    read(&cached, at(61), &GETATTR, &who, &Reply::Getattr(Ok(file(5))));
    assert_eq!(told(&cached, at(61), &GETATTR, &who), None);
    read(&cached, at(63), &GETATTR, &who, &Reply::Getattr(Ok(file(6))));
    assert!(told(&cached, at(63), &GETATTR, &who).is_some());
}

#[test]
fn another_mode_forgets_everything_and_marks_hold_on() {
    let (cached, who) = (cached(Mode::Lease), user(1));
    read(&cached, at(1), &GETATTR, &who, &Reply::Getattr(Ok(file(5))));
    cached.set_mode(Mode::Strict);
    let (touched, _) = claim(&cached, at(2), &write());
    cached.set_mode(Mode::Lease);
    assert_eq!(told(&cached, at(3), &GETATTR, &who), None);
    read(&cached, at(3), &GETATTR, &who, &Reply::Getattr(Ok(file(5))));
    assert_eq!(told(&cached, at(3), &GETATTR, &who), None, "it was marked in strict mode, and still runs");
    cached.ended(at(4), touched, Ended::Done, None);
    read(&cached, at(5), &GETATTR, &who, &Reply::Getattr(Ok(file(6))));
    assert!(told(&cached, at(6), &GETATTR, &who).is_some());
}

/// What is charged for entries is what they take: a cache that is full of them needs its bound, and hardly more. Resident memory is the
/// whole process's: whatever other tests do at the same time is far less.
#[test]
fn a_full_cache_takes_the_memory_that_it_was_given_and_few_bytes_an_entry() {
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap();
        status.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    };
    let cached = cached(Mode::Lease);
    let before = resident();
    let reply = bytes(&absent());
    for number in 0..600_000_u32 {
        let (name, dir) = (format!("libmissing-{number}.so"), (number % 4096).to_be_bytes().repeat(7));
        let call = Call::Lookup { what: DirOp { dir: FileHandle::new(&dir).unwrap(), name: name.as_bytes() } };
        let mut args = Vec::new();
        call.encode(&mut args);
        cached.learn(at(1), cached.clock.left(at(1)), &args, &user(1), (Procedure::Lookup, &reply));
    }
    let took = resident().saturating_sub(before);
    let stats = cached.stats();
    let sum = |of: fn(&Stats) -> usize| stats.iter().map(of).sum::<usize>();
    let (entries, charged) = (sum(|stats| stats.entries), sum(|stats| stats.bytes));
    let bound = Settings::default().bytes_max;
    println!("{entries} entries, {} bytes each: charged {charged}, taken {took} of {bound}", took / entries.max(1));
    assert!(charged <= bound && charged > bound / 10 * 8, "{charged}");
    assert!(took < charged + charged / 4 + (8 << 20), "{took} bytes are taken, {charged} are charged");
}

#[test]
fn a_mutation_that_left_in_strict_mode_without_knowing_its_target_keeps_a_lease_from_answering_until_it_has_ended() {
    for (ended, until) in [(Ended::Done, 4), (Ended::Unknown, 64)] {
        let (cached, who) = (cached(Mode::Strict), user(1));
        let (touched, unfound) = claim(&cached, at(1), &remove());
        assert!(unfound.is_empty(), "in strict mode nothing is looked up for it");
        cached.set_mode(Mode::Lease);
        assert!(!cached.answers(at(2)));
        cached.ended(at(4), touched, ended, None);
        assert!(cached.answers(at(until)) && (until == 4 || !cached.answers(at(until - 1))), "{ended:?}");
        read(&cached, at(until), &GETATTR, &who, &Reply::Getattr(Ok(file(5))));
        assert!(told(&cached, at(until), &GETATTR, &who).is_some());
    }
}

#[test]
fn a4_an_object_that_a_server_does_not_know_takes_everything_with_it() {
    let (cached, who) = (cached(Mode::Lease), user(1));
    read(&cached, at(1), &LOOKUP, &who, &found(FILE, 5));
    cached.gone(at(2), Key::of(FILE.bytes()));
    assert_eq!([&GETATTR, &LOOKUP].map(|call| told(&cached, at(3), call, &who)), [None, None]);
}

#[test]
fn h1_what_others_saw_of_a_file_while_it_was_made_is_dropped_when_its_creation_is_answered() {
    let (cached, who) = (cached(Mode::Lease), user(1));
    let create = Call::Create { place: NAME, how: CreateHow::Exclusive([7; 8]) };
    let (touched, _) = claim(&cached, at(1), &create);
    read(&cached, at(2), &GETATTR, &who, &Reply::Getattr(Ok(file(5))));
    assert!(told(&cached, at(2), &GETATTR, &who).is_some());
    let made = CreateOk { object: Some(FILE), attributes: Some(file(6)), dir: WccData::default() };
    cached.ended(at(3), touched, Ended::Done, Some((Procedure::Create, &bytes(&Reply::Create(Ok(made))))));
    assert_eq!(told(&cached, at(4), &GETATTR, &who), None);
}

#[test]
fn d4_in_strict_mode_a_call_waits_with_one_that_has_not_left_and_with_no_other() {
    let cached = cached(Mode::Strict);
    let mut args = Vec::new();
    LOOKUP.encode(&mut args);
    let (dir, one, other) = (Key::of(DIR.bytes()), user(1), user(2));
    let asked = |who: &Who| match ask(&cached, at(1), &LOOKUP, who) {
        Was::Joined => true,
        Was::Passed => false,
        Was::Told(_) | Was::Fetch(_) => panic!("nothing is kept in strict mode"),
    };
    assert!(!asked(&one), "nothing waits");
    let mut held = cached.waits(at(1), &args, (dir, &one), Procedure::Lookup);
    assert!(asked(&one) && asked(&one) && !asked(&other), "the same call of the same user");
    assert!(matches!(ask(&cached, at(1), &GETATTR, &one), Was::Passed));
    cached.leaves(&mut held);
    assert!(!asked(&one), "it has left: what it brings may be from before this one came");
    let Landed { waits, .. } = cached.landed(at(2), *held, Some(&bytes(&found(FILE, 5))));
    assert_eq!((waits.len(), cached.some_wait()), (2, false));
    assert!(told(&cached, at(2), &LOOKUP, &one).is_none(), "nor is it kept");
    let held = cached.waits(at(3), &args, (dir, &one), Procedure::Lookup);
    assert!(cached.forsaken(held).is_none() && !asked(&one) && !cached.some_wait(), "nobody waits for it any more");
}

#[test]
fn an_answer_is_given_again_until_something_of_it_goes_or_is_too_old() {
    let lookup = |cached: &Cached, now, who: &Who| {
        let (mut args, meaning) = (Vec::new(), crate::translate::Meaning::of(&LOOKUP).unwrap());
        LOOKUP.encode(&mut args);
        let question = Question::of(&LOOKUP, &meaning).unwrap();
        let (area, procedure, place) = (cached.name as usize, Procedure::Lookup, meaning.place);
        given(cached, now, &Asks { area, procedure, question: &question, args: &args, place, who })
    };
    let known = |reply: &Reply<'_>| {
        let cached = cached(Mode::Lease);
        read(&cached, at(1), &LOOKUP, &user(1), reply);
        assert!(lookup(&cached, at(1), &user(1)).is_none(), "only what the cache has said");
        assert!(told(&cached, at(1), &LOOKUP, &user(1)).is_some());
        assert!(lookup(&cached, at(1), &user(1)).is_some());
        cached
    };
    assert!(lookup(&known(&found(FILE, 1)), at(1), &user(2)).is_none(), "another user");
    assert!(lookup(&known(&found(FILE, 1)), at(2), &user(1)).is_none(), "too long ago");
    for (what, call) in [
        ("the name", Call::Remove { object: NAME }),
        ("what it leads to", write()),
        ("who may look it up", Call::Setattr { object: DIR, new_attributes: Sattr3::default(), guard: None }),
    ] {
        let cached = known(&found(FILE, 1));
        let (touched, _) = claim(&cached, at(1), &call);
        assert!(lookup(&cached, at(1), &user(1)).is_none(), "{what} is about to change");
        cached.ended(at(1), touched, Ended::Unknown, None);
    }
    let missing = known(&absent());
    let (touched, _) = claim(&missing, at(1), &Call::Mkdir { place: NAME, attributes: Sattr3::default() });
    assert!(lookup(&missing, at(1), &user(1)).is_none(), "a name that is about to be made");
    missing.ended(at(1), touched, Ended::Unknown, None);
    let flushed = known(&found(FILE, 1));
    flushed.flush();
    assert!(lookup(&flushed, at(1), &user(1)).is_none());
}
