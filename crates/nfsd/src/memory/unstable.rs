//! Which data would be lost in a crash: ranges written UNSTABLE, each with the server that has it in its memory.
//!
//! Ranges of one file never overlap: whoever wrote last has the data. Memory is bounded: at [`SPANS_MAX`] a file's data is
//! called durable instead, which is always allowed.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Spans by file.
#[derive(Default)]
pub(super) struct Unstable {
    files: HashMap<u32, BTreeMap<u64, Span>>,
    spans: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    end: u64,
    server: u16,
}

impl Unstable {
    /// A server took data that is not durable. False if it must be durable because there is no room to remember it.
    pub(super) fn wrote(&mut self, file: u32, range: Range<u64>, server: u16) -> bool {
        if !self.carve(file, &range, None) || self.spans >= SPANS_MAX {
            self.forget(file);
            return false;
        }
        let spans = self.files.entry(file).or_default();
        let count = spans.len();
        let mut range = range;
        if let Some((start, before)) = spans.range(..range.start).next_back()
            && before.end == range.start
            && before.server == server
        {
            range.start = *start;
        }
        if let Some(after) = spans.get(&range.end).copied().filter(|after| after.server == server) {
            spans.remove(&range.end);
            range.end = after.end;
        }
        spans.insert(range.start, Span { end: range.end, server });
        self.spans = self.spans + spans.len() - count;
        true
    }

    /// The range is durable now, whoever had it.
    pub(super) fn durable(&mut self, file: u32, range: Range<u64>) {
        if !self.carve(file, &range, None) {
            self.forget(file);
        }
    }

    /// What this server had of the range is durable now.
    pub(super) fn commit(&mut self, file: u32, range: Range<u64>, server: u16) {
        if !self.carve(file, &range, Some(server)) {
            self.forget(file);
        }
    }

    /// The file is gone, or all of it is durable.
    pub(super) fn forget(&mut self, file: u32) {
        self.spans -= self.files.remove(&file).map_or(0, |spans| spans.len());
    }

    /// What a crash of this server loses.
    pub(super) fn crash(&mut self, server: u16) -> Vec<(u32, Range<u64>)> {
        let mut lost = Vec::new();
        self.files.retain(|file, spans| {
            spans.retain(|start, span| {
                if span.server == server {
                    lost.push((*file, *start..span.end));
                }
                span.server != server
            });
            !spans.is_empty()
        });
        self.spans -= lost.len();
        lost
    }

    /// Takes a range out. False if a span would have to be cut in two and there is no room for that.
    fn carve(&mut self, file: u32, range: &Range<u64>, only: Option<u16>) -> bool {
        let Some(spans) = self.files.get_mut(&file) else { return true };
        let first = spans.range(..range.start).next_back().map_or(range.start, |(start, _)| *start);
        let touched: Vec<(u64, Span)> = spans
            .range(first..range.end)
            .filter(|(_, span)| span.end > range.start && only.is_none_or(|server| server == span.server))
            .map(|(start, span)| (*start, *span))
            .collect();
        for (start, span) in touched {
            spans.remove(&start);
            self.spans -= 1;
            if start < range.start {
                spans.insert(start, Span { end: range.start, ..span });
                self.spans += 1;
            }
            if span.end > range.end {
                spans.insert(range.end, span);
                self.spans += 1;
            }
        }
        if spans.is_empty() {
            self.files.remove(&file);
        }
        self.spans <= SPANS_MAX
    }
}

/// Most ranges that are remembered, over all files.
const SPANS_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// The spans of file 1, drawn: one letter a byte, the server's digit or a dot.
    fn drawn(unstable: &Unstable, length: u64) -> String {
        let owner = |at: u64| {
            let (_, span) = unstable.files.get(&1)?.range(..=at).next_back()?;
            (at < span.end).then(|| char::from(b'0' + span.server as u8))
        };
        (0..length).map(|at| owner(at).unwrap_or('.')).collect()
    }

    fn count(unstable: &Unstable) -> usize {
        unstable.files.values().map(BTreeMap::len).sum()
    }

    #[test]
    fn the_last_writer_has_the_data_and_commit_is_the_writers_own() {
        let mut unstable = Unstable::default();
        let mut check = |change: &dyn Fn(&mut Unstable), picture: &str, spans: usize| {
            change(&mut unstable);
            assert_eq!(drawn(&unstable, 12), picture);
            assert_eq!((unstable.spans, count(&unstable)), (spans, spans), "{picture}");
        };
        check(&|u| assert!(u.wrote(1, 0..4, 1)), "1111........", 1);
        check(&|u| assert!(u.wrote(1, 4..8, 1)), "11111111....", 1);
        check(&|u| assert!(u.wrote(1, 2..4, 2)), "11221111....", 3);
        check(&|u| u.commit(1, 0..12, 2), "11..1111....", 2);
        check(&|u| u.durable(1, 5..6), "11..1.11....", 3);
        check(&|u| assert!(u.wrote(1, 2..4, 1)), "11111.11....", 2);
        check(&|u| assert!(u.wrote(1, 5..6, 1)), "11111111....", 1);
        check(&|u| u.commit(1, 7..u64::MAX, 1), "1111111.....", 1);
        check(&|u| assert!(u.wrote(1, 9..12, 3)), "1111111..333", 2);
        check(&|u| assert_eq!(u.crash(1), [(1, 0..7)]), ".........333", 1);
        check(&|u| u.forget(1), "............", 0);
    }

    #[test]
    fn past_the_bound_data_is_durable_at_once() {
        let mut unstable = Unstable::default();
        for i in 0..SPANS_MAX as u64 {
            assert!(unstable.wrote(1, 3 * i..3 * i + 2, 1));
        }
        assert!(!unstable.wrote(2, 0..1, 1));
        assert_eq!(unstable.spans, SPANS_MAX);
        unstable.durable(1, 1..2);
        assert_eq!(unstable.spans, SPANS_MAX);
        assert!(!unstable.wrote(1, 3 * SPANS_MAX as u64..u64::MAX, 1));
        assert_eq!((unstable.spans, count(&unstable)), (0, 0));
    }
}
