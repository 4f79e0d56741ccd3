//! Intents on disk: what must not be executed twice is known though every member died (docs/leases.md, rule `recall`).
//!
//! What is heard and announced is appended with one write before anything is said that follows from
//! it: before it is acknowledged, and so before its call leaves. It is never synced, which would
//! stop the cluster's thread: what a process has written outlives it, and when machines lose their
//! power the others know; when all do, so do servers, whose own memory of calls is gone then. What
//! cannot be written is said, and nothing that follows from it leaves: for the others this member
//! is silent. When there is room again it is begun anew with all that is known.

use super::{Label, wire};
use crate::log;
use midas_core::key::Key;
use midas_core::peer::lease::{AttemptId, Message, Told};
use midas_core::time::{Span, Time};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where intents are written: a line that says what it is, then entries, each behind its length and checksum.
pub(super) struct Journal {
    path: PathBuf,
    file: Option<File>,
    length: usize,
    /// At this length it is begun anew with what is still known.
    limit: usize,
    /// Whether the last write failed: what was to be written is not in it.
    broken: bool,
}

impl Journal {
    /// Goes on in this file, and says what the life before wrote there. What is older than what is remembered would be taken for another call.
    pub(super) fn open(path: PathBuf, remember: Span) -> (Self, Vec<Told<Label>>) {
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                log::warn("intents ignored", &[("file", &path.display()), ("why", &error)]);
                Vec::new()
            }
        };
        if !bytes.is_empty() && !bytes.starts_with(HEAD) {
            log::warn(
                "intents ignored",
                &[("file", &path.display()), ("why", &"the file does not begin as one of this version")],
            );
        }
        let told = recall(&bytes, now().saturating_sub(Duration::from_nanos(remember.as_nanos())));
        let mut journal = Self { path, file: None, length: 0, limit: LENGTH_MAX, broken: false };
        let mut all = Vec::new();
        for told in &told {
            tell(&mut all, told.clone());
        }
        journal.begin_anew(&all);
        (journal, told)
    }

    /// Whether it is to be begun anew.
    pub(super) const fn full(&self) -> bool {
        self.length > self.limit || self.broken
    }

    /// Adds these messages; whether they can be read back.
    pub(super) fn append(&mut self, messages: &[u8]) -> bool {
        if messages.is_empty() {
            return !self.broken;
        }
        let Some(file) = self.file.as_mut() else { return false };
        let entry = entry(now(), messages);
        let written = file.write_all(&entry);
        match &written {
            Ok(()) => self.length += entry.len(),
            // What was written in part would hide what comes behind it; if it stays, all is written anew anyway.
            Err(_) => drop(file.set_len(self.length as u64)),
        }
        self.tell(written)
    }

    /// These messages alone are in it from now on; whether they can be read back.
    pub(super) fn begin_anew(&mut self, messages: &[u8]) -> bool {
        let mut bytes = HEAD.to_vec();
        bytes.extend(entry(now(), messages));
        let aside = self.path.with_extension("new");
        let replaced = fs::write(&aside, &bytes).and_then(|()| fs::rename(&aside, &self.path));
        let opened = replaced.and_then(|()| File::options().append(true).open(&self.path));
        let result = opened.map(|file| {
            self.file = Some(file);
            (self.length, self.limit) = (bytes.len(), LENGTH_MAX.max(2 * bytes.len()));
        });
        self.tell(result)
    }

    fn tell(&mut self, result: io::Result<()>) -> bool {
        let before = std::mem::replace(&mut self.broken, result.is_err());
        match result {
            Err(error) if !before => {
                log::warn("intents cannot be kept", &[("file", &self.path.display()), ("why", &error)]);
            }
            Ok(()) if before => log::warn("intents are kept again", &[("file", &self.path.display())]),
            Ok(()) | Err(_) => {}
        }
        !self.broken
    }
}

/// Appends an intent as a message.
pub(super) fn tell(out: &mut Vec<u8>, told: Told<Label>) {
    wire::encode(out, &Message::Tell { epoch: 0, asked: Time::ZERO, part: 0, told: vec![told] });
}

