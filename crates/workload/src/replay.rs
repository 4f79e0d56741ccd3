//! Calls that were recorded, played again: their times, kinds and places are what they were, whatever the seed.

use crate::request::Request;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use midas_core::op::Op;
use midas_core::time::{Span, Time};

/// Recorded calls, in order of time; the first is at zero. There is at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    name: String,
    requests: Vec<Request>,
    directories: u32,
    files: u32,
}

/// Why calls cannot be played again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayError {
    /// There is none.
    Empty,
    /// From the first to the last it is longer than a day.
    TooLong,
}

impl Replay {
    /// Calls that came from somewhere, in any order; `name` is what was typed.
    pub fn new(name: &str, mut requests: Vec<Request>) -> Result<Self, ReplayError> {
        requests.sort_by_key(|request| request.at);
        let begin = requests.first().ok_or(ReplayError::Empty)?.at;
        for request in &mut requests {
            request.at = Time::ZERO + request.at.since(begin);
        }
        if requests.last().is_some_and(|last| last.at.since(Time::ZERO) >= LONGEST) {
            return Err(ReplayError::TooLong);
        }
        let places = || requests.iter().flat_map(|it| [Some((it.directory, it.file)), it.target]).flatten();
        let count = |number: Option<u32>| number.map_or(1, |number| number.saturating_add(1));
        let directories = count(places().map(|(directory, _)| directory).max());
        let files = count(places().map(|(_, file)| file).max());
        Ok(Self { name: name.into(), requests, directories, files })
    }

    /// How many calls there are.
    pub fn calls(&self) -> usize {
        self.requests.len()
    }

    /// Directories that they are about.
    pub fn directories(&self) -> u32 {
        self.directories
    }

    /// Names in the largest of these.
    pub fn files(&self) -> u32 {
        self.files
    }

    /// A time in which all of them are issued.
    pub fn length(&self) -> Span {
        let last = self.requests.last().map_or(Time::ZERO, |last| last.at);
        last.since(Time::ZERO) + AFTER
    }

    /// Calls a second, over all of it.
    pub fn rate(&self) -> f64 {
        self.calls() as f64 / self.length().as_secs_f64()
    }

    /// The same in less time, or in more: so many calls a second on average.
    pub fn at_rate(&self, rate: f64) -> Result<Self, ReplayError> {
        let factor = self.rate() / rate;
        let later =
            |request: &Request| Request { at: Time::ZERO + request.at.since(Time::ZERO).scale(factor), ..*request };
        Self::new(&self.name, self.requests.iter().map(later).collect())
    }

    /// Whether any call is of this kind.
    pub fn has(&self, op: Op) -> bool {
        self.requests.iter().any(|request| request.op == op)
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "it holds no call",
            Self::TooLong => "from its first call to its last it is longer than a day",
        })
    }
}

impl core::error::Error for ReplayError {}

/// The calls of a replay up to some time.
#[derive(Clone, Debug)]
pub(crate) struct Replaying {
    replay: Arc<Replay>,
    next: usize,
    until: Time,
}

impl Replaying {
    pub(crate) fn new(replay: &Arc<Replay>, lasts: Span) -> Self {
        Self { replay: Arc::clone(replay), next: 0, until: Time::ZERO + lasts }
    }

    /// Calls in the second around this time.
    pub(crate) fn rate(&self, t: Time) -> f64 {
        let before = |at: Time| self.replay.requests.partition_point(|request| request.at < at);
        let from = Time::ZERO + t.since(Time::ZERO + HALF);
        (before(t + HALF) - before(from)) as f64
    }
}

impl Iterator for Replaying {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let request = self.replay.requests.get(self.next).filter(|request| request.at < self.until)?;
        self.next += 1;
        Some(*request)
    }
}

/// The last call is issued before the end.
const AFTER: Span = Span::from_millis(1);
const HALF: Span = Span::from_millis(500);
const LONGEST: Span = Span::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn request(at_ms: u64, directory: u32, file: u32) -> Request {
        let at = Time::ZERO + Span::from_millis(at_ms);
        Request { at, op: Op::Lookup, client: 0, directory, file, missing: false, target: None }
    }

    #[test]
    fn calls_are_played_in_order_from_zero_until_the_end() {
        let rename = Request { op: Op::Rename, target: Some((9, 4)), ..request(5_250, 2, 0) };
        let replay = Replay::new("trace:x", vec![request(5_500, 0, 3), rename, request(5_000, 1, 0)]).unwrap();
        assert_eq!((replay.calls(), replay.directories(), replay.files()), (3, 10, 5));
        assert_eq!(replay.length(), Span::from_millis(501));
        let replay = Arc::new(replay);
        let times = |lasts| -> Vec<u64> {
            Replaying::new(&replay, lasts).map(|it| it.at.since(Time::ZERO).as_nanos() / 1_000_000).collect()
        };
        assert_eq!(times(replay.length()), [0, 250, 500]);
        assert_eq!(times(Span::from_millis(500)), [0, 250]);
        assert!((Replaying::new(&replay, replay.length()).rate(Time::ZERO) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_replay_can_be_faster_and_what_cannot_be_played_is_refused() {
        let replay = Replay::new("x", (0..=10).map(|at| request(at * 100, 0, 0)).collect()).unwrap();
        let twice = replay.at_rate(2.0 * replay.rate()).unwrap();
        assert_eq!(twice.calls(), 11);
        assert!((twice.length().as_secs_f64() - 0.501).abs() < 0.002, "{:?}", twice.length());
        assert_eq!(Replay::new("x", vec![]), Err(ReplayError::Empty));
        let day = 86_400_000;
        assert_eq!(Replay::new("x", vec![request(1, 0, 0), request(day + 1, 0, 0)]), Err(ReplayError::TooLong));
    }
}
