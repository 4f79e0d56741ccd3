//! What is answered again, what joins, what grows old, and what is pushed out.

use super::*;
use std::net::Ipv4Addr;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const TERMS: Terms = Terms {
    kept: KEPT,
    names: Bound { calls_of_one: 500, calls: 500, bytes: 1 << 20 },
    data: Bound { calls_of_one: 100, calls: 150, bytes: 1 << 20 },
};

/// A cache and its key.
struct Fixture<T> {
    replays: Replays<T>,
    key: RecordKey,
}

impl<T: Clone + PartialEq> Fixture<T> {
    fn new(terms: Terms) -> Self {
        Self { replays: Replays::new(terms), key: RecordKey::random() }
    }

    fn begin(&mut self, now: Instant, client: IpAddr, procedure: Procedure, record: &[u8], asker: T) -> Verdict<'_, T> {
        let call = CallId::new(&self.key, client, procedure, record);
        self.replays.begin(now, call, asker)
    }

    fn new_call(&mut self, now: Instant, client: IpAddr, procedure: Procedure, record: &[u8], asker: T) -> Known {
        match self.begin(now, client, procedure, record, asker) {
            Verdict::New(known) => known,
            Verdict::Joined(_) | Verdict::Done(_) => panic!("it is new"),
        }
    }
}

impl Fixture<()> {
    /// Executes a call that is new.
    fn execute(&mut self, now: Instant, client: IpAddr, procedure: Procedure, xid: u32, results: &[u8]) {
        let known = self.new_call(now, client, procedure, &xid.to_be_bytes(), ());
        assert_eq!(self.replays.finish(now, &known, results), Some(()));
        let again = (self.replays.finish(now, &known, results), self.replays.forget(&known));
        assert_eq!(again, (None, None), "it is over");
    }

    fn knows(&mut self, now: Instant, client: IpAddr, procedure: Procedure, xid: u32) -> bool {
        match self.begin(now, client, procedure, &xid.to_be_bytes(), ()) {
            Verdict::Done(_) => true,
            Verdict::Joined(()) => panic!("it runs"),
            Verdict::New(known) => {
                self.replays.forget(&known);
                false
            }
        }
    }
}

#[test]
fn the_answer_is_the_one_befores_where_the_newest_asker_is_gone() {
    let (now, mut cache) = (Instant::now(), Fixture::new(TERMS));
    let known = cache.new_call(now, CLIENT, Procedure::Create, b"call", "new");
    let joined = cache.begin(now, CLIENT, Procedure::Create, b"call", "closed");
    assert_eq!(joined, Verdict::Joined("new"));
    for (here, newest) in [(["new", "closed"], "closed"), (["", ""], "closed"), (["new", ""], "new")] {
        cache.replays.prefer(&known, |asker| here.contains(asker));
        assert_eq!(cache.replays.newest(&known), Some(&newest), "{here:?}");
    }
    assert_eq!(cache.replays.finish(now, &known, b"made"), Some("new"));
}

#[test]
fn of_many_askers_the_last_ones_are_known_each_once() {
    let (now, mut cache) = (Instant::now(), Fixture::new(TERMS));
    let known = cache.new_call(now, CLIENT, Procedure::Create, b"call", 0);
    for asker in [1, 1, 2, 3, 1, 4, 5] {
        assert!(matches!(cache.begin(now, CLIENT, Procedure::Create, b"call", asker), Verdict::Joined(_)));
    }
    assert_eq!(cache.replays.before(&known), [2, 3, 1, 4]);
    cache.replays.prefer(&known, |asker| [2, 3].contains(asker));
    assert_eq!(cache.replays.newest(&known), Some(&3));
}

#[test]
fn of_two_clients_with_one_digest_each_has_a_call_of_its_own() {
    let (now, mut replays) = (Instant::now(), Replays::new(TERMS));
    let first = CallId::new(&RecordKey::random(), CLIENT, Procedure::Create, b"call");
    let other = CallId { client: OTHER, ..first };
    let begin = |replays: &mut Replays<&str>, call| match replays.begin(now, call, "asker") {
        Verdict::New(known) => known,
        Verdict::Joined(_) | Verdict::Done(_) => panic!("it is new"),
    };
    let known = [first, other].map(|call| begin(&mut replays, call));
    assert_eq!(replays.finish(now, &known[0], b"first"), Some("asker"));
    assert_eq!(replays.begin(now, first, "again"), Verdict::Done(b"first"));
    assert_eq!(replays.begin(now, other, "again"), Verdict::Joined("asker"));
    replays.forget(&known[1]);
    assert!(matches!(replays.begin(now, other, "again"), Verdict::New(_)));
}

