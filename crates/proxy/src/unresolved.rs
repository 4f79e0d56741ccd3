//! The calls of one event loop that wait until a question is resolved: which export a handle belongs to, or
//! which object a name resolves to.
//!
//! A client chooses what it asks for, so everything here is bounded: calls and bytes, of one address and in
//! all; questions under way; and time. Addresses take turns, and one whose questions lead nowhere waits for
//! its next turn. Questions are told apart by all their bytes.

use crate::clerk::Unknown;
use crate::dispatch::Origin;
use crate::event::Asker;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a question was resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// What was asked for is known now.
    Known,
    /// No server knows the object.
    Nowhere,
    /// Nobody could tell.
    Untold,
}

/// A call that waits.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) asker: Asker,
    pub(crate) address: IpAddr,
    pub(crate) record: Vec<u8>,
    /// When its client sent it.
    pub(crate) since: Instant,
}

impl Call {
    /// Bytes that it holds: its record, its question, and what is kept to find them.
    pub(crate) fn cost(&self) -> usize {
        self.record.len() + BESIDE
    }
}

/// Bytes that may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) of_address: usize,
    pub(crate) of_all: usize,
}

/// The calls that wait.
pub(crate) struct Unresolved {
    room: Room,
    /// By number, so in the order in which they came.
    calls: BTreeMap<u64, (Call, Arc<Unknown>)>,
    next: u64,
    bytes: usize,
    questions: HashMap<Arc<Unknown>, Question>,
    /// Calls by their connections' slots.
    of_slot: BTreeSet<(u32, u64)>,
    shares: HashMap<IpAddr, Share>,
    /// Addresses that have something to ask, in turn.
    turns: VecDeque<IpAddr>,
    /// Questions to be asked again, and when.
    again: BTreeMap<(Instant, u64), Arc<Unknown>>,
    under_way: usize,
}

#[derive(Default)]
struct Question {
    calls: BTreeSet<u64>,
    /// Who pays for it while it is asked.
    asked_for: Option<IpAddr>,
    /// How often nobody could tell.
    untold: u32,
}

/// What is held and asked on behalf of one address.
struct Share {
    calls: usize,
    bytes: usize,
    to_ask: VecDeque<Arc<Unknown>>,
    /// Whether it stands among the turns.
    in_turn: bool,
    /// Questions that it may ask without a result, and when they were last counted.
    allowance: f64,
    counted: Instant,
    /// Whether nobody could tell the last time: its server is away, and its other calls need not wait for that.
    untold: bool,
}

