//! How two members find out that each is who it says, now: both sign their greeting with the cluster's key, the answer over both, and the
//! session's keys come from both. A greeting that is played again leads to keys that the player does not have, so whoever dialled counts only
//! once a frame under them came. Nothing is encrypted: names of files are visible on the members' network, but nothing can be changed.

use crate::key::Key;
use crate::refusal::Refusal;
use crate::session::{Keys, Mac};
use crate::wire::{Fields, put_text};
use std::ops::RangeInclusive;

/// What a member says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) cluster: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) incarnation: u64,
    pub(crate) versions: RangeInclusive<u16>,
    /// Never used twice.
    pub(crate) nonce: [u8; 32],
    pub(crate) software: String,
}

/// A greeting as it was sent or came, signature and all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Letter(pub(crate) Vec<u8>);

impl Greeting {
    /// The letter of the one who dials.
    pub(crate) fn ask(&self, key: &Key) -> Letter {
        self.letter(key, &[])
    }

    /// The letter that answers another.
    pub(crate) fn answer(&self, key: &Key, asked: &Letter) -> Letter {
        self.letter(key, &asked.0)
    }

    fn letter(&self, key: &Key, asked: &[u8]) -> Letter {
        let mut body = Vec::new();
        for text in [&self.cluster, &self.from, &self.to] {
            put_text(&mut body, text);
        }
        body.extend(self.incarnation.to_be_bytes());
        body.extend(self.versions.start().to_be_bytes());
        body.extend(self.versions.end().to_be_bytes());
        body.extend(self.nonce);
        put_text(&mut body, &self.software);
        let mut letter = MAGIC.to_vec();
        letter.extend((body.len() as u16).to_be_bytes());
        letter.extend(body);
        let mac = sign(key, asked, &letter);
        letter.extend(mac.as_bytes());
        Letter(letter)
    }
}

/// The letter at the beginning of these bytes, once it is whole.
pub(crate) fn letter(bytes: &[u8]) -> Result<Option<Letter>, Refusal> {
    let begun = bytes.len().min(MAGIC.len());
    if bytes[..begun] != MAGIC[..begun] {
        return Err(Refusal::Garbage);
    }
    let Some(length) = bytes.get(MAGIC.len()..HEAD).and_then(|mut length| Fields(std::mem::take(&mut length)).u16())
    else {
        return Ok(None);
    };
    let length = usize::from(length);
    if length > BODY_MAX {
        return Err(Refusal::Length);
    }
    Ok(bytes.get(..HEAD + length + Mac::LENGTH).map(|whole| Letter(whole.to_vec())))
}

impl Letter {
    /// Bytes that it takes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What it says, if it was written in our cluster, with our key, as an answer to this letter or as a question.
    pub(crate) fn open(&self, key: &Key, cluster: &str, asked: Option<&Self>) -> Result<Greeting, Refusal> {
        let (signed, mac) = self.0.split_at(self.0.len() - Mac::LENGTH);
        let greeting = parse(&signed[HEAD..]).ok_or(Refusal::Garbage)?;
        if greeting.cluster != cluster {
            return Err(Refusal::Cluster);
        }
        let asked = asked.map_or(&[][..], |asked| &asked.0);
        if !Mac::equal(&sign(key, asked, signed), mac) {
            return Err(Refusal::Key);
        }
        Ok(greeting)
    }

    /// The keys of the session that two letters begin.
    pub(crate) fn keys(&self, key: &Key, answer: &Self) -> Keys {
        let mut hasher = blake3::Hasher::new_keyed(&key.session);
        hasher.update(&self.0).update(&answer.0);
        Keys::new(hasher.finalize().as_bytes())
    }
}

/// The highest version that both speak.
pub(crate) fn common(ours: &RangeInclusive<u16>, theirs: &RangeInclusive<u16>) -> Result<u16, Refusal> {
    let highest = *ours.end().min(theirs.end());
    let lowest = *ours.start().max(theirs.start());
    if highest >= lowest { Ok(highest) } else { Err(Refusal::Version) }
}

