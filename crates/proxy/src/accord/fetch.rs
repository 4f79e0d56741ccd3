//! Answers that are fetched from a peer instead of a server. Every key has a home among the proxies of the view. Who misses asks the home, which answers as it
//! answers its own clients: from its cache, with a call that is under way, or with one of its own to a server. So the servers are asked for it once.
//!
//! What comes back was true between question and answer, as a server's own answer is: the asker keeps it under the same marks (docs/leases.md). Nobody fetches
//! onward. Here stand who is asked, for how long, and what is said; messages beside those of leases, in frames of their own, so that neither waits for the other.

use super::votes::Down;
use crate::api;
use crate::pool::lock;
use arc_swap::ArcSwap;
use midas_core::key::Key;
use midas_core::peer::lease::{Life, View};
use midas_core::time::{Span, Time};
use midas_nfs::xdr::{Malformed, Reader, put};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Whom this proxy fetches from, and what it has to say.
pub(crate) struct Fetches {
    me: Life,
    /// Which members serve clients; witnesses do not.
    serving: Box<[bool]>,
    homes: ArcSwap<Homes>,
    /// Members that frames pass to, a bit each.
    reached: AtomicU64,
    peers: Box<[Peer]>,
    dropped: Dropped,
    /// By member.
    outbox: Mutex<Vec<Vec<u8>>>,
    sequence: AtomicU64,
    counts: [AtomicU64; COUNTS],
}

/// Members that keys have their home at.
#[derive(Debug, Default)]
struct Homes {
    epoch: u64,
    members: Vec<u8>,
}

/// How another member is to be reached.
#[derive(Debug, Default)]
struct Peer {
    /// A round trip there where nothing delays it, in nanoseconds; 0 if that is not known.
    far: AtomicU64,
    /// When it last answered, how often it did not since, and until when it is not asked therefore.
    heard: AtomicU64,
    silences: AtomicU32,
    shunned: AtomicU64,
}