/// What was written since then, as far as it can be read: the last write may have been cut short.
fn recall(bytes: &[u8], since: Duration) -> Vec<Told<Label>> {
    let mut known = BTreeMap::<AttemptId, Told<Label>>::new();
    let mut rest = bytes.strip_prefix(HEAD).unwrap_or_default();
    while let Some((at, messages, behind)) = split(rest) {
        rest = behind;
        for message in wire::messages(messages).map_while(Result::ok) {
            if let Message::Over { id, state } = message {
                if let Some(told) = known.get_mut(&id) {
                    told.state = state;
                }
            } else if let Message::Tell { told, .. } = message
                && at >= since
            {
                known.extend(told.into_iter().map(|told| (told.id, told)));
            }
        }
    }
    known.into_values().collect()
}

fn entry(at: Duration, messages: &[u8]) -> Vec<u8> {
    let mut body = at.as_secs().to_be_bytes().to_vec();
    body.extend_from_slice(messages);
    let mut entry = (body.len() as u32).to_be_bytes().to_vec();
    entry.extend(sum(&body));
    entry.extend(body);
    entry
}

/// The next entry: when it was written, its messages, and what follows it.
fn split(bytes: &[u8]) -> Option<(Duration, &[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (wanted, rest) = rest.split_first_chunk::<8>()?;
    let (body, behind) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let (at, messages) = body.split_first_chunk::<8>()?;
    (sum(body) == *wanted).then_some((Duration::from_secs(u64::from_be_bytes(*at)), messages, behind))
}

/// Against writes that were cut short, not against people.
fn sum(body: &[u8]) -> [u8; 8] {
    Key(body.len() as u64).named(body).0.to_be_bytes()
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Where a member's intents are, beside its log of views.
pub(super) fn place(state: &Path) -> PathBuf {
    state.with_file_name("cluster.intents")
}

const HEAD: &[u8] = b"midas intents 1\n";
/// Some ten thousands of intents: far more than are remembered at most, so that it is begun anew rarely.
const LENGTH_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use midas_core::peer::lease::{Intent, Life, MemberId, Operation, Sight, State};

    fn told(sequence: u64) -> Told<Label> {
        let id = AttemptId { owner: Life { member: MemberId(1), incarnation: 7 }, sequence };
        let key = Label { export: 3, place: Key(4), key: Key(sequence) };
        let operation = Some(Operation(u128::from(sequence)));
        let intent = Intent {
            operation,
            keys: Box::new([key]),
            names: Box::new([key]),
            server: None,
            more_of: None,
            led: None,
            rank: 0,
        };
        Told { id, intent, state: State::Pending, age: Span::ZERO, sight: Sight::Clear }
    }

    fn written(told: Told<Label>) -> Vec<u8> {
        let mut out = Vec::new();
        tell(&mut out, told);
        out
    }

    #[test]
    fn intents_and_their_ends_are_recalled_as_far_as_they_were_written() {
        let place = std::env::temp_dir().join(format!("midas-journal-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let (path, remember) = (place.join("intents"), Span::from_secs(120));
        let (mut journal, before) = Journal::open(path.clone(), remember);
        assert_eq!(before, []);
        assert!(journal.append(&[written(told(1)), written(told(2))].concat()));
        let answer = State::Ended(Some(Box::from(&b"done"[..])));
        let mut over = Vec::new();
        wire::encode(&mut over, &Message::Over { id: told(1).id, state: answer.clone() });
        assert!(journal.append(&over));
        let ended = Told { state: answer, ..told(1) };
        let whole = fs::read(&path).unwrap();
        assert_eq!(recall(&whole, Duration::ZERO), [ended.clone(), told(2)]);
        assert_eq!(
            recall(&whole[..whole.len() - 1], Duration::ZERO),
            [told(1), told(2)],
            "the last write was cut short"
        );
        assert_eq!(recall(&whole, now() + Duration::from_secs(9)), [], "it is too long ago");
        assert_eq!(recall(b"something else", Duration::ZERO), []);
        for at in HEAD.len()..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 4;
            assert!(recall(&flipped, Duration::ZERO).len() <= 2, "at {at}");
        }
        let (mut again, before) = Journal::open(path.clone(), remember);
        assert_eq!(before, [ended, told(2)]);
        assert!(again.begin_anew(&written(told(5))) && again.append(&written(told(6))));
        assert_eq!(Journal::open(path, remember).1, [told(5), told(6)]);
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn one_that_cannot_be_written_says_so_and_acknowledges_nothing() {
        let (mut journal, before) = Journal::open(PathBuf::from("/nowhere-of-ours/intents"), Span::from_secs(1));
        assert!(!journal.append(&written(told(1))));
        assert!(before.is_empty() && journal.broken && journal.full());
    }
}
