//! What an export's administrator lets the cache do. `strict` is the default and never answers.

/// How far cached answers may be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Nothing is answered from the cache; a call is joined only while it still waits here.
    #[default]
    Strict,
    /// All writers pass through MIDAS: an entry lives until a mutation drops it. Never stale.
    Lease,
    /// Others write too: an entry lives as long as its hazard allows. Stale with a known probability.
    Ttl,
    /// Nobody writes: software trees and data sets.
    Immutable,
}

/// Which flights a read may join, and so share the answer of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joins {
    /// Those that have not left for the server.
    Waiting,
    /// Those, and the ones that could still fill the cache (R14).
    Fillable,
    /// All.
    Any,
}

impl Mode {
    /// Every mode, safest first.
    pub const ALL: [Self; 4] = [Self::Strict, Self::Lease, Self::Ttl, Self::Immutable];

    /// The word that users type and read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Lease => "lease",
            Self::Ttl => "ttl",
            Self::Immutable => "immutable",
        }
    }

    /// The mode of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Whether reads may be answered from the cache at all.
    pub const fn answers(self) -> bool {
        match self {
            Self::Strict => false,
            Self::Lease | Self::Ttl | Self::Immutable => true,
        }
    }

    /// Which flights a read may join.
    pub const fn joins(self) -> Joins {
        match self {
            Self::Strict => Joins::Waiting,
            Self::Lease => Joins::Fillable,
            Self::Ttl | Self::Immutable => Joins::Any,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_is_found_by_its_name_and_strict_is_the_default() {
        for mode in Mode::ALL {
            assert_eq!(Mode::parse(mode.name()), Some(mode));
            assert_eq!(mode.answers(), mode != Mode::Strict);
        }
        assert_eq!(Mode::parse("Lease"), None);
        assert_eq!(Mode::default(), Mode::Strict);
    }
}