/// Objects of which members were told without waiting for them that what they keep is not true: until then, in nanoseconds, one that has not heard it may be
/// asked, and what it says must not be kept. Objects that fall together share their time: one more call to a server.
#[derive(Debug)]
struct Dropped {
    until: Box<[AtomicU64]>,
    term: Span,
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
enum Count {
    /// Reads that a peer was asked for.
    Asked,
    /// Those that it answered.
    Fetched,
    /// Those that it refused.
    Refused,
    /// Those that it did not answer in time.
    Late,
    /// Reads of peers that were answered here.
    Lent,
    /// Those that were refused here.
    Declined,
}

/// What a peer says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said<'f> {
    /// It wants the results of this call, of the export of this name.
    Fetch { epoch: u64, id: u64, export: u32, record: &'f [u8] },
    /// The results of such a call of this life; none if it must ask a server.
    Fetched { incarnation: u64, id: u64, results: Option<&'f [u8]> },
    /// It has seen these files in directories.
    Names { names: Vec<Seen<'f>> },
    /// It wants to know which exports this handle belongs to.
    Owner { id: u64, handle: &'f [u8] },
    /// The names of these exports, for this life.
    Owned { incarnation: u64, id: u64, exports: Vec<u32> },
    /// It finds these servers of the pool of this name down.
    Down { pool: u32, servers: Vec<Down> },
}

/// A file's handle, its directory's, the name of the export that both lie in, and whether it has no other name.
pub(super) type Seen<'f> = (&'f [u8], &'f [u8], u32, bool);

impl Fetches {
    /// For this life of a member of a cluster of these, each of which serves clients or not.
    pub(super) fn new(me: Life, serving: &[bool], lease: Span) -> Self {
        Self {
            me,
            serving: serving.into(),
            homes: ArcSwap::default(),
            reached: AtomicU64::new(0),
            peers: serving.iter().map(|_| Peer::default()).collect(),
            dropped: Dropped { until: (0..DROPPED).map(|_| AtomicU64::new(0)).collect(), term: lease.scale(TERMS) },
            outbox: Mutex::new(vec![Vec::new(); serving.len()]),
            sequence: AtomicU64::new(1),
            counts: Default::default(),
        }
    }

    pub(super) fn view(&self, view: &View) {
        let serves = |member: &u8| self.serving.get(usize::from(*member)).is_some_and(|serves| *serves);
        let members = view.lives.iter().map(|life| life.member.0).filter(serves).collect();
        self.homes.store(Homes { epoch: view.epoch, members }.into());
    }

    /// Frames pass to these members, a bit each.
    pub(super) fn links(&self, reached: u64) {
        self.reached.store(reached, Relaxed);
    }

    /// A round trip to a peer took so long. The least of late counts: one that waited for a processor says nothing of the way.
    pub(crate) fn round_trip(&self, peer: usize, took: Span) {
        let Some(peer) = self.peers.get(peer) else { return };
        let before = peer.far.load(Relaxed);
        let most = if before == 0 { u64::MAX } else { before + before / FORGET };
        peer.far.store(took.as_nanos().clamp(1, most), Relaxed);
    }

    /// The peer to be asked for what is kept under this key, if that is shorter than to ask a server that takes so long.
    pub(crate) fn home(&self, now: Time, key: Key, service: Span) -> Option<u8> {
        let home = self.homes.load().of(key).filter(|home| *home != self.me.member.0)?;
        let Peer { far, shunned, .. } = &self.peers[usize::from(home)];
        let shorter = service == Span::ZERO || far.load(Relaxed) <= service.as_nanos();
        (shorter && self.hopes(home) && shunned.load(Relaxed) <= now.as_nanos()).then_some(home)
    }

    /// How many proxies there are, this one included.
    pub(crate) fn proxies(&self) -> usize {
        self.homes.load().members.len().max(1)
    }

    /// Members are told, or told this one, that what they keep of this object is not true.
    pub(crate) fn dropped(&self, now: Time, object: Key) {
        self.dropped.of(object).fetch_max((now + self.dropped.term).as_nanos(), Relaxed);
    }

    /// Whether what a peer says of this object can be relied on.
    pub(crate) fn trusts(&self, now: Time, object: Key) -> bool {
        self.dropped.of(object).load(Relaxed) <= now.as_nanos()
    }

    /// Whether an answer of this peer may still come.
    pub(crate) fn hopes(&self, peer: u8) -> bool {
        self.reached.load(Relaxed) >> peer & 1 == 1
    }

    /// Asks a peer; the answer has this number. Whether the cluster's thread must be told.
    pub(super) fn ask(&self, to: u8, event_loop: usize, export: u32, record: &[u8]) -> (u64, bool) {
        let id = self.sequence.fetch_add(1, Relaxed) << LOOP_BITS | event_loop as u64;
        let epoch = self.homes.load().epoch;
        self.count(Count::Asked);
        (id, self.say(to, &Said::Fetch { epoch, id, export, record }))
    }

    /// Answers a peer; whether the cluster's thread must be told.
    pub(super) fn answer(&self, to: Life, id: u64, results: Option<&[u8]>) -> bool {
        let results = results.filter(|results| results.len() <= RESULTS_MOST);
        self.count(if results.is_some() { Count::Lent } else { Count::Declined });
        self.say(to.member.0, &Said::Fetched { incarnation: to.incarnation, id, results })
    }

    /// Which members serve clients, and which one this is.
    pub(super) fn serving(&self) -> &[bool] {
        &self.serving
    }

    pub(super) const fn me(&self) -> u8 {
        self.me.member.0
    }

    /// A number for a question to several peers.
    pub(super) fn number(&self) -> u64 {
        self.sequence.fetch_add(1, Relaxed) << LOOP_BITS
    }

    /// The other members that serve clients and can be reached.
    pub(super) fn others(&self) -> impl Iterator<Item = u8> + '_ {
        let serves = |member: &usize| self.serving[*member] && *member != usize::from(self.me.member.0);
        (0..self.serving.len()).filter(serves).map(|member| member as u8).filter(|member| self.hopes(*member))
    }

    /// The other members that serve clients and are in the view.
    pub(super) fn present(&self) -> Vec<u8> {
        self.homes.load().members.iter().copied().filter(|member| *member != self.me.member.0).collect()
    }

    /// Tells a peer of names, or of servers that are down, unless too much waits for it already;
    /// whether the cluster's thread must be told.
    pub(super) fn tell_names(&self, to: u8, said: &Said<'_>) -> bool {
        let waits = lock(&self.outbox).get(usize::from(to)).map_or(0, Vec::len);
        waits < OUTBOX_MOST && self.say(to, said)
    }

    /// Asks a peer whose a handle is; whether the cluster's thread must be told.
    pub(super) fn ask_owner(&self, to: u8, id: u64, handle: &[u8]) -> bool {
        self.say(to, &Said::Owner { id, handle })
    }

    /// Tells a peer whose a handle is; whether the cluster's thread must be told.
    pub(super) fn tell_owner(&self, to: Life, id: u64, exports: Vec<u32>) -> bool {
        self.say(to.member.0, &Said::Owned { incarnation: to.incarnation, id, exports })
    }

    /// Whether a question was put in the view that is known here: otherwise another may be the home, and two could wait for each other.
    pub(super) fn agrees(&self, epoch: u64) -> bool {
        self.homes.load().epoch == epoch
    }

    /// Whether an answer is one to this life.
    pub(super) fn mine(&self, incarnation: u64) -> bool {
        self.me.incarnation == incarnation
    }

    /// A peer gives an answer, in time or not.
    pub(super) fn heard(&self, now: Time, peer: u8) {
        let Peer { heard, silences, .. } = &self.peers[usize::from(peer)];
        heard.store(now.as_nanos(), Relaxed);
        silences.store(0, Relaxed);
    }

    /// What became of a question.
    pub(crate) fn answered(&self, results: bool) {
        self.count(if results { Count::Fetched } else { Count::Refused });
    }

    /// A question that was put then found no answer. If none has come since, the peer is not asked for as long, and longer each time.
    pub(crate) fn silent(&self, now: Time, peer: u8, asked: Time) {
        let Peer { heard, silences, shunned, .. } = &self.peers[usize::from(peer)];
        self.count(Count::Late);
        // Questions that were put together are not answered together.
        if heard.load(Relaxed) <= asked.as_nanos() && shunned.load(Relaxed) <= now.as_nanos() {
            let waited = now.since(asked);
            let times = silences.fetch_add(1, Relaxed).min(DOUBLINGS);
            shunned.store((now + waited.scale(f64::from(1 << times))).as_nanos(), Relaxed);
        }
    }

    fn count(&self, what: Count) {
        self.counts[what as usize].fetch_add(1, Relaxed);
    }

    /// What was done so far.
    pub(crate) fn counted(&self) -> api::Fetches {
        let of = |what: Count| self.counts[what as usize].load(Relaxed);
        api::Fetches {
            asked: of(Count::Asked),
            fetched: of(Count::Fetched),
            refused: of(Count::Refused),
            late: of(Count::Late),
            lent: of(Count::Lent),
            declined: of(Count::Declined),
        }
    }

    fn say(&self, to: u8, said: &Said<'_>) -> bool {
        let mut outbox = lock(&self.outbox);
        let Some(box_of) = outbox.get_mut(usize::from(to)) else { return false };
        let first = box_of.is_empty();
        encode(box_of, said);
        first
    }

    /// What is to be said now, by member.
    pub(super) fn outgoing(&self) -> Vec<(u8, Vec<u8>)> {
        let mut outbox = lock(&self.outbox);
        let all = outbox.iter_mut().enumerate().filter(|(_, said)| !said.is_empty());
        all.map(|(member, said)| (member as u8, std::mem::take(said))).collect()
    }
}

impl Dropped {
    fn of(&self, object: Key) -> &AtomicU64 {
        &self.until[(object.0 % DROPPED as u64) as usize]
    }
}

impl Homes {
    /// The one that draws the highest number with this key: when one leaves, only its own keys move.
    fn of(&self, key: Key) -> Option<u8> {
        self.members.iter().copied().max_by_key(|member| key.child(u64::from(*member)).0)
    }
}

/// The loop that a question came from.
pub(super) const fn event_loop(id: u64) -> usize {
    (id & ((1 << LOOP_BITS) - 1)) as usize
}

/// Questions are taken in turn.
pub(super) const fn turn(id: u64) -> usize {
    (id >> LOOP_BITS) as usize
}

/// How long a peer is waited for where a server takes so long: it may have to ask one that others wait for too. Links that break are known
/// sooner; this is for a peer that is stopped.
pub(crate) fn patience(service: Span) -> Span {
    service.scale(SERVICES).max(PATIENCE_LEAST).min(PATIENCE_MOST)
}

/// Whether this is a frame of questions and answers.
pub(super) fn is_ours(frame: &[u8]) -> bool {
    matches!(frame.get(4..8), Some([0, 0, 0, FETCH | FETCHED | OWNER | OWNED | SEEN | DOWN]))
}

fn encode(out: &mut Vec<u8>, said: &Said<'_>) {
    let begin = out.len();
    put::u32(out, 0);
    match said {
        &Said::Fetch { epoch, id, export, record } => {
            put::u32(out, FETCH.into());
            put::u64(out, epoch);
            put::u64(out, id);
            put::u32(out, export);
            put::opaque(out, record);
        }
        &Said::Fetched { incarnation, id, results } => {
            put::u32(out, FETCHED.into());
            put::u64(out, incarnation);
            put::u64(out, id);
            put::bool(out, results.is_some());
            if let Some(results) = results {
                put::opaque(out, results);
            }
        }
        Said::Names { names } => {
            put::u32(out, SEEN.into());
            put::u64(out, names.len() as u64);
            for (handle, parent, export, only) in names {
                put::opaque(out, handle);
                put::opaque(out, parent);
                put::u32(out, *export);
                put::bool(out, *only);
            }
        }
        Said::Owner { id, handle } => {
            put::u32(out, OWNER.into());
            put::u64(out, *id);
            put::opaque(out, handle);
        }
        Said::Owned { incarnation, id, exports } => {
            put::u32(out, OWNED.into());
            put::u64(out, *incarnation);
            put::u64(out, *id);
            put::u32(out, exports.len() as u32);
            for export in exports {
                put::u32(out, *export);
            }
        }
        Said::Down { pool, servers } => {
            put::u32(out, DOWN.into());
            put::u64(out, (*pool).into());
            put::u32(out, servers.len().min(SERVERS_MOST as usize) as u32);
            for (server, took) in servers.iter().take(SERVERS_MOST as usize) {
                put::u32(out, *server);
                put::bool(out, *took);
            }
        }
    }
    let length = (out.len() - begin - 4) as u32;
    out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
}

/// A message without its length; none if it is of another kind.
pub(super) fn decode<'f>(message: &'f [u8]) -> Result<Option<Said<'f>>, Malformed> {
    let mut reader = Reader::new(message);
    let (tag, first) = (reader.u32()?, reader.u64()?);
    Ok(match u8::try_from(tag) {
        Ok(FETCH) => {
            let (id, export) = (reader.u64()?, reader.u32()?);
            Some(Said::Fetch { epoch: first, id, export, record: reader.opaque(RECORD_MOST)? })
        }
        Ok(FETCHED) => {
            let id = reader.u64()?;
            let results = reader.option(|reader| reader.opaque(RESULTS_MOST))?;
            Some(Said::Fetched { incarnation: first, id, results })
        }
        Ok(SEEN) => {
            // Each takes some bytes: no more are read than there are.
            let seen = |reader: &mut Reader<'f>| -> Result<Seen<'f>, Malformed> {
                let (handle, parent) = (reader.opaque(HANDLE_MOST)?, reader.opaque(HANDLE_MOST)?);
                Ok((handle, parent, reader.u32()?, reader.bool()?))
            };
            let names = (0..first).map(|_| seen(&mut reader)).collect::<Result<_, _>>()?;
            Some(Said::Names { names })
        }
        Ok(OWNER) => Some(Said::Owner { id: first, handle: reader.opaque(HANDLE_MOST)? }),
        Ok(OWNED) => {
            let (id, count) = (reader.u64()?, reader.u32()?);
            if count > EXPORTS_MOST {
                return Err(Malformed::Value);
            }
            let exports = (0..count).map(|_| reader.u32()).collect::<Result<_, _>>()?;
            Some(Said::Owned { incarnation: first, id, exports })
        }
        Ok(DOWN) => {
            let (pool, count) = (u32::try_from(first).map_err(|_| Malformed::Value)?, reader.u32()?);
            if count > SERVERS_MOST {
                return Err(Malformed::Value);
            }
            let servers = (0..count).map(|_| Ok((reader.u32()?, reader.bool()?))).collect::<Result<_, _>>()?;
            Some(Said::Down { pool, servers })
        }
        Ok(_) | Err(_) => None,
    })
}

/// Times of objects that were dropped.
const DROPPED: usize = 1 << 12;
/// Terms of a lease: within one, by its own clock, who has not heard what was said holds no lease of who said it.
const TERMS: f64 = 2.0;
const COUNTS: usize = Count::Declined as usize + 1;
/// Kinds of messages, counted on from those of leases.
const FETCH: u8 = 10;
const FETCHED: u8 = 11;
const OWNER: u8 = 14;
const OWNED: u8 = 15;
const SEEN: u8 = 16;
const DOWN: u8 = 17;
/// Bytes that may wait for a peer before it is told of no more names.
const OUTBOX_MOST: usize = 4 << 20;
/// The longest handle, and exports that one may belong to.
const HANDLE_MOST: usize = 64;
const EXPORTS_MOST: u32 = 1024;
/// Servers that a member can say to be down; of no more is a pool made.
const SERVERS_MOST: u32 = 1024;
/// A call that is fetched, and its results: both are small, listings are left out.
pub(crate) const RECORD_MOST: usize = 1 << 10;
const RESULTS_MOST: usize = 8 << 10;
/// Event loops of a proxy, in the number of a question.
const LOOP_BITS: u32 = 16;
/// Service times that a peer is waited for, and the bounds of that.
const SERVICES: f64 = 32.0;
const PATIENCE_LEAST: Span = Span::from_millis(300);
const PATIENCE_MOST: Span = Span::from_secs(1);
/// How often the time doubles for which a silent peer is left alone: up to twenty seconds where servers are quick.
const DOUBLINGS: u32 = 6;
/// The least round trip is believed less by one part in so many with every new one, four in a second: it doubles in ten seconds.
const FORGET: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use midas_core::peer::lease::MemberId;