#[test]
fn of_two_clients_with_one_digest_each_keeps_its_own_answer() {
    let (now, mut replays) = (Instant::now(), Replays::new(TERMS));
    let first = CallId::new(&RecordKey::random(), CLIENT, Procedure::Create, b"call");
    let other = CallId { client: OTHER, ..first };
    let run = |replays: &mut Replays<()>, now, call, results: &[u8]| match replays.begin(now, call, ()) {
        Verdict::New(known) => drop(replays.finish(now, &known, results)),
        Verdict::Joined(()) | Verdict::Done(_) => panic!("it is new"),
    };
    run(&mut replays, now, first, b"first");
    run(&mut replays, now, other, b"other");
    assert_eq!(replays.begin(now, first, ()), Verdict::Done(b"first"));
    assert_eq!(replays.begin(now, other, ()), Verdict::Done(b"other"));
    // The first one's answer grows old while the other's is given anew.
    let later = now + TERMS.kept + Duration::from_secs(1);
    run(&mut replays, later, other, b"other again");
    assert_eq!(replays.begin(later, other, ()), Verdict::Done(b"other again"));
    assert!(matches!(replays.begin(later, first, ()), Verdict::New(_)));
}

#[test]
fn a_call_that_comes_again_joins_the_first_and_then_gets_its_answer() {
    let (now, mut cache) = (Instant::now(), Fixture::new(TERMS));
    for procedure in [Procedure::Create, Procedure::Write, Procedure::Commit] {
        let record = [b"call", procedure.name().as_bytes()].concat();
        let known = cache.new_call(now, CLIENT, procedure, &record, "first");
        assert_eq!(cache.begin(now, CLIENT, procedure, &record, "second"), Verdict::Joined("first"));
        assert_eq!(cache.replays.newest(&known), Some(&"second"));
        assert_eq!(cache.replays.finish(now, &known, b"made"), Some("second"));
        assert_eq!(cache.begin(now, CLIENT, procedure, &record, "third"), Verdict::Done(b"made"));
    }
}

#[test]
fn another_client_or_content_is_another_call() {
    let (now, mut cache) = (Instant::now(), Fixture::new(TERMS));
    cache.new_call(now, CLIENT, Procedure::Create, b"call", ());
    cache.new_call(now, OTHER, Procedure::Create, b"call", ());
    cache.new_call(now, CLIENT, Procedure::Create, b"cell", ());
    let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
    let verdict = cache.begin(now, mapped, Procedure::Create, b"call", ());
    assert_eq!(verdict, Verdict::Joined(()), "one address has two spellings");
}

/// A large record's middle counts: it is data that another WRITE of the same range does not have.
#[test]
fn large_records_are_told_apart_by_every_byte() {
    let (now, mut cache) = (Instant::now(), Fixture::new(TERMS));
    let large = vec![7; 200_000];
    for at in [0, 3000, 100_000, 199_999] {
        let mut other = large.clone();
        other[at] = 8;
        cache.new_call(now, CLIENT, Procedure::Write, &other, ());
    }
    cache.new_call(now, CLIENT, Procedure::Write, &large[1..], ());
    cache.new_call(now, CLIENT, Procedure::Write, &large, ());
    assert_eq!(cache.begin(now, CLIENT, Procedure::Write, &large, ()), Verdict::Joined(()));
}

/// A call that waited through an outage is known as long after its answer as any other.
#[test]
fn an_answer_is_kept_for_two_minutes_from_when_it_was_given() {
    let (arrived, mut cache) = (Instant::now(), Fixture::new(TERMS));
    let known = cache.new_call(arrived, CLIENT, Procedure::Mkdir, b"call", ());
    let answered = arrived + 2 * KEPT;
    cache.replays.finish(answered, &known, b"made");
    let later = answered + KEPT;
    assert_eq!(cache.begin(later, CLIENT, Procedure::Mkdir, b"call", ()), Verdict::Done(b"made"));
    let too_late = later + Duration::from_secs(1);
    cache.new_call(too_late, CLIENT, Procedure::Mkdir, b"call", ());
}

#[test]
fn answers_of_clients_that_are_gone_are_dropped_while_others_ask() {
    let (now, mut cache) = (Instant::now(), Fixture::new(TERMS));
    for last in 0..100 {
        let client = IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
        cache.execute(now, client, Procedure::Write, 1, b"written");
    }
    let later = now + KEPT + Duration::from_secs(1);
    for xid in 0..400 {
        assert!(!cache.knows(later, CLIENT, Procedure::Write, xid));
    }
    assert_eq!((cache.replays.data.calls, cache.replays.data.bytes, cache.replays.data.of_client.len()), (0, 0, 0));
}

#[test]
fn writes_push_out_nothing_but_writes_of_the_same_client() {
    let (now, mut cache) = (Instant::now(), Fixture::new(TERMS));
    cache.execute(now, CLIENT, Procedure::Create, 1, b"made");
    cache.execute(now, OTHER, Procedure::Write, 2, b"written");
    for xid in 10..1010 {
        cache.execute(now, CLIENT, Procedure::Write, xid, b"written");
    }
    assert!(cache.knows(now, CLIENT, Procedure::Create, 1), "a CREATE has room of its own");
    assert!(cache.knows(now, OTHER, Procedure::Write, 2), "each client has its own");
    assert_eq!(cache.replays.data.calls, TERMS.data.calls_of_one + 1);
    assert!(cache.knows(now, CLIENT, Procedure::Write, 910) && !cache.knows(now, CLIENT, Procedure::Write, 909));
}

