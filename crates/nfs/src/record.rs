//! Record marking (RFC 5531, 11): a TCP stream as messages. A record is any number of fragments, empty ones too, cut by TCP
//! anywhere.
//!
//! A record of one fragment, which is what everyone sends, is given as a slice of the caller's buffer. Others are joined in a
//! buffer here. Nothing is allocated for a length that is only claimed: memory grows with what came, and never over the limit.

use alloc::vec::Vec;
use core::fmt;

/// Cuts a stream of bytes into records.
#[derive(Debug)]
pub struct Records {
    limit: usize,
    /// Fragments of a record that came in several.
    joined: Vec<u8>,
    /// Bytes missing of the fragment that is being joined, and whether it is the record's last.
    fragment: Option<(usize, bool)>,
    /// The record in `joined` was given out.
    given: bool,
}

/// What the front of a stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A whole record; `consumed` bytes of the input are done with.
    Record {
        /// The message.
        body: &'a [u8],
        /// Bytes to take off the input once the body was used.
        consumed: usize,
    },
    /// No whole record yet; `consumed` bytes are done with, and the rest must be given again with more behind it.
    More {
        /// Bytes to take off the input.
        consumed: usize,
        /// Bytes that the input must hold before another look is worth while.
        needed: usize,
    },
}

/// A record that is larger than we take: nothing after it can be found, so the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// The size that the marks claim so far.
    pub claimed: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a record claims {} bytes", self.claimed)
    }
}

impl core::error::Error for TooLong {}

impl Records {
    /// Takes records of up to `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self { limit, joined: Vec::new(), fragment: None, given: false }
    }

    /// Looks at the front of `input`.
    #[inline]
    pub fn next<'a>(&'a mut self, input: &'a [u8]) -> Result<Step<'a>, TooLong> {
        if self.given {
            self.given = false;
            // One large record in pieces must not keep its memory for the connection's life.
            self.joined = Vec::new();
        }
        if self.fragment.is_none()
            && self.joined.is_empty()
            && let Some(step) = self.whole(input)?
        {
            return Ok(step);
        }
        self.join(input)
    }

    /// Bytes held here.
    pub fn held(&self) -> usize {
        self.joined.capacity()
    }

    /// The one-fragment record at the front; none if the record comes in several.
    #[inline]
    fn whole<'a>(&self, input: &'a [u8]) -> Result<Option<Step<'a>>, TooLong> {
        let Some(mark) = input.first_chunk::<MARK>() else {
            return Ok(Some(Step::More { consumed: 0, needed: MARK }));
        };
        let (length, last) = parse(*mark);
        self.within(length)?;
        if !last {
            return Ok(None);
        }
        Ok(Some(match input.get(MARK..MARK + length) {
            Some(body) => Step::Record { body, consumed: MARK + length },
            None => Step::More { consumed: 0, needed: MARK + length },
        }))
    }

    /// Takes fragments off `input` until a record is whole or the input is used up.
    fn join<'a>(&'a mut self, input: &'a [u8]) -> Result<Step<'a>, TooLong> {
        let mut rest = input;
        loop {
            let (missing, last) = match self.fragment {
                Some(open) => open,
                None => {
                    let Some((mark, after)) = rest.split_first_chunk::<MARK>() else {
                        return Ok(Step::More { consumed: input.len() - rest.len(), needed: MARK });
                    };
                    let (length, last) = parse(*mark);
                    self.within(self.joined.len() + length)?;
                    rest = after;
                    (length, last)
                }
            };
            let (here, after) = rest.split_at(missing.min(rest.len()));
            self.take(here);
            rest = after;
            self.fragment = Some((missing - here.len(), last)).filter(|(missing, _)| *missing > 0);
            if self.fragment.is_some() {
                return Ok(Step::More { consumed: input.len(), needed: 1 });
            }
            if last {
                self.given = true;
                return Ok(Step::Record { body: &self.joined, consumed: input.len() - rest.len() });
            }
        }
    }

    /// Appends to the record. Room grows by doubling, so that small pieces cost little, but never over the limit.
    fn take(&mut self, bytes: &[u8]) {
        let (length, room) = (self.joined.len(), self.joined.capacity());
        let needed = length + bytes.len();
        if needed > room {
            self.joined.reserve_exact(needed.max(2 * room).min(self.limit) - length);
        }
        self.joined.extend_from_slice(bytes);
    }

    fn within(&self, claimed: usize) -> Result<(), TooLong> {
        match claimed <= self.limit {
            true => Ok(()),
            false => Err(TooLong { claimed }),
        }
    }
}

