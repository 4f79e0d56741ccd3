//! One slice: one cell at one server for a short time, over connections of its own.

use crate::clock::{Clock, Nanos, span};
use crate::config::{Cell, Config, Pace};
use crate::desk::{Desk, Stamps, Users, Window};
use crate::error::RunError;
use crate::history::History;
use crate::lane::{Lane, open};
use crate::processor::{Usage, Used, pin};
use crate::schedule::Part;
use crate::site::{Run, Site};
use crate::slots::Slots;
use crate::source::{Source, schedule};
use crate::tally::Tally;
use crate::worker::{Gauge, Worker};
use midas_core::rng::mix;
use midas_net::{Source as Ports, dial};
use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// What all slices of a run share.
#[derive(Debug)]
pub(crate) struct Slicer<'a> {
    pub(crate) config: &'a Config,
    pub(crate) run: &'a Run,
    pub(crate) clock: Clock,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) history: Option<History>,
    /// What is written.
    pub(crate) data: Vec<u8>,
}

/// What one slice found.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) tally: Tally,
    pub(crate) used: Used,
    /// Calls that ended, measured or not, while processor time was taken.
    pub(crate) ended: u64,
    pub(crate) round: u32,
    pub(crate) position: u32,
}

/// A slice's place in the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Among all slices of the run.
    pub(crate) number: u32,
    pub(crate) round: u32,
    /// In its round.
    pub(crate) position: u32,
}

/// How a slice is doing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Doing {
    /// Seconds since it began.
    pub seconds: f64,
    /// Calls that ended so far.
    pub ended: u64,
    /// Errors among them that the load does not bring about by itself.
    pub failed: u64,
    /// Calls that were never sent.
    pub dropped: u64,
    /// Connections that were made again.
    pub reconnects: u64,
}

