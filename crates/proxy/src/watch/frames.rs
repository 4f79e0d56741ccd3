//! What watchers are sent: one frame for all of them, put together and written down once, and only while there is a watcher.
//!
//! Whoever is slow skips frames. Events are not skipped: a frame tells each watcher those since the last frame that it was sent.

use super::journal::Journal;
use crate::api::watch::Frame;
use std::sync::Arc;
use tokio::sync::watch::{Receiver, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The newest frame, and who wants it.
#[derive(Debug)]
pub(crate) struct Frames {
    tcp: Arc<Semaphore>,
    socket: Arc<Semaphore>,
    newest: Sender<Newest>,
}

/// Where a watcher comes from. Each has places of its own: anyone may take those of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Tcp,
    Socket,
}

impl Door {
    /// Watchers at once.
    pub(crate) const fn places(self) -> usize {
        match self {
            Self::Tcp => 32,
            Self::Socket => 8,
        }
    }
}

#[derive(Clone, Debug, Default)]
enum Newest {
    #[default]
    None,
    Made(Arc<Made>),
    /// None will follow.
    End,
}

/// A frame, with the events since the one that was made before it.
#[derive(Debug)]
struct Made {
    frame: Frame,
    text: String,
    /// The last event of the frame before.
    since: u64,
    /// The last event of this one.
    last: u64,
}

/// Someone who watches; a place is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    newest: Receiver<Newest>,
    /// The last point and the last event that it was told of.
    point: u64,
    event: u64,
    _place: OwnedSemaphorePermit,
}

impl Default for Frames {
    fn default() -> Self {
        let places = |door: Door| Arc::new(Semaphore::new(door.places()));
        Self { tcp: places(Door::Tcp), socket: places(Door::Socket), newest: Sender::default() }
    }
}

impl Frames {
    /// One more watcher; none if there are too many.
    pub(crate) fn watcher(&self, door: Door) -> Option<Watcher> {
        let places = match door {
            Door::Tcp => &self.tcp,
            Door::Socket => &self.socket,
        };
        let place = Arc::clone(places).try_acquire_owned().ok()?;
        Some(Watcher { newest: self.newest.subscribe(), point: 0, event: 0, _place: place })
    }

    pub(crate) fn watched(&self) -> bool {
        self.newest.receiver_count() > 0
    }

    pub(crate) fn ended(&self) -> bool {
        matches!(*self.newest.borrow(), Newest::End)
    }

    /// The next frame; its events are those after `since`. The number of the last one.
    pub(crate) fn put(&self, frame: Frame, since: u64) -> u64 {
        let last = frame.events.last().map_or(since, |event| event.number);
        let text = text(&frame);
        self.newest.send_replace(Newest::Made(Arc::new(Made { frame, text, since, last })));
        last
    }

    /// No more.
    pub(crate) fn end(&self) {
        self.newest.send_replace(Newest::End);
    }
}

impl Watcher {
    /// The points up to this one were told.
    pub(crate) const fn knows(&mut self, point: u64) {
        self.point = point;
    }

    /// The next frame that is news, as JSON; none if there will be none.
    pub(crate) async fn next(&mut self, journal: &Journal) -> Option<String> {
        loop {
            self.newest.changed().await.ok()?;
            let newest = self.newest.borrow_and_update().clone();
            match newest {
                Newest::None => {}
                Newest::End => return None,
                Newest::Made(made) if made.frame.point.number <= self.point => {}
                Newest::Made(made) => return Some(self.take(&made, journal)),
            }
        }
    }

    fn take(&mut self, made: &Made, journal: &Journal) -> String {
        self.point = made.frame.point.number;
        let since = std::mem::replace(&mut self.event, made.last);
        if since == made.since {
            return made.text.clone();
        }
        let mut events = journal.since(since);
        events.retain(|event| event.number <= made.last);
        text(&Frame { events, ..made.frame.clone() })
    }
}

fn text(frame: &Frame) -> String {
    serde_json::to_string(frame).expect("numbers and text")
}

#[cfg(test)]
mod tests {
    use super::super::journal::Said;
    use super::*;
    use crate::api::watch::Point;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// What a watcher is sent now, if anything: the number of the point and those of the events.
    fn sent(watcher: &mut Watcher, journal: &Journal) -> Option<(u64, Vec<u64>)> {
        let next = pin!(watcher.next(journal));
        match next.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => None,
            Poll::Ready(text) => {
                let frame: Frame = serde_json::from_str(&text?).unwrap();
                Some((frame.point.number, frame.events.iter().map(|event| event.number).collect()))
            }
        }
    }

    #[test]
    fn a_slow_watcher_skips_frames_and_misses_no_event() {
        let (frames, journal) = (Frames::default(), Journal::default());
        let (mut quick, mut slow) = (frames.watcher(Door::Tcp).unwrap(), frames.watcher(Door::Tcp).unwrap());
        let mut since = 0;
        for number in 1..=5 {
            journal.say(Said::Knob, "/scratch", format!("event {number}"), "");
            let point = Point { number, ..Point::default() };
            since = frames.put(Frame { point, events: journal.since(since), ..Frame::default() }, since);
            assert_eq!(sent(&mut quick, &journal), Some((number, vec![number])));
            if number == 2 {
                assert_eq!(sent(&mut slow, &journal), Some((2, vec![1, 2])));
            }
        }
        // What is said meanwhile is the next frame's.
        journal.say(Said::Knob, "/scratch", "event 6", "");
        assert_eq!(sent(&mut slow, &journal), Some((5, vec![3, 4, 5])));
        assert_eq!(sent(&mut slow, &journal), None);
    }

    #[test]
    fn places_are_bounded_and_given_back() {
        let frames = Frames::default();
        assert!(!frames.watched());
        for (door, other) in [(Door::Tcp, Door::Socket), (Door::Socket, Door::Tcp)] {
            let all: Vec<_> = (0..door.places()).map(|_| frames.watcher(door).unwrap()).collect();
            assert!(frames.watcher(door).is_none() && frames.watched());
            assert!(frames.watcher(other).is_some(), "{other:?} has places of its own");
            drop(all);
            assert!(!frames.watched() && frames.watcher(door).is_some());
        }
    }

    #[test]
    fn a_point_that_is_known_is_not_sent_again_and_the_end_ends() {
        let (frames, journal) = (Frames::default(), Journal::default());
        let mut watcher = frames.watcher(Door::Tcp).unwrap();
        watcher.knows(3);
        let frame = |number| Frame { point: Point { number, ..Point::default() }, ..Frame::default() };
        frames.put(frame(3), 0);
        assert_eq!(sent(&mut watcher, &journal), None);
        frames.put(frame(4), 0);
        assert_eq!(sent(&mut watcher, &journal), Some((4, Vec::new())));
        frames.end();
        let next = pin!(watcher.next(&journal));
        assert_eq!(next.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(None));
        assert!(frames.ended());
    }
}
