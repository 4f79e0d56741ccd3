//! Calls as they pass, for whoever asks. While nobody does, it costs an event loop one load.
//!
//! An event loop copies what a call was into the queue of everyone who wants it; names and paths are found when it is read. What does not
//! fit is counted: no call waits for a listener, nor for a lock.

use super::{Outcome, Seen};
use crate::pool::lock;
use arc_swap::ArcSwap;
use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_core::time::Span;
use midas_nfs::nfs3::{CreateOk, FileHandle, Nfsstat3, Procedure, Reply};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Who listens, and what they want to hear.
#[derive(Debug)]
pub(crate) struct Tracer {
    started: Instant,
    listening: AtomicUsize,
    listeners: ArcSwap<Vec<Arc<Listener>>>,
    /// The number of the last listener; held by whoever changes who listens, never by an event loop.
    last: Mutex<u64>,
}

#[derive(Debug)]
struct Listener {
    number: u64,
    wants: Wants,
    queue: Sender<Passed>,
    /// Calls that did not fit since the last that did.
    missed: AtomicU64,
    /// Calls that did fit.
    told: AtomicU64,
    /// How many had when it was last seen to read, and when that was.
    reads: Mutex<(u64, Instant)>,
}

/// Which calls to tell of, as far as an event loop can say at once. What is given must all hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wants {
    pub(crate) client: Option<IpAddr>,
    pub(crate) procedure: Option<Procedure>,
    /// Export by export: the server, if it has one of that name.
    pub(crate) server: Option<Vec<Option<ServerId>>>,
    /// A word as [`Outcome::why`] has them.
    pub(crate) reason: Option<&'static str>,
}

/// A call that was answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Passed {
    /// When it came, in microseconds since the daemon's start.
    pub(crate) at_us: u64,
    pub(crate) client: IpAddr,
    pub(crate) uid: Option<u32>,
    pub(crate) procedure: Procedure,
    /// The number of the export.
    pub(crate) realm: usize,
    pub(crate) place: Key,
    pub(crate) name: Option<Box<[u8]>>,
    pub(crate) found: Option<Key>,
    pub(crate) to: Option<(Key, Box<[u8]>)>,
    pub(crate) outcome: Outcome,
    pub(crate) status: Option<Nfsstat3>,
    pub(crate) took: Span,
    /// Calls that were left out before this one.
    pub(crate) missed: u64,
}

impl Default for Tracer {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            listening: AtomicUsize::new(0),
            listeners: ArcSwap::default(),
            last: Mutex::new(0),
        }
    }
}

impl Tracer {
    /// Whether anybody listens: asked for every call.
    #[inline]
    pub(crate) fn listening(&self) -> bool {
        self.listening.load(Relaxed) > 0
    }

    /// A call was answered, with these results if it was accepted as a call.
    pub(crate) fn saw(&self, seen: &Seen<'_>, results: Option<&[u8]>) {
        let mut passed = None;
        for listener in self.listeners.load().iter().filter(|listener| listener.wants.hold(seen)) {
            let Ok(place) = listener.queue.try_reserve() else {
                listener.missed.fetch_add(1, Relaxed);
                continue;
            };
            let passed = passed.get_or_insert_with(|| Passed::of(self.started, seen, results));
            place.send(Passed { missed: listener.missed.swap(0, Relaxed), ..passed.clone() });
            listener.told.fetch_add(1, Relaxed);
        }
    }

    /// One more listener: its number, and what it hears. None if there are too many.
    pub(crate) fn listen(&self, wants: Wants) -> Option<(u64, Receiver<Passed>)> {
        let mut last = lock(&self.last);
        let mut all = self.listeners.load().to_vec();
        if all.len() == LISTENERS {
            return None;
        }
        let (queue, hears) = channel(QUEUE);
        *last += 1;
        all.push(Arc::new(Listener::new(*last, wants, queue)));
        self.set(all);
        Some((*last, hears))
    }

    /// One fewer.
    pub(crate) fn leave(&self, number: u64) {
        self.keep(|listener| listener.number != number);
    }

    /// Drops those who have not read for too long: their places are for others, and what they hear ends.
    pub(crate) fn drop_stalled(&self, now: Instant) {
        if self.listening() {
            self.keep(|listener| !listener.stalled(now));
        }
    }

    fn keep(&self, stays: impl Fn(&Listener) -> bool) {
        let _changing = lock(&self.last);
        let mut all = self.listeners.load().to_vec();
        let before = all.len();
        all.retain(|listener| stays(listener));
        if all.len() < before {
            self.set(all);
        }
    }

    fn set(&self, all: Vec<Arc<Listener>>) {
        self.listening.store(all.len(), Relaxed);
        self.listeners.store(Arc::new(all));
    }
}

