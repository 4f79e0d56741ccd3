//! What any thread tells the cluster's thread, without waiting for it.

use crate::session::{DATAGRAM_MAX, FRAME_MAX, Kind};
use crate::view::View;
use mio::Waker;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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
    /// Something happened that the upper half should look at.
    Wake,
    Stop,
}

/// Orders that wait, and how the thread that takes them is woken: only if it sleeps, so that what is posted together leaves together.
pub(crate) struct Post {
    orders: Mutex<Vec<Order>>,
    sleeping: AtomicBool,
    waker: Waker,
    lost: AtomicU64,
}

/// Sends to members, from any thread, without waiting.
#[derive(Clone)]
pub struct Sender(pub(crate) Arc<Post>);

impl Sender {
    /// Sends a frame of at most [`crate::FRAME_MAX`] bytes. It is lost if the link is down or goes down, and told so by it.
    pub fn send(&self, to: u8, bytes: Vec<u8>) {
        match bytes.len() <= FRAME_MAX {
            true => self.0.give(Order::Frame(to, Kind::Above, bytes)),
            false => self.0.lose(),
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
        self.0.give(Order::Wake);
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
        Self { orders: Mutex::default(), sleeping: AtomicBool::new(false), waker, lost: AtomicU64::new(0) }
    }

    pub(crate) fn give(&self, order: Order) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if orders.len() >= ORDERS_MAX && matches!(order, Order::Frame(..) | Order::Datagram(..)) {
            return self.lose();
        }
        orders.push(order);
        drop(orders);
        self.ring();
    }

    /// All that wait, in their order; `into` is empty and its room is used again.
    pub(crate) fn take(&self, into: &mut Vec<Order>) {
        std::mem::swap(&mut *self.orders.lock().unwrap_or_else(PoisonError::into_inner), into);
    }

    /// The thread is about to wait; false if it must not, because something came meanwhile.
    pub(crate) fn sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(crate) fn awake(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
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

/// Frames and datagrams that wait: the thread takes all at once, so that more mean that it is stuck. Views are few, and never left out.
const ORDERS_MAX: usize = 1 << 16;
