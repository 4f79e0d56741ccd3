//! Answers that an event loop has just given, whole, to be given again without a lock.
//!
//! An answer may be given again while every value that it was made of is still kept and inside its horizon (P12): a value that goes is
//! counted before the mutation that drops it leaves, so this decides nothing that the cache would decide otherwise. It is asked again
//! every [`LIFE`] all the same: it chooses which hits are checked against a server, and who must go when it is full.

use super::label::{Kind, Who};
use super::question::{ARGS_MOST, Question};
use super::{Cached, PARTS};
use crate::counters::{Fate, ReadCount};
use midas_core::cache::Departures;
use midas_core::key::Key;
use midas_core::time::{Span, Time};
use midas_nfs::nfs3::Procedure;
use std::sync::Arc;

/// What an answer was made of: values of up to two parts of the cache, all of which may be told until then.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Basis {
    /// A part, and how many values had gone from it.
    parts: [(u8, u64); 2],
    until: Time,
}

impl Basis {
    pub(super) fn new(part: usize, departures: u64, until: Time) -> Self {
        const { assert!(PARTS <= u8::MAX as usize, "parts are counted in a byte") };
        Self { parts: [(part as u8, departures); 2], until }
    }

    /// An answer that was made of another part too.
    pub(super) fn and(self, other: Self) -> Self {
        Self { parts: [self.parts[0], other.parts[0]], until: self.until.min(other.until) }
    }

    /// Whether all of it is still kept, and may be told.
    #[inline]
    fn stands(&self, now: Time, departures: &[Arc<Departures>]) -> bool {
        now < self.until && self.parts.iter().all(|&(part, count)| departures[usize::from(part)].count() == count)
    }
}

/// A call, to the byte.
#[derive(Clone, Copy)]
pub(crate) struct Asks<'c> {
    /// The number of the part of an export that it is asked of.
    pub(crate) area: usize,
    pub(crate) procedure: Procedure,
    pub(crate) question: &'c Question<'c>,
    pub(crate) args: &'c [u8],
    /// The object or directory that it names.
    pub(crate) place: Key,
    pub(crate) who: &'c Who,
}

/// The answers that one event loop gave last.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    /// Two for each digest; none before the first answer.
    places: Vec<Answer>,
}

#[derive(Clone, Debug)]
struct Answer {
    basis: Basis,
    area: usize,
    procedure: Procedure,
    kind: Kind,
    /// The place of its count.
    counted: ReadCount,
    /// How often it was given again.
    given: u32,
    args: usize,
    who: usize,
    /// The arguments, who asks, and the answer as a record.
    bytes: Vec<u8>,
}

impl Memo {
    /// Answers a call as the last one that was the same, if that is still what the cache would say.
    #[inline]
    pub(crate) fn give(
        &mut self,
        now: Time,
        cached: &Cached,
        asks: &Asks<'_>,
        xid: u32,
        out: &mut Vec<u8>,
    ) -> Option<(Kind, ReadCount)> {
        let digest = digest(asks)?;
        let pair = self.places.get_mut(digest..digest + 2)?;
        let answer = pair.iter_mut().find(|answer| answer.is_for(asks))?;
        if !answer.basis.stands(now, &cached.departures) {
            cached.repeated(asks.place, std::mem::take(&mut answer.given));
            return None;
        }
        answer.given += 1;
        let begin = out.len();
        out.extend_from_slice(&answer.bytes[answer.args + answer.who..]);
        out[begin + XID..begin + XID + 4].copy_from_slice(&xid.to_be_bytes());
        Some((answer.kind, answer.counted))
    }

    /// Remembers an answer that the cache has given; the last but one of its digest makes room.
    pub(crate) fn keep(&mut self, now: Time, asks: &Asks<'_>, (kind, basis): (Kind, Basis), record: &[u8]) {
        // Arguments may be followed by anything, as long as a record may be.
        let small = asks.args.len() <= ARGS_MOST && record.len() <= RECORD_MOST;
        let Some(digest) = digest(asks).filter(|_| small) else { return };
        if self.places.is_empty() {
            self.places.resize(PLACES, Answer::NONE);
        }
        let pair = &mut self.places[digest..digest + 2];
        if !pair[0].is_for(asks) {
            pair.swap(0, 1);
        }
        let mut bytes = std::mem::take(&mut pair[0].bytes);
        bytes.clear();
        let who = asks.who.bytes();
        for part in [asks.args, who, record] {
            bytes.extend_from_slice(part);
        }
        let basis = Basis { until: basis.until.min(now + LIFE), ..basis };
        let (args, who) = (asks.args.len(), who.len());
        let (area, procedure) = (asks.area, asks.procedure);
        let counted = ReadCount::of(area, procedure, kind.fate());
        pair[0] = Answer { basis, area, procedure, kind, counted, given: 0, args, who, bytes };
    }
}

impl Answer {
    const NONE: Self = Self {
        basis: Basis { parts: [(0, 0); 2], until: Time::ZERO },
        area: 0,
        procedure: Procedure::Null,
        kind: Kind::Attributes,
        counted: ReadCount::of(0, Procedure::Null, Fate::Answered),
        given: 0,
        args: 0,
        who: 0,
        bytes: Vec::new(),
    };

    #[inline]
    fn is_for(&self, asks: &Asks<'_>) -> bool {
        let (args, who) = (asks.args, asks.who.bytes());
        self.area == asks.area
            && self.procedure == asks.procedure
            && (self.args, self.who) == (args.len(), who.len())
            && self.bytes[..self.args] == *args
            && self.bytes[self.args..self.args + self.who] == *who
    }
}

impl Cached {
    /// So many hits were given again without asking.
    #[cold]
    fn repeated(&self, place: Key, hits: u32) {
        self.part(place).cache.repeated(hits);
    }
}

/// Where a call's answer is kept, if it is small and asked for often.
#[inline]
fn digest(asks: &Asks<'_>) -> Option<usize> {
    let key = match asks.question {
        Question::Attributes(_) => asks.place.0,
        Question::Name(_, name) => name.0 ^ asks.who.key().0,
        Question::Access(_, mask) => asks.place.0 ^ asks.who.key().0.rotate_left(*mask),
        Question::Link(_) | Question::Page(..) | Question::Limits(..) => return None,
    };
    Some((key as usize % PLACES) & !1)
}

/// Where the number of a call stands in a record.
const XID: usize = 4;
/// Answers that are remembered.
const PLACES: usize = 4096;
/// The longest answer: a handle with two sets of attributes.
const RECORD_MOST: usize = 512;
/// How long an answer is given again.
const LIFE: Span = Span::from_millis(100);
