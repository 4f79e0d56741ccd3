//! Frames and datagrams under the keys of one session. A session has one direction: who dialled sends, the other receives; the counter of
//! frames is not sent, so that one which was left out, doubled or moved does not fit.

use crate::refusal::Refusal;
use crate::wire::Fields;

/// The keys of one session.
#[derive(Clone)]
pub(crate) struct Keys {
    frames: [u8; 32],
    datagrams: [u8; 32],
    /// What datagrams call it.
    pub(crate) session: [u8; 8],
}

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// That the sender lives, and what it hears.
    Pulse,
    /// A message between voters.
    Vote,
    /// The upper half's.
    Above,
}

/// A frame that came: what it is about, what it carries, and how many bytes it took.
pub(crate) type Frame<'b> = (Kind, &'b [u8], usize);

/// The sending end.
pub(crate) struct Seal {
    keys: Keys,
    frames: u64,
    datagrams: u64,
}

/// The receiving end.
pub(crate) struct Open {
    keys: Keys,
    frames: u64,
    /// The highest counter that came.
    datagrams: u64,
}

/// A signature of 32 bytes.
pub(crate) struct Mac;

impl Mac {
    pub(crate) const LENGTH: usize = 32;

    /// In constant time.
    pub(crate) fn equal(ours: &blake3::Hash, theirs: &[u8]) -> bool {
        theirs.try_into().is_ok_and(|theirs: [u8; Self::LENGTH]| *ours == theirs)
    }
}

impl Keys {
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        let name = blake3::derive_key("midas-cluster 1: name of a session", secret);
        Self {
            frames: blake3::derive_key("midas-cluster 1: frames", secret),
            datagrams: blake3::derive_key("midas-cluster 1: datagrams", secret),
            session: *name.first_chunk().expect("32 bytes are more than 8"),
        }
    }
}

impl Seal {
    pub(crate) fn new(keys: Keys) -> Self {
        Self { keys, frames: 0, datagrams: 0 }
    }

    /// Appends a frame.
    pub(crate) fn frame(&mut self, kind: Kind, body: &[u8], out: &mut Vec<u8>) {
        assert!(body.len() <= FRAME_MAX, "a frame of {} bytes", body.len());
        let from = out.len();
        out.extend((body.len() as u32).to_be_bytes());
        out.push(kind as u8);
        out.extend(body);
        let mac = sign(&self.keys.frames, self.frames, &out[from..]);
        out.extend(mac.as_bytes());
        self.frames += 1;
    }

    /// A datagram.
    pub(crate) fn datagram(&mut self, body: &[u8]) -> Vec<u8> {
        self.datagrams += 1;
        let mut out = Vec::with_capacity(DATAGRAM_HEAD + body.len() + Mac::LENGTH);
        out.extend(self.keys.session);
        out.extend(self.datagrams.to_be_bytes());
        out.extend(body);
        let mac = sign(&self.keys.datagrams, self.datagrams, &out);
        out.extend(mac.as_bytes());
        out
    }
}

impl Open {
    pub(crate) fn new(keys: Keys) -> Self {
        Self { keys, frames: 0, datagrams: 0 }
    }

    /// The frame at the beginning of these bytes, once it is whole.
    pub(crate) fn frame<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<Frame<'b>>, Refusal> {
        let Some(head) = bytes.first_chunk::<FRAME_HEAD>() else { return Ok(None) };
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if length > FRAME_MAX {
            return Err(Refusal::Length);
        }
        let Some(whole) = bytes.get(..FRAME_HEAD + length + Mac::LENGTH) else { return Ok(None) };
        let (signed, mac) = whole.split_at(FRAME_HEAD + length);
        if !Mac::equal(&sign(&self.keys.frames, self.frames, signed), mac) {
            return Err(Refusal::Frame);
        }
        self.frames += 1;
        let kind = Kind::of(head[4]).ok_or(Refusal::Meaning)?;
        Ok(Some((kind, &signed[FRAME_HEAD..], whole.len())))
    }

    /// Whether datagrams with this name belong here.
    pub(crate) fn is(&self, session: [u8; 8]) -> bool {
        self.keys.session == session
    }

    /// What a datagram of this session says.
    pub(crate) fn datagram<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], Refusal> {
        let at = bytes.len().checked_sub(Mac::LENGTH).ok_or(Refusal::Datagram)?;
        let (signed, mac) = bytes.split_at(at);
        let counter = Fields(signed.get(8..).ok_or(Refusal::Datagram)?).u64().ok_or(Refusal::Datagram)?;
        if !Mac::equal(&sign(&self.keys.datagrams, counter, signed), mac) {
            return Err(Refusal::Datagram);
        }
        if counter <= self.datagrams {
            return Err(Refusal::Old);
        }
        self.datagrams = counter;
        Ok(&signed[DATAGRAM_HEAD..])
    }
}