    const NOW: Time = Time::from_nanos(1_000_000_000);

    fn life(member: u8) -> Life {
        Life { member: MemberId(member), incarnation: 7 }
    }

    fn fetches(members: &[u8]) -> Fetches {
        let fetches = Fetches::new(life(0), &[true, true, true, false], Span::from_secs(1));
        fetches.view(&View { epoch: 5, lives: members.iter().copied().map(life).collect() });
        fetches.links(0b1111);
        fetches
    }

    fn homes(fetches: &Fetches) -> Vec<u8> {
        (0..300).map(|key| fetches.home(NOW, Key(key), Span::ZERO).unwrap_or(0)).collect()
    }

    #[test]
    fn keys_are_spread_over_the_proxies_of_the_view_and_only_those_of_one_that_left_move() {
        let (all, without) = (homes(&fetches(&[0, 1, 2, 3])), homes(&fetches(&[0, 2, 3])));
        for member in 0..3 {
            let its = all.iter().filter(|home| [member].contains(home));
            assert!(its.count() > 70, "{member}: {all:?}");
        }
        assert!(!all.contains(&3), "a witness keeps nothing");
        assert!(all.iter().zip(&without).all(|(home, then)| home == then || *home == 1));
        assert!(homes(&fetches(&[])).iter().all(|home| *home == 0), "without a view nobody is asked");
    }

