//! Intents on disk of a proxy without peers (`[state] journal`): what must not be executed twice is known though the
//! proxy died.
//!
//! A non-idempotent call is written down before it is sent, with room for its answer set aside, and its answer before
//! the client has it. After a crash a client that sends it again gets the answer; a call without one is asked about at
//! a server and keeps its names from others for `server_hold_max`. What cannot be written is not sent: on a full disk
//! such calls wait, that is said and counted, and when there is room the file goes on, or is begun anew with what is
//! under way. What is under way is in the file itself, at every moment; the file before it, `.old`, holds answers
//! alone.
//!
//! Written, never synced: what a process has written outlives it, not its machine's power. Each event loop has a file
//! of its own, so nobody waits for another's disk.

mod entry;

use crate::exclusive::{Keys, NOWHERE, Turns};
use crate::log;
use crate::pool::lock;
use midas_core::peer::lease::Operation;
use midas_core::time::{Span, Time};
use midas_net::{DigestKey, Known};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// What is written down, and what the life before wrote.
pub(crate) struct Intents {
    journals: Box<[Mutex<Journal>]>,
    /// What calls are known by, in this life and the next.
    digests: DigestKey,
    past: Mutex<HashMap<Operation, Past>>,
    /// How many of these there are: a call looks here alone while there is none.
    past_count: AtomicUsize,
    /// Whether the first file holds what the life before wrote: until then no file of that life is touched.
    gathered: AtomicBool,
    /// Files of the life before that go then.
    left: Box<[PathBuf]>,
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
    /// Times that a file went on, or was begun anew, after something could not be written.
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
    /// For so long an answer may be asked for again; then the file is begun anew with what is under way.
    remember: Span,
    file: Option<File>,
    /// Bytes that can be read back.
    length: u64,
    /// Bytes that the disk has set aside.
    reserved: u64,
    /// Calls that are under way.
    open: HashMap<CallKey, Intent>,
    /// Calls that the life before was sending, as long as nobody asks for them.
    inherited: HashMap<Operation, Intent>,
    /// What must be written and could not be yet.
    owed: Vec<Entry>,
    begun_at: Time,
    /// Whether nothing can be written, and when that is tried again.
    broken: bool,
    retry_at: Time,
    /// When another file may be begun, after that failed.
    turn_at: Time,
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

/// The last that was written of each call.
type Last = HashMap<Operation, Entry>;

impl Intents {
    /// For so many event loops, beside the state file. What the life before was sending is kept from others until then.
    /// An error if the key of calls cannot be read or kept, or an earlier file not be read: then a call could be
    /// executed twice.
    pub(crate) fn open(
        now: Time,
        state: &Path,
        loops: usize,
        turns: &Turns,
        until: Time,
        remember: Span,
    ) -> io::Result<Self> {
        let digests = digests(&state.with_file_name("intents.key"))?;
        let path = |number: usize| state.with_file_name(format!("intents-{number}"));
        let mut last = Last::new();
        let mut number = 0;
        // The life before may have had more loops.
        while number < loops || path(number).exists() || old(&path(number)).exists() {
            let mut of_loop = Last::new();
            for file in [old(&path(number)), path(number)] {
                read(&file, &mut of_loop)?;
            }
            for entry in of_loop.into_values() {
                later(&mut last, entry);
            }
            number += 1;
        }
        let mut first = Journal::new(path(0), remember);
        let mut past = HashMap::new();
        for entry in last.into_values() {
            match entry {
                Entry::Begun(intent) => {
                    turns.leave_keys(intent.keys, NOWHERE, until);
                    past.insert(intent.operation, Past::Begun(intent.at));
                    first.inherited.insert(intent.operation, intent);
                }
                Entry::Ended { operation, at, results } if now.since(at) < remember => {
                    past.insert(operation, Past::Ended(results.clone()));
                    first.owed.push(Entry::Ended { operation, at: now, results });
                }
                Entry::Ended { .. } | Entry::Cancelled(_) => {}
            }
        }
        let all = std::iter::once(first).chain((1..loops).map(|number| Journal::new(path(number), remember)));
        let left = (0..number).map(|number| old(&path(number))).chain((loops..number).map(path)).collect();
        let intents = Self {
            journals: all.map(Mutex::new).collect(),
            digests,
            past_count: AtomicUsize::new(past.len()),
            past: Mutex::new(past),
            gathered: AtomicBool::new(false),
            left,
            counts: Counts::default(),
        };
        lock(&intents.journals[0]).begin_anew(now);
        intents.gather(now);
        Ok(intents)
    }