impl Unresolved {
    pub(crate) fn new(room: Room) -> Self {
        Self {
            room,
            calls: BTreeMap::new(),
            next: 0,
            bytes: 0,
            questions: HashMap::new(),
            of_slot: BTreeSet::new(),
            shares: HashMap::new(),
            turns: VecDeque::new(),
            again: BTreeMap::new(),
            under_way: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether an address has so much waiting that its connections are not read until some of it is resolved.
    #[inline]
    pub(crate) fn full_for(&self, address: IpAddr) -> bool {
        !self.calls.is_empty() && self.share_is_full(address, |share| !share.untold)
    }

    fn share_is_full(&self, address: IpAddr, and: impl Fn(&Share) -> bool) -> bool {
        let full = |share: &Share| share.calls >= CALLS_OF_ADDRESS || share.bytes >= self.room.of_address;
        self.shares.get(&address).is_some_and(|share| full(share) && and(share))
    }

    /// Has a record wait for a question; what it holds. None if there is no room for it, in all or for its address.
    pub(crate) fn add(&mut self, now: Instant, (origin, record): (&Origin, &[u8]), unknown: Unknown) -> Option<usize> {
        let cost = record.len() + BESIDE;
        let (asker, address) = (origin.asker, origin.client.ip());
        let full = self.calls.len() >= CALLS || self.bytes + cost > self.room.of_all;
        if full || self.share_is_full(address, |_| true) {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.put(now, number, Call { asker, address, record: record.to_vec(), since: now }, Arc::new(unknown));
        Some(cost)
    }

    fn put(&mut self, now: Instant, number: u64, call: Call, unknown: Arc<Unknown>) {
        let (address, cost) = (call.address, call.cost());
        self.bytes += cost;
        self.of_slot.insert((call.asker.slot, number));
        let question = self.questions.entry(Arc::clone(&unknown)).or_default();
        question.calls.insert(number);
        let asked = question.asked_for.is_some();
        self.calls.insert(number, (call, Arc::clone(&unknown)));
        let share = self.shares.entry(address).or_insert_with(|| Share::new(now));
        share.calls += 1;
        share.bytes += cost;
        // Another address may have asked the same and have no turn for long.
        if !asked {
            self.want(address, unknown);
        }
    }

    fn want(&mut self, address: IpAddr, unknown: Arc<Unknown>) {
        let Self { shares, questions, turns, .. } = self;
        let Some(share) = shares.get_mut(&address) else { return };
        if share.to_ask.len() >= 2 * CALLS_OF_ADDRESS {
            share.to_ask.retain(|unknown| questions.contains_key(unknown));
        }
        share.to_ask.push_back(unknown);
        if !std::mem::replace(&mut share.in_turn, true) {
            turns.push_back(address);
        }
    }

    /// The next question to ask, if one may be asked now.
    pub(crate) fn next_question(&mut self, now: Instant) -> Option<Arc<Unknown>> {
        if self.under_way >= UNDER_WAY {
            return None;
        }
        for _ in 0..self.turns.len() {
            let address = self.turns.pop_front()?;
            let Some(share) = self.shares.get_mut(&address) else { continue };
            let may = share.may_ask(now);
            let wanted = if may { share.next(&self.questions) } else { None };
            share.in_turn = !share.to_ask.is_empty();
            if share.in_turn {
                self.turns.push_back(address);
            }
            if let Some(unknown) = wanted {
                share.allowance -= 1.0;
                if let Some(question) = self.questions.get_mut(&unknown) {
                    question.asked_for = Some(address);
                }
                self.under_way += 1;
                return Some(unknown);
            }
        }
        None
    }

    /// A question could not be given away: it is asked for again at its next turn.
    pub(crate) fn not_given(&mut self, unknown: &Arc<Unknown>) {
        if let Some(address) = self.answered(unknown, Resolution::Known) {
            self.want(address, Arc::clone(unknown));
        }
    }

    /// A question is no longer under way; whom it was asked for. It cost nothing if it was worth asking.
    fn answered(&mut self, unknown: &Unknown, how: Resolution) -> Option<IpAddr> {
        self.under_way = self.under_way.saturating_sub(1);
        let address = self.questions.get_mut(unknown)?.asked_for.take()?;
        if let Some(share) = self.shares.get_mut(&address) {
            share.untold = how == Resolution::Untold;
            if how == Resolution::Known {
                share.allowance = (share.allowance + 1.0).min(IN_VAIN_AT_ONCE);
            }
        }
        Some(address)
    }

    /// A question was resolved: the calls that can be taken now, or fail now.
    pub(crate) fn resolved(&mut self, now: Instant, unknown: &Unknown, how: Resolution) -> Vec<(u64, Call)> {
        self.answered(unknown, how);
        if how != Resolution::Untold {
            let numbers = self.questions.get(unknown).map(|question| question.calls.clone()).unwrap_or_default();
            return numbers.into_iter().filter_map(|number| Some((number, self.take(number)?))).collect();
        }
        if let Some((unknown, question)) = self.questions.get_key_value(unknown) {
            let wait = AGAIN_FIRST * 2_u32.pow(question.untold.min(AGAIN_DOUBLINGS));
            let first = question.calls.first().copied().unwrap_or_default();
            self.again.insert((now + wait, first), Arc::clone(unknown));
        }
        if let Some(question) = self.questions.get_mut(unknown) {
            question.untold += 1;
        }
        Vec::new()
    }

    /// A call that was taken must wait once more, for the same question or another one; it keeps its age.
    pub(crate) fn put_back(&mut self, now: Instant, number: u64, call: Call, unknown: Unknown) {
        self.put(now, number, call, Arc::new(unknown));
    }

    fn take(&mut self, number: u64) -> Option<Call> {
        let (call, unknown) = self.calls.remove(&number)?;
        self.bytes -= call.cost();
        self.of_slot.remove(&(call.asker.slot, number));
        if let Some(question) = self.questions.get_mut(&unknown) {
            question.calls.remove(&number);
            if question.calls.is_empty() {
                self.questions.remove(&unknown);
            }
        }
        if let Some(share) = self.shares.get_mut(&call.address) {
            share.calls -= 1;
            share.bytes -= call.cost();
        }
        Some(call)
    }

    /// The calls of a connection that has ended: they wait no longer.
    pub(crate) fn of_ended(&mut self, slot: u32) -> Vec<Call> {
        let numbers: Vec<u64> = self.of_slot.range((slot, 0)..=(slot, u64::MAX)).map(|(_, number)| *number).collect();
        numbers.into_iter().filter_map(|number| self.take(number)).collect()
    }

    /// The calls that have waited for too long.
    pub(crate) fn overdue(&mut self, now: Instant) -> Vec<Call> {
        let mut overdue = Vec::new();
        while let Some((number, (call, _))) = self.calls.first_key_value()
            && now.saturating_duration_since(call.since) >= PATIENCE
        {
            let number = *number;
            overdue.extend(self.take(number));
        }
        overdue
    }

    /// Has questions asked again whose time has come, and forgets addresses that ask nothing.
    pub(crate) fn tend(&mut self, now: Instant) {
        while let Some(due) = self.again.first_entry().filter(|due| due.key().0 <= now) {
            let unknown = due.remove();
            let first = self.questions.get(&unknown).and_then(|question| question.calls.first());
            if let Some(address) = first.and_then(|number| self.calls.get(number)).map(|(call, _)| call.address) {
                self.want(address, unknown);
            }
        }
        let used = |share: &mut Share| share.calls > 0 || share.in_turn || !share.rested(now);
        self.shares.retain(|_, share| used(share));
    }
}

impl Share {
    fn new(now: Instant) -> Self {
        let to_ask = VecDeque::new();
        Self { calls: 0, bytes: 0, to_ask, in_turn: false, allowance: IN_VAIN_AT_ONCE, counted: now, untold: false }
    }

    fn may_ask(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.counted).as_secs_f64();
        self.allowance = (self.allowance + since * IN_VAIN_A_SECOND).min(IN_VAIN_AT_ONCE);
        self.counted = now;
        self.allowance >= 1.0
    }

    fn rested(&mut self, now: Instant) -> bool {
        self.may_ask(now) && self.allowance >= IN_VAIN_AT_ONCE
    }

    /// The next question that somebody still waits for and that is not asked already.
    fn next(&mut self, questions: &HashMap<Arc<Unknown>, Question>) -> Option<Arc<Unknown>> {
        let open = |unknown: &Arc<Unknown>| questions.get(unknown).is_some_and(|it| it.asked_for.is_none());
        while let Some(unknown) = self.to_ask.pop_front() {
            if open(&unknown) {
                return Some(unknown);
            }
        }
        None
    }
}

/// Calls that wait in one event loop, and those of one address: more are answered JUKEBOX.
const CALLS: usize = 8192;
const CALLS_OF_ADDRESS: usize = 256;
/// What a call holds beside its record: its question, twice, and its places in the tables.
const BESIDE: usize = 512;
/// A call waits for so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Questions that are asked at once for one event loop.
const UNDER_WAY: usize = 16;
/// An address may ask so many questions that lead nowhere, at once and a second.
const IN_VAIN_AT_ONCE: f64 = 256.0;
const IN_VAIN_A_SECOND: f64 = 256.0;
/// A question that nobody could tell is asked again after this, and after twice as long each time.
const AGAIN_FIRST: Duration = Duration::from_millis(100);
const AGAIN_DOUBLINGS: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const ROOM: Room = Room { of_address: 1 << 20, of_all: 4 << 20 };

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    fn origin(of: u8, slot: u32) -> Origin {
        let asker = Asker { event_loop: 0, slot, generation: slot };
        Origin { asker, client: (address(of), 700).into(), local: address(250), stranger: false, closed: false }
    }

    /// A small call of an address waits.
    fn add(waiting: &mut Unresolved, now: Instant, (of, slot): (u8, u32), number: u32) {
        waiting.add(now, (&origin(of, slot), &[0; 100]), owner(number)).unwrap();
    }

    fn owner(number: u32) -> Unknown {
        Unknown::Owner(number.to_be_bytes().to_vec())
    }

    /// Asks what may be asked; the questions.
    fn ask(waiting: &mut Unresolved, now: Instant) -> Vec<Arc<Unknown>> {
        std::iter::from_fn(|| waiting.next_question(now)).collect()
    }

    #[test]
    fn calls_for_one_handle_ask_once_and_are_taken_together_in_their_order() {
        let (now, mut waiting) = (Instant::now(), Unresolved::new(ROOM));
        for slot in 0..5 {
            add(&mut waiting, now, (1, slot), 7);
        }
        add(&mut waiting, now, (1, 9), 8);
        assert_eq!(ask(&mut waiting, now).len(), 2);
        let taken = waiting.resolved(now, &owner(7), Resolution::Known);
        assert_eq!(taken.iter().map(|(_, call)| call.asker.slot).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(waiting.len(), 1);
    }

    #[test]
    fn an_address_is_full_by_calls_or_bytes_and_another_one_is_not() {
        let (now, mut waiting) = (Instant::now(), Unresolved::new(ROOM));
        for number in 0..CALLS_OF_ADDRESS as u32 {
            add(&mut waiting, now, (1, number), number);
        }
        assert!(waiting.add(now, (&origin(1, 9997), &[0; 100]), owner(9997)).is_none());
        waiting.add(now, (&origin(2, 9999), &vec![0; 1 << 20]), owner(9999)).unwrap();
        assert!(waiting.add(now, (&origin(2, 9997), &[0; 100]), owner(9997)).is_none());
        let more = waiting.add(now, (&origin(3, 9998), &vec![0; 3 << 20]), owner(9998));
        assert!(more.is_none(), "there is no room in all");
    }

    #[test]
    fn an_address_with_much_waiting_is_read_on_only_while_nobody_can_tell() {
        let (now, mut waiting) = (Instant::now(), Unresolved::new(ROOM));
        let fill = |waiting: &mut Unresolved, how: Resolution, from: u32| {
            for number in from..from + CALLS_OF_ADDRESS as u32 {
                let _full = waiting.add(now, (&origin(1, number), &[0; 100]), owner(number));
            }
            for question in ask(waiting, now) {
                waiting.resolved(now, &question, how);
            }
        };
        fill(&mut waiting, Resolution::Untold, 0);
        assert_eq!((waiting.len(), waiting.full_for(address(1))), (CALLS_OF_ADDRESS, false));
        let mut waiting = Unresolved::new(ROOM);
        for round in 0..64 {
            fill(&mut waiting, Resolution::Nowhere, round << 16);
        }
        assert_eq!((waiting.len(), waiting.full_for(address(1))), (CALLS_OF_ADDRESS, true));
        assert!(!waiting.full_for(address(2)));
    }

    #[test]
    fn whoever_asks_in_vain_waits_and_whoever_does_not_is_asked_for_at_once() {
        let (mut now, mut waiting) = (Instant::now(), Unresolved::new(ROOM));
        let mut asked = 0;
        let mut number = 0;
        // One second of junk, with everything answered at once.
        for _ in 0..100 {
            now += Duration::from_millis(10);
            while !waiting.full_for(address(1)) {
                number += 1;
                if waiting.add(now, (&origin(1, number), &[0; 100]), owner(number)).is_none() {
                    break;
                }
            }
            loop {
                let questions = ask(&mut waiting, now);
                asked += questions.len();
                for question in &questions {
                    waiting.resolved(now, question, Resolution::Nowhere);
                }
                if questions.is_empty() {
                    break;
                }
            }
        }
        let most = (IN_VAIN_AT_ONCE + IN_VAIN_A_SECOND) as usize;
        assert!((most - 10..=most).contains(&asked), "{asked}");
        add(&mut waiting, now, (2, 1), 1 << 20);
        assert_eq!(ask(&mut waiting, now), [Arc::new(owner(1 << 20))]);
    }

    #[test]
    fn a_question_that_an_exhausted_address_asked_first_is_asked_for_the_next_one() {
        let (now, mut waiting) = (Instant::now(), Unresolved::new(ROOM));
        for number in 0..IN_VAIN_AT_ONCE as u32 {
            add(&mut waiting, now, (1, number), number);
            for question in ask(&mut waiting, now) {
                waiting.resolved(now, &question, Resolution::Nowhere);
            }
        }
        add(&mut waiting, now, (1, 1), 1 << 20);
        assert!(ask(&mut waiting, now).is_empty());
        add(&mut waiting, now, (2, 2), 1 << 20);
        assert_eq!(ask(&mut waiting, now).len(), 1);
        assert_eq!(waiting.resolved(now, &owner(1 << 20), Resolution::Known).len(), 2);
    }

    #[test]
    fn what_nobody_can_tell_is_asked_less_and_less_and_given_up_in_time() {
        let (start, mut waiting) = (Instant::now(), Unresolved::new(ROOM));
        add(&mut waiting, start, (1, 1), 1);
        let (mut now, mut asked, mut overdue) = (start, 0, Vec::new());
        while overdue.is_empty() {
            waiting.tend(now);
            for question in ask(&mut waiting, now) {
                asked += 1;
                assert!(waiting.resolved(now, &question, Resolution::Untold).is_empty());
            }
            now += Duration::from_millis(20);
            overdue = waiting.overdue(now);
        }
        assert_eq!(now - start, PATIENCE);
        assert!((6..=9).contains(&asked), "{asked}");
        assert_eq!(waiting.len(), 0);
        waiting.tend(now + PATIENCE);
        assert!(waiting.shares.is_empty() && waiting.questions.is_empty() && waiting.again.is_empty());
    }

    #[test]
    fn the_calls_of_an_ended_connection_are_gone_and_the_others_are_asked_for() {
        let (now, mut waiting) = (Instant::now(), Unresolved::new(ROOM));
        add(&mut waiting, now, (1, 1), 1);
        add(&mut waiting, now, (2, 2), 1);
        let question = ask(&mut waiting, now).remove(0);
        waiting.resolved(now, &question, Resolution::Untold);
        assert_eq!(waiting.of_ended(1).len(), 1);
        assert_eq!(waiting.of_ended(1).len(), 0);
        let later = now + Duration::from_secs(1);
        waiting.tend(later);
        assert_eq!(ask(&mut waiting, later).len(), 1);
        waiting.of_ended(2);
        assert_eq!((waiting.len(), waiting.bytes), (0, 0));
        assert!(waiting.resolved(later, &question, Resolution::Known).is_empty());
    }
}