/// The client's queue goes with its only answer, and comes again with the next one.
#[test]
fn a_client_may_have_room_for_one_answer_alone() {
    let mut terms = TERMS;
    terms.names.calls_of_one = 1;
    let (now, mut cache) = (Instant::now(), Fixture::new(terms));
    for xid in 0..3 {
        cache.execute(now, CLIENT, Procedure::Create, xid, b"made");
        cache.execute(now, OTHER, Procedure::Create, xid, b"made");
        assert!(cache.knows(now, CLIENT, Procedure::Create, xid) && cache.knows(now, OTHER, Procedure::Create, xid));
    }
    assert!(!cache.knows(now, CLIENT, Procedure::Create, 1));
    let whole = vec![7; TERMS.names.bytes];
    for xid in 3..6 {
        cache.execute(now, CLIENT, Procedure::Create, xid, &whole);
        assert!(cache.knows(now, CLIENT, Procedure::Create, xid), "all room is for this one");
    }
    assert_eq!((cache.replays.names.calls, cache.replays.names.queues.len()), (1, 1));
}

#[test]
fn where_all_have_too_many_who_has_few_keeps_them() {
    let (now, mut cache) = (Instant::now(), Fixture::new(TERMS));
    cache.execute(now, OTHER, Procedure::Write, 1, b"written");
    for xid in 0..1000 {
        let client = IpAddr::V4(Ipv4Addr::new(10, 0, 0, (xid % 3) as u8));
        cache.execute(now, client, Procedure::Write, xid, b"written");
        assert!(cache.replays.data.calls <= TERMS.data.calls);
    }
    assert!(cache.knows(now, OTHER, Procedure::Write, 1));
    for xid in 1000 - 90..1000 {
        let client = IpAddr::V4(Ipv4Addr::new(10, 0, 0, (xid % 3) as u8));
        assert!(cache.knows(now, client, Procedure::Write, xid), "{xid}");
    }
}

#[test]
fn it_holds_the_newest_answers_and_not_more_of_them_than_it_may() {
    let (now, mut cache) = (Instant::now(), Fixture::new(TERMS));
    let (calls, most) = (3 * TERMS.names.calls as u32, TERMS.names.calls);
    for xid in 0..calls {
        cache.execute(now, CLIENT, Procedure::Create, xid, &xid.to_be_bytes());
    }
    let Replays { running, places, names, .. } = &cache.replays;
    assert_eq!((names.calls, names.index.len(), names.bytes), (most, most, 4 * most));
    assert_eq!((running.len(), places.len()), (0, 0));
    let oldest = calls - most as u32;
    for xid in oldest..calls {
        let verdict = cache.begin(now, CLIENT, Procedure::Create, &xid.to_be_bytes(), ());
        assert_eq!(verdict, Verdict::Done(&xid.to_be_bytes()));
    }
    assert!(!cache.knows(now, CLIENT, Procedure::Create, oldest - 1));
}

#[test]
fn it_holds_at_most_so_many_bytes_and_finds_each_answer_wherever_it_lies() {
    let (now, mut cache) = (Instant::now(), Fixture::new(TERMS));
    let most = TERMS.names.bytes;
    let results = |xid: u32| vec![xid as u8; 5000 + xid as usize % 7];
    for xid in 0..4 * (most / 5000) as u32 {
        cache.execute(now, CLIENT, Procedure::Create, xid, &results(xid));
        assert!(cache.replays.names.bytes <= most);
        for back in [0, 1, 70, 150] {
            let Some(xid) = xid.checked_sub(back) else { continue };
            let verdict = cache.begin(now, CLIENT, Procedure::Create, &xid.to_be_bytes(), ());
            assert_eq!(verdict, Verdict::Done(&results(xid)), "{back} calls ago");
        }
    }
    cache.execute(now, CLIENT, Procedure::Create, u32::MAX, &vec![0; most + 1]);
    assert!(cache.replays.names.bytes <= most, "what is larger than all room is not kept");
}

#[test]
fn what_ran_before_a_crash_is_not_taken_for_what_runs_after_it() {
    let (now, mut cache) = (Instant::now(), Fixture::new(TERMS));
    let before = cache.new_call(now, CLIENT, Procedure::Create, b"call", "before");
    cache.replays.clear();
    let after = cache.new_call(now, CLIENT, Procedure::Create, b"call", "after");
    let ends = (cache.replays.finish(now, &before, b"made"), cache.replays.finish(now, &after, b"made"));
    assert_eq!(ends, (None, Some("after")));
}
