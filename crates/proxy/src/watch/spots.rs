//! Who asks most, and for what: directories, clients and users, each loop's own.
//!
//! Most calls that a cache answers take a few instructions here: every 512th or so is counted, for all since the one before. The distance
//! is drawn anew each time, so that it does not march in step with what clients repeat. All others are counted one by one. No call waits:
//! one that comes while somebody reads is counted among all, and for nobody.

use super::names::Busy;
use super::{Names, Outcome, Seen, at_once};
use crate::pool::lock;
use midas_core::key::Key;
use midas_core::rng::mix;
use midas_core::telemetry::sketch::{By, Sketch, Weight};
use midas_core::time::{Span, Time};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// What event loops saw of directories, clients and users.
#[derive(Debug)]
pub(crate) struct Spots {
    loops: Box<[Corner]>,
    /// Whether every hit is due.
    all: AtomicBool,
}

/// One loop's part. The numbers are written by its thread alone.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Corner {
    /// Hits until one is counted.
    left: AtomicU32,
    /// For how many hits the next one counts.
    stride: AtomicU32,
    chance: AtomicU32,
    /// Calls that came while somebody read, and what servers spent on them, until a window takes them.
    missed_calls: AtomicU64,
    missed_nanos: AtomicU64,
    windows: Mutex<Windows>,
}

/// The running window and the one before: what is read covers one to two of them, so that what has ended is forgotten after two.
#[derive(Debug)]
struct Windows {
    running: Window,
    before: Window,
}

#[derive(Clone, Debug)]
struct Window {
    /// Which of all windows since 1970.
    number: u64,
    directories: Top<Directory>,
    clients: Top<IpAddr>,
    users: Top<u32>,
    missed: Weight,
}

/// The heaviest of a kind, by calls and by time: who asks seldom may keep a server busy.
#[derive(Clone, Debug)]
struct Top<V> {
    calls: Sketch<V>,
    time: Sketch<V>,
}

/// A directory that is called on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Directory {
    pub(crate) key: Key,
    length: u8,
    bytes: [u8; HANDLE_MOST],
}

impl Directory {
    fn new(key: Key, handle: &[u8]) -> Self {
        let mut directory = Self { key, length: 0, bytes: [0; HANDLE_MOST] };
        directory.learn(handle);
        directory
    }

    /// Its handle may come later, with a call on the directory itself.
    fn learn(&mut self, handle: &[u8]) {
        if let (0, Some(bytes)) = (self.length, self.bytes.get_mut(..handle.len())) {
            bytes.copy_from_slice(handle);
            self.length = handle.len() as u8;
        }
    }

    /// Empty if nobody has called on it by its handle.
    pub(crate) fn handle(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// One of the hottest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heat<V> {
    pub(crate) what: V,
    /// Calls that it may have had at most.
    pub(crate) calls: u64,
    /// What was surely its.
    pub(crate) surely: Weight,
}

/// What was seen lately, over all loops.
#[derive(Debug)]
pub(crate) struct Reading {
    /// How far back it looks.
    pub(crate) covers: Span,
    pub(crate) calls: u64,
    pub(crate) nanos: u64,
    pub(crate) directories: Vec<Heat<Directory>>,
    pub(crate) clients: Vec<Heat<IpAddr>>,
    pub(crate) users: Vec<Heat<u32>>,
}

impl Spots {
    /// For so many event loops.
    pub(crate) fn new(loops: usize) -> Self {
        let loops = (0..loops.max(1)).map(|number| Corner::new(number as u32)).collect();
        Self { loops, all: AtomicBool::new(false) }
    }

    /// The part of the loop with this number.
    pub(crate) fn corner(&self, number: usize) -> &Corner {
        &self.loops[number]
    }

    /// From now on every hit is due, or not. A loop that counts at this very moment may not notice: whoever wants to be sure says it again.
    pub(crate) fn look_at_all(&self, all: bool) {
        self.all.store(all, Relaxed);
        for corner in self.loops.iter().filter(|corner| all && corner.left.load(Relaxed) > 1) {
            corner.stride.store(1, Relaxed);
            corner.left.store(1, Relaxed);
        }
    }

