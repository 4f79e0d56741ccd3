//! An event loop of the generator: connections, timers and the turn of things. One read and one write for a batch of calls.

use crate::clock::{Clock, Nanos};
use crate::desk::{Desk, Window};
use crate::lane::{Lane, Link};
use crate::schedule::{Due, Part, Schedule};
use crate::tally::Tally;
use midas_net::{Alarm, Buffers, Ended, Flow, Go, Scratch, Source};
use mio::{Events, Interest, Poll, Token};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What others may see of a loop while it runs.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    pub(crate) ended: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) reconnects: AtomicU64,
}

/// One event loop and its connections.
#[derive(Debug)]
pub(crate) struct Worker<'a> {
    pub(crate) desk: Desk<'a>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) schedule: Schedule,
    pub(crate) part: Part,
    /// Where to connect again, and from which ports.
    pub(crate) address: (SocketAddr, Source),
    pub(crate) clock: Clock,
    pub(crate) timeout: Nanos,
    /// Calls that may wait here because they cannot be sent yet.
    pub(crate) backlog: usize,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) gauge: &'a Gauge,
}

impl Worker<'_> {
    /// Runs a slice of that time; what was counted.
    pub(crate) fn run(mut self, window: Window) -> io::Result<Tally> {
        self.desk.window = window;
        let poll = Poll::new()?;
        let alarm = Alarm::new(poll.registry(), Token(self.lanes.len()))?;
        let mut turn = Loop {
            worker: self,
            poll,
            alarm,
            buffers: Buffers::new(),
            scratch: Scratch::new(),
            waiting: 0,
            turn: 0,
            tended: 0,
            touched: Vec::new(),
            unread: Vec::new(),
        };
        turn.start()?;
        turn.go()?;
        Ok(turn.finish())
    }

    fn show(&self) {
        self.gauge.ended.store(self.desk.ended, Ordering::Relaxed);
        self.gauge.failed.store(self.desk.failed, Ordering::Relaxed);
        self.gauge.dropped.store(self.desk.tally.counts.dropped, Ordering::Relaxed);
        self.gauge.reconnects.store(self.desk.tally.counts.reconnects, Ordering::Relaxed);
    }
}

struct Loop<'a> {
    worker: Worker<'a>,
    poll: Poll,
    alarm: Alarm,
    buffers: Buffers,
    scratch: Scratch,
    /// Calls in all backlogs.
    waiting: usize,
    /// The lane whose turn it is to take a call of nobody in particular.
    turn: usize,
    tended: Nanos,
    /// Lanes that calls were appended to since the last flush.
    touched: Vec<usize>,
    /// Lanes whose sockets may hold more than was read.
    unread: Vec<usize>,
}

