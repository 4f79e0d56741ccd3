//! Intents on disk of a proxy without peers (`[state] journal`): what must not be executed twice is known though the proxy died.
//!
//! A non-idempotent call is written down before it is sent, with room for its answer set aside, and its answer before the client
//! has it. After a crash a client that sends it again gets the answer; a call without one is asked about at a server and keeps its names from
//! others for `server_hold_max`. What cannot be written is not sent: on a full disk such calls wait, that is said and counted, and
//! when there is room the file is begun anew with what is under way.
//!
//! Written, never synced: what a process has written outlives it, not its machine's power. Each event loop has a file of its own, so nobody
//! waits for another's disk.

use crate::exclusive::{Keys, NOWHERE, Turns};
use crate::log;
use crate::pool::lock;
use midas_core::key::Key;
use midas_core::peer::lease::Operation;
use midas_core::time::{Span, Time};
use midas_net::{DigestKey, Known};
use rustix::fs::{FallocateFlags, fallocate};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What is written down, and what the life before wrote.
pub(crate) struct Intents {
    journals: Box<[Mutex<Journal>]>,
    /// What calls are known by, in this life and the next.
    digests: DigestKey,
    past: Mutex<HashMap<Operation, Past>>,
    /// How many of these there are: a call looks here alone while there is none.
    past_count: AtomicUsize,
    counts: Counts,
}

/// What was done so far.
#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    refused: AtomicU64,
    anew: AtomicU64,
    recalled: AtomicU64,
}

/// How things stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Whether nothing can be written now.
    pub(crate) broken: bool,
    /// Entries written.
    pub(crate) written: u64,
    /// Times that a call had to wait because its intent could not be written.
    pub(crate) refused: u64,
    /// Times that a file was begun anew after something could not be written.
    pub(crate) anew: u64,
    /// Calls of the life before that came again.
    pub(crate) recalled: u64,
}

/// What is known of a call of the life before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Past {
    /// It was sent, first then.
    Begun(Time),
    /// It was answered so.
    Ended(Box<[u8]>),
}

/// One event loop's file.
struct Journal {
    path: PathBuf,
    file: Option<File>,
    /// Bytes that can be read back.
    length: u64,
    /// Bytes that the disk has set aside.
    reserved: u64,
    /// Calls that are under way.
    open: HashMap<CallKey, Intent>,
    begun_at: Time,
    /// Why nothing can be written, and when that is tried again.
    broken: bool,
    retry_at: Time,
}

/// A call that is under way: its client's number for it, which says where it is known, and what it is known by there.
pub(crate) type CallKey = (u32, Known);

/// A call that is about to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Intent {
    operation: Operation,
    at: Time,
    keys: Keys,
}

/// An entry as it is read back.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Begun(Intent),
    Ended { operation: Operation, at: Time, results: Box<[u8]> },
    Cancelled(Operation),
}

impl Intents {
    /// For so many event loops, beside the state file. What the life before was sending is kept from others until then.
    pub(crate) fn open(now: Time, state: &Path, loops: usize, turns: &Turns, until: Time) -> Self {
        let path = |number: usize| state.with_file_name(format!("intents-{number}"));
        let mut past = HashMap::new();
        let mut open = HashMap::new();
        let mut number = 0;
        // The life before may have had more loops.
        while number < loops || path(number).exists() {
            for file in [old(&path(number)), path(number)] {
                recall(now, &file, &mut past, &mut open);
            }
            number += 1;
        }
        for intent in open.values() {
            turns.leave_keys(intent.keys, NOWHERE, until);
        }
        past.extend(open.values().map(|intent| (intent.operation, Past::Begun(intent.at))));
        let journal = |number| {
            let mut journal = Journal::new(path(number));
            let kept = if number == 0 { entries(now, &past, &open) } else { Vec::new() };
            journal.begin_anew(now, &kept);
            Mutex::new(journal)
        };
        let journals: Box<[_]> = (0..loops).map(journal).collect();
        let left = (0..number).map(|number| old(&path(number))).chain((loops..number).map(path));
        for file in left.filter(|file| file.exists()) {
            said("intents of the life before are left behind", &file, fs::remove_file(&file));
        }
        let past_count = AtomicUsize::new(past.len());
        let digests = digests(&state.with_file_name("intents.key"));
        Self { journals, digests, past: Mutex::new(past), past_count, counts: Counts::default() }
    }

    /// What makes two records the same operation: the client, its number for the call, and the call.
    pub(crate) fn operation(&self, client: IpAddr, xid: u32, record: &[u8]) -> Operation {
        // The first word may be the number under which it goes to a server.
        let (xid, body) = (xid.to_be_bytes(), record.get(4..).unwrap_or_default());
        let digest = match client.to_canonical() {
            IpAddr::V4(four) => self.digests.of_all(&[&four.octets(), &xid, body]),
            IpAddr::V6(six) => self.digests.of_all(&[&six.octets(), &xid, body]),
        };
        Operation(digest.bits())
    }

