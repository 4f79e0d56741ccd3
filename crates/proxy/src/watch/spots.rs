//! Who asks most, and for what: directories, clients and users, each loop's own.
//!
//! Most calls that a cache answers take a few instructions here: every 128th or so is counted, for all since the one before. The distance
//! is drawn anew each time, so that it does not march in step with what clients repeat. All others are counted one by one.

use super::{Names, Outcome, Seen};
use crate::pool::lock;
use midas_core::key::Key;
use midas_core::rng::mix;
use midas_core::telemetry::sketch::{Sketch, Slot, Weight};
use midas_core::time::{Span, Time};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

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
struct Corner {
    /// Hits until one is counted.
    left: AtomicU32,
    /// For how many hits the next one counts.
    stride: AtomicU32,
    chance: AtomicU32,
    windows: Mutex<Windows>,
}

/// The running window and the one before: what is read covers one to two of them.
#[derive(Debug)]
struct Windows {
    running: Window,
    before: Window,
}

#[derive(Clone, Debug)]
struct Window {
    /// Which of all windows since 1970.
    number: u64,
    directories: Sketch<Directory>,
    clients: Sketch<IpAddr>,
    users: Sketch<u32>,
    /// What servers spent in all.
    nanos: u64,
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
    pub(crate) weight: Weight,
    pub(crate) error: u64,
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

    /// A hit of this loop: whether it is one of those that are counted.
    #[inline]
    pub(crate) fn due(&self, number: usize) -> bool {
        let left = &self.loops[number].left;
        let now = left.load(Relaxed).wrapping_sub(1);
        left.store(now, Relaxed);
        now == 0
    }

    /// A hit that was due is nobody's: the next one is due instead.
    pub(crate) fn pass(&self, number: usize) {
        self.loops[number].left.store(1, Relaxed);
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
        let (directory, handle) = directory(names, seen);
        let mut windows = lock(&corner.windows);
        windows.turn(seen.at);
        let Window { directories, clients, users, nanos, .. } = &mut windows.running;
        directories.add(directory, weight, || Directory::new(directory, handle)).learn(handle);
        clients.add(client_key(seen.client), weight, || seen.client);
        if let Some(uid) = seen.uid {
            users.add(Key(mix(uid.into())), weight, || uid);
        }
        *nanos += weight.nanos;
    }

    /// What was seen in the last seconds.
    pub(crate) fn read(&self, now: Time) -> Reading {
        let windows: Vec<Window> = self.loops.iter().flat_map(|corner| corner.copied(now)).collect();
        Reading {
            covers: WINDOW + Span::from_nanos(now.as_nanos() % WINDOW.as_nanos()),
            calls: windows.iter().map(|window| window.clients.total()).sum(),
            nanos: windows.iter().map(|window| window.nanos).sum(),
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
            windows: Mutex::new(Windows { running: Window::new(), before: Window::new() }),
        }
    }

    /// Its windows. Only copied under the lock, for its loop may wait.
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
            directories: Sketch::new(DIRECTORIES),
            clients: Sketch::new(CLIENTS),
            users: Sketch::new(USERS),
            nanos: 0,
        }
    }

    fn clear(&mut self, number: u64) {
        (self.number, self.nanos) = (number, 0);
        self.directories.clear();
        self.clients.clear();
        self.users.clear();
    }
}

