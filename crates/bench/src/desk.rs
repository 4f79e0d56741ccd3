//! Where calls are made and replies are understood: everything of an event loop that knows NFS and nothing that knows sockets.

use crate::clock::Nanos;
use crate::history::{End, Line, Scribe};
use crate::job::Job;
use crate::schedule::Due;
use crate::slots::{Slot, Slots};
use crate::source::{From, Source};
use crate::tally::{Kind, Tally};
use crate::tree::{Handle, Name, Tree};
use crate::wire::{Mark, Template};
use midas_nfs::nfs3::{CreateOk, LookupOk, Nfsstat3, Reply};
use midas_nfs::rpc;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};

/// What is measured of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    /// When the slice begins; schedules count from here.
    pub(crate) start: Nanos,
    /// From when to when calls count.
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
}

impl Window {
    pub(crate) fn has(&self, at: Nanos) -> bool {
        (self.from..self.to).contains(&at)
    }
}

/// Makes calls and takes replies for one event loop.
#[derive(Debug)]
pub(crate) struct Desk<'a> {
    pub(crate) source: Source,
    pub(crate) tally: Tally,
    pub(crate) window: Window,
    pub(crate) scribe: Option<Scribe>,
    /// Calls start when earlier ones end, and not by a schedule.
    pub(crate) closed: bool,
    pub(crate) template: &'a Template,
    /// Own copy: what names lead to is learned on the way.
    pub(crate) tree: Tree,
    pub(crate) data: &'a [u8],
    pub(crate) stamps: Stamps<'a>,
    pub(crate) users: Users,
    /// Calls that ended, counted or not; unexpected errors among them.
    pub(crate) ended: u64,
    pub(crate) failed: u64,
}

/// Who the clients are to the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Users {
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) connections: u32,
}

impl Users {
    fn uid(self, client: u32) -> u32 {
        self.first.wrapping_add(client / self.connections % self.count)
    }
}

/// Numbers of calls, unique in a run: drawn in blocks, so that loops rarely meet.
#[derive(Debug)]
pub(crate) struct Stamps<'a> {
    shared: &'a AtomicU32,
    next: u32,
    left: u32,
}

impl<'a> Stamps<'a> {
    pub(crate) fn new(shared: &'a AtomicU32) -> Self {
        Self { shared, next: 0, left: 0 }
    }

    pub(crate) fn draw(&mut self) -> u32 {
        if self.left == 0 {
            (self.next, self.left) = (self.shared.fetch_add(BLOCK, Ordering::Relaxed), BLOCK);
        }
        let stamp = self.next;
        (self.next, self.left) = (self.next.wrapping_add(1), self.left - 1);
        stamp
    }
}

/// How a call ended.
type Outcome<'r> = Result<Reply<'r>, Kind>;