    #[test]
    fn a_peer_is_asked_where_that_is_shorter_and_while_it_is_reached_and_not_silent() {
        let service = Span::from_millis(1);
        let key = Key((0..300).find(|key| fetches(&[0, 1]).home(NOW, Key(*key), Span::ZERO) == Some(1)).unwrap());
        let asked = |fetches: &Fetches, now| fetches.home(now, key, service) == Some(1);
        let fetches = fetches(&[0, 1]);
        assert!(asked(&fetches, NOW));
        fetches.links(0b1101);
        assert!(!asked(&fetches, NOW) && !fetches.hopes(1));
        fetches.links(0b1111);
        for (millis, shorter) in [(2, false), (1, true), (9, false)] {
            (0..100).for_each(|_| fetches.round_trip(1, Span::from_millis(millis)));
            assert_eq!(asked(&fetches, NOW), shorter, "{millis} ms away");
        }
        fetches.round_trip(1, Span::from_micros(20));
        fetches.round_trip(1, Span::from_millis(9));
        assert!(asked(&fetches, NOW), "one late round trip says nothing");
        let (wait, mut now) = (patience(service), NOW);
        for times in [1, 2, 4] {
            (0..3).for_each(|_| fetches.silent(now + wait, 1, now));
            let back = now + wait + wait.scale(f64::from(times));
            assert!(!asked(&fetches, Time::from_nanos(back.as_nanos() - 1)) && asked(&fetches, back), "{times}");
            now = back;
        }
        fetches.heard(now + Span::from_millis(1), 1);
        fetches.silent(now + wait, 1, now);
        assert!(asked(&fetches, now + wait), "late, not silent");
        fetches.silent(now + wait + wait, 1, now + wait);
        assert!(!asked(&fetches, now + wait + wait) && asked(&fetches, now + wait * 3), "what was is forgiven");
        fetches.answered(true);
        let api::Fetches { late, fetched, .. } = fetches.counted();
        assert_eq!((late, fetched), (11, 1));
    }

