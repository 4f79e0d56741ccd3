//! The workloads themselves: which sources of calls each is made of, and their merging in order of time.
//!
//! Every workload is a steady source, which may be the background of a storm. Rates are in units of the capacity and hold at
//! load 0.7; the setting's load scales them all. The two never share a stream of chance, so a storm leaves its background as it is.

use alloc::boxed::Box;
use midas_core::op::Op;
use midas_core::time::Time;

use crate::arrival::{Arrivals, Beat, Law, sane};
use crate::job::{Jobs, Shape};
use crate::pattern::{Chance, Mix, Names, Places, Source, purpose, shuffled};
use crate::replay::Replaying;
use crate::request::{Request, Setting};
use crate::spec::{Kind, Spec};
use crate::zipf::Zipf;

/// The calls of a workload, in order of time.
#[derive(Clone, Debug)]
pub struct Stream(Calls);

#[derive(Clone, Debug)]
enum Calls {
    Made(Box<Merged>),
    Recorded(Replaying),
}

/// A steady source with what comes on top of it.
#[derive(Clone, Debug)]
struct Merged {
    steady: Source,
    storm: Option<Storm>,
    /// The first call of each that is not issued yet.
    next_steady: Option<Request>,
    next_storm: Option<Request>,
}

/// What comes on top of the background.
#[derive(Clone, Debug)]
enum Storm {
    Source(Source),
    Jobs(Jobs),
}

/// The calls of `spec`, aimed at the cluster of `setting`.
pub fn stream(spec: &Spec, setting: &Setting) -> Stream {
    let maker = Maker(setting);
    let steady = |share: f64| Law::steady(setting.scaled(share));
    match &spec.0 {
        Kind::Uniform => Stream::of(maker.calm(Law::steady(setting.load * setting.capacity()), maker.anywhere())),
        Kind::Zipf(s) => Stream::of(maker.calm(Law::steady(setting.load * setting.capacity()), maker.popular(*s))),
        Kind::Hot(share) => Stream::of(maker.calm(Law::steady(setting.load * setting.capacity()), maker.hot(*share))),
        Kind::Bursts => Stream::of(maker.calm(maker.bursts(), maker.popular(SKEW))),
        Kind::Flash(factor) => maker.storm(Storm::Source(maker.flash(*factor))),
        Kind::Checkpoint => maker.storm(Storm::Source(maker.checkpoint())),
        Kind::Diurnal => Stream::of(maker.calm(maker.diurnal(), maker.popular(SKEW))),
        Kind::OnOff => Stream::of(maker.calm(maker.on_off(), maker.popular(SKEW))),
        Kind::Shifting => Stream::of(maker.calm(steady(0.6), maker.shifting())),
        Kind::JobStart(shape) => maker.storm(Storm::Jobs(maker.jobs(*shape))),
        Kind::Epoch => Stream::of(maker.epoch()),
        Kind::Spotify => Stream::of(maker.spotify()),
        Kind::Replay(replay) => Stream(Calls::Recorded(Replaying::new(replay, setting.duration))),
    }
}

impl Stream {
    fn of(steady: Source) -> Self {
        Self::merged(steady, None)
    }

    fn merged(mut steady: Source, mut storm: Option<Storm>) -> Self {
        let next_steady = steady.next();
        let next_storm = storm.as_mut().and_then(Iterator::next);
        Self(Calls::Made(Box::new(Merged { steady, storm, next_steady, next_storm })))
    }

    /// Intended calls per second at `t`.
    pub fn rate_at(&self, t: Time) -> f64 {
        match &self.0 {
            Calls::Made(merged) => merged.rate(t.as_secs_f64()),
            Calls::Recorded(replaying) => replaying.rate(t),
        }
    }
}

impl Iterator for Stream {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        match &mut self.0 {
            Calls::Made(merged) => merged.next(),
            Calls::Recorded(replaying) => replaying.next(),
        }
    }
}

impl Merged {
    fn rate(&self, seconds: f64) -> f64 {
        self.steady.arrivals.rate(seconds) + self.storm.as_ref().map_or(0.0, |storm| storm.rate(seconds))
    }
}

impl Iterator for Merged {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let stormy = match (&self.next_steady, &self.next_storm) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(steady), Some(storm)) => storm.at < steady.at,
        };
        if stormy {
            core::mem::replace(&mut self.next_storm, self.storm.as_mut().and_then(Iterator::next))
        } else {
            core::mem::replace(&mut self.next_steady, self.steady.next())
        }
    }
}

impl Storm {
    fn rate(&self, seconds: f64) -> f64 {
        match self {
            Self::Source(source) => source.arrivals.rate(seconds),
            Self::Jobs(jobs) => jobs.rate(seconds),
        }
    }
}

impl Iterator for Storm {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        match self {
            Self::Source(source) => source.next(),
            Self::Jobs(jobs) => jobs.next(),
        }
    }
}

/// Makes the parts of workloads for one setting.
struct Maker<'a>(&'a Setting);

