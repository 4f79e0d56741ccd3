//! What a run wrote down, and where two runs differ.

use std::fmt;

/// One line a step, in the script's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript(pub Vec<Line>);

/// What one step gave: the first fact is its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The step.
    pub step: &'static str,
    /// Facts by name.
    pub facts: Vec<(String, String)>,
}

/// A fact that two runs do not share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The step.
    pub step: &'static str,
    /// The fact.
    pub fact: String,
    /// Its value in the first run; none if there was no such fact.
    pub first: Option<String>,
    /// Its value in the second run.
    pub second: Option<String>,
}

/// Where two runs of the same script differ. Where the statuses do, the other facts are of different kinds and are not told.
pub fn diff(first: &Transcript, second: &Transcript) -> Vec<Difference> {
    assert_eq!(first.0.len(), second.0.len(), "two runs of one script have as many lines");
    first.0.iter().zip(&second.0).flat_map(|(first, second)| diff_lines(first, second)).collect()
}

fn diff_lines(first: &Line, second: &Line) -> Vec<Difference> {
    assert_eq!(first.step, second.step, "two runs of one script have the same steps");
    let differs = |fact: &str| {
        let (a, b) = (first.fact(fact), second.fact(fact));
        let own = |value: Option<&str>| value.map(str::to_owned);
        (a != b).then(|| Difference { step: first.step, fact: fact.to_owned(), first: own(a), second: own(b) })
    };
    if let Some(status) = differs(STATUS) {
        return vec![status];
    }
    let mut facts: Vec<&str> = first.facts.iter().map(|(fact, _)| fact.as_str()).collect();
    facts.extend(second.facts.iter().map(|(fact, _)| fact.as_str()).filter(|fact| first.fact(fact).is_none()));
    facts.into_iter().filter_map(differs).collect()
}

impl Line {
    /// A line with its status alone.
    pub(crate) fn new(step: &'static str, status: impl fmt::Display) -> Self {
        Self { step, facts: vec![(STATUS.to_owned(), status.to_string())] }
    }

    /// One fact more.
    pub(crate) fn add(&mut self, fact: impl Into<String>, value: impl Into<String>) {
        let fact = fact.into();
        assert!(self.fact(&fact).is_none(), "{}: {fact} is told twice", self.step);
        self.facts.push((fact, value.into()));
    }

    /// A fact's value.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.iter().find(|(fact, _)| fact == name).map(|(_, value)| value.as_str())
    }
}

/// The name of every line's first fact.
pub(crate) const STATUS: &str = "status";

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.step)?;
        self.facts.iter().try_for_each(|(fact, value)| match fact.as_str() {
            STATUS => write!(f, " {value}"),
            fact => write!(f, " | {fact} {value}"),
        })
    }
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = [&self.first, &self.second].map(|value| value.as_deref().unwrap_or("(not told)"));
        write!(f, "{} | {}: {first} / {second}", self.step, self.fact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &'static str) -> Line {
        let mut words = text.split(' ');
        let mut line = Line::new(words.next().unwrap(), words.next().unwrap());
        for pair in words {
            let (fact, value) = pair.split_once('=').unwrap();
            line.add(fact, value);
        }
        line
    }

    #[test]
    fn every_fact_that_differs_is_told_and_only_the_status_where_that_differs() {
        let cases = [
            ("s OK a=1", "s OK a=1", vec![]),
            ("s OK a=1 b=2", "s OK a=2 b=2", vec!["s | a: 1 / 2"]),
            ("s OK a=1", "s OK b=1", vec!["s | a: 1 / (not told)", "s | b: (not told) / 1"]),
            ("s OK a=1", "s NOENT b=2", vec!["s | status: OK / NOENT"]),
        ];
        for (first, second, expected) in cases {
            let found = diff(&Transcript(vec![line(first)]), &Transcript(vec![line(second)]));
            assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{first} / {second}");
        }
    }

    #[test]
    fn a_line_reads_as_one_line() {
        assert_eq!(line("s OK dir=mtime").to_string(), "s: OK | dir mtime");
    }
}