impl Slicer<'_> {
    pub(crate) fn slice(
        &self,
        site: &Site<'_>,
        cell: &Cell,
        place: Place,
        watch: &mut dyn FnMut(Doing),
    ) -> Result<Sample, RunError> {
        let sockets = self.connect(site)?;
        let workers = self.config.threads.min(self.config.connections);
        let gauges: Vec<Gauge> = (0..workers).map(|_| Gauge::default()).collect();
        let pids: Vec<u32> = self.config.pids.iter().map(|(_, pid)| *pid).collect();
        let mut parts: Vec<Vec<TcpStream>> = (0..workers).map(|_| Vec::new()).collect();
        for (number, socket) in sockets.into_iter().enumerate() {
            parts[number % workers as usize].push(socket);
        }
        let make = |(worker, (sockets, gauge)): (usize, (Vec<TcpStream>, _))| {
            self.worker(site, cell, place, worker as u32, sockets, gauge)
        };
        let loops = parts.into_iter().zip(&gauges).enumerate().map(make).collect::<io::Result<Vec<_>>>()?;
        // Only now: a large tree takes its time to be copied for every loop.
        let before = Usage::now(&pids);
        let start = self.clock.now() + LEAD;
        let from = start + span(self.config.warmup);
        let window = Window { start, from, to: from + span(self.config.slice) };
        let tally = self.go(loops, &gauges, window, watch)?;
        let used = Usage::now(&pids).since(&before);
        let ended = gauges.iter().map(|gauge| gauge.ended.load(Ordering::Relaxed)).sum();
        Ok(Sample { tally, used, ended, round: place.round, position: place.position })
    }

    /// Runs the loops to their end, each in a thread of its own.
    fn go(
        &self,
        loops: Vec<Worker<'_>>,
        gauges: &[Gauge],
        window: Window,
        watch: &mut dyn FnMut(Doing),
    ) -> Result<Tally, RunError> {
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            for (number, worker) in loops.into_iter().enumerate() {
                let (sender, pins) = (sender.clone(), &self.config.pin);
                scope.spawn(move || {
                    let pinned = match pins.is_empty() {
                        true => Ok(()),
                        false => pin(&[pins[number % pins.len()]]),
                    };
                    // The receiver outlives the scope.
                    let _ = sender.send(pinned.and_then(|()| worker.run(window)));
                });
            }
            drop(sender);
            let mut all = Tally::new();
            loop {
                match receiver.recv_timeout(WATCH) {
                    Ok(tally) => all.merge(&tally?),
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) => {
                        watch(doing(gauges, self.clock.now().saturating_sub(window.start)));
                    }
                }
            }
            match self.stop.load(Ordering::Relaxed) {
                true => Err(RunError::Interrupted),
                false => Ok(all),
            }
        })
    }

    fn connect(&self, site: &Site<'_>) -> Result<Vec<TcpStream>, RunError> {
        let connect = |_| {
            let socket = dial(site.address, self.ports(), self.run.patience)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let sockets: io::Result<Vec<TcpStream>> = (0..self.config.connections).map(connect).collect();
        sockets.map_err(|error| RunError::target(&site.target.name, error))
    }

    /// As a kernel's client, from reserved ports; those are too few for many connections.
    fn ports(&self) -> Ports {
        match self.config.connections <= RESERVED {
            true => Ports::Reserved,
            false => Ports::Any,
        }
    }

    fn worker<'w>(
        &'w self,
        site: &'w Site<'_>,
        cell: &Cell,
        place: Place,
        worker: u32,
        sockets: Vec<TcpStream>,
        gauge: &'w Gauge,
    ) -> io::Result<Worker<'w>> {
        let config = self.config;
        let workers = config.threads.min(config.connections);
        let part = Part { worker, workers, connections: config.connections };
        let (depth, seed) = (cell.pace.depth(), config.seed.wrapping_add(u64::from(place.round)));
        let stride = (config.connections * depth).next_power_of_two();
        let chance = mix(self.clock.now() ^ u64::from(place.number)) as u32;
        let lane = |(index, socket)| {
            let number = worker + index as u32 * workers;
            let connection = open(mio::net::TcpStream::from_std(socket))?;
            Ok(Lane::new(number, connection, Slots::new(depth, number * depth, stride, chance)))
        };
        let desk = Desk {
            source: Source::new(config, &cell.load, place.number, seed, part),
            tally: Tally::new(),
            window: Window::default(),
            scribe: self.history.as_ref().map(|history| history.scribe(&site.target.name)),
            closed: matches!(cell.pace, Pace::Closed { .. }),
            template: &self.run.template,
            tree: site.tree.clone(),
            data: &self.data,
            stamps: Stamps::new(&self.run.stamps),
            users: Users { first: config.uid, count: config.users, connections: config.connections },
            ended: 0,
            failed: 0,
        };
        Ok(Worker {
            desk,
            lanes: sockets.into_iter().enumerate().map(lane).collect::<io::Result<_>>()?,
            schedule: schedule(config, &cell.load, cell.pace, seed, part),
            part,
            address: (site.address, self.ports()),
            clock: self.clock,
            timeout: span(config.timeout),
            backlog: config.backlog.div_ceil(workers as usize),
            stop: self.stop,
            gauge,
        })
    }
}

fn doing(gauges: &[Gauge], since: Nanos) -> Doing {
    let sum = |which: fn(&Gauge) -> &AtomicU64| gauges.iter().map(|gauge| which(gauge).load(Ordering::Relaxed)).sum();
    Doing {
        seconds: since as f64 / 1e9,
        ended: sum(|gauge| &gauge.ended),
        failed: sum(|gauge| &gauge.failed),
        dropped: sum(|gauge| &gauge.dropped),
        reconnects: sum(|gauge| &gauge.reconnects),
    }
}

/// Connections that may come from reserved ports.
const RESERVED: u32 = 64;
/// Threads start within this time.
const LEAD: Nanos = 2_000_000;
/// How often those who watch are told.
const WATCH: Duration = Duration::from_millis(100);