impl Kind {
    const ALL: [Self; 3] = [Self::Pulse, Self::Vote, Self::Above];

    fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

fn sign(key: &[u8; 32], counter: u64, bytes: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&counter.to_be_bytes()).update(bytes);
    hasher.finalize()
}

/// Bytes of what one frame carries.
pub const FRAME_MAX: usize = 1 << 20;
/// Bytes of what one datagram carries: with all headers it stays below the smallest MTU that is met in practice.
pub const DATAGRAM_MAX: usize = 1200;
pub(crate) const FRAME_HEAD: usize = 5;
pub(crate) const DATAGRAM_HEAD: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> (Seal, Open) {
        let keys = Keys::new(&[5; 32]);
        (Seal::new(keys.clone()), Open::new(keys))
    }

    fn frames(seal: &mut Seal, bodies: &[&[u8]]) -> Vec<Vec<u8>> {
        let one = |body: &&[u8]| {
            let mut out = Vec::new();
            seal.frame(Kind::Above, body, &mut out);
            out
        };
        bodies.iter().map(one).collect()
    }

    #[test]
    fn frames_are_taken_in_their_order_alone() {
        let sent = frames(&mut ends().0, &[b"one", b"two", b""]);
        for (what, order, good) in [
            ("in order", vec![0, 1, 2], 3),
            ("the first left out", vec![1, 2], 0),
            ("one left out", vec![0, 2], 1),
            ("doubled", vec![0, 0], 1),
            ("changed places", vec![1, 0], 0),
        ] {
            let mut open = ends().1;
            let taken = order.iter().take_while(|frame| open.frame(&sent[**frame]).is_ok()).count();
            assert_eq!(taken, good, "{what}");
        }
    }

    #[test]
    fn no_bit_of_a_frame_may_change_and_it_is_taken_when_it_is_whole() {
        let sent = frames(&mut ends().0, &[b"hello"]).remove(0);
        for length in 0..sent.len() {
            assert_eq!(ends().1.frame(&sent[..length]), Ok(None), "{length}");
        }
        for bit in 0..sent.len() * 8 {
            let mut flipped = sent.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(ends().1.frame(&flipped), Ok(Some(_))), "bit {bit}");
        }
        assert_eq!(ends().1.frame(&[0xff, 0, 0, 0, 0]), Err(Refusal::Length));
    }

    #[test]
    fn a_datagram_is_taken_once_and_none_that_is_older() {
        let (mut seal, mut open) = ends();
        let sent: Vec<Vec<u8>> = [b"1", b"2", b"3"].iter().map(|body| seal.datagram(*body)).collect();
        assert_eq!(open.datagram(&sent[0]), Ok(&b"1"[..]));
        assert_eq!(open.datagram(&sent[2]), Ok(&b"3"[..]));
        assert_eq!(open.datagram(&sent[1]), Err(Refusal::Old));
        assert_eq!(open.datagram(&sent[2]), Err(Refusal::Old));
        let mut flipped = seal.datagram(b"4");
        flipped[12] ^= 1;
        assert_eq!(open.datagram(&flipped), Err(Refusal::Datagram));
        for length in 0..DATAGRAM_HEAD + Mac::LENGTH {
            assert_eq!(open.datagram(&vec![0; length]), Err(Refusal::Datagram), "{length}");
        }
    }
}