    /// Whether the first file holds what the life before wrote; if only now, the other files may be begun.
    fn gather(&self, now: Time) -> bool {
        let mut first = lock(&self.journals[0]);
        if self.gathered.load(Ordering::Acquire) {
            return true;
        }
        if first.broken && !first.mend(now) {
            return false;
        }
        for journal in &self.journals[1..] {
            lock(journal).begin_anew(now);
        }
        for file in self.left.iter().filter(|file| file.exists()) {
            said("intents of the life before are left behind", file, fs::remove_file(file));
        }
        self.gathered.store(true, Ordering::Release);
        true
    }

    /// What makes two records the same operation: the client, its number for the call, and the call.
    pub(crate) fn operation(&self, client: IpAddr, xid: u32, record: &[u8]) -> Operation {
        Operation(self.digests.of_call(client, xid, record).bits())
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

    /// A call that the life before was sending, first then, is this loop's from now on: its end will be written. It is
    /// written down already; if it cannot be again now, it is with the next file.
    pub(crate) fn resume(
        &self,
        now: Time,
        event_loop: usize,
        known: CallKey,
        (operation, at): (Operation, Time),
        keys: Keys,
    ) {
        let intent = Intent { operation, at, keys };
        let mut journal = lock(&self.journals[event_loop]);
        let written = journal.begin(now, known, intent);
        journal.open.insert(known, intent);
        drop(journal);
        self.counts.written.fetch_add(u64::from(written), Ordering::Relaxed);
        // Until it is in this loop's file it stays in the first.
        if written || event_loop == 0 {
            lock(&self.journals[0]).inherited.remove(&operation);
        }
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
        if !self.gathered.load(Ordering::Acquire) && !self.gather(now) {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            return false;
        }
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
            if journal.append(std::slice::from_ref(&entry)) {
                self.counts.written.fetch_add(1, Ordering::Relaxed);
            } else {
                journal.owed.push(entry);
            }
        }
    }

