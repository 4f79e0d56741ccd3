//! A file's bytes in memory: pages, and holes between them that cost nothing.
//!
//! A page is as long as what was written into it; what is missing of it reads as zeros. Room is counted in blocks, so that
//! many nearly empty pages cannot hide from the limit.

use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Default)]
pub(super) struct Data {
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Data {
    /// Appends the bytes of a range, zeros where nothing was written.
    pub(super) fn read(&self, range: Range<u64>, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + (range.end - range.start) as usize, 0);
        let out = &mut out[start..];
        for (number, page) in self.pages.range(range.start / PAGE..range.end.div_ceil(PAGE)) {
            let first = number * PAGE;
            let part = range.start.max(first)..range.end.min(first + page.len() as u64);
            if !part.is_empty() {
                let bytes = &page[(part.start - first) as usize..(part.end - first) as usize];
                out[(part.start - range.start) as usize..][..bytes.len()].copy_from_slice(bytes);
            }
        }
    }

    /// How much more room `range` would take if it were written.
    pub(super) fn growth(&self, range: Range<u64>) -> u64 {
        pages(range)
            .map(|(number, part)| {
                let length = self.pages.get(&number).map_or(0, Vec::len);
                blocks(length.max(part.end)) - blocks(length)
            })
            .sum()
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        let mut rest = data;
        for (number, part) in pages(offset..offset + data.len() as u64) {
            let (bytes, left) = rest.split_at(part.len());
            rest = left;
            let page = self.pages.entry(number).or_default();
            if page.len() < part.end {
                page.resize(part.end, 0);
            }
            page[part].copy_from_slice(bytes);
        }
    }

    /// Drops what lies behind `size`; returns how much room that gave.
    pub(super) fn truncate(&mut self, size: u64) -> u64 {
        let gone = self.pages.split_off(&size.div_ceil(PAGE));
        let mut freed = gone.values().map(|page| blocks(page.len())).sum();
        if let Some(page) = self.pages.get_mut(&(size / PAGE)) {
            let before = blocks(page.len());
            page.truncate((size % PAGE) as usize);
            page.shrink_to_fit();
            freed += before - blocks(page.len());
        }
        freed
    }

    /// What a crash leaves of data that was not durable.
    pub(super) fn zero(&mut self, range: Range<u64>) {
        for (number, page) in self.pages.range_mut(range.start / PAGE..range.end.div_ceil(PAGE)) {
            let first = number * PAGE;
            let part = range.start.max(first)..range.end.min(first + page.len() as u64);
            if !part.is_empty() {
                page[(part.start - first) as usize..(part.end - first) as usize].fill(0);
            }
        }
    }
}

/// The pages that a range touches, and which part of each.
fn pages(range: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>)> {
    (range.start / PAGE..range.end.div_ceil(PAGE)).map(move |number| {
        let first = number * PAGE;
        let part = range.start.max(first) - first..range.end.min(first + PAGE) - first;
        (number, part.start as usize..part.end as usize)
    })
}

fn blocks(length: usize) -> u64 {
    (length as u64).next_multiple_of(BLOCK)
}

/// Bytes a page.
const PAGE: u64 = 16_384;
/// What room is counted in.
const BLOCK: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(data: &Data, range: Range<u64>) -> Vec<u8> {
        let mut out = Vec::new();
        data.read(range, &mut out);
        out
    }

    #[test]
    fn holes_are_zeros_and_take_no_room() {
        let mut data = Data::default();
        let far = 1 << 50;
        assert_eq!(data.growth(far..far + 3), BLOCK);
        data.write(far, b"abc");
        assert_eq!(data.growth(far..far + 3), 0);
        assert_eq!(read(&data, far - 2..far + 3), b"\0\0abc");
        assert_eq!(read(&data, 0..4), [0; 4]);
        assert_eq!(data.pages.len(), 1);
    }

    #[test]
    fn writes_over_page_borders_read_back_and_truncation_forgets() {
        let mut data = Data::default();
        let bytes: Vec<u8> = (0..3 * PAGE).map(|i| (i % 251) as u8).collect();
        let offset = PAGE - 100;
        let room = data.growth(offset..offset + bytes.len() as u64);
        data.write(offset, &bytes);
        assert_eq!(read(&data, offset..offset + bytes.len() as u64), bytes);
        let kept = PAGE + 10;
        let freed = data.truncate(kept);
        assert_eq!(room - freed, PAGE + BLOCK);
        assert_eq!(read(&data, kept - 2..kept + 2), [bytes[108], bytes[109], 0, 0]);
        assert_eq!(data.truncate(0), room - freed);
    }

    #[test]
    fn zeroing_touches_its_range_only() {
        let mut data = Data::default();
        data.write(PAGE - 4, b"abcdefgh");
        data.zero(PAGE - 2..PAGE + 1);
        assert_eq!(read(&data, PAGE - 4..PAGE + 4), b"ab\0\0\0fgh");
        data.zero(0..1 << 60);
        assert_eq!(read(&data, PAGE - 4..PAGE + 4), [0; 8]);
    }
}
