//! What a daemon told until now.

use midas_proxy::api::watch::{EVENTS_MAX, Event, Frame, POINTS_MAX, Point};
use std::collections::VecDeque;

/// The last frame, the points of the last minutes, the events that are still known.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) frame: Option<Box<Frame>>,
    pub(crate) past: VecDeque<Point>,
    /// Oldest first.
    pub(crate) log: VecDeque<Event>,
}

impl World {
    /// What came before the first frame.
    pub(crate) fn take_past(&mut self, points: Vec<Point>) {
        let surplus = points.len().saturating_sub(POINTS_MAX);
        self.past = points.into_iter().skip(surplus).collect();
    }

    /// A frame. One from before the last is a daemon that has started anew.
    pub(crate) fn take_frame(&mut self, mut frame: Box<Frame>) {
        if self.frame.as_ref().is_some_and(|last| last.point.uptime_ms > frame.point.uptime_ms) {
            self.past.retain(|point| point.uptime_ms <= frame.point.uptime_ms);
            self.log.clear();
        }
        for event in frame.events.drain(..) {
            if self.log.back().is_none_or(|last| last.number < event.number) {
                push(&mut self.log, event, EVENTS_MAX);
            }
        }
        if self.past.back().is_none_or(|last| last.number < frame.point.number) {
            push(&mut self.past, frame.point.clone(), POINTS_MAX);
        }
        self.frame = Some(frame);
    }

    /// A figure of every point, with the point's number.
    pub(crate) fn course(&self, figure: impl Fn(&Point) -> Option<f64>) -> Vec<(u64, f64)> {
        self.past.iter().filter_map(|point| Some((point.number, figure(point)?))).collect()
    }
}

fn push<T>(kept: &mut VecDeque<T>, new: T, most: usize) {
    if kept.len() == most {
        kept.pop_front();
    }
    kept.push_back(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: u64, events: &[u64]) -> Box<Frame> {
        let point = Point { number, uptime_ms: 500 * number, ..Point::default() };
        let events = events.iter().map(|number| Event { number: *number, ..Event::default() }).collect();
        Box::new(Frame { point, events, ..Frame::default() })
    }

    #[test]
    fn events_and_points_told_twice_are_kept_once_and_bounded() {
        let mut world = World::default();
        world.take_past((1..=2 * POINTS_MAX as u64).map(|number| frame(number, &[]).point).collect());
        assert_eq!(world.past.len(), POINTS_MAX);
        let now = 2 * POINTS_MAX as u64;
        world.take_frame(frame(now, &[1, 2, 3]));
        world.take_frame(frame(now + 1, &[2, 3, 4]));
        assert_eq!(world.log.iter().map(|event| event.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
        let numbers: Vec<u64> = world.past.iter().map(|point| point.number).collect();
        assert_eq!((numbers.len(), numbers[POINTS_MAX - 1]), (POINTS_MAX, now + 1));
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
        world.take_frame(frame(now + 2, &(5..5000).collect::<Vec<_>>()));
        assert_eq!(world.log.len(), EVENTS_MAX);
    }

    #[test]
    fn a_daemon_that_starts_anew_begins_a_new_log() {
        let mut world = World::default();
        world.take_frame(frame(100, &[7]));
        world.take_past(vec![frame(1, &[]).point]);
        world.take_frame(frame(2, &[1]));
        assert_eq!(world.log.iter().map(|event| event.number).collect::<Vec<_>>(), [1]);
        assert_eq!(world.past.iter().map(|point| point.number).collect::<Vec<_>>(), [1, 2]);
    }
}
