//! What a call means to one register: what it must find there and what it leaves. Plain data, so that the model is a table.

use crate::record::ABSENT;

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Value {
    /// Nobody knows: whoever looks first says.
    Unknown,
    /// The same, but it is not [`ABSENT`].
    Something,
    Is(u64),
}

impl Value {
    pub(crate) fn is_known(self) -> bool {
        matches!(self, Self::Is(_))
    }

    fn map(self, change: impl FnOnce(u64) -> u64) -> Self {
        match self {
            Self::Is(value) => Self::Is(change(value)),
            Self::Unknown | Self::Something => self,
        }
    }
}

/// What must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Any,
    Is(u64),
    Not(u64),
    /// These bits have this value.
    Bits(u64, u64),
}

/// What is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Keep,
    Set(u64),
    /// Something that the caller does not know for sure; most likely this, or [`ABSENT`] for no idea.
    Forget(u64),
    /// The same, but only where nothing was; all else stays.
    Fill(u64),
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
        self.need == Need::Any && matches!(self.then, Then::Set(_) | Then::Forget(_))
    }

    /// Can take place at any moment, so also right before a blind write, where nobody sees it.
    pub(crate) fn can_hide(self) -> bool {
        self.need == Need::Any && !self.is_read()
    }

    /// The value that it leaves wherever it changes something, if that can be said.
    pub(crate) fn gives(self) -> Option<u64> {
        match self.then {
            Then::Set(value) | Then::Forget(value) | Then::Fill(value) => Some(value),
            Then::Keep | Then::Add(_) | Then::Max(_) => None,
        }
    }

    /// What is left in a register with this value; none: it cannot have happened there.
    pub(crate) fn apply(self, value: Value) -> Option<Value> {
        let found = self.need.find(value)?;
        Some(match (self.then, found) {
            (Then::Set(new), _) => Value::Is(new),
            (Then::Forget(_), _) | (Then::Fill(_), Value::Is(ABSENT) | Value::Unknown) => Value::Something,
            (Then::Keep, _) | (Then::Fill(_), Value::Something | Value::Is(_)) => found,
            (Then::Add(by), _) => found.map(|old| old.wrapping_add_signed(by)),
            (Then::Max(new), _) => found.map(|old| old.max(new)),
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
            Self::Bits(mask, want) => value & mask == want,
        }
    }

    /// Whether this is found without deciding what an unknown value is.
    pub(crate) fn sees(self, value: Value) -> bool {
        match value {
            Value::Is(value) => self.admits(value),
            Value::Something => self == Self::Not(ABSENT),
            Value::Unknown => false,
        }
    }

    /// What is known of the value once it was looked at.
    fn find(self, value: Value) -> Option<Value> {
        match (value, self) {
            (Value::Is(found), need) => need.admits(found).then_some(value),
            (Value::Something, Self::Is(ABSENT)) => None,
            (Value::Unknown, Self::Not(ABSENT)) => Some(Value::Something),
            (Value::Unknown | Value::Something, Self::Is(want)) => Some(Value::Is(want)),
            (Value::Unknown | Value::Something, Self::Any | Self::Not(_) | Self::Bits(..)) => Some(value),
        }
    }
}
