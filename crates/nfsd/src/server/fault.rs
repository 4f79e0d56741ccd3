//! What can be wrong with a server, on command.

use midas_nfs::nfs3::Nfsstat3;
use midas_workload::units::parse_span;
use std::fmt;
use std::time::Duration;

/// How a server misbehaves until it is told otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Not at all.
    #[default]
    None,
    /// It takes calls and answers none; they are served when the fault ends.
    Hang,
    /// Hangs for the first time span of every second one.
    Stall {
        /// How long.
        hang: Duration,
        /// How often.
        every: Duration,
    },
    /// Every call takes this much longer.
    Slow(Duration),
    /// Every call fails at once with this status and is not executed.
    Fail(Nfsstat3),
    /// It has crashed, and nobody listens: connections are refused.
    Down,
    /// Its handles are not the other servers'.
    OtherHandles,
    /// Answers carry another call's number.
    WrongXid,
    /// Each answer is cut in the middle, and the connection with it.
    HalfReply,
    /// Calls are executed and none is answered; connections stay.
    Mute,
}

impl Fault {
    /// What users may type.
    pub const USAGE: &'static str = "none, hang, stall:1s/10s, slow:10ms, fail:IO (a status of RFC 1813), down, other-handles, wrong-xid, half-reply, mute";

    /// The fault that was typed, or one line that says what is possible.
    pub fn parse(text: &str) -> Result<Self, String> {
        let impossible = || format!("unknown fault '{text}'; possible: {}", Self::USAGE);
        let (name, value) = text.split_once(':').map_or((text, None), |(name, value)| (name, Some(value)));
        match (name, value) {
            ("none", None) => Ok(Self::None),
            ("hang", None) => Ok(Self::Hang),
            ("stall", Some(value)) => {
                let (hang, every) = value.split_once('/').ok_or_else(impossible)?;
                let (hang, every) = (duration(hang)?, duration(every)?);
                match hang < every {
                    true => Ok(Self::Stall { hang, every }),
                    false => Err(format!("'{text}' stalls for ever; use hang")),
                }
            }
            ("slow", Some(value)) => duration(value).map(Self::Slow),
            ("fail", Some(value)) => {
                let status = Nfsstat3::ALL.iter().find(|status| status.name() == Some(value));
                status.filter(|status| **status != Nfsstat3::OK).copied().map(Self::Fail).ok_or_else(impossible)
            }
            ("down", None) => Ok(Self::Down),
            ("other-handles", None) => Ok(Self::OtherHandles),
            ("wrong-xid", None) => Ok(Self::WrongXid),
            ("half-reply", None) => Ok(Self::HalfReply),
            ("mute", None) => Ok(Self::Mute),
            _ => Err(impossible()),
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_span(text).map(|span| Duration::from_nanos(span.as_nanos()))
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Hang => f.write_str("hang"),
            Self::Stall { hang, every } => write!(f, "stall:{hang:?}/{every:?}"),
            Self::Slow(more) => write!(f, "slow:{more:?}"),
            Self::Fail(status) => write!(f, "fail:{status}"),
            Self::Down => f.write_str("down"),
            Self::OtherHandles => f.write_str("other-handles"),
            Self::WrongXid => f.write_str("wrong-xid"),
            Self::HalfReply => f.write_str("half-reply"),
            Self::Mute => f.write_str("mute"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_read_back_and_errors_say_what_is_possible() {
        for text in
            ["none", "hang", "stall:1s/10s", "slow:10ms", "fail:IO", "down", "other-handles", "wrong-xid", "mute"]
        {
            assert_eq!(Fault::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "hung", "slow", "slow:fast", "fail:OK", "fail:EIO", "stall:1s", "stall:2s/1s", "down:1"] {
            assert!(!Fault::parse(text).unwrap_err().contains('\n'), "{text}");
        }
    }
}
