//! The duplicate request cache: a client that sends a call again, because the answer was lost or late, gets the first answer.
//!
//! A call is known by the client's address without its port (it reconnects), its xid, its procedure and a checksum of the record: of
//! all of it, or of both ends where it carries data. The checksum is keyed and quick rather than strong: a client that finds a collision
//! deceives itself alone. Only calls that must not be executed twice are kept; the oldest leave first.

use foldhash::quality::RandomState;
use midas_nfs::nfs3::Procedure;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Answers that may be asked for again.
#[derive(Debug)]
pub struct Replays<T> {
    known: HashMap<Known, State<T>, RandomState>,
    order: VecDeque<(Instant, Known)>,
    checksum: RandomState,
    bytes: usize,
}

/// What makes two records the same call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Known {
    client: IpAddr,
    xid: u32,
    procedure: Procedure,
    checksum: u64,
}

/// How far the first call has come.
#[derive(Debug)]
enum State<T> {
    /// It waits or runs, since then; its answer goes to the newest asker.
    Running(T, Instant),
    /// Its results.
    Done(Box<[u8]>),
}

/// What to do with a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<'a, T> {
    /// It is new: execute it, then tell [`Replays::finish`].
    New(Known),
    /// It runs already, and this asker gets the answer instead of the one before.
    Joined(T),
    /// It is done: these are its results.
    Done(&'a [u8]),
}

impl<T> Replays<T> {
    /// An empty cache.
    pub fn new() -> Self {
        let (known, order, checksum) = (HashMap::default(), VecDeque::new(), RandomState::default());
        Self { known, order, checksum, bytes: 0 }
    }

    /// A call came in from `asker`.
    pub fn begin(
        &mut self,
        now: Instant,
        client: IpAddr,
        xid: u32,
        procedure: Procedure,
        record: &[u8],
        asker: T,
    ) -> Verdict<'_, T> {
        let known = Known { client, xid, procedure, checksum: self.checksum(record) };
        self.expire(now);
        match self.known.entry(known) {
            Entry::Vacant(place) => {
                place.insert(State::Running(asker, now));
                Verdict::New(known)
            }
            Entry::Occupied(place) => match place.into_mut() {
                State::Done(results) => Verdict::Done(results),
                State::Running(newest, _) => Verdict::Joined(std::mem::replace(newest, asker)),
            },
        }
    }

    fn checksum(&self, record: &[u8]) -> u64 {
        match record.len() > 2 * END {
            true => self.checksum.hash_one((record.len(), &record[..END], &record[record.len() - END..])),
            false => self.checksum.hash_one(record),
        }
    }

    /// A call was executed: its results are kept, and its newest asker is who gets them.
    pub fn finish(&mut self, known: &Known, results: &[u8]) -> Option<T> {
        self.make_room();
        let state = self.known.get_mut(known)?;
        let State::Running(..) = state else { return None };
        self.bytes += results.len();
        match std::mem::replace(state, State::Done(results.into())) {
            State::Running(asker, since) => {
                // Only what is kept has a place in the order: WRITEs that come and go push nothing out.
                self.order.push_back((since, *known));
                Some(asker)
            }
            State::Done(_) => None,
        }
    }

    /// A call is over whose answer need not be kept: sent again, it may be executed again. Its newest asker.
    pub fn forget(&mut self, known: &Known) -> Option<T> {
        match self.known.remove(known)? {
            State::Running(asker, _) => Some(asker),
            State::Done(results) => {
                self.bytes -= results.len();
                None
            }
        }
    }

    /// All is forgotten: a crash.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// The oldest answers make way.
    fn make_room(&mut self) {
        for _ in 0..2 {
            if self.order.len() < CALLS_MOST && self.bytes < BYTES_MOST {
                return;
            }
            self.pop();
        }
    }

    /// Nobody asks again after so long: what looks like it is a new call with an old number.
    fn expire(&mut self, now: Instant) {
        for _ in 0..2 {
            match self.order.front() {
                Some((since, _)) if now.saturating_duration_since(*since) > KEPT => self.pop(),
                Some(_) | None => return,
            }
        }
    }

    fn pop(&mut self) {
        let Some((_, oldest)) = self.order.pop_front() else { return };
        if let Some(State::Done(results)) = self.known.remove(&oldest) {
            self.bytes -= results.len();
        }
    }
}