    /// A call was answered; a hit, if it was due.
    pub(crate) fn saw(&self, number: usize, names: &Names, seen: &Seen<'_>) {
        let corner = &self.loops[number];
        let weight = match seen.outcome {
            Outcome::Hit | Outcome::Absent => {
                let calls = corner.sampled(self.all.load(Relaxed));
                Weight { calls, hits: calls, nanos: 0 }
            }
            Outcome::Joined => Weight { calls: 1, hits: 1, nanos: 0 },
            Outcome::Forwarded(_) | Outcome::Here => Weight { calls: 1, hits: 0, nanos: seen.served.as_nanos() },
        };
        let directory = directory(names, seen);
        let Some(mut windows) = at_once(&corner.windows) else { return corner.miss(weight) };
        windows.turn(seen.at);
        let Window { directories, clients, users, missed, .. } = &mut windows.running;
        if let Some((directory, handle)) = directory {
            let known = directories.add(directory, weight, || Directory::new(directory, handle));
            known.into_iter().flatten().for_each(|known| known.learn(handle));
        }
        clients.add(client_key(seen.client), weight, || seen.client);
        if let Some(uid) = seen.uid {
            users.add(Key(mix(uid.into())), weight, || uid);
        }
        *missed += corner.missed();
    }

    /// What was seen lately.
    pub(crate) fn read(&self, now: Time) -> Reading {
        let windows: Vec<Window> = self.loops.iter().flat_map(|corner| corner.copied(now)).collect();
        Reading {
            covers: WINDOW + Span::from_nanos(now.as_nanos() % WINDOW.as_nanos()),
            calls: windows.iter().map(|window| window.clients.calls.total() + window.missed.calls).sum(),
            nanos: windows.iter().map(|window| window.clients.time.total() + window.missed.nanos).sum(),
            directories: merged(windows.iter().map(|window| &window.directories), |directory| directory.key),
            clients: merged(windows.iter().map(|window| &window.clients), |client| *client),
            users: merged(windows.iter().map(|window| &window.users), |uid| *uid),
        }
    }
}

impl Corner {
    fn new(number: u32) -> Self {
        Self {
            left: AtomicU32::new(1),
            stride: AtomicU32::new(1),
            chance: AtomicU32::new(mix(u64::from(number) + 1) as u32 | 1),
            missed_calls: AtomicU64::new(0),
            missed_nanos: AtomicU64::new(0),
            windows: Mutex::new(Windows { running: Window::new(), before: Window::new() }),
        }
    }

    /// A cache answers a call: whether that is one of those that are counted. A few instructions; most are not.
    #[inline]
    pub(crate) fn due(&self) -> bool {
        if cfg!(feature = "uncounted") {
            return false;
        }
        let now = self.left.load(Relaxed).wrapping_sub(1);
        self.left.store(now, Relaxed);
        now == 0
    }

    /// A hit that was due is nobody's: the next one is due instead.
    pub(crate) fn pass(&self) {
        self.left.store(1, Relaxed);
    }

    /// A call that cannot be counted now.
    #[cold]
    fn miss(&self, weight: Weight) {
        self.missed_calls.store(self.missed_calls.load(Relaxed) + weight.calls, Relaxed);
        self.missed_nanos.store(self.missed_nanos.load(Relaxed) + weight.nanos, Relaxed);
    }

    /// Those that could not be.
    fn missed(&self) -> Weight {
        let calls = self.missed_calls.load(Relaxed);
        if calls == 0 {
            return Weight::default();
        }
        let nanos = self.missed_nanos.load(Relaxed);
        self.missed_calls.store(0, Relaxed);
        self.missed_nanos.store(0, Relaxed);
        Weight { calls, hits: 0, nanos }
    }

    /// Its windows. Only copied under the lock, for what its loop sees meanwhile has no name.
    fn copied(&self, now: Time) -> [Window; 2] {
        let mut windows = lock(&self.windows);
        windows.turn(now);
        [windows.running.clone(), windows.before.clone()]
    }