fn parse(body: &[u8]) -> Option<Greeting> {
    let mut fields = Fields(body);
    let greeting = Greeting {
        cluster: fields.text()?,
        from: fields.text()?,
        to: fields.text()?,
        incarnation: fields.u64()?,
        versions: fields.u16()?..=fields.u16()?,
        nonce: fields.array()?,
        software: fields.text()?,
    };
    fields.0.is_empty().then_some(greeting)
}

fn sign(key: &Key, asked: &[u8], letter: &[u8]) -> blake3::Hash {
    let role: &[u8] = if asked.is_empty() { b"ask" } else { b"answer" };
    let mut hasher = blake3::Hasher::new_keyed(&key.greeting);
    // Letters say how long they are, so that no two pairs have the same bytes.
    hasher.update(role).update(asked).update(letter);
    hasher.finalize()
}

/// The number is the version of greetings and frames, not of what the upper half says.
const MAGIC: [u8; 8] = *b"MIDASCL1";
const HEAD: usize = MAGIC.len() + 2;
/// Four texts and what has a fixed length.
const BODY_MAX: usize = 4 * 256 + 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(nonce: u8) -> Greeting {
        Greeting {
            cluster: "c".into(),
            from: "a".into(),
            to: "b".into(),
            incarnation: 7,
            versions: 1..=2,
            nonce: [nonce; 32],
            software: "test".into(),
        }
    }

    fn key(byte: u8) -> Key {
        Key::new(&[byte; 32]).unwrap()
    }

    #[test]
    fn both_sides_get_the_same_keys_and_nobody_else_does() {
        let key = key(1);
        let asked = greeting(1).ask(&key);
        let answer = greeting(2).answer(&key, &asked);
        assert_eq!(letter(&asked.0), Ok(Some(asked.clone())));
        assert_eq!(asked.open(&key, "c", None), Ok(greeting(1)));
        assert_eq!(answer.open(&key, "c", Some(&asked)), Ok(greeting(2)));
        let again = greeting(3).answer(&key, &asked);
        assert_ne!(
            asked.keys(&key, &answer).session,
            asked.keys(&key, &again).session,
            "a question that is played again"
        );
    }

    #[test]
    fn greetings_that_are_not_meant_for_us_are_refused() {
        let ours = key(1);
        let asked = greeting(1).ask(&ours);
        let other = greeting(9).ask(&ours);
        let answer = greeting(2).answer(&ours, &asked);
        for (what, got, want) in [
            ("another key", asked.open(&key(2), "c", None), Refusal::Key),
            ("another cluster", asked.open(&ours, "d", None), Refusal::Cluster),
            ("an answer as a question", answer.open(&ours, "c", None), Refusal::Key),
            ("a question as an answer", asked.open(&ours, "c", Some(&asked)), Refusal::Key),
            ("an answer to another question", answer.open(&ours, "c", Some(&other)), Refusal::Key),
        ] {
            assert_eq!(got, Err(want), "{what}");
        }
        for place in HEAD..asked.len() {
            let mut flipped = asked.clone();
            flipped.0[place] ^= 1;
            assert!(flipped.open(&ours, "c", None).is_err(), "a bit at {place}");
        }
    }

    #[test]
    fn a_letter_is_taken_when_it_is_whole_and_refused_as_soon_as_it_cannot_be_one() {
        let asked = greeting(1).ask(&key(1));
        for length in 0..asked.len() {
            assert_eq!(letter(&asked.0[..length]), Ok(None), "{length}");
        }
        assert_eq!(letter(b"GET"), Err(Refusal::Garbage));
        let mut long = MAGIC.to_vec();
        long.extend([0xff, 0xff]);
        assert_eq!(letter(&long), Err(Refusal::Length));
    }

    #[test]
    fn the_highest_version_that_both_speak_is_used() {
        for (ours, theirs, want) in
            [(1..=1, 1..=2, Ok(1)), (1..=3, 2..=5, Ok(3)), (2..=2, 2..=2, Ok(2)), (1..=1, 2..=2, Err(Refusal::Version))]
        {
            assert_eq!(common(&ours, &theirs), want);
            assert_eq!(common(&theirs, &ours), want);
        }
    }
}