    /// What the life before knows of a call. A call that was under way then is this life's from now on.
    pub(crate) fn recall(&self, operation: Operation) -> Option<Past> {
        let mut past = lock(&self.past);
        let found = past.get(&operation).cloned()?;
        if matches!(found, Past::Begun(_)) {
            past.remove(&operation);
            self.past_count.store(past.len(), Ordering::Relaxed);
        }
        self.counts.recalled.fetch_add(1, Ordering::Relaxed);
        Some(found)
    }

    /// Whether the life before is remembered at all.
    pub(crate) fn remembers(&self) -> bool {
        self.past_count.load(Ordering::Relaxed) > 0
    }

    /// A call is about to be sent by this loop: whether that is written down.
    pub(crate) fn begin(
        &self,
        now: Time,
        event_loop: usize,
        known: CallKey,
        operation: impl FnOnce() -> Option<Operation>,
        keys: Keys,
    ) -> bool {
        let mut journal = lock(&self.journals[event_loop]);
        if journal.open.contains_key(&known) {
            return true;
        }
        let Some(operation) = operation() else { return true };
        let (was_broken, anew) = (journal.broken, &self.counts.anew);
        let written = journal.begin(now, known, Intent { operation, at: now, keys });
        anew.fetch_add(u64::from(was_broken && !journal.broken), Ordering::Relaxed);
        let count = if written { &self.counts.written } else { &self.counts.refused };
        count.fetch_add(1, Ordering::Relaxed);
        written
    }