    /// Time passed: what is too old is forgotten.
    pub(crate) fn tick(&self, now: Time, event_loop: usize) {
        if !self.gathered.load(Ordering::Acquire) {
            return;
        }
        let mut journal = lock(&self.journals[event_loop]);
        if journal.broken {
            // There may be room again though no call comes.
            let mended = now >= journal.retry_at && journal.go_on(now);
            self.counts.anew.fetch_add(u64::from(mended), Ordering::Relaxed);
        } else if now.since(journal.begun_at) > journal.remember && now >= journal.turn_at {
            // What the life before knew is as old as the file before.
            let second = old(&journal.path).exists();
            if second {
                journal.inherited.clear();
            }
            let turned = journal.turn_over(now);
            drop(journal);
            if event_loop == 0 && second && turned {
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
    fn new(path: PathBuf, remember: Span) -> Self {
        Self {
            path,
            remember,
            file: None,
            length: 0,
            reserved: 0,
            open: HashMap::new(),
            inherited: HashMap::new(),
            owed: Vec::new(),
            begun_at: Time::ZERO,
            broken: false,
            retry_at: Time::ZERO,
            turn_at: Time::ZERO,
        }
    }

    fn begin(&mut self, now: Time, known: CallKey, intent: Intent) -> bool {
        if self.broken {
            if !self.mend(now) {
                return false;
            }
        } else if self.is_long(now) {
            self.turn_over(now);
        }
        let written = self.reserve() && self.append(&[Entry::Begun(intent)]);
        if written {
            self.open.insert(known, intent);
        }
        written
    }

    /// Whether another file is to be begun because of this one's length. Answers that may be asked for must not fall
    /// out of the file before, but no file grows for ever.
    fn is_long(&self, now: Time) -> bool {
        if self.length <= LENGTH_MAX || now < self.turn_at {
            return false;
        }
        let young = now.since(self.begun_at) < self.remember && old(&self.path).exists();
        let much = self.length > LENGTH_MAX * 4;
        if young && much {
            let why = "so much was written in so short a time that a crash would forget answers that are still kept";
            log::warn("intents are begun anew early", &[("file", &self.path.display()), ("why", &why)]);
        }
        !young || much
    }

    /// Tries again to write, but not too often.
    fn mend(&mut self, now: Time) -> bool {
        now >= self.retry_at && (self.go_on(now) || self.begin_anew(now))
    }

    /// If there is room again the file goes on as it is: so no answer in it is forgotten.
    fn go_on(&mut self, now: Time) -> bool {
        self.retry_at = now + RETRY;
        if !self.reserve() {
            return false;
        }
        let owed = std::mem::take(&mut self.owed);
        let written = self.append(&owed);
        if written {
            self.kept_again();
        } else {
            self.owed = owed;
        }
        written
    }

    /// Room for one more intent, and for the answers of all that are under way: what is sent can be answered.
    fn reserve(&mut self) -> bool {
        let Some(file) = &self.file else { return false };
        let answers = (self.open.len() + self.owed.len()) as u64 + 1;
        let needed = self.length + answers * (BEGUN_MAX + ENDED_MAX);
        if needed <= self.reserved {
            return true;
        }
        let set_aside = |length: u64| match fallocate(file, FallocateFlags::KEEP_SIZE, 0, length) {
            // Not every file system can: there the disk shows that it is full when an entry is written.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(length),
            Err(error) => Err(error),
        };
        let reserved = set_aside(needed + AHEAD).or_else(|_| set_aside(needed));
        self.reserved = reserved.unwrap_or(self.reserved);
        reserved.map_err(|error| self.cannot(&error.into())).is_ok()
    }

    /// Whether these can be read back from now on. What was written of them in part is cut off, so that it hides
    /// nothing.
    fn append(&mut self, entries: &[Entry]) -> bool {
        let bytes: Vec<u8> = entries.iter().flat_map(Entry::encoded).collect();
        let Some(file) = self.file.as_mut() else { return false };
        match file.write_all(&bytes) {
            Ok(()) => {
                self.length += bytes.len() as u64;
                true
            }
            Err(error) => {
                // That gives back what was set aside, too.
                let cut = file.set_len(self.length);
                self.reserved = 0;
                if cut.is_err() {
                    // What follows an entry that was torn cannot be read.
                    self.file = None;
                }
                said("an intent that was written in part stays", &self.path, cut);
                self.cannot(&error);
                false
            }
        }
    }

    /// The file becomes the one before, whose answers may still be asked for, and another takes its place, with all
    /// that is under way: that is written first, so that it is never in the file before alone. Whether that succeeded;
    /// if not, the file goes on.
    fn turn_over(&mut self, now: Time) -> bool {
        let (bytes, aside, before) = (self.under_way(), aside(&self.path), old(&self.path));
        let turned = write_aside(&aside, &bytes).and_then(|file| {
            match fs::rename(&self.path, &before) {
                // It was moved at an earlier try, that then failed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                moved => moved?,
            }
            fs::rename(&aside, &self.path).map(|()| file)
        });
        match turned {
            Ok(file) => {
                self.begun(now, file, bytes.len());
                self.reserve_for_answers();
                true
            }
            Err(error) => {
                self.turn_at = now + TURN_AGAIN;
                let why = "the file grows until it can be; calls go on";
                log::warn(
                    "intents cannot be moved aside",
                    &[("file", &self.path.display()), ("why", &error), ("so", &why)],
                );
                false
            }
        }
    }

    /// A new file with all that is under way takes this one's place. Until it is written whole, this one stays.
    fn begin_anew(&mut self, now: Time) -> bool {
        let bytes = self.under_way();
        let mut written = replace(&self.path, &bytes);
        let was_begun = self.begun_at > Time::ZERO;
        if written.is_err() && self.broken && was_begun && self.path.exists() {
            // The file before may be what fills the disk; it holds answers alone.
            let _not_there = fs::remove_file(old(&self.path));
            written = replace(&self.path, &bytes);
        }
        match written {
            Ok(file) => {
                self.begun(now, file, bytes.len());
                if self.broken {
                    self.kept_again();
                }
                self.reserve_for_answers();
                true
            }
            Err(error) => {
                self.retry_at = now + RETRY;
                self.cannot(&error);
                false
            }
        }
    }

    /// What a new file begins with.
    fn under_way(&self) -> Vec<u8> {
        let begun = self.inherited.values().chain(self.open.values()).map(|intent| Entry::Begun(*intent).encoded());
        let owed = self.owed.iter().map(Entry::encoded);
        std::iter::once(HEAD.to_vec()).chain(owed).chain(begun).flatten().collect()
    }

    /// This file, of so many bytes, is written from now on.
    fn begun(&mut self, now: Time, file: File, length: usize) {
        (self.file, self.length, self.reserved) = (Some(file), length as u64, 0);
        self.begun_at = now;
        self.owed.clear();
    }

    /// The answers of what is under way must find room in a file that was begun anew, too.
    fn reserve_for_answers(&mut self) {
        if !self.open.is_empty() {
            self.reserve();
        }
    }

    fn kept_again(&mut self) {
        self.broken = false;
        log::warn("intents are kept again", &[("file", &self.path.display())]);
    }

    fn cannot(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.broken, true) {
            let why = "calls that must not be executed twice wait until there is room";
            log::warn("intents cannot be kept", &[("file", &self.path.display()), ("why", &error), ("so", &why)]);
        }
    }
}

/// The key of this file, which is made if it is not there. With another one nothing of the life before is known again:
/// one that is there and cannot be read is not replaced.
fn digests(path: &Path) -> io::Result<DigestKey> {
    let failed = |what: &str, error: &io::Error| {
        let text = format!("the journal's key {} cannot be {what}: {error}", path.display());
        io::Error::new(error.kind(), text)
    };
    match fs::read(path) {
        Ok(bytes) => {
            if let Ok(key) = <[u8; 32]>::try_from(bytes) {
                return Ok(DigestKey::new(key));
            }
            let why = "it has another length; what was sent before is not known again";
            log::warn("the journal's key is drawn anew", &[("file", &path.display()), ("why", &why)]);
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed("read", &error)),
    }
    let drawn = [0_u8, 1].map(|half| DigestKey::random().of(&[half]).bits().to_be_bytes());
    let mut key = [0; 32];
    key.copy_from_slice(drawn.as_flattened());
    replace(path, &key).map_err(|error| failed("kept", &error))?;
    Ok(DigestKey::new(key))
}

/// The file before this one.
fn old(path: &Path) -> PathBuf {
    path.with_extension("old")
}

/// Where the next one is written before it takes this one's place.
fn aside(path: &Path) -> PathBuf {
    path.with_extension("new")
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let aside = aside(path);
    let file = write_aside(&aside, bytes)?;
    fs::rename(&aside, path).map(|()| file)
}

/// A whole file of these bytes, to be appended to, or none.
fn write_aside(aside: &Path, bytes: &[u8]) -> io::Result<File> {
    let written = fs::write(aside, bytes).and_then(|()| File::options().append(true).open(aside));
    if written.is_err() {
        let _not_there = fs::remove_file(aside);
    }
    written
}

fn said(what: &'static str, path: &Path, result: io::Result<()>) {
    if let Err(error) = result {
        log::warn(what, &[("file", &path.display()), ("why", &error)]);
    }
}

/// Reads what was written there, as far as it can be read.
fn read(path: &Path, last: &mut Last) -> io::Result<()> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            let text = format!("the journal's file {} cannot be read: {error}", path.display());
            return Err(io::Error::new(error.kind(), text));
        }
    };
    let known = bytes.strip_prefix(HEAD);
    if known.is_none() && !bytes.is_empty() {
        let why = "it does not begin as one of this version; what was sent before is not known again";
        log::warn("the journal is begun anew", &[("file", &path.display()), ("why", &why)]);
    }
    let mut rest = known.unwrap_or_default();
    while let Some((entry, behind)) = Entry::decode(rest) {
        rest = behind;
        last.insert(entry.operation(), entry);
    }
    Ok(())
}