impl Desk<'_> {
    /// Makes calls while there is room for them and reason to.
    pub(crate) fn refill(
        &mut self,
        slots: &mut Slots,
        backlog: &mut VecDeque<Due>,
        lane: u32,
        now: Nanos,
        out: &mut Vec<u8>,
    ) {
        while slots.any_free() {
            let due = match self.closed {
                true => Some(Due { at: now, request: None }).filter(|_| now < self.window.to),
                false => backlog.pop_front(),
            };
            let Some(due) = due else { return };
            self.issue(slots, due, lane, now, out);
        }
    }

    fn issue(&mut self, slots: &mut Slots, due: Due, lane: u32, now: Nanos, out: &mut Vec<u8>) {
        let Some((number, slot)) = slots.take() else { return };
        let from = From { slot: number, connection: lane };
        slot.job = self.source.next(from, slot.script, due.request, &self.tree);
        slot.stamp = self.stamps.draw();
        (slot.intended, slot.sent) = (due.at, now);
        if self.window.has(due.at) {
            self.tally.counts.offered += u64::from(self.closed);
            if !self.closed {
                self.tally.sent_after(now.saturating_sub(due.at));
            }
        }
        self.put(slot, out);
    }

    fn put(&self, slot: &Slot, out: &mut Vec<u8>) {
        let mark = Mark { xid: slot.xid, stamp: slot.stamp, uid: self.users.uid(slot.job.client) };
        slot.job.with_call(&self.tree, self.data, |call| self.template.put(out, mark, call));
    }

    /// Everything that is under way, once more: the same bytes as before.
    pub(crate) fn resend(&mut self, slots: &mut Slots, out: &mut Vec<u8>) {
        for slot in slots.under_way() {
            slot.resent += 1;
            self.tally.counts.retransmissions += 1;
            self.put(slot, out);
        }
    }

    /// A record came.
    pub(crate) fn reply(&mut self, slots: &mut Slots, lane: u32, record: &[u8], now: Nanos) {
        let xid = record.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes));
        let Some(slot) = xid.and_then(|xid| slots.settle(xid)) else {
            self.tally.counts.unmatched += 1;
            return;
        };
        let outcome = match rpc::Reply::decode(record).map(|reply| reply.results) {
            Ok(Ok(results)) => Reply::decode(slot.job.action.procedure(), results).map_err(|_| Kind::Malformed),
            Ok(Err(refusal)) => Err(Kind::refused(refusal)),
            Err(_) => Err(Kind::Malformed),
        };
        self.end(slot, lane, now, &outcome);
    }

    /// No reply came in time.
    pub(crate) fn expire(&mut self, slots: &mut Slots, lane: u32, xid: u32, now: Nanos) {
        if let Some(slot) = slots.settle(xid) {
            self.end(slot, lane, now, &Err(Kind::Timeout));
        }
    }

    fn end(&mut self, slot: &mut Slot, lane: u32, now: Nanos, outcome: &Outcome<'_>) {
        let (job, counted) = (slot.job, self.window.has(slot.intended));
        let error = match outcome {
            Ok(reply) => Some(reply.status()).filter(|s| *s != Nfsstat3::OK).map(Kind::Status),
            Err(kind) => Some(*kind),
        };
        self.ended += 1;
        if error != Some(Kind::Timeout) && self.window.has(now) {
            self.tally.counts.answered += 1;
        }
        if counted {
            // A call without an answer took at least as long as it was waited for.
            self.tally.latency(job.action.procedure(), now.saturating_sub(slot.intended));
        }
        if let Some(kind) = error {
            self.error(&job, kind, counted);
        }
        if let Some(scribe) = &mut self.scribe {
            let line = Line { slot, connection: lane, uid: self.users.uid(job.client), finished: now };
            match outcome {
                Ok(reply) => scribe.write(line, &self.tree, End::Reply(reply)),
                Err(kind) => {
                    let (class, name) = kind.names();
                    scribe.write(line, &self.tree, End::Error(class, &name));
                }
            }
        }
        self.source.ended(&mut slot.script, &job, error.is_none());
        if let Ok(reply) = outcome {
            self.learn(&job, reply);
        }
    }

    fn error(&mut self, job: &Job, kind: Kind, counted: bool) {
        let expected = match kind {
            Kind::Status(status) => {
                (self.source.is_workload() || job.action.seeks_nothing()) && job.action.naturally(status)
            }
            Kind::Refused(_) | Kind::Malformed | Kind::Timeout => false,
        };
        self.failed += u64::from(!expected);
        if counted {
            self.tally.error(job.action.procedure(), kind, expected);
        }
    }

    /// A workload removes and makes names: a handle is what the latest answer says, as with a real client.
    fn learn(&mut self, job: &Job, reply: &Reply<'_>) {
        let Name::File(file) = job.name else { return };
        if !self.source.is_workload() {
            return;
        }
        if let Reply::Lookup(Ok(LookupOk { object, .. })) | Reply::Create(Ok(CreateOk { object: Some(object), .. })) =
            reply
        {
            self.tree.learn(job.directory, file, Handle::from(*object));
        }
    }
}

/// Stamps drawn at once.
const BLOCK: u32 = 1024;