    /// A call of this loop is answered so; without results it may be executed again.
    pub(crate) fn ended(&self, now: Time, event_loop: usize, known: CallKey, results: Option<&[u8]>) {
        let mut journal = lock(&self.journals[event_loop]);
        if let Some(Intent { operation, .. }) = journal.open.remove(&known) {
            let results = results.filter(|results| results.len() <= ANSWER_MAX);
            let entry = match results {
                Some(results) => Entry::Ended { operation, at: now, results: results.into() },
                None => Entry::Cancelled(operation),
            };
            journal.append(&[entry]);
            self.counts.written.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Time passed: what is too old is forgotten.
    pub(crate) fn tick(&self, now: Time, event_loop: usize) {
        let mut journal = lock(&self.journals[event_loop]);
        if now.since(journal.begun_at) > REMEMBER {
            let second = journal.turn_over(now);
            drop(journal);
            // What the life before knew is as old as the file before.
            if event_loop == 0 && second {
                lock(&self.past).clear();
                self.past_count.store(0, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { written, refused, anew, recalled } = &self.counts;
        Standing {
            broken: self.journals.iter().any(|journal| lock(journal).broken),
            written: of(written),
            refused: of(refused),
            anew: of(anew),
            recalled: of(recalled),
        }
    }
}

impl Journal {
    fn new(path: PathBuf) -> Self {
        let (begun_at, retry_at) = (Time::ZERO, Time::ZERO);
        Self { path, file: None, length: 0, reserved: 0, open: HashMap::new(), begun_at, broken: false, retry_at }
    }

    fn begin(&mut self, now: Time, known: CallKey, intent: Intent) -> bool {
        if self.broken {
            if now < self.retry_at {
                return false;
            }
            self.retry_at = now + RETRY;
            if !self.begin_anew(now, &[]) {
                return false;
            }
            log::warn("intents are kept again", &[("file", &self.path.display())]);
        } else if self.length > LENGTH_MAX {
            self.turn_over(now);
        }
        let written = self.reserve() && self.append(&[Entry::Begun(intent)]);
        if written {
            self.open.insert(known, intent);
        }
        written
    }

    /// Room for one more intent, and for the answers of all that are under way: what is sent can be answered.
    fn reserve(&mut self) -> bool {
        let Some(file) = &self.file else { return false };
        let needed = self.length + (self.open.len() as u64 + 1) * (BEGUN_MAX + ENDED_MAX);
        if needed <= self.reserved {
            return true;
        }
        let set_aside = |length: u64| fallocate(file, FallocateFlags::KEEP_SIZE, 0, length);
        let reserved = set_aside(needed + AHEAD).map(|()| needed + AHEAD);
        match reserved.or_else(|_| set_aside(needed).map(|()| needed)) {
            Ok(reserved) => self.reserved = reserved,
            Err(error) => self.cannot(&error.into()),
        }
        !self.broken
    }

    /// Whether these can be read back from now on. What was written of them in part is cut off, so that it hides nothing.
    fn append(&mut self, entries: &[Entry]) -> bool {
        let bytes: Vec<u8> = entries.iter().flat_map(Entry::encoded).collect();
        let Some(file) = self.file.as_mut() else { return false };
        match file.write_all(&bytes) {
            Ok(()) => {
                self.length += bytes.len() as u64;
                true
            }
            Err(error) => {
                let cut = file.set_len(self.length);
                said("an intent that was written in part stays", &self.path, cut);
                self.cannot(&error);
                false
            }
        }
    }

    /// The file becomes the one before, whose answers may still be asked for, and another is begun. Whether there was one before.
    fn turn_over(&mut self, now: Time) -> bool {
        let before = old(&self.path);
        let second = before.exists();
        let moved = fs::rename(&self.path, &before);
        said("intents cannot be moved aside", &self.path, moved);
        self.begin_anew(now, &[]);
        second
    }

    /// A new file with these entries and all that is under way; the one before goes.
    fn begin_anew(&mut self, now: Time, kept: &[Entry]) -> bool {
        // It may be what fills the disk.
        if self.broken {
            self.file = None;
            let _not_there = fs::remove_file(&self.path);
            let _not_there = fs::remove_file(old(&self.path));
        }
        let open = self.open.values().map(|intent| Entry::Begun(*intent));
        let all: Vec<Entry> = kept.iter().cloned().chain(open).collect();
        let mut bytes = HEAD.to_vec();
        bytes.extend(all.iter().flat_map(Entry::encoded));
        match replace(&self.path, &bytes) {
            Ok(file) => {
                (self.file, self.length, self.reserved) = (Some(file), bytes.len() as u64, 0);
                (self.begun_at, self.broken) = (now, false);
                true
            }
            Err(error) => {
                self.cannot(&error);
                false
            }
        }
    }

    fn cannot(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.broken, true) {
            let why = "calls that must not be executed twice wait until there is room";
            log::warn("intents cannot be kept", &[("file", &self.path.display()), ("why", &error), ("so", &why)]);
        }
    }
}

/// The key of this file, which is made if it is not there. With another one nothing of the life before is known again.
fn digests(path: &Path) -> DigestKey {
    let found = fs::read(path).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    DigestKey::new(found.unwrap_or_else(|| {
        let drawn = [0_u8, 1].map(|half| DigestKey::random().of(&[half]).bits().to_be_bytes());
        let mut key = [0; 32];
        key.copy_from_slice(drawn.as_flattened());
        said("the key of intents cannot be kept", path, replace(path, &key).map(drop));
        key
    }))
}

/// The file before this one.
fn old(path: &Path) -> PathBuf {
    path.with_extension("old")
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let aside = path.with_extension("new");
    let written = fs::write(&aside, bytes).and_then(|()| fs::rename(&aside, path));
    if written.is_err() {
        let _not_there = fs::remove_file(&aside);
    }
    written.and_then(|()| File::options().append(true).open(path))
}

fn said(what: &'static str, path: &Path, result: io::Result<()>) {
    if let Err(error) = result {
        log::warn(what, &[("file", &path.display()), ("why", &error)]);
    }
}

/// Reads what was written there, as far as it can be read.
fn recall(now: Time, path: &Path, past: &mut HashMap<Operation, Past>, open: &mut HashMap<Operation, Intent>) {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        Err(error) => return log::warn("intents ignored", &[("file", &path.display()), ("why", &error)]),
    };
    let mut rest = bytes.strip_prefix(HEAD).unwrap_or_default();
    while let Some((entry, behind)) = Entry::decode(rest) {
        rest = behind;
        match entry {
            Entry::Begun(intent) => drop(open.insert(intent.operation, intent)),
            Entry::Ended { operation, at, results } => {
                open.remove(&operation);
                if now.since(at) < REMEMBER {
                    past.insert(operation, Past::Ended(results));
                }
            }
            Entry::Cancelled(operation) => drop(open.remove(&operation)),
        }
    }
}

/// What is known, as it is written again.
fn entries(now: Time, past: &HashMap<Operation, Past>, open: &HashMap<Operation, Intent>) -> Vec<Entry> {
    let ended = past.iter().filter_map(|(operation, past)| match past {
        Past::Ended(results) => Some(Entry::Ended { operation: *operation, at: now, results: results.clone() }),
        Past::Begun(_) => None,
    });
    ended.chain(open.values().map(|intent| Entry::Begun(*intent))).collect()
}

impl Entry {
    fn encoded(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let (tag, operation) = match self {
            Self::Begun(intent) => (BEGUN, intent.operation),
            Self::Ended { operation, .. } => (ENDED, *operation),
            Self::Cancelled(operation) => (CANCELLED, *operation),
        };
        body.push(tag);
        body.extend(operation.0.to_be_bytes());
        match self {
            Self::Begun(Intent { at, keys, .. }) => {
                body.extend(at.as_nanos().to_be_bytes());
                keys.iter().flatten().for_each(|key| body.extend(key.0.to_be_bytes()));
            }
            Self::Ended { at, results, .. } => {
                body.extend(at.as_nanos().to_be_bytes());
                body.extend_from_slice(results);
            }
            Self::Cancelled(_) => {}
        }
        let mut entry = (body.len() as u32).to_be_bytes().to_vec();
        entry.extend(sum(&body));
        entry.extend(body);
        entry
    }

    /// The next entry, and what follows it.
    fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (wanted, rest) = rest.split_first_chunk::<8>()?;
        let (body, behind) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        if sum(body) != *wanted {
            return None;
        }
        let (tag, body) = body.split_first()?;
        let (operation, body) = body.split_first_chunk::<16>()?;
        let operation = Operation(u128::from_be_bytes(*operation));
        if *tag == CANCELLED {
            return Some((Self::Cancelled(operation), behind));
        }
        let (at, body) = body.split_first_chunk::<8>()?;
        let at = Time::from_nanos(u64::from_be_bytes(*at));
        let entry = match *tag {
            BEGUN => {
                let key = |at: usize| Some(Key(u64::from_be_bytes(*body.get(at..)?.first_chunk()?)));
                Self::Begun(Intent { operation, at, keys: [key(0), key(8)] })
            }
            ENDED => Self::Ended { operation, at, results: body.into() },
            _ => return None,
        };
        Some((entry, behind))
    }
}

/// Against writes that were cut short, not against people.
fn sum(body: &[u8]) -> [u8; 8] {
    Key(body.len() as u64).named(body).0.to_be_bytes()
}

const HEAD: &[u8] = b"midas intents of one 1\n";
const BEGUN: u8 = 1;
const ENDED: u8 = 2;
const CANCELLED: u8 = 3;
/// Answers of calls that must not be executed twice are shorter.
const ANSWER_MAX: usize = 1024;
/// What entries take at most.
const BEGUN_MAX: u64 = 64;
const ENDED_MAX: u64 = 64 + ANSWER_MAX as u64;
/// What is set aside beyond what is needed: the disk is asked rarely.
const AHEAD: u64 = 1 << 20;
/// For so long an answer may be asked for again; then the file is begun anew with what is under way.
const REMEMBER: Span = Span::from_secs(120);
/// A file that is longer is begun anew before that.
const LENGTH_MAX: u64 = 256 << 20;
/// On a full disk it is tried again after so long.
const RETRY: Span = Span::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;
    use midas_net::{CallId, Replays, Terms, Verdict};
    use midas_nfs::nfs3::Procedure;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    fn intent(number: u64) -> Intent {
        Intent { operation: Operation(number.into()), at: at(number), keys: [Some(Key(number)), None] }
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
        let place = std::env::temp_dir().join(format!("midas-intents-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let (state, turns) = (place.join("state.json"), Turns::default());
        let mut replays = Replays::new(Terms::of_one_in(1));
        let mut known = |xid: u32| {
            let (client, procedure) = (std::net::Ipv4Addr::LOCALHOST.into(), Procedure::Create);
            let call = CallId::new(&DigestKey::random(), client, procedure, &xid.to_be_bytes());
            match replays.begin(std::time::Instant::now(), call, ()) {
                Verdict::New(known) => (xid, known),
                Verdict::Joined(()) | Verdict::Done(_) => panic!("it is new"),
            }
        };
        let first = Intents::open(at(1000), &state, 2, &turns, at(1001));
        let calls: Vec<CallKey> = (0..3).map(&mut known).collect();
        for (number, call) in calls.iter().enumerate() {
            let operation = || Some(Operation(number as u128));
            assert!(first.begin(at(1000), number % 2, *call, operation, [Some(Key(number as u64)), None]));
        }
        first.ended(at(1000), 0, calls[0], Some(b"made"));
        first.ended(at(1000), 1, calls[1], None);
        // A file is turned over: nothing is forgotten by that.
        first.tick(at(1000) + REMEMBER + Span::from_secs(1), 0);
        drop(first);
        let second = Intents::open(at(1100), &state, 1, &turns, at(1200));
        assert!(second.remembers());
        assert_eq!(second.recall(Operation(0)), Some(Past::Ended(Box::from(&b"made"[..]))));
        assert_eq!(second.recall(Operation(1)), None);
        assert_eq!((second.recall(Operation(2)), second.recall(Operation(2))), (Some(Past::Begun(at(1000))), None));
        drop(second);
        let third = Intents::open(at(1100) + REMEMBER, &state, 1, &turns, at(1200));
        assert_eq!(third.recall(Operation(0)), None, "it is too long ago");
        assert_eq!(third.recall(Operation(2)), Some(Past::Begun(at(1000))), "nobody knows how it ended");
        fs::remove_dir_all(&place).unwrap();
    }
}
