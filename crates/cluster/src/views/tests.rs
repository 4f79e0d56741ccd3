//! Voters in a simulated network that loses, cuts and delays, with crashes between any two steps: what they decide must agree.

use super::consensus::{Consensus, Outcome};
use super::log::Log;
use crate::view::View;
use midas_core::rng::Rng;
use std::collections::{BTreeMap, VecDeque};

struct Voter {
    consensus: Option<Consensus>,
    /// The log as the disk has it.
    disk: Log,
    learned: u64,
}

struct World {
    rng: Rng,
    voters: Vec<Voter>,
    /// By sender and receiver: in order, as TCP delivers.
    links: Vec<Vec<VecDeque<Vec<u8>>>>,
    cut: Vec<Vec<bool>>,
    agreed: BTreeMap<u64, View>,
    proposed: u64,
}

impl World {
    fn new(seed: u64, count: usize) -> Self {
        let mut world = Self {
            rng: Rng::new(seed),
            voters: Vec::new(),
            links: vec![vec![VecDeque::new(); count]; count],
            cut: vec![vec![false; count]; count],
            agreed: BTreeMap::new(),
            proposed: 0,
        };
        for _ in 0..count {
            world.voters.push(Voter { consensus: None, disk: Log::default(), learned: 0 });
        }
        (0..count).for_each(|voter| world.start(voter));
        world
    }

    fn start(&mut self, voter: usize) {
        let count = self.voters.len();
        let log = self.voters[voter].disk.clone();
        let mut consensus = Consensus::new(voter as u8, count, log).unwrap();
        // What it knew it tells again, and it forgot nothing.
        consensus.settle();
        assert_eq!(consensus.latest().epoch, self.voters[voter].learned, "what was learned is kept");
        for peer in (0..count).filter(|peer| *peer != voter) {
            consensus.reconnected(peer as u8);
            if let Some(other) = &mut self.voters[peer].consensus {
                other.reconnected(voter as u8);
            }
        }
        self.voters[voter].consensus = Some(consensus);
    }

    /// What was on the way to it or from it is lost, and so is what it did not keep.
    fn crash(&mut self, voter: usize) {
        self.voters[voter].consensus = None;
        for peer in 0..self.voters.len() {
            self.links[voter][peer].clear();
            self.links[peer][voter].clear();
        }
    }

    /// Keeps, sends and learns, unless it crashes before or between.
    fn settle(&mut self, voter: usize, crashes: f64) {
        if self.rng.chance(crashes) {
            return self.crash(voter);
        }
        let Some(consensus) = &mut self.voters[voter].consensus else { return };
        let Outcome { views, messages } = consensus.settle();
        self.voters[voter].disk = consensus.log().clone();
        for view in views {
            assert!(view.epoch > self.voters[voter].learned, "a view came twice or late: {view:?}");
            self.voters[voter].learned = view.epoch;
            let known = self.agreed.entry(view.epoch).or_insert_with(|| view.clone());
            assert_eq!(*known, view, "two views with one number");
        }
        if self.rng.chance(crashes) {
            return self.crash(voter);
        }
        for (to, bytes) in messages {
            if !self.cut[voter][to as usize] {
                self.links[voter][to as usize].push_back(bytes);
            }
        }
    }

    fn deliver(&mut self) -> Option<usize> {
        let full: Vec<(usize, usize)> = (0..self.voters.len())
            .flat_map(|from| (0..self.voters.len()).map(move |to| (from, to)))
            .filter(|(from, to)| !self.links[*from][*to].is_empty())
            .collect();
        let (from, to) = *full.get(self.rng.below(full.len()))?;
        let bytes = self.links[from][to].pop_front()?;
        if let Some(consensus) = &mut self.voters[to].consensus {
            consensus.handle(from as u8, &bytes);
        }
        Some(to)
    }

    fn propose(&mut self, voter: usize) {
        let tag = self.rng.next_u64();
        if let Some(consensus) = &mut self.voters[voter].consensus
            && consensus.may_propose()
        {
            consensus.propose(vec![(voter as u8, tag)]);
            self.proposed += 1;
        }
    }

    fn toggle(&mut self, from: usize, to: usize) {
        let cut = &mut self.cut[from][to];
        *cut = !*cut;
        if *cut {
            return self.links[from][to].clear();
        }
        for (voter, peer) in [(from, to), (to, from)] {
            if let Some(consensus) = &mut self.voters[voter].consensus {
                consensus.reconnected(peer as u8);
            }
        }
    }

    fn step(&mut self, faults: f64) {
        let count = self.voters.len();
        let (voter, peer) = (self.rng.below(count), self.rng.below(count));
        if self.rng.chance(faults * 0.2) && self.voters[voter].consensus.is_none() {
            self.start(voter);
        }
        if self.rng.chance(faults * 0.05) && voter != peer {
            self.toggle(voter, peer);
        }
        let touched = match self.rng.below(10) {
            0 => {
                if let Some(consensus) = &mut self.voters[voter].consensus {
                    consensus.tick();
                }
                Some(voter)
            }
            1 => {
                self.propose(voter);
                Some(voter)
            }
            _ => self.deliver(),
        };
        if let Some(touched) = touched {
            self.settle(touched, faults * 0.005);
        }
    }

    fn heal(&mut self) {
        for from in 0..self.voters.len() {
            for to in 0..self.voters.len() {
                if self.cut[from][to] {
                    self.toggle(from, to);
                }
            }
        }
        for voter in 0..self.voters.len() {
            if self.voters[voter].consensus.is_none() {
                self.start(voter);
            }
        }
    }
}

#[test]
fn voters_agree_under_cuts_and_crashes_and_go_on_when_they_end() {
    let mut decided = 0;
    for seed in 0..SEEDS {
        let count = [2, 3, 5][seed as usize % 3];
        let mut world = World::new(seed, count);
        (0..STEPS).for_each(|_| world.step(1.0));
        world.heal();
        let before = world.agreed.keys().next_back().copied().unwrap_or(0);
        let mut steps = 0;
        while world.voters.iter().any(|voter| voter.learned < before + 3) {
            world.step(0.0);
            steps += 1;
            assert!(steps < PATIENCE, "seed {seed}: it does not go on after {before}");
        }
        decided += world.agreed.len();
    }
    assert!(decided > SEEDS as usize * 10, "{decided} views in {SEEDS} worlds");
}

const SEEDS: u64 = 240;
const STEPS: usize = 20_000;
const PATIENCE: usize = 200_000;