    /// For how many hits this one counts; the next is drawn.
    fn sampled(&self, all: bool) -> u64 {
        let mut chance = self.chance.load(Relaxed);
        chance ^= chance << 13;
        chance ^= chance >> 17;
        chance ^= chance << 5;
        self.chance.store(chance, Relaxed);
        let stride = if all { 1 } else { 1 + (chance >> 8) % STRIDE_MOST };
        self.left.store(stride, Relaxed);
        let calls = self.stride.load(Relaxed);
        self.stride.store(stride, Relaxed);
        calls.into()
    }
}

impl Windows {
    fn turn(&mut self, now: Time) {
        let number = now.as_nanos() / WINDOW.as_nanos();
        if number <= self.running.number {
            return;
        }
        std::mem::swap(&mut self.running, &mut self.before);
        if self.before.number + 1 != number {
            self.before.clear(number - 1);
        }
        self.running.clear(number);
    }
}

impl Window {
    fn new() -> Self {
        Self {
            number: 0,
            directories: Top::new(DIRECTORIES),
            clients: Top::new(CLIENTS),
            users: Top::new(USERS),
            missed: Weight::default(),
        }
    }

    fn clear(&mut self, number: u64) {
        (self.number, self.missed) = (number, Weight::default());
        self.directories.clear();
        self.clients.clear();
        self.users.clear();
    }
}

impl<V> Top<V> {
    fn new(slots: u16) -> Self {
        Self { calls: Sketch::new(By::Calls, slots), time: Sketch::new(By::Time, slots) }
    }

    /// What is remembered of the key, by calls and by time. Where no server spent any, nothing is looked up by time.
    fn add(&mut self, key: Key, weight: Weight, value: impl Fn() -> V) -> [Option<&mut V>; 2] {
        let by_time = if weight.nanos > 0 { self.time.add(key, weight, &value) } else { None };
        [self.calls.add(key, weight, &value), by_time]
    }

    fn clear(&mut self) {
        self.calls.clear();
        self.time.clear();
    }
}

/// The directory that a call burdens, and its handle, where the call has it. Of a file it is the one that it lies in, if that is known; none
/// if that cannot be said at once.
fn directory<'s>(names: &Names, seen: &Seen<'s>) -> Option<(Key, &'s [u8])> {
    if seen.on_directory() {
        return Some((seen.place, seen.handle));
    }
    match names.directory_of(seen.place) {
        Ok(Some(parent)) => Some((parent, &[])),
        Ok(None) => Some((seen.place, seen.handle)),
        Err(Busy) => None,
    }
}

fn client_key(client: IpAddr) -> Key {
    match client {
        IpAddr::V4(client) => Key(mix(u64::from(client.to_bits()))),
        IpAddr::V6(client) => {
            let bits = client.to_bits();
            Key(mix(bits as u64 ^ mix((bits >> 64) as u64)))
        }
    }
}

/// The sums of all sketches. Most calls first; of equals always the same first.
fn merged<'s, K: Hash + Ord, V: Copy + 's>(
    tops: impl Iterator<Item = &'s Top<V>> + Clone,
    key: impl Fn(&V) -> K,
) -> Vec<Heat<V>> {
    // Whoever has no slot in a sketch may have had its least count there; whoever has one gets that instead.
    let absent = tops.clone().map(|top| top.calls.least_count()).sum();
    let unseen = |what: &V| Heat { what: *what, calls: absent, surely: Weight::default() };
    let mut all = HashMap::new();
    for Top { calls, time } in tops {
        let least = calls.least_count();
        for slot in calls.slots() {
            let heat = all.entry(key(&slot.value)).or_insert_with(|| unseen(&slot.value));
            heat.calls += slot.weight.calls + slot.error - least;
            heat.surely += slot.weight;
        }
        // Of calls that servers spent time on, the slot that was taken first has seen all that the other has.
        for slot in time.slots() {
            let counted = calls.get(slot.key).map(|slot| slot.weight).unwrap_or_default();
            let heat = all.entry(key(&slot.value)).or_insert_with(|| unseen(&slot.value));
            heat.surely += slot.weight.beyond(counted);
        }
    }
    let mut all: Vec<(K, Heat<V>)> = all.into_iter().collect();
    all.sort_by(|(one, first), (other, second)| second.calls.cmp(&first.calls).then_with(|| one.cmp(other)));
    all.into_iter().map(|(_, heat)| heat).collect()
}

