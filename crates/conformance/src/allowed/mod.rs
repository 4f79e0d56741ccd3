//! Where ours may differ from the reference, NFS-Ganesha, and why. Whatever else differs is a fault.

mod table;

pub use table::ALLOWED;

use crate::transcript::Difference;
use std::fmt::Write;

/// Differences for one reason.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    /// The steps where they are seen, each of them; `*` for any.
    pub steps: &'static [&'static str],
    /// The fact that differs; behind a `*`, how its name ends.
    pub fact: &'static str,
    /// What the reference answers.
    pub theirs: &'static [&'static str],
    /// What ours may answer then.
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
    /// The RFC leaves it open, or recommends what ours does without demanding it.
    Choice,
    /// Ours does what the RFC says; the reference does something else.
    Departure,
}

impl Allowed {
    fn covers(&self, difference: &Difference) -> bool {
        let among = |values: &[&str], value: &Option<String>| values.contains(&value.as_deref().unwrap_or(UNTOLD));
        self.steps.iter().any(|step| matches(step, difference.step))
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

/// Differences of ours, the second, from the reference that are not allowed.
pub fn faults(differences: &[Difference]) -> Vec<&Difference> {
    differences.iter().filter(|found| !ALLOWED.iter().any(|allowed| allowed.covers(found))).collect()
}

/// What [`ALLOWED`] allows and none of these differences needs, as step and fact: it is out of date.
pub fn idle(differences: &[Difference]) -> Vec<(&'static str, &'static str)> {
    let needed = |allowed: &Allowed, step: &str| {
        differences.iter().any(|found| matches(step, found.step) && allowed.covers(found))
    };
    let all = ALLOWED.iter().flat_map(|allowed| allowed.steps.iter().map(move |step| (allowed, *step)));
    all.filter(|(allowed, step)| !needed(allowed, step)).map(|(allowed, step)| (step, allowed.fact)).collect()
}

/// The differences of one kind as rows of a table in markdown.
pub fn rows(kind: Kind) -> String {
    let mut rows = String::new();
    for allowed in ALLOWED.iter().filter(|allowed| allowed.kind == kind) {
        let Allowed { fact, section, reason, .. } = allowed;
        let [steps, theirs, ours] = [allowed.steps, allowed.theirs, allowed.ours].map(|texts| texts.join("; "));
        writeln!(rows, "| {steps} | {fact} | {theirs} | {ours} | {section} | {reason} |").expect("a String takes all");
    }
    rows
}

/// The value of a fact that one server does not tell.
const UNTOLD: &str = "(not told)";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script;
    use std::fs;
    use std::path::Path;

    #[test]
    fn every_entry_names_steps_of_the_script() {
        for step in ALLOWED.iter().flat_map(|allowed| allowed.steps) {
            assert!(*step == "*" || script().any(|known| known.name == *step), "{step}");
        }
    }

    #[test]
    fn the_document_has_the_table() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
        let text = fs::read_to_string(file).unwrap();
        for kind in [Kind::Choice, Kind::Departure] {
            assert!(text.contains(&rows(kind)), "docs/conformance.md needs these rows:\n{}", rows(kind));
        }
    }

    #[test]
    fn an_entry_covers_its_own_values_in_its_own_direction() {
        let difference = |step, fact: &str, first: Option<&str>, second: Option<&str>| {
            let [first, second] = [first, second].map(|value| value.map(str::to_owned));
            Difference { step, fact: fact.to_owned(), first, second }
        };
        let cases = [
            (difference("any", "dir.pre", Some("none"), Some("same")), true),
            (difference("any", "dir.pre", Some("same"), Some("none")), false),
            (difference("any", "dir.pre", Some("none"), Some("differs")), false),
            (difference("any", "status", Some("OK"), Some("IO")), false),
            (difference("RMDIR of ..", "status", Some("NOTEMPTY"), Some("EXIST")), true),
            (difference("RMDIR of .", "status", Some("NOTEMPTY"), Some("EXIST")), false),
            (difference("set the mtime of a symbolic link", "object", None, Some("mtime ctime")), true),
        ];
        for (difference, allowed) in cases {
            assert_eq!(faults(std::slice::from_ref(&difference)).is_empty(), allowed, "{difference}");
            assert!(idle(&[difference]).len() + 1 >= idle(&[]).len());
        }
    }
}