/// What two loops' files say of a call: the later of both. A call that one loop gave up may have come again to another.
fn later(last: &mut Last, entry: Entry) {
    let rank = |entry: &Entry| match entry {
        Entry::Cancelled(_) => (Time::ZERO, false),
        Entry::Begun(intent) => (intent.at, false),
        Entry::Ended { at, .. } => (*at, true),
    };
    let operation = entry.operation();
    if last.get(&operation).is_none_or(|other| rank(other) <= rank(&entry)) {
        last.insert(operation, entry);
    }
}

const HEAD: &[u8] = b"midas intents of one 1\n";
/// Answers of calls that must not be executed twice are shorter.
const ANSWER_MAX: usize = 1024;
/// What entries take at most.
const BEGUN_MAX: u64 = 64;
const ENDED_MAX: u64 = 64 + ANSWER_MAX as u64;
/// What is set aside beyond what is needed: the disk is asked rarely.
const AHEAD: u64 = 1 << 20;
/// A file that is longer is begun anew before that, if no answer is forgotten by it; one four times as long in any
/// case.
const LENGTH_MAX: u64 = 256 << 20;
/// On a full disk it is tried again after so long.
const RETRY: Span = Span::from_millis(200);
/// A file that could not be moved aside is, after so long.
const TURN_AGAIN: Span = Span::from_secs(10);

#[cfg(test)]
mod tests;
