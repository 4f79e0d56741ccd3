//! The rules of the lease protocol as values. Production code can only write `Rules::ALL`; tests take one away through [`broken`] and must
//! then see a stale answer or a double execution, or the rule is not needed.

/// One part of a rule of leases.md, as far as it lives between proxies. What lives in the cache is [`crate::cache::Rule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// R1: messages count in their own epoch alone.
    Epoch,
    /// R2: a new view waits until the grants of the old one have run out.
    ViewWait,
    /// R2: so does a start, for the grants of the life before.
    RestartWait,
    /// R3: a grant carries what its giver knows.
    Carry,
    /// R3: the holder's clock may be slow: its term is shorter.
    Drift,
    /// R4: whoever lost a lease, or has a new view, forgets what it kept.
    Flush,
    /// R4: an answer needs a lease of every other member now.
    Lease,
    /// R5: marks are a set of attempts.
    Set,
    /// R6: a call leaves when every member has acknowledged, or its grant ran out.
    Wait,
    /// R6: and when a majority has.
    Majority,
    /// R7: acknowledgements are good for a lease's term.
    Recent,
    /// R8: a call whose connection broke stays pending until it cannot run any more.
    Linger,
    /// R8: what nobody knows the end of answers no retransmission, nor is it sent again.
    Doubt,
    /// R9: who did not learn what the others knew does not speak for them.
    Installed,
    /// R10: when too few remember the view before, nothing is kept until its calls have ended.
    Clean,
    /// R10: calls of who is gone may still leave and run.
    Lost,
    /// R11: one live attempt of an operation.
    Once,
    /// R12: a hold is released when no call under it is on its way.
    Quiet,
    /// R12: a call that must not be executed twice announces itself, hold or not.
    Identity,
    /// One live mutation of a name in the cluster: where it leads cannot be known otherwise.
    Name,
    /// What a lost member's calls that must run once were to change waits until it is known whether they did.
    Trace,
    /// What is called over on a name that a lost call may still change is held as long as that.
    Taint,
    /// Reads of what was changed at a server go there until the others know.
    Fence,
    /// Intents outlive a crash of the process that acknowledged them.
    Recall,
}

/// The rules in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules(u32);

impl Rules {
    /// All of them: what every proxy runs.
    pub const ALL: Self = Self(u32::MAX);

    /// Whether a rule is in force.
    pub const fn has(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u8) != 0
    }
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 24] = [
        Self::Epoch,
        Self::ViewWait,
        Self::RestartWait,
        Self::Carry,
        Self::Drift,
        Self::Flush,
        Self::Lease,
        Self::Set,
        Self::Wait,
        Self::Majority,
        Self::Recent,
        Self::Linger,
        Self::Doubt,
        Self::Installed,
        Self::Clean,
        Self::Lost,
        Self::Once,
        Self::Quiet,
        Self::Identity,
        Self::Name,
        Self::Trace,
        Self::Taint,
        Self::Fence,
        Self::Recall,
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
