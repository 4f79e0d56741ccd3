//! The valid name that was probably meant.

/// The nearest of these names, if it is near enough to be what was meant; the first of equals.
pub(crate) fn nearest<'n>(typed: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    if typed.len() > NAME_MAX {
        return None;
    }
    let typed: Vec<char> = typed.to_lowercase().chars().collect();
    let near = |name: &str| {
        let distance = distance(&typed, &name.chars().collect::<Vec<_>>());
        (distance <= FAR.min(1 + name.len() / 5)).then_some(distance)
    };
    names
        .into_iter()
        .filter_map(|name| Some((near(name)?, name)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// `; did you mean 'policy'?`, or what is possible.
pub(crate) fn suggestion(typed: &str, names: &[&str]) -> String {
    match nearest(typed, names.iter().copied()) {
        Some(name) => format!("; did you mean '{name}'?"),
        None => format!("; possible: {}", names.join(", ")),
    }
}

/// How many letters must be changed, added, dropped or swapped with their neighbour to turn one word into the other.
fn distance(from: &[char], to: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let differs = usize::from(from[i - 1] != to[j - 1]);
            let mut least = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + differs);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

/// Changes after which a name is another one, however long it is.
const FAR: usize = 3;
/// Bytes of a name that is compared at all.
const NAME_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_changes() {
        let cases = [
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "abc", 0),
            ("abd", "abc", 1),
            ("acb", "abc", 1),
            ("bcd", "abc", 2),
        ];
        for (from, to, want) in cases {
            let letters = |text: &str| text.chars().collect::<Vec<_>>();
            assert_eq!(distance(&letters(from), &letters(to)), want, "{from} {to}");
        }
    }

    #[test]
    fn a_typo_is_recognised_and_another_word_is_not() {
        let names = ["path", "policy", "pool", "squash", "in_flight_max", "ro", "rw"];
        let cases = [
            ("polisy", Some("policy")),
            ("plicy", Some("policy")),
            ("Policy", Some("policy")),
            ("loop", None),
            ("pol", Some("pool")),
            ("squahs", Some("squash")),
            ("inflight_max", Some("in_flight_max")),
            ("r", Some("ro")),
            ("mode", None),
            ("", None),
        ];
        for (typed, want) in cases {
            assert_eq!(nearest(typed, names), want, "{typed}");
        }
        assert_eq!(nearest(&"policy".repeat(20), names), None);
    }

    #[test]
    fn without_a_near_name_all_are_told() {
        assert_eq!(suggestion("rx", &["ro", "rw"]), "; did you mean 'ro'?");
        assert_eq!(suggestion("both", &["ro", "rw"]), "; possible: ro, rw");
    }
}