/// How long a window runs. After two of them nothing is left of what has ended, however heavy it was: then what is hottest is on top, well
/// within two seconds of its start.
const WINDOW: Span = Span::from_millis(750);
/// Hits between two that are counted are 1 to this many, all equally likely: 512.5 on average.
const STRIDE_MOST: u32 = 1024;
/// Slots of one loop's window, by calls and by time: a count is wrong by this part of all at most.
const DIRECTORIES: u16 = 256;
const CLIENTS: u16 = 256;
const USERS: u16 = 128;
/// NFSv3's handles.
const HANDLE_MOST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use midas_core::decision::{Route, Why};
    use midas_core::id::ServerId;
    use midas_nfs::nfs3::{Nfsstat3, Procedure};

    const START: Time = Time::from_nanos(1_000_000_000_000_000);
    const FORWARDED: Outcome = Outcome::Forwarded(Route { to: ServerId(0), home: ServerId(0), why: Why::Home });

    fn seen(client: u32, uid: u32, handle: &[u8], outcome: Outcome) -> Seen<'_> {
        Seen {
            client: IpAddr::from(client.to_be_bytes()),
            uid: Some(uid),
            procedure: Procedure::Getattr,
            realm: 0,
            place: Key::of(handle),
            handle,
            name: None,
            to: None,
            linked: None,
            outcome,
            status: Some(Nfsstat3::OK),
            took: Span::from_millis(3),
            served: Span::from_millis(2),
            at: START,
        }
    }

    #[test]
    fn forwarded_calls_are_counted_one_by_one_with_the_time_that_servers_spent() {
        let (spots, names) = (Spots::new(2), Names::default());
        for number in 0..300 {
            let handle: &[u8] = if number % 3 == 0 { b"warm" } else { b"hot" };
            spots.saw(number % 2, &names, &seen(7, number as u32 % 5, handle, FORWARDED));
        }
        let reading = spots.read(START);
        assert_eq!((reading.calls, reading.nanos), (300, 600_000_000));
        let [hot, warm] = &reading.directories[..] else { panic!("{reading:?}") };
        assert_eq!((hot.what.handle(), hot.calls, hot.surely.calls), (&b"hot"[..], 200, 200));
        assert_eq!((warm.what.handle(), warm.surely.nanos), (&b"warm"[..], 200_000_000));
        assert_eq!((reading.clients.len(), reading.clients[0].calls, reading.users.len()), (1, 300, 5));
    }

    #[test]
    fn a_slow_rare_directory_client_and_user_are_found_by_time_among_a_million_quick_ones() {
        let (spots, names) = (Spots::new(2), Names::default());
        let quick = |number: u32| Seen { served: Span::from_micros(1), ..seen(number, number, b"", FORWARDED) };
        for number in 1..1_000_000_u32 {
            let (at, handle) = (number as usize % 2, number.to_be_bytes());
            spots.saw(at, &names, &Seen { place: Key::of(&handle), handle: &handle, ..quick(number) });
            if number % 10_000 == 501 {
                spots.saw(at, &names, &seen(0, 0, b"slow", FORWARDED));
            }
        }
        let reading = spots.read(START);
        let slow = reading.directories.iter().max_by_key(|heat| heat.surely.nanos).unwrap();
        assert_eq!((slow.what.handle(), slow.surely.calls, slow.surely.nanos), (&b"slow"[..], 100, 200_000_000));
        assert!((100..=8_000).contains(&slow.calls), "its calls are not known better: {}", slow.calls);
        let client = reading.clients.iter().max_by_key(|heat| heat.surely.nanos).unwrap();
        let user = reading.users.iter().max_by_key(|heat| heat.surely.nanos).unwrap();
        assert_eq!((client.what, user.what), (IpAddr::from([0; 4]), 0));
    }

    #[test]
    fn a_call_does_not_wait_for_who_reads_and_is_counted_later_for_nobody() {
        let (spots, names) = (Spots::new(1), Names::default());
        let reads = lock(&spots.loops[0].windows);
        spots.saw(0, &names, &seen(1, 1, b"missed", FORWARDED));
        spots.saw(0, &names, &seen(1, 1, b"missed", FORWARDED));
        drop(reads);
        for calls in [3, 4] {
            spots.saw(0, &names, &seen(1, 1, b"seen", FORWARDED));
            let reading = spots.read(START);
            assert_eq!((reading.calls, reading.nanos), (calls, 2_000_000 * calls));
            let [only] = &reading.directories[..] else { panic!("{reading:?}") };
            assert_eq!((only.what.handle(), only.calls), (&b"seen"[..], calls - 2));
        }
    }

    #[test]
    fn no_count_over_all_loops_is_too_low_nor_too_high_by_more_than_its_error() {
        let (spots, names, mut truth) = (Spots::new(3), Names::default(), HashMap::<Vec<u8>, u64>::new());
        for number in 0..30_000_u64 {
            // Some are everywhere, some in one loop alone, and most lose their slots; the last loop has room for all.
            let (chance, at) = (mix(number), (number % 20 / 9) as usize);
            let directory = (chance >> 32) % (1 + chance % [2000, 600, 100][at]) * (1 + at as u64 % 2);
            let handle = directory.to_be_bytes();
            spots.saw(at, &names, &seen(1, 1, &handle, FORWARDED));
            *truth.entry(handle.to_vec()).or_default() += 1;
        }
        let reading = spots.read(START);
        assert!(reading.directories.len() > usize::from(DIRECTORIES));
        for Heat { what, calls: most, surely } in &reading.directories {
            let (calls, least) = (truth[what.handle()], surely.calls);
            assert!((least..=*most).contains(&calls), "{:?}: {least} to {most}, but {calls}", what.handle());
            assert_eq!(surely.nanos, least * 2_000_000);
        }
    }

    /// What is told of hits: as many as there were, and in their proportions, whatever their rhythm.
    #[test]
    fn hits_are_sampled_and_their_shares_are_kept_though_they_come_in_step() {
        let names = Names::default();
        for period in [2, 8, 64, 512, 513] {
            let (spots, mut told) = (Spots::new(1), 0);
            for number in 0..25_600_000 {
                if spots.corner(0).due() {
                    let handle: &[u8] = if number % period == 0 { b"one" } else { b"other" };
                    spots.saw(0, &names, &seen(1, 1, handle, Outcome::Hit));
                    told += 1;
                }
            }
            let reading = spots.read(START);
            assert!((40_000..64_000).contains(&told), "{told}");
            assert!((25_598_976..=25_600_000).contains(&reading.calls), "{}", reading.calls);
            let one = reading.directories.iter().find(|heat| heat.what.handle() == b"one").unwrap();
            let share = one.calls as f64 / reading.calls as f64 * f64::from(period);
            assert!((0.7..1.3).contains(&share), "{period}: {share}");
            assert!(reading.directories.iter().all(|heat| heat.surely.hits == heat.calls));
        }
    }

    #[test]
    fn while_all_are_wanted_every_hit_is_due_and_counts_for_itself() {
        let (spots, names) = (Spots::new(1), Names::default());
        let hits = |count: u64| {
            for _ in 0..count {
                if spots.corner(0).due() {
                    spots.saw(0, &names, &seen(1, 1, b"a", Outcome::Hit));
                }
            }
            spots.read(START).calls
        };
        let before = hits(1);
        spots.look_at_all(true);
        assert_eq!(hits(500) - before, 500);
        spots.look_at_all(false);
        assert!((501..1_002).contains(&(hits(500) - before)), "one by one no longer");
    }

    #[test]
    fn a_call_on_a_file_burdens_the_directory_that_it_lies_in() {
        let (spots, names) = (Spots::new(1), Names::default());
        let (dir, file, below) = (Key::of(b"dir"), Key::of(b"file"), Key::of(b"below"));
        names.learn(file, (dir, b"file"), Some(false));
        names.learn(below, (dir, b"below"), Some(true));
        for handle in [&b"file"[..], b"file", b"file", b"below", b"below", b"unknown"] {
            spots.saw(0, &names, &seen(1, 1, handle, FORWARDED));
        }
        let name = Seen { name: Some(b"x"), ..seen(1, 1, b"dir", FORWARDED) };
        spots.saw(0, &names, &name);
        let reading = spots.read(START);
        let shown: Vec<_> = reading.directories.iter().map(|heat| (heat.what.handle(), heat.calls)).collect();
        assert_eq!(shown, [(&b"dir"[..], 4), (b"below", 2), (b"unknown", 1)]);
    }

    #[test]
    fn what_is_two_windows_old_is_forgotten() {
        let (spots, names) = (Spots::new(1), Names::default());
        // A window begins here.
        let begin = START + Span::from_nanos(WINDOW.as_nanos() - START.as_nanos() % WINDOW.as_nanos());
        let after = |millis| begin + Span::from_millis(millis);
        spots.saw(0, &names, &Seen { at: begin, ..seen(1, 1, b"a", FORWARDED) });
        for (millis, calls, covers) in [(700, 1, 1450), (800, 1, 800), (1499, 1, 1499), (1500, 0, 750)] {
            let reading = spots.read(after(millis));
            assert_eq!((reading.calls, reading.covers), (calls, Span::from_millis(covers)), "{millis}");
        }
        spots.saw(0, &names, &Seen { at: after(1600), ..seen(1, 1, b"a", FORWARDED) });
        assert_eq!((spots.read(after(2900)).calls, spots.read(after(3_600_000)).calls), (1, 0));
    }

    /// Wherever in a window the storm begins.
    #[test]
    fn a_storm_is_first_within_two_seconds_though_something_far_heavier_ended_as_it_began() {
        for offset in (0..WINDOW.as_nanos()).step_by(125_000_000) {
            let (spots, names) = (Spots::new(1), Names::default());
            let begin = START + Span::from_nanos(offset);
            for ms in 0..3_000 {
                let at = begin - Span::from_millis(3_000 - ms);
                for _ in 0..20 {
                    spots.saw(0, &names, &Seen { at, ..seen(1, 1, b"heavy", FORWARDED) });
                }
            }
            let mut first = None;
            for ms in 0..2_000 {
                let at = begin + Span::from_millis(ms);
                spots.saw(0, &names, &Seen { at, ..seen(2, 2, b"storm", FORWARDED) });
                if ms % 50 > 0 {
                    continue;
                }
                let reading = spots.read(at);
                let hottest = (reading.directories[0].what.handle(), reading.clients[0].what, reading.users[0].what);
                first = first.or((hottest == (&b"storm"[..], IpAddr::from([0, 0, 0, 2]), 2)).then_some(ms));
            }
            assert!(first.is_some_and(|ms| ms <= 1_500), "{offset}: {first:?}");
        }
    }

    fn place<V>(top: &Top<V>) -> [usize; 2] {
        [&top.calls, &top.time].map(|sketch| sketch.slots().as_ptr().addr())
    }

    #[test]
    fn memory_does_not_grow_with_ten_thousand_clients_and_a_million_directories() {
        let (spots, names) = (Spots::new(1), Names::default());
        let places = || {
            let windows = lock(&spots.loops[0].windows);
            let slots = |window: &Window| {
                let Window { directories, clients, users, .. } = window;
                [place(directories), place(clients), place(users)]
            };
            let mut places = [slots(&windows.running), slots(&windows.before)];
            places.sort_unstable();
            places
        };
        let before = places();
        for number in 0..1_000_000_u32 {
            let (client, handle) = (number % 10_000, number.to_be_bytes());
            spots.saw(0, &names, &seen(client, client, &handle, FORWARDED));
        }
        assert_eq!(places(), before, "what grows must move");
        let reading = spots.read(START);
        let lengths = [reading.directories.len(), reading.clients.len(), reading.users.len()];
        // Those by calls, and those by time where they are others.
        for (length, slots) in lengths.into_iter().zip([DIRECTORIES, CLIENTS, USERS].map(usize::from)) {
            assert!((slots..=2 * slots).contains(&length), "{length}");
        }
        assert_eq!(reading.calls, 1_000_000);
    }
}