impl Listener {
    fn new(number: u64, wants: Wants, queue: Sender<Passed>) -> Self {
        let reads = Mutex::new((0, Instant::now()));
        Self { number, wants, queue, missed: AtomicU64::new(0), told: AtomicU64::new(0), reads }
    }

    /// Whether its queue has been full for [`PATIENCE`], and nothing was taken from it. Asked now and then.
    fn stalled(&self, now: Instant) -> bool {
        let told = self.told.load(Relaxed);
        let mut reads = lock(&self.reads);
        if self.queue.capacity() > 0 || told != reads.0 {
            *reads = (told, now);
        }
        now.saturating_duration_since(reads.1) >= PATIENCE
    }
}

impl Wants {
    fn hold(&self, seen: &Seen<'_>) -> bool {
        let to = match seen.outcome {
            Outcome::Forwarded(route) => Some(route.to),
            Outcome::Hit | Outcome::Absent | Outcome::Joined | Outcome::Here => None,
        };
        let there =
            |servers: &Vec<Option<ServerId>>| to.is_some() && servers.get(seen.realm).is_some_and(|it| *it == to);
        self.client.is_none_or(|client| client == seen.client)
            && self.procedure.is_none_or(|procedure| procedure == seen.procedure)
            && self.reason.is_none_or(|reason| reason == seen.outcome.why())
            && self.server.as_ref().is_none_or(there)
    }
}

impl Passed {
    fn of(started: Instant, seen: &Seen<'_>, results: Option<&[u8]>) -> Self {
        let (now, took) = (started.elapsed().as_micros() as u64, seen.took.as_nanos() / 1_000);
        let found = match seen.procedure {
            Procedure::Link => seen.linked.filter(|_| seen.status == Some(Nfsstat3::OK)),
            _ => results.and_then(|results| found(seen.procedure, results)),
        };
        Self {
            at_us: now.saturating_sub(took),
            client: seen.client,
            uid: seen.uid,
            procedure: seen.procedure,
            realm: seen.realm,
            place: seen.place,
            name: seen.name.map(cut),
            found,
            to: seen.to.map(|(place, name)| (place, cut(name))),
            outcome: seen.outcome,
            status: seen.status,
            took: seen.took,
            missed: 0,
        }
    }
}

/// What a name leads to, as the results say.
fn found(procedure: Procedure, results: &[u8]) -> Option<Key> {
    let leads = matches!(procedure, Procedure::Lookup | Procedure::Create | Procedure::Mkdir | Procedure::Symlink);
    let reply = if leads { Reply::decode(procedure, results).ok()? } else { return None };
    let object: FileHandle<'_> = match reply {
        Reply::Lookup(Ok(found)) => found.object,
        Reply::Create(Ok(CreateOk { object: Some(object), .. }))
        | Reply::Mkdir(Ok(CreateOk { object: Some(object), .. }))
        | Reply::Symlink(Ok(CreateOk { object: Some(object), .. })) => object,
        _ => return None,
    };
    Some(Key::of(object.bytes()))
}

/// Servers refuse longer names; whoever sends one has not earned more room.
fn cut(name: &[u8]) -> Box<[u8]> {
    name[..name.len().min(NAME_MOST)].into()
}

