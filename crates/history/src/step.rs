//! What a call means to one register: what it must find there and what it leaves. Plain data, so that the model is a table.

/// What a register holds; none: nobody knows, and whoever looks first says.
pub(crate) type Value = Option<u64>;

/// What must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Any,
    Is(u64),
    Not(u64),
    Either(u64, u64),
    /// These bits have this value.
    Bits(u64, u64),
}

/// What is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Keep,
    Set(u64),
    /// Something that the caller does not know.
    Forget,
    Add(i64),
    Max(u64),
}

/// A call, as one register sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) need: Need,
    pub(crate) then: Then,
}

impl Step {
    pub(crate) const fn read(need: Need) -> Self {
        Self { need, then: Then::Keep }
    }

    pub(crate) const fn write(then: Then) -> Self {
        Self { need: Need::Any, then }
    }

    pub(crate) fn is_read(self) -> bool {
        self.then == Then::Keep
    }

    /// Looks at nothing and overwrites everything: what came right before it left no trace.
    pub(crate) fn is_blind(self) -> bool {
        self.need == Need::Any && matches!(self.then, Then::Set(_) | Then::Forget)
    }

    /// Can take place at any moment, so also right before a blind write, where nobody sees it.
    pub(crate) fn can_hide(self) -> bool {
        self.need == Need::Any && !self.is_read()
    }

    /// What is left in a register with this value; none: it cannot have happened there.
    pub(crate) fn apply(self, value: Value) -> Option<Value> {
        let found = self.need.find(value)?;
        Some(match self.then {
            Then::Keep => found,
            Then::Set(new) => Some(new),
            Then::Forget => None,
            Then::Add(by) => found.map(|old| old.wrapping_add_signed(by)),
            Then::Max(new) => found.map(|old| old.max(new)),
        })
    }
}

impl Need {
    /// Whether this value will do.
    pub(crate) fn admits(self, value: u64) -> bool {
        match self {
            Self::Any => true,
            Self::Is(want) => value == want,
            Self::Not(wrong) => value != wrong,
            Self::Either(one, other) => value == one || value == other,
            Self::Bits(mask, want) => value & mask == want,
        }
    }

    /// What is known of the value once it was looked at.
    fn find(self, value: Value) -> Option<Value> {
        match (value, self) {
            (Some(value), need) => need.admits(value).then_some(Some(value)),
            (None, Self::Is(want)) => Some(Some(want)),
            (None, Self::Any | Self::Not(_) | Self::Either(..) | Self::Bits(..)) => Some(None),
        }
    }
}
