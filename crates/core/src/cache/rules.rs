//! The rules that keep cached answers true, as values. Production code can only write `Rules::ALL`; tests take one away
//! through [`broken`] and must then see a stale answer, or the rule is not needed.

/// One rule of the lease protocol, as far as it lives in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// A mutation's entry is dropped before the mutation leaves for the server, not when it ends.
    DropBeforeSend,
    /// R13: no fill while a mutation of the key is unfinished.
    Pending,
    /// R13: no fill by a read that left before a mutation of the key began.
    Epoch,
    /// R13: no fill by a read that left before a mutation of the key ended.
    EndBump,
    /// R4: no fill by a read that left before the last flush.
    Generation,
    /// R8: a mutation with an unknown end may still run for `server_hold_max`.
    UnknownHold,
    /// After an unclean start, calls of the former life may still run for `server_hold_max`.
    CleanStart,
    /// R14: join only a flight that could still fill.
    Join,
    /// P12: nothing is served at or past its horizon.
    Horizon,
    /// An older state of an object never replaces a newer one.
    Forward,
    /// What a name leads to is found out before a mutation of the name leaves; the driver's part.
    Targets,
}

/// The rules in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules(u16);

impl Rules {
    /// All of them: what every proxy runs.
    pub const ALL: Self = Self(u16::MAX);

    /// Whether a rule is in force.
    pub const fn has(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u8) != 0
    }
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 11] = [
        Self::DropBeforeSend,
        Self::Pending,
        Self::Epoch,
        Self::EndBump,
        Self::Generation,
        Self::UnknownHold,
        Self::CleanStart,
        Self::Join,
        Self::Horizon,
        Self::Forward,
        Self::Targets,
    ];
}

/// For tests only: rule sets that serve stale answers.
#[doc(hidden)]
pub mod broken {
    use super::{Rule, Rules};

    /// All rules but one. `why` names the test that needs to see it fail.
    pub const fn without(rule: Rule, why: &'static str) -> Rules {
        assert!(!why.is_empty(), "a broken rule set needs a reason");
        Rules(Rules::ALL.0 & !(1 << rule as u8))
    }
}