/// The directory that a call burdens, and its handle, where the call has it. Of a file it is the one that it lies in, if that is known.
fn directory<'s>(names: &Names, seen: &Seen<'s>) -> (Key, &'s [u8]) {
    if seen.on_directory() {
        return (seen.place, seen.handle);
    }
    match names.directory_of(seen.place) {
        Some(parent) => (parent, &[]),
        None => (seen.place, seen.handle),
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
    sketches: impl Iterator<Item = &'s Sketch<V>> + Clone,
    key: impl Fn(&V) -> K,
) -> Vec<Heat<V>> {
    // Whoever has no slot in a sketch may have had its least count there; whoever has one gets that instead.
    let absent = sketches.clone().map(Sketch::least_count).sum();
    let unseen = Weight { calls: absent, ..Weight::default() };
    let mut all = HashMap::new();
    for sketch in sketches {
        let least = sketch.least_count();
        for Slot { weight, error, value, .. } in sketch.slots() {
            let heat = all.entry(key(value)).or_insert(Heat { what: *value, weight: unseen, error: absent });
            heat.weight += Weight { calls: weight.calls - least, ..*weight };
            heat.error = heat.error - least + error;
        }
    }
    let mut all: Vec<(K, Heat<V>)> = all.into_iter().collect();
    all.sort_by(|(one, first), (other, second)| {
        second.weight.calls.cmp(&first.weight.calls).then_with(|| one.cmp(other))
    });
    all.into_iter().map(|(_, heat)| heat).collect()
}

/// How long a window runs: short enough for a storm to be on top a second after its start.
const WINDOW: Span = Span::from_secs(5);
/// Hits between two that are counted are 1 to this many, all equally likely: 128.5 on average.
const STRIDE_MOST: u32 = 256;
/// Slots of one loop's window: a count is too high by this part of all calls at most.
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
        assert_eq!((hot.what.handle(), hot.weight.calls, hot.error), (&b"hot"[..], 200, 0));
        assert_eq!((warm.what.handle(), warm.weight.nanos), (&b"warm"[..], 200_000_000));
        assert_eq!((reading.clients.len(), reading.clients[0].weight.calls, reading.users.len()), (1, 300, 5));
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
        for Heat { what, weight, error } in &reading.directories {
            let (calls, most) = (truth[what.handle()], weight.calls);
            assert!((most - error..=most).contains(&calls), "{:?}: {most} less {error}, but {calls}", what.handle());
        }
    }

    /// What is told of hits: as many as there were, and in their proportions, whatever their rhythm.
    #[test]
    fn hits_are_sampled_and_their_shares_are_kept_though_they_come_in_step() {
        let names = Names::default();
        for period in [2, 8, 64, 128, 129] {
            let (spots, mut told) = (Spots::new(1), 0);
            for number in 0..1_600_000 {
                if spots.due(0) {
                    let handle: &[u8] = if number % period == 0 { b"one" } else { b"other" };
                    spots.saw(0, &names, &seen(1, 1, handle, Outcome::Hit));
                    told += 1;
                }
            }
            let reading = spots.read(START);
            assert!((10_000..16_000).contains(&told), "{told}");
            assert!((1_599_744..=1_600_000).contains(&reading.calls), "{}", reading.calls);
            let one = reading.directories.iter().find(|heat| heat.what.handle() == b"one").unwrap();
            let share = one.weight.calls as f64 / reading.calls as f64 * f64::from(period);
            assert!((0.7..1.3).contains(&share), "{period}: {share}");
            assert!(reading.directories.iter().all(|heat| heat.weight.hits == heat.weight.calls));
        }
    }

    #[test]
    fn while_all_are_wanted_every_hit_is_due_and_counts_for_itself() {
        let (spots, names) = (Spots::new(1), Names::default());
        let hits = |count: u64| {
            for _ in 0..count {
                if spots.due(0) {
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
        let shown: Vec<_> = reading.directories.iter().map(|heat| (heat.what.handle(), heat.weight.calls)).collect();
        assert_eq!(shown, [(&b"dir"[..], 4), (b"below", 2), (b"unknown", 1)]);
    }

    #[test]
    fn what_is_two_windows_old_is_forgotten() {
        let (spots, names) = (Spots::new(1), Names::default());
        let after = |seconds| START + Span::from_secs(seconds);
        spots.saw(0, &names, &seen(1, 1, b"a", FORWARDED));
        for (seconds, calls, covers) in [(4, 1, 9), (9, 1, 9), (10, 0, 5)] {
            let reading = spots.read(after(seconds));
            assert_eq!((reading.calls, reading.covers), (calls, Span::from_secs(covers)), "{seconds}");
        }
        spots.saw(0, &names, &Seen { at: after(11), ..seen(1, 1, b"a", FORWARDED) });
        assert_eq!((spots.read(after(19)).calls, spots.read(after(3600)).calls), (1, 0));
    }

    #[test]
    fn memory_does_not_grow_with_ten_thousand_clients_and_a_million_directories() {
        let (spots, names) = (Spots::new(1), Names::default());
        let places = || {
            let windows = lock(&spots.loops[0].windows);
            let slots = |window: &Window| {
                let Window { directories, clients, users, .. } = window;
                [directories.slots().as_ptr().addr(), clients.slots().as_ptr().addr(), users.slots().as_ptr().addr()]
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
        assert_eq!(lengths, [DIRECTORIES, CLIENTS, USERS].map(usize::from));
        assert_eq!(reading.calls, 1_000_000);
    }
}