    #[test]
    fn what_members_were_told_to_drop_is_not_fetched_until_all_have_heard_it_or_hold_no_lease() {
        let fetches = fetches(&[0, 1]);
        assert!(fetches.trusts(NOW, Key(7)));
        fetches.dropped(NOW, Key(7));
        for (millis, key, trusted) in [(0, 7, false), (1999, 7, false), (1999, 8, true), (2000, 7, true)] {
            assert_eq!(fetches.trusts(NOW + Span::from_millis(millis), Key(key)), trusted, "{key} after {millis} ms");
        }
    }

    #[test]
    fn what_is_said_comes_back_as_it_was_and_every_prefix_of_it_is_refused() {
        let all = [
            Said::Fetch { epoch: 5, id: 1 << LOOP_BITS | 3, export: 9, record: b"call" },
            Said::Fetched { incarnation: 7, id: 8, results: Some(b"results.") },
            Said::Fetched { incarnation: 7, id: 8, results: None },
            Said::Names { names: vec![(b"one".as_slice(), b"dir".as_slice(), 4, true), (b"two", b"dir", 4, false)] },
            Said::Owner { id: 9, handle: b"handle" },
            Said::Owned { incarnation: 7, id: 9, exports: vec![1, 2] },
            Said::Down { pool: 3, servers: vec![(1, true), (2, false)] },
            Said::Down { pool: 3, servers: Vec::new() },
        ];
        for said in &all {
            let mut frame = Vec::new();
            encode(&mut frame, said);
            assert!(is_ours(&frame));
            assert_eq!(decode(&frame[4..]).unwrap().as_ref(), Some(said));
            for length in 4..frame.len() {
                assert!(decode(&frame[4..length]).is_err(), "{said:?} cut at {length}");
            }
        }
        assert_eq!(event_loop(1 << LOOP_BITS | 3), 3);
        assert_eq!(decode(&[0; 12]), Ok(None));
    }

    #[test]
    fn questions_are_collected_by_member_and_the_first_of_them_rings() {
        let fetches = fetches(&[0, 1, 2]);
        let (first, rings) = fetches.ask(1, 2, 9, b"call");
        let (second, again) = fetches.ask(1, 2, 9, b"call");
        assert!(rings && !again && first != second);
        assert!(fetches.answer(life(2), 4, Some(&[0; RESULTS_MOST + 1])), "what is too large is declined");
        assert_eq!(fetches.counted().declined, 1);
        assert_eq!(fetches.outgoing().iter().map(|(to, _)| *to).collect::<Vec<_>>(), [1, 2]);
        assert!(fetches.outgoing().is_empty() && fetches.ask(1, 2, 9, b"call").1);
    }
}