/// Listeners at once.
pub(crate) const LISTENERS: usize = 4;
/// Calls that wait to be read by a listener.
const QUEUE: usize = 4096;
/// Who has a full queue and reads nothing for so long is gone, or as good as that.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a name.
const NAME_MOST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use midas_core::decision::{Route, Why};
    use midas_nfs::nfs3::LookupOk;

    const DIR: &[u8] = b"directory";

    fn handle(bytes: &[u8]) -> FileHandle<'_> {
        FileHandle::new(bytes).unwrap()
    }

    fn route(to: u16, why: Why) -> Outcome {
        Outcome::Forwarded(Route { to: ServerId(to), home: ServerId(0), why })
    }

    fn seen(procedure: Procedure, outcome: Outcome) -> Seen<'static> {
        Seen {
            client: IpAddr::from([127, 0, 0, 1]),
            uid: Some(7),
            procedure,
            realm: 1,
            place: Key::of(DIR),
            handle: DIR,
            name: Some(b"a"),
            to: None,
            linked: None,
            outcome,
            status: Some(Nfsstat3::OK),
            took: Span::from_micros(5),
            served: Span::ZERO,
            at: midas_core::time::Time::ZERO,
        }
    }

    #[test]
    fn what_is_given_must_all_hold() {
        let (home, hit) = (route(2, Why::Home), Outcome::Hit);
        let client = |last| Wants { client: Some(IpAddr::from([127, 0, 0, last])), ..Wants::default() };
        let server =
            |of: [Option<u16>; 2]| Wants { server: Some(of.map(|it| it.map(ServerId)).to_vec()), ..Wants::default() };
        let reason = |reason| Wants { reason: Some(reason), ..Wants::default() };
        let procedure = Wants { procedure: Some(Procedure::Lookup), ..Wants::default() };
        let cases = [
            (Wants::default(), home, true),
            (client(1), home, true),
            (client(2), home, false),
            (procedure.clone(), hit, true),
            (Wants { procedure: Some(Procedure::Getattr), ..Wants::default() }, hit, false),
            (server([None, Some(2)]), home, true),
            (server([Some(2), None]), home, false),
            (server([Some(2), None]), hit, false),
            (reason("home"), home, true),
            (reason("hit"), hit, true),
            (reason("steered"), home, false),
            (Wants { reason: Some("hit"), ..procedure }, home, false),
        ];
        for (wants, outcome, holds) in cases {
            assert_eq!(wants.hold(&seen(Procedure::Lookup, outcome)), holds, "{wants:?} of {outcome:?}");
        }
    }

    #[test]
    fn a_full_queue_is_told_with_the_next_line() {
        let tracer = Tracer::default();
        assert!(!tracer.listening());
        let (number, mut hears) = tracer.listen(Wants::default()).unwrap();
        assert!(tracer.listening());
        let call = seen(Procedure::Getattr, Outcome::Here);
        (0..QUEUE + 3).for_each(|_| tracer.saw(&call, None));
        (0..QUEUE).for_each(|_| assert_eq!(hears.try_recv().unwrap().missed, 0));
        tracer.saw(&call, None);
        tracer.saw(&call, None);
        assert_eq!([hears.try_recv().unwrap().missed, hears.try_recv().unwrap().missed], [3, 0]);
        tracer.leave(number);
        assert!(!tracer.listening());
    }

    #[test]
    fn who_reads_nothing_is_dropped_who_is_slow_is_not() {
        let (tracer, begin) = (Tracer::default(), Instant::now());
        let (_, mut stalls) = tracer.listen(Wants::default()).unwrap();
        let (_, mut slow) = tracer.listen(Wants::default()).unwrap();
        let (_, mut idle) = tracer.listen(Wants { procedure: Some(Procedure::Mkdir), ..Wants::default() }).unwrap();
        let call = seen(Procedure::Getattr, Outcome::Here);
        (0..=QUEUE).for_each(|_| tracer.saw(&call, None));
        for seconds in 0..=PATIENCE.as_secs() {
            assert!(!stalls.is_closed(), "after {seconds} s");
            slow.try_recv().unwrap();
            tracer.saw(&call, None);
            tracer.drop_stalled(begin + Duration::from_secs(seconds));
        }
        assert!(stalls.is_closed() && !slow.is_closed() && !idle.is_closed() && tracer.listening());
        (0..QUEUE).for_each(|_| drop(stalls.try_recv().unwrap()));
        assert!(stalls.try_recv().is_err() && idle.try_recv().is_err());
    }

    #[test]
    fn there_are_so_many_listeners_and_no_more() {
        let tracer = Tracer::default();
        let all: Vec<_> = (0..LISTENERS).map(|_| tracer.listen(Wants::default()).unwrap()).collect();
        assert!(tracer.listen(Wants::default()).is_none());
        tracer.leave(all[0].0);
        assert!(tracer.listen(Wants::default()).is_some());
    }

    #[test]
    fn calls_tell_what_their_names_lead_to() {
        let (tracer, object) = (Tracer::default(), b"object");
        let (_, mut hears) = tracer.listen(Wants::default()).unwrap();
        let mut results = Vec::new();
        let ok = LookupOk { object: handle(object), attributes: None, dir_attributes: None };
        Reply::Lookup(Ok(ok)).encode(&mut results);
        tracer.saw(&seen(Procedure::Lookup, Outcome::Hit), Some(&results));
        assert_eq!(hears.try_recv().unwrap().found, Some(Key::of(object)));
        let link = Seen { linked: Some(Key::of(object)), ..seen(Procedure::Link, Outcome::Here) };
        tracer.saw(&link, None);
        assert_eq!(hears.try_recv().unwrap().found, Some(Key::of(object)));
        tracer.saw(&Seen { status: Some(Nfsstat3::EXIST), ..link }, None);
        assert_eq!(hears.try_recv().unwrap().found, None);
        let to = Some((Key::of(b"other"), b"b".as_slice()));
        tracer.saw(&Seen { to, ..seen(Procedure::Rename, Outcome::Here) }, None);
        let passed = hears.try_recv().unwrap();
        assert_eq!((passed.found, passed.to), (None, Some((Key::of(b"other"), b"b".as_slice().into()))));
    }
}