impl Maker<'_> {
    /// The default calls: lookups and the setting's share of writes.
    fn calm(&self, law: Law, places: Places) -> Source {
        self.source(STEADY, law, places, Names::of(self.0), Mix::writes(self.0.write_share))
    }

    /// A storm on the usual background.
    fn storm(&self, storm: Storm) -> Stream {
        Stream::merged(self.calm(Law::steady(self.0.scaled(BACKGROUND)), self.anywhere()), Some(storm))
    }

    /// 4 for the sixth of every ten seconds, else 0.3.
    fn bursts(&self) -> Law {
        let beat = Beat { first: 5.0, lasts: 1.0, every: 10.0 };
        Law::pulses(self.0.scaled(0.3), self.0.scaled(4.0), beat, self.0.seconds())
    }

    /// `factor` times the background onto a directory that is new each time, every 100 s from 20 s, 2 % writes.
    fn flash(&self, factor: f64) -> Source {
        let beat = Beat { first: 20.0, lasts: flash_seconds(factor), every: 100.0 };
        let law = Law::pulses(0.0, self.0.scaled(factor * BACKGROUND), beat, self.0.seconds());
        self.source(STORM, law, self.focus(1.0, 1, beat), Names::of(self.0), Mix::writes(0.02))
    }

    /// Exactly 30 creates a server (at load 0.7) of names that are new, uniform over 0.2 s, into 4 directories that change each
    /// time, every 30 s from 10 s.
    fn checkpoint(&self) -> Source {
        let beat = Beat { first: 10.0, lasts: 0.2, every: 30.0 };
        let count = libm::round(sane(30.0 * f64::from(self.0.servers) * self.0.scale())) as u32;
        let creates = Mix::new(&[(Op::Create, 1.0)]);
        self.source(STORM, Law::batches(beat, count), self.focus(1.0, 4, beat), Names::Fresh(self.0.files), creates)
    }

    /// 0.6 + 0.5 sin, from the mean upwards, a period of 150 s.
    fn diurnal(&self) -> Law {
        Law::Sine { mean: self.0.scaled(0.6), swing: self.0.scaled(0.5), period: 150.0 }
    }

    /// 1.4 and 0.1 in turns, each for an exponential time of mean 5 s.
    fn on_off(&self) -> Law {
        let mut rng = purpose(self.0.seed, *b"phases..", STEADY);
        Law::phases(self.0.scaled(1.4), self.0.scaled(0.1), 5.0, self.0.seconds(), &mut rng)
    }

    /// 40 % to a directory that changes every 20 s, the rest anywhere.
    fn shifting(&self) -> Places {
        self.focus(0.4, 1, Beat { first: 0.0, lasts: 20.0, every: 20.0 })
    }

    /// A share to one directory throughout, the rest anywhere.
    fn hot(&self, share: f64) -> Places {
        let throughout = self.0.seconds().max(1.0);
        self.focus(share, 1, Beat { first: 0.0, lasts: throughout, every: throughout })
    }

    fn jobs(&self, shape: Shape) -> Jobs {
        Jobs::new(shape, self.0, &mut purpose(self.0.seed, *b"map.....", STEADY))
    }

    /// Lookups and getattrs, half and half, uniform over 1000 directories of 1000 files, whatever the setting's namespace.
    fn epoch(&self) -> Source {
        let law = Law::steady(self.0.load * self.0.capacity());
        let reads = Mix::new(&[(Op::Lookup, 0.5), (Op::Getattr, 0.5)]);
        self.source(STEADY, law, Places::Uniform(1000), Names::Uniform(1000), reads)
    }

    /// Open, stat, list, create, rename and delete in the shares that are reported for a large file system. A rename's target is
    /// drawn like any other name.
    fn spotify(&self) -> Source {
        let law = Law::steady(self.0.load * self.0.capacity());
        self.source(STEADY, law, self.popular(SKEW), Names::of(self.0), Mix::new(&SPOTIFY))
    }

    fn anywhere(&self) -> Places {
        Places::Uniform(self.0.directories)
    }

    fn popular(&self, exponent: f64) -> Places {
        Places::Zipf { ranks: Zipf::new(self.0.directories, exponent), map: self.map() }
    }

    fn focus(&self, share: f64, width: u32, beat: Beat) -> Places {
        Places::Focus { share, width, beat, map: self.map() }
    }

    /// Which directory is the popular one, or the next one.
    fn map(&self) -> alloc::vec::Vec<u32> {
        shuffled(self.0.directories, &mut purpose(self.0.seed, *b"map.....", STEADY))
    }

    fn source(&self, name: u64, law: Law, places: Places, names: Names, mix: Mix) -> Source {
        let arrivals = Arrivals::new(law, self.0.seconds(), purpose(self.0.seed, *b"arrivals", name));
        Source { arrivals, places, names, mix, clients: self.0.clients, chance: Chance::new(self.0.seed, name) }
    }
}

/// 2 s up to 10 times, 0.5 s from 100 times on, and between them linear in the logarithm.
fn flash_seconds(factor: f64) -> f64 {
    2.0 - 1.5 * (libm::log10(factor) - 1.0).clamp(0.0, 1.0)
}

/// The sources' names among the streams of chance.
const STEADY: u64 = 0;
const STORM: u64 = 1;
/// What goes on while no storm does, in units of the capacity at load 0.7.
const BACKGROUND: f64 = 0.3;
/// The zipf exponent of the workloads that are about their rate.
const SKEW: f64 = 0.9;
/// In percent; they sum to 99.45 and are taken relative to that.
const SPOTIFY: [(Op, f64); 6] = [
    (Op::Lookup, 68.7),
    (Op::Getattr, 17.0),
    (Op::List, 9.0),
    (Op::Create, 2.7),
    (Op::Rename, 1.3),
    (Op::Remove, 0.75),
];

#[cfg(test)]
mod tests;