impl Loop<'_> {
    fn start(&mut self) -> io::Result<()> {
        for (index, lane) in self.worker.lanes.iter_mut().enumerate() {
            if let Link::Up(connection) = &mut lane.link {
                let interest = Interest::READABLE | Interest::WRITABLE;
                self.poll.registry().register(connection.socket(), Token(index), interest)?;
            }
        }
        let now = self.worker.clock.now();
        (0..self.worker.lanes.len()).for_each(|index| self.refill(index, now));
        Ok(())
    }

    fn go(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            let now = self.worker.clock.now();
            self.admit(now);
            self.tend(now);
            if self.is_over(now) {
                return Ok(());
            }
            let patience = self.patience(now)?;
            match self.poll.poll(&mut events, Some(patience)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            for event in &events {
                match self.worker.lanes.get(event.token().0) {
                    None => self.alarm.rang(),
                    Some(_) => {
                        self.ready(event.token().0, event.is_readable(), event.is_writable());
                        // Data and the end of it may come with one event: the end is found by reading on.
                        if event.is_read_closed() {
                            self.unread.push(event.token().0);
                        }
                    }
                }
            }
            self.read_on();
        }
    }

    /// Calls that are due now.
    fn admit(&mut self, now: Nanos) {
        let start = self.worker.desk.window.start;
        // Before the start nothing is due, not even what is due at zero.
        while let Some(due) = now.checked_sub(start).and_then(|since| self.worker.schedule.take(since)) {
            self.arrive(Due { at: start + due.at, ..due });
        }
        while let Some(index) = self.touched.pop() {
            self.refill(index, now);
        }
    }

    fn arrive(&mut self, due: Due) {
        let counted = self.worker.desk.window.has(due.at);
        let counts = &mut self.worker.desk.tally.counts;
        counts.offered += u64::from(counted);
        let index = match due.request {
            Some(request) => self.worker.part.lane(request.client),
            None => self.turn,
        };
        self.turn = (self.turn + 1) % self.worker.lanes.len();
        if self.waiting >= self.worker.backlog {
            counts.dropped += u64::from(counted);
            return;
        }
        let lane = &mut self.worker.lanes[index];
        lane.backlog.push_back(due);
        self.waiting += 1;
        if self.touched.last() != Some(&index) {
            self.touched.push(index);
        }
    }

    /// Makes calls on one connection and sends them.
    fn refill(&mut self, index: usize, now: Nanos) {
        let Lane { number, link: Link::Up(connection), slots, backlog, .. } = &mut self.worker.lanes[index] else {
            return;
        };
        let before = backlog.len();
        self.worker.desk.refill(slots, backlog, *number, now, connection.output(&mut self.buffers));
        self.waiting -= before - backlog.len();
        self.flush(index, now);
    }

    fn flush(&mut self, index: usize, now: Nanos) {
        let Link::Up(connection) = &mut self.worker.lanes[index].link else { return };
        if let Err(ended) = connection.flush(&mut self.buffers) {
            self.lose(index, &ended, now);
        }
    }

    fn ready(&mut self, index: usize, readable: bool, writable: bool) {
        if let Link::Connecting { .. } = self.worker.lanes[index].link {
            self.connecting(index);
            return;
        }
        if readable {
            self.receive(index);
        } else if writable {
            let now = self.worker.clock.now();
            self.flush(index, now);
        }
    }

    /// Reads what came, settles it, makes the next calls, sends them: one read, one write.
    fn receive(&mut self, index: usize) {
        let (desk, clock) = (&mut self.worker.desk, self.worker.clock);
        let Lane { number, link: Link::Up(connection), slots, backlog, .. } = &mut self.worker.lanes[index] else {
            return;
        };
        let before = backlog.len();
        // All of a batch was there when it was read: one look at the clock, after the read.
        let mut now = 0;
        connection.output(&mut self.buffers);
        let result = connection.receive(&mut self.scratch, |record, out| {
            if now == 0 {
                now = clock.now();
            }
            desk.reply(slots, *number, record, now);
            desk.refill(slots, backlog, *number, now, out);
            Go::Continue(())
        });
        self.waiting -= before - backlog.len();
        if let Ok(Flow::More | Flow::Waiting) = result {
            self.unread.push(index);
        }
        let now = if now == 0 { clock.now() } else { now };
        match result {
            Ok(_) => self.flush(index, now),
            Err(ended) => self.lose(index, &ended, now),
        }
    }

    /// Sockets that may hold more than one read took: one more read each, then the others have their turn.
    fn read_on(&mut self) {
        for index in std::mem::take(&mut self.unread) {
            self.receive(index);
        }
    }

    fn lose(&mut self, index: usize, ended: &Ended, now: Nanos) {
        self.worker.desk.tally.counts.lost += 1;
        if let Ended::TooLong(_) = ended {
            self.worker.desk.failed += 1;
        }
        self.worker.lanes[index].fail(now);
    }

    fn connecting(&mut self, index: usize) {
        let now = self.worker.clock.now();
        let lane = &mut self.worker.lanes[index];
        match lane.connected() {
            Ok(false) => {}
            Ok(true) => {
                self.worker.desk.tally.counts.reconnects += 1;
                if let Link::Up(connection) = &mut lane.link {
                    self.worker.desk.resend(&mut lane.slots, connection.output(&mut self.buffers));
                }
                self.refill(index, now);
            }
            Err(_) => {
                self.worker.desk.tally.counts.connect_failures += 1;
                lane.fail(now);
            }
        }
    }

    /// What need not be exact: lost calls, lost connections, what others see.
    fn tend(&mut self, now: Nanos) {
        if now < self.tended + TEND {
            return;
        }
        self.tended = now;
        for index in 0..self.worker.lanes.len() {
            self.expire(index, now);
            self.reconnect(index, now);
        }
        self.worker.show();
    }

    fn expire(&mut self, index: usize, now: Nanos) {
        let (lane, timeout) = (&mut self.worker.lanes[index], self.worker.timeout);
        if now < lane.check_at {
            return;
        }
        let expired = now.checked_sub(timeout).map_or_else(Vec::new, |then| lane.slots.sent_by(then));
        for xid in &expired {
            self.worker.desk.expire(&mut lane.slots, lane.number, *xid, now);
        }
        // What is sent from now on has longer still.
        lane.check_at = lane.slots.oldest().unwrap_or(now) + timeout;
        if !expired.is_empty() {
            self.refill(index, now);
        }
    }

    fn reconnect(&mut self, index: usize, now: Nanos) {
        let (address, lane) = (self.worker.address, &mut self.worker.lanes[index]);
        let failed = match lane.link {
            Link::Connecting { until, .. } => until <= now,
            Link::Down { until } if until <= now => {
                lane.connect(address, self.poll.registry(), Token(index), now).is_err()
            }
            Link::Up(_) | Link::Down { .. } => false,
        };
        if failed {
            self.worker.desk.tally.counts.connect_failures += 1;
            lane.fail(now);
        }
    }

    /// How long nothing needs to be done; calls that are due sooner than a timer is exact are waited for awake.
    fn patience(&mut self, now: Nanos) -> io::Result<Duration> {
        if !self.unread.is_empty() {
            return Ok(Duration::ZERO);
        }
        let Some(at) = self.worker.schedule.next_at().map(|at| self.worker.desk.window.start + at) else {
            return Ok(Duration::from_nanos(TEND));
        };
        if at <= now + AWAKE {
            return Ok(Duration::ZERO);
        }
        let clock = self.worker.clock;
        self.alarm.set(clock.instant(now), Some(clock.instant(at - AWAKE)))?;
        Ok(Duration::from_nanos(TEND))
    }

    fn is_over(&self, now: Nanos) -> bool {
        let Worker { desk, lanes, schedule, timeout, stop, .. } = &self.worker;
        let idle = || self.waiting == 0 && lanes.iter().all(|lane| lane.slots.busy() == 0);
        let late = now >= desk.window.to.saturating_add(*timeout);
        stop.load(Ordering::Relaxed) || now >= desk.window.to && schedule.next_at().is_none() && (late || idle())
    }

    /// What is still under way or waits has had its time.
    fn finish(mut self) -> Tally {
        let now = self.worker.clock.now();
        let desk = &mut self.worker.desk;
        for lane in &mut self.worker.lanes {
            for xid in lane.slots.sent_by(now) {
                desk.expire(&mut lane.slots, lane.number, xid, now);
            }
            let dropped = lane.backlog.iter().filter(|due| desk.window.has(due.at)).count();
            desk.tally.counts.dropped += dropped as u64;
        }
        if let Some(scribe) = &mut desk.scribe {
            scribe.send();
            let counts = &mut desk.tally.counts;
            counts.history_waits = scribe.waits;
            counts.history_waited = scribe.waited;
            counts.history_lines = scribe.count;
        }
        self.worker.show();
        self.worker.desk.tally
    }
}

const EVENTS: usize = 1024;
/// How often what need not be exact is looked at.
const TEND: Nanos = 10_000_000;
/// A sleeping loop wakes this late at worst, on a machine that is not overloaded.
const AWAKE: Nanos = 50_000;
