//! What a voter must remember over a restart: its vote, and the log of views since the last one that it may forget.
//!
//! One small file, replaced as a whole and synced before any message that follows from it leaves. A file that is damaged, or that belongs to
//! another cluster or another set of members, is an error: a voter that begins anew could vote twice.

use crate::replace::replace;
use crate::view::View;
use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The log as it is kept. Entries follow each other without a gap, the first one right behind `base`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Log {
    term: u64,
    vote: u64,
    commit: u64,
    /// What the entries up to here mean.
    base: Base,
    entries: Vec<Line>,
    #[serde(skip)]
    voters: Vec<u64>,
    #[serde(skip)]
    changed: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Base {
    index: u64,
    term: u64,
    view: View,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    term: u64,
    /// None: a leader that began.
    view: Option<View>,
}

/// Whose log it is: nobody else's is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) cluster: String,
    pub(crate) me: String,
    pub(crate) members: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    owner: Owner,
    log: Log,
}

impl Log {
    /// The log in this file; an empty one if there is no file.
    pub(crate) fn load(file: &Path, owner: &Owner) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", file.display()));
        match fs::read(file) {
            Ok(bytes) => parse(&bytes, owner).map_err(named),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(named(error)),
        }
    }

    /// Keeps what has changed.
    pub(crate) fn save(&mut self, file: &Path, owner: &Owner) -> io::Result<()> {
        if self.changed {
            replace(file, &document(self, owner)?)?;
            self.changed = false;
        }
        Ok(())
    }

    /// The log of a cluster with so many voters.
    pub(crate) fn with_voters(self, count: usize) -> Self {
        Self { voters: (1..=count as u64).collect(), ..self }
    }

    /// The index that was compacted last, and what the log meant there.
    pub(crate) fn base(&self) -> (u64, &View) {
        (self.base.index, &self.base.view)
    }

    pub(crate) fn vote(&mut self, state: &HardState) {
        (self.term, self.vote, self.commit) = (state.term, state.vote, state.commit);
        self.changed = true;
    }

    pub(crate) fn commit(&mut self, index: u64) {
        self.commit = index;
        self.changed = true;
    }

    /// Entries replace those from their first index on.
    pub(crate) fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        self.entries.truncate(self.place(first.index).expect("no entry is written over the base"));
        self.entries.extend(entries.iter().map(|entry| Line { term: entry.term, view: view_of(&entry.data) }));
        self.changed = true;
    }

    /// A member that missed too much gets the meaning instead of the entries.
    pub(crate) fn restore(&mut self, snapshot: &Snapshot) -> View {
        let meta = snapshot.get_metadata();
        let view = view_of(&snapshot.data).unwrap_or_default();
        self.base = Base { index: meta.index, term: meta.term, view: view.clone() };
        self.entries.clear();
        self.commit = self.commit.max(meta.index);
        self.changed = true;
        view
    }

    /// Forgets the entries up to an index that was applied, when there are many.
    pub(crate) fn compact(&mut self, applied: u64, view: &View) {
        let Some(gone) = self.place(applied + 1).filter(|gone| *gone >= ENTRIES_MAX) else { return };
        let term = self.entries[gone - 1].term;
        self.base = Base { index: applied, term, view: view.clone() };
        self.entries.drain(..gone);
        self.changed = true;
    }

    /// Where in `entries` an index stands, or would stand.
    fn place(&self, index: u64) -> Option<usize> {
        let place = index.checked_sub(self.base.index + 1)? as usize;
        (place <= self.entries.len()).then_some(place)
    }

    fn last(&self) -> u64 {
        self.base.index + self.entries.len() as u64
    }
}

impl Storage for Log {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let hard_state = HardState { term: self.term, vote: self.vote, commit: self.commit, ..HardState::default() };
        Ok(RaftState { hard_state, conf_state: conf_state(&self.voters) })
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        _size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        let from = self.place(low).ok_or(StorageError::Compacted)?;
        let to = self.place(high).ok_or(StorageError::Unavailable)?;
        let lines = self.entries.get(from..to).ok_or(StorageError::Unavailable)?;
        Ok((low..).zip(lines).map(|(index, line)| entry(index, line)).collect())
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.base.index {
            return Ok(self.base.term);
        }
        let place = self.place(index).ok_or(StorageError::Compacted)?;
        Ok(self.entries.get(place).ok_or(StorageError::Unavailable)?.term)
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.base.index + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    fn snapshot(&self, wanted: u64, _to: u64) -> raft::Result<Snapshot> {
        if wanted > self.base.index {
            return Err(StorageError::SnapshotTemporarilyUnavailable.into());
        }
        let mut snapshot = Snapshot::default();
        snapshot.set_data(encode(&self.base.view).into());
        let meta = snapshot.mut_metadata();
        (meta.index, meta.term) = (self.base.index, self.base.term);
        meta.set_conf_state(conf_state(&self.voters));
        Ok(snapshot)
    }
}

