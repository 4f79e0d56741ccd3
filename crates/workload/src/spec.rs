//! What was typed, understood: the names of the workloads and their parameters.
//!
//! A [`Spec`] in hand is a valid one: it is made by [`Spec::parse`], and its parameters lie within the bounds stated here, or by
//! [`Spec::replay`] of calls that were recorded, which somebody else must read.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use crate::job::Shape;
use crate::replay::Replay;

/// A workload with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec(pub(crate) Kind);

/// The workloads. What each means stands in [`Spec::list`] and in the function that builds it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Uniform,
    /// Exponent in 0..=5.
    Zipf(f64),
    /// Share in 0..=1.
    Hot(f64),
    Bursts,
    /// Factor in 1..=1000.
    Flash(f64),
    Checkpoint,
    Diurnal,
    OnOff,
    Shifting,
    JobStart(Shape),
    Epoch,
    Spotify,
    Replay(Arc<Replay>),
}

/// One line of the list of workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described {
    /// The word before the colon.
    pub name: &'static str,
    /// What to type, e.g. `zipf:S`.
    pub usage: &'static str,
    /// What it is, in one line.
    pub meaning: &'static str,
    /// Something that parses.
    pub example: &'static str,
}

/// Why a text is not a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// No workload has this name.
    Unknown {
        /// The name as typed.
        name: String,
    },
    /// The workload needs a parameter, or takes none, or not this one.
    Parameter {
        /// The text as typed.
        typed: String,
        /// What to type.
        usage: &'static str,
        /// What the parameter may be.
        possible: &'static str,
    },
}

impl Spec {
    /// Understands `name` or `name:parameter`.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let (name, parameter) = match text.split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text, None),
        };
        let described = LIST
            .iter()
            .find(|described| described.name == name)
            .ok_or_else(|| SpecError::Unknown { name: name.into() })?;
        kind(name, parameter).map(Self).ok_or_else(|| SpecError::Parameter {
            typed: text.into(),
            usage: described.usage,
            possible: possible(name),
        })
    }

    /// Calls that were recorded.
    pub fn replay(replay: Replay) -> Self {
        Self(Kind::Replay(Arc::new(replay)))
    }

    /// The calls that were recorded, if it is such a workload.
    pub fn replayed(&self) -> Option<&Replay> {
        match &self.0 {
            Kind::Replay(replay) => Some(replay),
            Kind::Uniform
            | Kind::Zipf(_)
            | Kind::Hot(_)
            | Kind::Bursts
            | Kind::Flash(_)
            | Kind::Checkpoint
            | Kind::Diurnal
            | Kind::OnOff
            | Kind::Shifting
            | Kind::JobStart(_)
            | Kind::Epoch
            | Kind::Spotify => None,
        }
    }

    /// Every workload that is made of chance, in the order in which they are shown.
    pub fn list() -> &'static [Described] {
        &LIST
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Uniform => f.write_str("uniform"),
            Kind::Zipf(exponent) => write!(f, "zipf:{exponent}"),
            Kind::Hot(share) => write!(f, "hot:{share}"),
            Kind::Bursts => f.write_str("bursts"),
            Kind::Flash(factor) => write!(f, "flash:{factor}"),
            Kind::Checkpoint => f.write_str("checkpoint"),
            Kind::Diurnal => f.write_str("diurnal"),
            Kind::OnOff => f.write_str("on-off"),
            Kind::Shifting => f.write_str("shifting"),
            Kind::JobStart(shape) if *shape == JOB => f.write_str("job-start"),
            Kind::JobStart(Shape { ranks, libraries, entries }) => write!(f, "job-start:{ranks}x{libraries}x{entries}"),
            Kind::Epoch => f.write_str("epoch"),
            Kind::Spotify => f.write_str("spotify"),
            Kind::Replay(replay) => write!(f, "{replay}"),
        }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name } => {
                write!(f, "unknown workload '{}'; possible:", name.escape_debug())?;
                LIST.iter().try_for_each(|described| write!(f, " {}", described.usage))?;
                f.write_str(" trace:FILE")
            }
            Self::Parameter { typed, usage, possible } => {
                write!(f, "workload '{}' is not {usage}: {possible}", typed.escape_debug())
            }
        }
    }
}

impl core::error::Error for SpecError {}

/// The workload of a listed name; none if the parameter does not fit it.
fn kind(name: &str, parameter: Option<&str>) -> Option<Kind> {
    Some(match (name, parameter) {
        ("uniform", None) => Kind::Uniform,
        ("zipf", Some(exponent)) => Kind::Zipf(number(exponent, 0.0, 5.0)?),
        ("hot", Some(share)) => Kind::Hot(number(share, 0.0, 1.0)?),
        ("bursts", None) => Kind::Bursts,
        ("flash", Some(factor)) => Kind::Flash(number(factor, 1.0, 1000.0)?),
        ("checkpoint", None) => Kind::Checkpoint,
        ("diurnal", None) => Kind::Diurnal,
        ("on-off", None) => Kind::OnOff,
        ("shifting", None) => Kind::Shifting,
        ("job-start", None) => Kind::JobStart(JOB),
        ("job-start", Some(shape)) => Kind::JobStart(job(shape)?),
        ("epoch", None) => Kind::Epoch,
        ("spotify", None) => Kind::Spotify,
        _ => return None,
    })
}

