//! XDR (RFC 4506): everything is a multiple of four bytes, big-endian. A [`Reader`] borrows; the functions in [`put`] append.

use core::fmt;

/// Takes items off the front of a message. An error of one of its methods leaves the reader where it was before the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What was not read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// `N` bytes as they are; `N` must be a multiple of four.
    pub fn fixed<const N: usize>(&mut self) -> Result<&'a [u8; N], Malformed> {
        const { assert!(N.is_multiple_of(4), "XDR items fill whole words") };
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(head)
    }

    /// An unsigned integer.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.fixed::<4>().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// An unsigned hyper integer.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.fixed::<8>().map(|bytes| u64::from_be_bytes(*bytes))
    }

    /// A boolean: 0 or 1, nothing else.
    pub fn bool(&mut self) -> Result<bool, Malformed> {
        match self.peek()? {
            0 => self.u32().map(|_| false),
            1 => self.u32().map(|_| true),
            _ => Err(Malformed::Value),
        }
    }

    /// Variable-length opaque or string of at most `limit` bytes, with its padding. The padding's value is not looked at:
    /// nothing is gained by refusing what every server takes.
    pub fn opaque(&mut self, limit: usize) -> Result<&'a [u8], Malformed> {
        let length = self.peek()? as usize;
        if length > limit {
            return Err(Malformed::TooLong);
        }
        let body = &self.rest[4..];
        let value = body.get(..length).ok_or(Malformed::Short)?;
        self.rest = body.get(padded(length)..).ok_or(Malformed::Short)?;
        Ok(value)
    }

    /// An optional item: a boolean, and the item if it was true.
    pub fn option<T>(&mut self, item: impl FnOnce(&mut Self) -> Result<T, Malformed>) -> Result<Option<T>, Malformed> {
        let before = *self;
        match self.bool()? {
            true => item(self).map(Some).inspect_err(|_| *self = before),
            false => Ok(None),
        }
    }

    fn peek(&self) -> Result<u32, Malformed> {
        self.rest.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes)).ok_or(Malformed::Short)
    }
}

/// Why bytes are not the item that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They end too early.
    Short,
    /// A length is over its limit.
    TooLong,
    /// A boolean, union or enumeration has a value that it must not have.
    Value,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "message ends too early",
            Self::TooLong => "item is longer than its limit",
            Self::Value => "value is not allowed here",
        })
    }
}

impl core::error::Error for Malformed {}

/// Bytes that `length` bytes of opaque take, padding included and its length word not.
pub const fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// Encoders: each appends one item.
pub mod put {
    use super::padded;
    use alloc::vec::Vec;

    /// An unsigned integer.
    pub fn u32(out: &mut Vec<u8>, value: u32) {
        out.extend_from_slice(&value.to_be_bytes());
    }

    /// An unsigned hyper integer.
    pub fn u64(out: &mut Vec<u8>, value: u64) {
        out.extend_from_slice(&value.to_be_bytes());
    }

    /// A boolean.
    pub fn bool(out: &mut Vec<u8>, value: bool) {
        u32(out, value.into());
    }

    /// Variable-length opaque or string, with its padding.
    pub fn opaque(out: &mut Vec<u8>, value: &[u8]) {
        u32(out, value.len() as u32);
        out.extend_from_slice(value);
        out.extend_from_slice(&[0; 3][..padded(value.len()) - value.len()]);
    }

    /// An optional item.
    pub fn option<T>(out: &mut Vec<u8>, value: Option<&T>, item: impl FnOnce(&mut Vec<u8>, &T)) {
        bool(out, value.is_some());
        if let Some(value) = value {
            item(out, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn an_opaque_is_padded_to_whole_words_and_read_back() {
        for length in 0..9 {
            let value = &b"abcdefgh"[..length];
            let mut out = Vec::new();
            put::opaque(&mut out, value);
            assert_eq!(out.len(), 4 + padded(length));
            let mut reader = Reader::new(&out);
            assert_eq!(reader.opaque(8), Ok(value));
            assert!(reader.rest().is_empty());
        }
    }

    #[test]
    fn an_error_leaves_the_reader_where_it_was() {
        let cases: [(&[u8], Malformed); 4] = [
            (&[0, 0, 0, 9, 1, 2, 3, 4], Malformed::TooLong),
            (&[0, 0, 0, 5, 1, 2, 3, 4], Malformed::Short),
            (&[0, 0, 0, 3, 1, 2, 3], Malformed::Short),
            (&[0, 0, 0], Malformed::Short),
        ];
        for (bytes, error) in cases {
            let mut reader = Reader::new(bytes);
            assert_eq!(reader.opaque(8), Err(error));
            assert_eq!(reader.rest(), bytes);
        }
        let cut = [0, 0, 0, 1, 9];
        let mut reader = Reader::new(&cut);
        assert_eq!(reader.option(Reader::u32), Err(Malformed::Short));
        assert_eq!(reader.rest(), cut);
    }

    #[test]
    fn a_boolean_is_zero_or_one() {
        assert_eq!(Reader::new(&[0, 0, 0, 0]).bool(), Ok(false));
        assert_eq!(Reader::new(&[0, 0, 0, 1]).bool(), Ok(true));
        assert_eq!(Reader::new(&[0, 0, 0, 2]).bool(), Err(Malformed::Value));
    }
}
