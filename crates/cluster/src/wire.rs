//! Fields as bytes: numbers in network order, texts with a byte for their length.

/// Reads fields; `None` where there is not enough.
pub(crate) struct Fields<'b>(pub(crate) &'b [u8]);

impl<'b> Fields<'b> {
    pub(crate) fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        let length = self.u8()?;
        String::from_utf8(self.take(length.into())?.to_vec()).ok()
    }
}

/// Appends a text; one that is too long is cut.
pub(crate) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let cut = &text.as_bytes()[..text.len().min(u8::MAX.into())];
    bytes.push(cut.len() as u8);
    bytes.extend_from_slice(cut);
}