fn possible(name: &str) -> &'static str {
    match name {
        "zipf" => "S is a number from 0 to 5, e.g. zipf:0.9",
        "hot" => "S is a number from 0 to 1, e.g. hot:0.5",
        "flash" => "X is a number from 1 to 1000, e.g. flash:10",
        "job-start" => {
            "1..65536 ranks x 1..10000 libraries x 1..1000 search-path entries, e.g. job-start:256x50x12; or just job-start"
        }
        _ => "it takes no parameter",
    }
}

fn number(text: &str, least: f64, most: f64) -> Option<f64> {
    // Adding zero turns -0 into 0, which prints as it should.
    text.parse::<f64>().ok().filter(|number| (least..=most).contains(number)).map(|number| number + 0.0)
}

fn job(text: &str) -> Option<Shape> {
    let mut parts = text.split('x');
    let mut part = |most| parts.next()?.parse::<u32>().ok().filter(|count| (1..=most).contains(count));
    let shape = Shape { ranks: part(65_536)?, libraries: part(10_000)?, entries: part(1_000)? };
    parts.next().is_none().then_some(shape)
}

/// The job that is started when no shape is given.
const JOB: Shape = Shape { ranks: 256, libraries: 50, entries: 12 };

const fn plain(name: &'static str, meaning: &'static str) -> Described {
    Described { name, usage: name, meaning, example: name }
}

const LIST: [Described; 12] = [
    plain("uniform", "steady load, every directory alike"),
    Described {
        name: "zipf",
        usage: "zipf:S",
        meaning: "steady load, directories by popularity with exponent S",
        example: "zipf:0.9",
    },
    Described {
        name: "hot",
        usage: "hot:S",
        meaning: "steady load, a share S of it on one directory, the rest anywhere",
        example: "hot:0.5",
    },
    plain("bursts", "1 s at 4 times the capacity every 10 s, else 0.3; zipf 0.9"),
    Described {
        name: "flash",
        usage: "flash:X",
        meaning: "background 0.3, and X times that onto one directory for 2 s (X = 10) to 0.5 s (X = 100) every 100 s",
        example: "flash:10",
    },
    plain("checkpoint", "background 0.3, and 30 creates a server within 0.2 s into 4 directories every 30 s"),
    plain("diurnal", "0.6 + 0.5 sin with a period of 150 s; zipf 0.9"),
    plain("on-off", "1.4 and 0.1 in turns of 5 s on average; zipf 0.9"),
    plain("shifting", "0.6, of which 40 % go to one directory that changes every 20 s"),
    Described {
        name: "job-start",
        usage: "job-start[:RxLxP]",
        meaning: "background 0.3, and every minute R ranks look for L libraries along P directories; 90 % of the names are missing",
        example: "job-start:256x50x12",
    },
    plain("epoch", "steady load, reads only, uniform over a million files"),
    plain("spotify", "steady load of open, stat, list, create, rename and delete as in a large file system; zipf 0.9"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn every_listed_workload_parses_and_prints_what_was_typed() {
        for described in Spec::list() {
            let spec = Spec::parse(described.example).unwrap();
            assert_eq!(Spec::parse(&spec.to_string()), Ok(spec), "{}", described.name);
            assert!(described.usage.starts_with(described.name) && !described.meaning.contains('\n'));
        }
        for typed in
            ["uniform", "zipf:0", "zipf:0.9", "zipf:5", "flash:10", "flash:2.5", "job-start", "job-start:1x2x3"]
        {
            assert_eq!(Spec::parse(typed).unwrap().to_string(), typed);
        }
        assert_eq!(Spec::parse("zipf:-0").unwrap().to_string(), "zipf:0");
    }

    #[test]
    fn what_is_not_a_workload_says_what_is_possible() {
        let zipf = "S is a number from 0 to 5";
        let flash = "X is a number from 1 to 1000";
        let job = "1..65536 ranks";
        let cases = [
            ("", "unknown workload ''; possible: uniform zipf:S hot:S bursts flash:X"),
            ("zipfian", "unknown workload 'zipfian'; possible: uniform"),
            ("Uniform", "unknown workload 'Uniform'"),
            ("a\nb:1", "unknown workload 'a\\nb'"),
            ("uniform:1", "workload 'uniform:1' is not uniform: it takes no parameter"),
            ("bursts:", "it takes no parameter"),
            ("zipf", "workload 'zipf' is not zipf:S: S is a number"),
            ("zipf:", zipf),
            ("zipf:x", zipf),
            ("zipf:-0.1", zipf),
            ("zipf:5.01", zipf),
            ("zipf:nan", zipf),
            ("zipf:inf", zipf),
            ("zipf:1:2", zipf),
            ("flash", flash),
            ("hot", "S is a number from 0 to 1"),
            ("hot:1.5", "S is a number from 0 to 1"),
            ("flash:0.5", flash),
            ("flash:1001", flash),
            ("job-start:", job),
            ("job-start:1x2", job),
            ("job-start:1x2x3x4", job),
            ("job-start:0x2x3", job),
            ("job-start:65537x2x3", job),
            ("job-start:1x2x-3", job),
        ];
        for (typed, want) in cases {
            let message = Spec::parse(typed).unwrap_err().to_string();
            assert!(message.contains(want) && !message.contains('\n'), "{typed:?} gives {message:?}");
        }
    }
}
