//! A member that takes part.

use crate::driver::Driver;
use crate::post::{Order, Post, Sender};
use crate::settings::{Above, Settings};
use crate::status::Status;
use mio::{Poll, Waker};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// A member that takes part; it ends when this is dropped. To others that is a silence: [`Sender::leave`] first, to end in order.
pub struct Cluster {
    post: Arc<Post>,
    status: Arc<Mutex<Status>>,
    incarnation: u64,
    me: u8,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Cluster {
    /// Takes part; it listens when this returns. What stands above is made with what it sends with.
    pub fn start<A: Above>(settings: Settings, above: impl FnOnce(Sender) -> A) -> io::Result<Self> {
        let me = settings.index()?;
        let poll = Poll::new()?;
        let post = Arc::new(Post::new(Waker::new(poll.registry(), crate::driver::WAKER)?));
        let status = Arc::new(Mutex::new(Status::default()));
        let above = above(Sender(Arc::clone(&post)));
        let driver = Driver::new(settings, me, poll, Arc::clone(&post), Arc::clone(&status), above)?;
        let incarnation = driver.incarnation();
        let thread = thread::Builder::new().name("cluster".to_owned()).spawn(move || driver.run())?;
        Ok(Self { post, status, incarnation, me, thread: Mutex::new(Some(thread)) })
    }

    /// How the cluster is; at most a heartbeat old.
    pub fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// [`Status::cut_off`] by itself.
    pub fn cut_off(&self) -> bool {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).cut_off
    }

    /// To send with.
    pub fn sender(&self) -> Sender {
        Sender(Arc::clone(&self.post))
    }

    /// The index of this member.
    pub fn me(&self) -> u8 {
        self.me
    }

    /// This life of this member: no other has the same.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }
}

impl Cluster {
    /// Takes part no longer; what stood above is gone when this returns.
    pub fn stop(&self) {
        self.post.give(Order::Stop);
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _panicked = thread.join();
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}
