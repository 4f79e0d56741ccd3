//! Where the RFC lets servers differ. Whatever else differs is a fault of one of them.

use crate::transcript::Difference;

/// A difference that is no fault of ours.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    /// The step; `*` for every step.
    pub step: &'static str,
    /// The fact of its line; behind a `*`, how its name ends.
    pub fact: &'static str,
    /// What the reference answers.
    pub theirs: &'static [&'static str],
    /// What ours may answer instead.
    pub ours: &'static [&'static str],
    /// Whether the RFC leaves it open, or the reference departs from it.
    pub kind: Kind,
    /// The section, of RFC 1813 where no other is named.
    pub section: &'static str,
    /// Why the two differ.
    pub reason: &'static str,
}

/// Why a difference is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The RFC leaves it open, or recommends without demanding.
    Choice,
    /// The RFC says what ours does; the reference does something else.
    Departure,
}

impl Allowed {
    fn covers(&self, difference: &Difference) -> bool {
        let among = |values: &[&str], value: &Option<String>| values.contains(&value.as_deref().unwrap_or(UNTOLD));
        matches(self.step, difference.step)
            && matches(self.fact, &difference.fact)
            && among(self.theirs, &difference.first)
            && among(self.ours, &difference.second)
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(end) => text.ends_with(end),
        None => pattern == text,
    }
}

/// Differences of ours, the second, from a reference that are not allowed.
pub fn faults(differences: &[Difference]) -> Vec<&Difference> {
    differences.iter().filter(|found| !ALLOWED.iter().any(|allowed| allowed.covers(found))).collect()
}

/// Entries of [`ALLOWED`] that none of these differences needs: they are out of date.
pub fn idle(differences: &[Difference]) -> Vec<&'static Allowed> {
    ALLOWED.iter().filter(|allowed| !differences.iter().any(|found| allowed.covers(found))).collect()
}

/// The value of a fact that one server does not tell.
const UNTOLD: &str = "(not told)";

/// All of them.
pub const ALLOWED: &[Allowed] = &[];