impl<T> Default for Replays<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Answers that are kept, and their bytes.
const CALLS_MOST: usize = 16_384;
const BYTES_MOST: usize = 8 << 20;
/// What is looked at of either end of a large record: more than the longest names.
const END: usize = 2 << 10;
/// For how long an answer is kept.
const KEPT: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn a_call_that_comes_again_joins_the_first_and_then_gets_its_answer() {
        let (now, mut replays) = (Instant::now(), Replays::new());
        let Verdict::New(known) = replays.begin(now, CLIENT, 1, Procedure::Create, b"call", "first") else {
            panic!("it is new")
        };
        assert_eq!(replays.begin(now, CLIENT, 1, Procedure::Create, b"call", "second"), Verdict::Joined("first"));
        assert_eq!(replays.finish(&known, b"made"), Some("second"));
        assert_eq!(replays.begin(now, CLIENT, 1, Procedure::Create, b"call", "third"), Verdict::Done(b"made"));
    }

    #[test]
    fn another_xid_client_procedure_or_content_is_another_call() {
        let (now, mut replays) = (Instant::now(), Replays::new());
        let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
        assert!(matches!(replays.begin(now, CLIENT, 1, Procedure::Create, b"call", ()), Verdict::New(_)));
        assert!(matches!(replays.begin(now, CLIENT, 2, Procedure::Create, b"call", ()), Verdict::New(_)));
        assert!(matches!(replays.begin(now, other, 1, Procedure::Create, b"call", ()), Verdict::New(_)));
        assert!(matches!(replays.begin(now, CLIENT, 1, Procedure::Mkdir, b"call", ()), Verdict::New(_)));
        assert!(matches!(replays.begin(now, CLIENT, 1, Procedure::Create, b"cell", ()), Verdict::New(_)));
    }

    #[test]
    fn large_records_are_told_apart_by_their_ends_and_their_length() {
        let (now, mut replays) = (Instant::now(), Replays::new());
        let large = vec![7; 100 * END];
        let (mut first, mut last) = (large.clone(), large.clone());
        first[END - 1] = 8;
        last[99 * END] = 8;
        for record in [&large[..], &large[1..], &first, &last] {
            assert!(matches!(replays.begin(now, CLIENT, 1, Procedure::Write, record, ()), Verdict::New(_)));
        }
        assert_eq!(replays.begin(now, CLIENT, 1, Procedure::Write, &large, ()), Verdict::Joined(()));
    }

    #[test]
    fn an_answer_is_kept_for_two_minutes() {
        let (now, mut replays) = (Instant::now(), Replays::new());
        let Verdict::New(known) = replays.begin(now, CLIENT, 1, Procedure::Create, b"call", ()) else {
            panic!("it is new")
        };
        replays.finish(&known, b"made");
        let later = now + KEPT;
        assert_eq!(replays.begin(later, CLIENT, 1, Procedure::Create, b"call", ()), Verdict::Done(b"made"));
        let too_late = later + Duration::from_secs(1);
        assert!(matches!(replays.begin(too_late, CLIENT, 1, Procedure::Create, b"call", ()), Verdict::New(_)));
        assert_eq!(replays.bytes, 0);
    }

    #[test]
    fn it_holds_at_most_so_many_answers() {
        let (now, mut replays) = (Instant::now(), Replays::new());
        for xid in 0..3 * CALLS_MOST as u32 {
            let Verdict::New(known) = replays.begin(now, CLIENT, xid, Procedure::Create, b"call", ()) else {
                panic!("it is new")
            };
            replays.finish(&known, b"made");
        }
        assert!(replays.known.len() <= CALLS_MOST && replays.order.len() <= CALLS_MOST);
        assert_eq!(replays.bytes, 4 * replays.known.len());
    }
}