/// Appends a one-fragment record: room for the mark, what `body` appends, then the mark.
pub fn put(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let at = begin(out);
    body(out);
    end(out, at);
}

/// Makes room for a mark; [`end`] fills it in.
pub fn begin(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; MARK]);
    out.len() - MARK
}

/// Ends the record that began at `at`.
pub fn end(out: &mut [u8], at: usize) {
    let length = out.len() - at - MARK;
    out[at..at + MARK].copy_from_slice(&mark(length));
}

/// The mark of a record of one fragment.
pub const fn mark(length: usize) -> [u8; MARK] {
    (LAST | length as u32).to_be_bytes()
}

/// The beginning of a record of one fragment that carries a call or reply: its mark and its xid.
#[inline]
pub const fn head(length: usize, xid: u32) -> [u8; MARK + 4] {
    (((LAST | length as u32) as u64) << 32 | xid as u64).to_be_bytes()
}

fn parse(mark: [u8; MARK]) -> (usize, bool) {
    let word = u32::from_be_bytes(mark);
    ((word & !LAST) as usize, word & LAST != 0)
}

/// Bytes of a record mark.
pub const MARK: usize = 4;
/// The last fragment's bit.
const LAST: u32 = 0x8000_0000;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Fragments as (bytes, last), back to back.
    fn stream(fragments: &[(&[u8], bool)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (bytes, last) in fragments {
            let word = bytes.len() as u32 | if *last { LAST } else { 0 };
            out.extend_from_slice(&word.to_be_bytes());
            out.extend_from_slice(bytes);
        }
        out
    }

    /// The records of a stream that arrives in pieces of `cut` bytes.
    fn records(stream: &[u8], cut: usize) -> Vec<Vec<u8>> {
        let mut records = Records::new(16);
        let (mut buffer, mut found) = (Vec::new(), Vec::new());
        for piece in stream.chunks(cut) {
            buffer.extend_from_slice(piece);
            loop {
                let consumed = match records.next(&buffer).expect("records are short") {
                    Step::Record { body, consumed } => {
                        found.push(body.to_vec());
                        consumed
                    }
                    Step::More { consumed, .. } => {
                        buffer.drain(..consumed);
                        break;
                    }
                };
                buffer.drain(..consumed);
            }
        }
        assert_eq!(buffer, [0; 0], "nothing is left of whole records");
        found
    }

    #[test]
    fn b1_any_number_of_fragments_empty_ones_too_cut_anywhere() {
        let stream = stream(&[
            (b"one", true),
            (b"", false),
            (b"t", false),
            (b"", false),
            (b"wo", true),
            (b"", true),
            (b"thr", false),
            (b"ee", false),
            (b"", true),
            (b"four", true),
        ]);
        for cut in 1..=stream.len() {
            assert_eq!(records(&stream, cut), [&b"one"[..], b"two", b"", b"three", b"four"], "cut at {cut}");
        }
    }

    #[test]
    fn b1_a_claim_over_the_limit_is_refused_and_allocates_nothing() {
        for claims in [vec![(1 << 30, true)], vec![(1 << 30, false)], vec![(17, true)], vec![(9, false), (8, true)]] {
            let mut records = Records::new(16);
            let mut result = Ok(());
            for (length, last) in claims {
                let word = length as u32 | if last { LAST } else { 0 };
                let mut input = word.to_be_bytes().to_vec();
                input.extend_from_slice(&[0; 9]);
                result = records.next(&input[..MARK + length.min(9)]).map(|_| ());
            }
            assert!(result.is_err());
            assert!(records.held() <= 16);
        }
    }

    #[test]
    fn b1_endless_empty_fragments_take_no_memory() {
        let mut records = Records::new(16);
        let input = stream(&[(&b""[..], false); 64]);
        for _ in 0..1000 {
            assert_eq!(records.next(&input), Ok(Step::More { consumed: input.len(), needed: MARK }));
        }
        assert_eq!(records.held(), 0);
    }
}
