//! What members say to each other. Any of it may be late, lost, doubled or out of order.

use super::attempt::{AttemptId, Intent, Refusal, State, Told};
use crate::time::Time;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What a member can say of the time before a view (R10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// Nothing.
    #[default]
    None,
    /// Its own life before this one left no call behind.
    Tidy,
    /// What all those of the view before knew.
    View,
}

/// A message; who sent it is known from the transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<K> {
    /// Let me answer from my cache.
    Ask {
        /// In this view.
        epoch: u64,
        /// Now, on my clock.
        asked: Time,
        /// The stamp of your last grant that I have, in this view: tell me what is new since then. None: all that you know.
        since: Option<Time>,
    },
    /// A part of what I know of mutations, ahead of a grant that could not carry all of it.
    Tell {
        /// In this view.
        epoch: u64,
        /// When you asked, on your clock.
        asked: Time,
        /// Which part.
        part: u32,
        /// What I know.
        told: Vec<Told<K>>,
    },
    /// You may, for a term since you asked.
    Grant {
        /// In this view.
        epoch: u64,
        /// When you asked, on your clock.
        asked: Time,
        /// Now, on my clock.
        stamp: Time,
        /// What I can say of the time before this view.
        past: Memory,
        /// What I know of mutations: all of it, or what is unfinished or new since the grant that you have.
        told: Vec<Told<K>>,
        /// My attempts that are not over.
        open: Vec<AttemptId>,
        /// Those of mine up to this one are over if they are not among them.
        upto: u64,
        /// How many parts went ahead of it; without one of them it does not count.
        parts: u32,
    },
    /// I no longer use grants of this view or of one before it.
    Release {
        /// That view.
        epoch: u64,
    },
    /// I am about to change something.
    Announce {
        /// In this view.
        epoch: u64,
        /// Which.
        id: AttemptId,
        /// How often I announced it anew.
        round: u32,
        /// What.
        intent: Intent<K>,
    },
    /// I keep nothing of that any more.
    Acknowledge {
        /// In this view.
        epoch: u64,
        /// What.
        id: AttemptId,
        /// The announcement.
        round: u32,
    },
    /// You must not.
    Refuse {
        /// In this view.
        epoch: u64,
        /// What.
        id: AttemptId,
        /// The announcement.
        round: u32,
        /// Why.
        why: Refusal,
    },
    /// My attempt is over.
    Over {
        /// Which.
        id: AttemptId,
        /// How.
        state: State,
    },
    /// The connection of my attempt's call broke: it may still run, and does not keep others from its names.
    Lost {
        /// Which.
        id: AttemptId,
    },
    /// It was found out whether an attempt in doubt ran.
    Found {
        /// Which.
        id: AttemptId,
        /// `Ended` or `Cancelled`.
        state: State,
    },
    /// What is kept of these is not true: they came to be while nobody could name them.
    Drop {
        /// Which.
        keys: Box<[K]>,
    },
}