/// A view as the bytes of an entry.
pub(crate) fn encode(view: &View) -> Vec<u8> {
    serde_json::to_vec(view).expect("a view has no key that JSON cannot have")
}

/// The view in the bytes of an entry; none in those that a new leader begins with.
pub(crate) fn view_of(bytes: &[u8]) -> Option<View> {
    serde_json::from_slice(bytes).ok()
}

fn entry(index: u64, line: &Line) -> Entry {
    let data = line.view.as_ref().map(encode).unwrap_or_default().into();
    Entry { index, term: line.term, data, ..Entry::default() }
}

fn conf_state(voters: &[u64]) -> ConfState {
    ConfState { voters: voters.to_vec(), ..ConfState::default() }
}

/// A line with the checksum of the rest.
fn document(log: &Log, owner: &Owner) -> io::Result<Vec<u8>> {
    let document = Document { version: VERSION, owner: owner.clone(), log: log.clone() };
    let body = serde_json::to_vec(&document)?;
    let mut bytes = blake3::hash(&body).to_hex().as_bytes().to_vec();
    bytes.push(b'\n');
    bytes.extend(body);
    Ok(bytes)
}

fn parse(bytes: &[u8], owner: &Owner) -> io::Result<Log> {
    let wrong = |said: String| io::Error::new(ErrorKind::InvalidData, said);
    let damaged = || wrong("the log of views is damaged; a voter must not begin anew (docs/cluster.md)".to_owned());
    let (sum, body) = bytes.split_at_checked(SUM).ok_or_else(damaged)?;
    let body = body.strip_prefix(b"\n").ok_or_else(damaged)?;
    if blake3::hash(body).to_hex().as_bytes() != sum {
        return Err(damaged());
    }
    let document: Document = serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
    match (document.version, document.owner == *owner) {
        (VERSION, true) => Ok(document.log),
        (VERSION, false) => {
            let Owner { cluster, me, members } = document.owner;
            let members = members.join(" ");
            Err(wrong(format!("it is the log of '{me}' in cluster '{cluster}' of {members} (docs/cluster.md)")))
        }
        (version, _) => Err(wrong(format!("its version is {version}, not {VERSION}"))),
    }
}

const VERSION: u32 = 1;
/// Bytes of a checksum in hexadecimal.
const SUM: usize = 64;
/// Applied entries that are kept as such: a member that missed more gets what they mean.
const ENTRIES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use midas_lab::Scratch;

    fn owner() -> Owner {
        Owner { cluster: "c".into(), me: "a".into(), members: vec!["a".into(), "b".into()] }
    }

    fn filled() -> Log {
        let mut log = Log::default();
        let view = View { epoch: 7, members: vec![(0, 70), (1, 71)] };
        log.append(&[entry(1, &Line { term: 1, view: None }), entry(2, &Line { term: 1, view: Some(view) })]);
        log.vote(&HardState { term: 3, vote: 2, commit: 2, ..HardState::default() });
        log
    }

    #[test]
    fn a_log_reads_back_and_one_that_is_not_ours_or_not_whole_is_an_error() {
        let place = Scratch::new();
        let file = place.path().join("views");
        assert_eq!(Log::load(&file, &owner()).unwrap(), Log::default());
        let mut log = filled();
        log.save(&file, &owner()).unwrap();
        assert_eq!(Log::load(&file, &owner()).unwrap(), log);
        let bytes = fs::read(&file).unwrap();
        let others = [
            Owner { cluster: "d".into(), ..owner() },
            Owner { me: "b".into(), ..owner() },
            Owner { members: vec!["a".into()], ..owner() },
        ];
        for other in others {
            assert_eq!(Log::load(&file, &other).unwrap_err().kind(), ErrorKind::InvalidData, "{other:?}");
        }
        for length in 0..bytes.len() {
            assert!(parse(&bytes[..length], &owner()).is_err(), "cut at {length}");
            let mut flipped = bytes.clone();
            flipped[length] ^= 4;
            assert!(parse(&flipped, &owner()).is_err(), "flipped at {length}");
        }
    }

    #[test]
    fn compaction_keeps_what_the_log_means_and_its_terms() {
        let mut log = Log::default();
        let view = |epoch| View { epoch, members: vec![] };
        let lines: Vec<Entry> = (1..=ENTRIES_MAX as u64 + 3)
            .map(|index| entry(index, &Line { term: index, view: Some(view(index)) }))
            .collect();
        log.append(&lines);
        log.compact(5, &view(5));
        assert_eq!(log.first_index().unwrap(), 1, "few are kept");
        log.compact(ENTRIES_MAX as u64, &view(ENTRIES_MAX as u64));
        let base = ENTRIES_MAX as u64;
        assert_eq!((log.first_index().unwrap(), log.last_index().unwrap()), (base + 1, base + 3));
        assert_eq!((log.term(base).unwrap(), log.term(base + 3).unwrap()), (base, base + 3));
        assert!(log.term(base - 1).is_err() && log.term(base + 4).is_err());
        assert_eq!(view_of(&log.snapshot(0, 1).unwrap().data), Some(view(base)));
    }
}
