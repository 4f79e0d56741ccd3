//! What any thread tells the cluster's thread, without waiting for it.

use crate::session::{DATAGRAM_MAX, FRAME_MAX, Kind};
use crate::view::View;
use mio::Waker;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Something to do for the cluster's thread.
pub(crate) enum Order {
    Frame(u8, Kind, Vec<u8>),
    Datagram(u8, Vec<u8>),
    View(View),
    Leader(Option<u8>, u64),
    /// The log of views cannot be kept: this member must not take part any more.
    Failed(String),
    Digest([u8; 32]),
    Leave,
    Stop,
}

/// Orders that wait, and how the thread that takes them is woken: only if it sleeps, so that what is posted together leaves together.
pub(crate) struct Post {
    waiting: Mutex<Waiting>,
    /// Something happened that the upper half should look at.
    woken: AtomicBool,
    sleeping: AtomicBool,
    waker: Waker,
    lost: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    orders: Vec<Order>,
    /// Members that a frame of the upper half was lost for behind these orders, a bit each.
    missed: u16,
}

/// Sends to members, from any thread, without waiting.
#[derive(Clone)]
pub struct Sender(pub(crate) Arc<Post>);

impl Sender {
    /// Sends a frame of at most [`crate::FRAME_MAX`] bytes. It is lost if the link is down or goes down, and told so by it: one that is too long,
    /// or one too many, makes it go down.
    pub fn send(&self, to: u8, bytes: Vec<u8>) {
        match bytes.len() <= FRAME_MAX {
            true => self.0.give(Order::Frame(to, Kind::Above, bytes)),
            false => self.0.miss(to),
        }
    }

    /// Sends a datagram of at most [`crate::DATAGRAM_MAX`] bytes.
    pub fn datagram(&self, to: u8, bytes: &[u8]) {
        match bytes.len() <= DATAGRAM_MAX {
            true => self.0.give(Order::Datagram(to, bytes.to_vec())),
            false => self.0.lose(),
        }
    }

    /// Makes [`crate::Above::tick`] run.
    pub fn wake(&self) {
        self.0.wake();
    }

    /// What should be equal at all members has changed.
    pub fn digest(&self, digest: [u8; 32]) {
        self.0.give(Order::Digest(digest));
    }

    /// Asks to be left out of the next view, and of all that follow in this life.
    pub fn leave(&self) {
        self.0.give(Order::Leave);
    }
}

impl Post {
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            waiting: Mutex::default(),
            woken: AtomicBool::new(false),
            sleeping: AtomicBool::new(false),
            waker,
            lost: AtomicU64::new(0),
        }
    }

    pub(crate) fn give(&self, order: Order) {
        let mut waiting = self.waiting();
        match order {
            Order::Frame(to, Kind::Above, _) if waiting.full() => {
                drop(waiting);
                return self.miss(to);
            }
            Order::Frame(..) | Order::Datagram(..) if waiting.full() => return self.lose(),
            order => waiting.orders.push(order),
        }
        drop(waiting);
        self.ring();
    }

    /// A frame of the upper half is lost, so the line of its member must not go on: it would have a hole.
    fn miss(&self, to: u8) {
        self.lose();
        self.waiting().missed |= 1_u16.checked_shl(to.into()).unwrap_or_default();
        self.ring();
    }

    /// Any number of these are one.
    fn wake(&self) {
        if !self.woken.swap(true, Ordering::SeqCst) {
            self.ring();
        }
    }

    /// The upper half looks now: whoever wakes from here on means what comes later.
    pub(crate) fn heed(&self) {
        self.woken.swap(false, Ordering::SeqCst);
    }

    pub(crate) fn woken(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }

    /// All that wait, in their order; `into` is empty and its room is used again. And whose lines must be closed behind them, a bit each.
    pub(crate) fn take(&self, into: &mut Vec<Order>) -> u16 {
        let mut waiting = self.waiting();
        std::mem::swap(&mut waiting.orders, into);
        std::mem::take(&mut waiting.missed)
    }

    /// The thread is about to wait; false if it must not, because something came meanwhile.
    pub(crate) fn sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        let waiting = self.waiting();
        waiting.orders.is_empty() && waiting.missed == 0 && !self.woken()
    }

    pub(crate) fn awake(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Orders that were too long or too many.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    fn ring(&self) {
        if self.sleeping.swap(false, Ordering::SeqCst) {
            // A waker fails only when the thread's end of it is gone.
            let _gone = self.waker.wake();
        }
    }
}

impl Waiting {
    fn full(&self) -> bool {
        self.orders.len() >= ORDERS_MAX
    }
}

/// Frames and datagrams that wait: the thread takes all at once, so that more mean that it is stuck. Views are few, and never left out.
const ORDERS_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Poll, Token};

    fn post() -> (Poll, Sender) {
        let poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), Token(0)).unwrap();
        (poll, Sender(Arc::new(Post::new(waker))))
    }

    fn taken(sender: &Sender) -> (usize, u16) {
        let mut orders = Vec::new();
        let missed = sender.0.take(&mut orders);
        (orders.len(), missed)
    }

    #[test]
    fn any_number_of_wakes_are_one_and_keep_the_thread_from_sleeping() {
        let (_poll, sender) = post();
        assert!(sender.0.sleep());
        (0..2 * ORDERS_MAX).for_each(|_| sender.wake());
        assert!(!sender.0.sleep());
        assert_eq!(taken(&sender), (0, 0));
        sender.0.heed();
        assert!(sender.0.sleep());
        sender.send(1, b"one".to_vec());
        assert_eq!((taken(&sender), sender.0.lost()), ((1, 0), 0));
    }

    #[test]
    fn a_frame_that_finds_no_room_closes_the_line_of_its_member() {
        let (_poll, sender) = post();
        (0..ORDERS_MAX).for_each(|_| sender.send(1, Vec::new()));
        sender.datagram(4, b"shares may be lost");
        sender.0.give(Order::Frame(5, Kind::Vote, Vec::new()));
        sender.0.give(Order::Leave);
        assert_eq!((taken(&sender), sender.0.lost()), ((ORDERS_MAX + 1, 0), 2));
        (0..ORDERS_MAX).for_each(|_| sender.send(1, Vec::new()));
        sender.send(2, Vec::new());
        sender.send(15, Vec::new());
        assert_eq!(taken(&sender), (ORDERS_MAX, 1 << 2 | 1 << 15));
        sender.send(3, vec![0; FRAME_MAX + 1]);
        assert!(!sender.0.sleep());
        assert_eq!((taken(&sender), sender.0.lost()), ((0, 1 << 3), 5));
        assert!(sender.0.sleep());
    }
}
