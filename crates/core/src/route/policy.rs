//! The policies by name: what users type, understood.

use crate::route::paper::{Eligible, KeyOf, PinCost, Reading};
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

/// How calls are routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Ours: home unless another server is better by the gap.
    FirstFit(Gap),
    /// Algorithm 1 of the paper.
    Paper(Reading),
    /// Every directory at its home.
    HashDirectory,
    /// Directories placed in turn when first seen.
    RoundRobinDirectory,
    /// Calls placed in turn.
    RoundRobin,
    /// Decides like first-fit and counts, but stays at home.
    Observe,
}

/// The gap of first-fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gap {
    /// The controller chooses.
    #[default]
    Auto,
    /// So many calls, always: 1..=8.
    Fixed(u8),
}

impl Policy {
    /// Every policy with its options, as users type them.
    pub const USAGE: [(&'static str, &'static str); 6] = [
        (
            "first-fit[:gap=1..8]",
            "home, unless another server is better by the gap (the controller's choice if not given)",
        ),
        (
            "paper[:key=object,pin=free,eligible=margin]",
            "Algorithm 1 of the paper; the options are other readings of it",
        ),
        ("hash-directory", "every directory at its consistent-hash home"),
        ("rr-directory", "directories placed in turn when first seen"),
        ("rr", "calls placed in turn"),
        ("observe", "decides like first-fit and counts, but every call stays at home"),
    ];

    /// The policy that was typed, or one line that says what is possible.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        let options = || options.split(',').filter(|option| !option.is_empty());
        let plain = |policy| match options().next() {
            None => Ok(policy),
            Some(option) => Err(format!("policy {name} takes no option, got '{option}'")),
        };
        match name {
            "first-fit" => options().try_fold(Gap::Auto, |_, option| parse_gap(option)).map(Self::FirstFit),
            "paper" => options().try_fold(Reading::default(), parse_reading).map(Self::Paper),
            "hash-directory" => plain(Self::HashDirectory),
            "rr-directory" => plain(Self::RoundRobinDirectory),
            "rr" => plain(Self::RoundRobin),
            "observe" => plain(Self::Observe),
            _ => Err(format!("unknown policy '{name}'; possible: {}", Self::USAGE.map(|(usage, _)| usage).join(", "))),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FirstFit(Gap::Auto) => f.write_str("first-fit"),
            Self::FirstFit(Gap::Fixed(gap)) => write!(f, "first-fit:gap={gap}"),
            Self::Paper(reading) => {
                let options = [
                    (reading.key == KeyOf::Object, "key=object"),
                    (reading.pin == PinCost::Free, "pin=free"),
                    (reading.eligible == Eligible::Margin, "eligible=margin"),
                ];
                f.write_str("paper")?;
                let mut separator = ":";
                for (_, option) in options.into_iter().filter(|(set, _)| *set) {
                    write!(f, "{separator}{option}")?;
                    separator = ",";
                }
                Ok(())
            }
            Self::HashDirectory => f.write_str("hash-directory"),
            Self::RoundRobinDirectory => f.write_str("rr-directory"),
            Self::RoundRobin => f.write_str("rr"),
            Self::Observe => f.write_str("observe"),
        }
    }
}

fn parse_gap(option: &str) -> Result<Gap, String> {
    match option.split_once('=') {
        Some(("gap", "auto")) => Ok(Gap::Auto),
        Some(("gap", value)) => match value.parse() {
            Ok(gap @ 1..=8) => Ok(Gap::Fixed(gap)),
            Ok(_) | Err(_) => Err(format!("first-fit:gap takes 1..8 or auto, got '{value}'")),
        },
        Some(_) | None => Err(format!("unknown option '{option}' of first-fit; possible: gap=1..8, gap=auto")),
    }
}

fn parse_reading(reading: Reading, option: &str) -> Result<Reading, String> {
    match option {
        "key=directory" => Ok(Reading { key: KeyOf::Directory, ..reading }),
        "key=object" => Ok(Reading { key: KeyOf::Object, ..reading }),
        "pin=token" => Ok(Reading { pin: PinCost::Token, ..reading }),
        "pin=free" => Ok(Reading { pin: PinCost::Free, ..reading }),
        "eligible=every" => Ok(Reading { eligible: Eligible::Every, ..reading }),
        "eligible=margin" => Ok(Reading { eligible: Eligible::Margin, ..reading }),
        other => {
            let possible = "key=directory|object, pin=token|free, eligible=every|margin";
            Err(format!("unknown option '{other}' of paper; possible: {possible}").to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_what_is_shown() {
        let typed = [
            "first-fit",
            "first-fit:gap=1",
            "paper",
            "paper:key=object",
            "paper:key=object,pin=free,eligible=margin",
            "hash-directory",
            "rr-directory",
            "rr",
            "observe",
        ];
        for text in typed {
            assert_eq!(Policy::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn errors_say_what_is_possible() {
        let cases = [
            ("fastest", "first-fit[:gap=1..8]"),
            ("first-fit:gap=9", "1..8"),
            ("first-fit:width=2", "gap=1..8"),
            ("paper:key=inode", "key=directory|object"),
            ("rr:fast", "takes no option"),
        ];
        for (text, want) in cases {
            let error = Policy::parse(text).unwrap_err();
            assert!(error.contains(want) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
