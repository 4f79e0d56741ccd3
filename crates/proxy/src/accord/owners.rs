//! What members tell each other of whose a handle is: a file does not tell its parent, but who has
//! seen it in a directory may. Each name is told when it is first seen, since a client may come to
//! another member when this one is dead; what a member has not heard, or has forgotten, it asks
//! for.
//!
//! The members' messages lie beside those of reads that are fetched. Whoever asks waits, so it is a
//! thread that may; whoever is asked reads its disk, so the writer of the table of objects answers.

use super::Accord;
use super::fetch::{Said, Seen};
use crate::objects::Edge;
use crate::pool::lock;
use crate::whose::Whose;
use midas_core::peer::lease::Life;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Questions that were put here, and those that wait for answers.
#[derive(Default)]
pub(crate) struct Owners {
    put: Mutex<VecDeque<Question>>,
    asked: Mutex<HashMap<u64, SyncSender<Vec<u32>>>>,
}

struct Question {
    from: Life,
    id: u64,
    handle: Box<[u8]>,
}

impl Accord {
    /// The names of the exports that other members know this handle to belong to. Waits for them, but not for long.
    pub(crate) fn ask_owner(&self, handle: &[u8]) -> Vec<u32> {
        let peers: Vec<u8> = self.fetches.others().collect();
        let (answer, answers) = sync_channel(peers.len());
        let id = self.fetches.number();
        {
            let mut asked = lock(&self.owners.asked);
            if peers.is_empty() || asked.len() >= ASKED_MAX {
                return Vec::new();
            }
            asked.insert(id, answer);
        }
        for peer in &peers {
            self.ring(self.fetches.ask_owner(*peer, id, handle));
        }
        let mut told = collect(&answers, peers.len());
        lock(&self.owners.asked).remove(&id);
        told.sort_unstable();
        told.dedup();
        told
    }

    /// Tells the other members of names that were first seen here.
    pub(crate) fn tell_names(&self, edges: &[Edge]) {
        let own: Vec<&Edge> = edges.iter().filter(|edge| !edge.handle.is_empty()).collect();
        let peers: Vec<u8> = self.fetches.others().collect();
        for names in own.chunks(NAMES) {
            let names = names.iter().map(|edge| (&*edge.handle, &*edge.parent, edge.export, edge.only)).collect();
            let said = Said::Names { names };
            for peer in &peers {
                self.ring(self.fetches.tell_names(*peer, &said));
            }
        }
    }

    /// Another member has seen names.
    pub(super) fn names_heard(&self, names: &[Seen<'_>]) {
        let Some(shared) = self.around.get().and_then(|around| around.shared.upgrade()) else { return };
        for (handle, parent, export, only) in names {
            shared.whose.heard(handle, parent, *export, *only);
        }
    }

    /// Another member asks.
    pub(super) fn owner_asked(&self, from: Life, id: u64, handle: &[u8]) {
        let mut put = lock(&self.owners.put);
        if put.len() < PUT_MAX {
            put.push_back(Question { from, id, handle: handle.into() });
        }
        drop(put);
        if let Some(shared) = self.around.get().and_then(|around| around.shared.upgrade()) {
            shared.whose.objects.wake();
        }
    }

    /// Another member answers.
    pub(super) fn owner_told(&self, id: u64, exports: Vec<u32>) {
        if let Some(answer) = lock(&self.owners.asked).get(&id) {
            // Whoever has waited for long enough does not take it.
            let _late = answer.try_send(exports);
        }
    }

    /// Answers what was asked.
    pub(crate) fn tell_owners(&self, whose: &Whose) {
        let questions = std::mem::take(&mut *lock(&self.owners.put));
        for Question { from, id, handle } in questions {
            self.ring(self.fetches.tell_owner(from, id, whose.told(&handle)));
        }
    }
}

/// What so many members say, until the patience ends.
fn collect(answers: &Receiver<Vec<u32>>, members: usize) -> Vec<u32> {
    let (mut told, end) = (Vec::new(), Instant::now() + PATIENCE);
    for _ in 0..members {
        match answers.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(exports) => told.extend(exports),
            Err(_) => break,
        }
    }
    told
}

/// How long the others are waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// Names in one message.
const NAMES: usize = 64;
/// Questions that wait here for answers, and for being answered.
const ASKED_MAX: usize = 64;
const PUT_MAX: usize = 1024;
