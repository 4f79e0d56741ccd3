//! What is wrong with a configuration: every mistake on one line, in the order of the file.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A configuration that cannot be used. Shown as one line a problem: `midas.toml:12:3: unknown key ..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    file: Option<PathBuf>,
    problems: Vec<Problem>,
    more: usize,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line and column, both counted from one; none if the file as a whole is wrong.
    pub place: Option<(usize, usize)>,
    /// What is wrong: one line.
    pub text: String,
}

impl ConfigError {
    /// The first [`PROBLEMS_MAX`] of these mistakes in a text, each with its offset.
    pub(super) fn new(text: &str, mut found: Vec<(usize, String)>) -> Self {
        found.sort_by_key(|(at, _)| *at);
        found.dedup();
        let more = found.len().saturating_sub(PROBLEMS_MAX);
        let shown = found.into_iter().take(PROBLEMS_MAX);
        let problems = shown.map(|(at, said)| Problem { place: Some(place(text, at)), text: one_line(&said) });
        Self { file: None, problems: problems.collect(), more }
    }

    /// The file cannot be read at all.
    fn whole(path: &Path, text: String) -> Self {
        Self { file: Some(path.into()), problems: vec![Problem { place: None, text }], more: 0 }
    }

    pub(super) fn in_file(self, path: &Path) -> Self {
        Self { file: Some(path.into()), ..self }
    }

    /// What is wrong, in the order of the file: at least one, at most [`PROBLEMS_MAX`].
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// How many mistakes there are, with those that are not told.
    pub fn count(&self) -> usize {
        self.problems.len() + self.more
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            if let Some(file) = &self.file {
                write!(f, "{}:", file.display())?;
            }
            match (problem.place, &self.file) {
                (Some((line, column)), _) => write!(f, "{line}:{column}: {}", problem.text)?,
                (None, Some(_)) => write!(f, " {}", problem.text)?,
                (None, None) => f.write_str(&problem.text)?,
            }
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for ConfigError {}

/// The text of a file, if it is one and not too long.
pub(super) fn read(path: &Path) -> Result<String, ConfigError> {
    let whole = |error: std::io::Error| ConfigError::whole(path, error.to_string());
    let file = std::fs::File::open(path).map_err(whole)?;
    let mut bytes = Vec::new();
    file.take(FILE_MAX + 1).read_to_end(&mut bytes).map_err(whole)?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(ConfigError::whole(path, format!("the file is longer than {FILE_MAX} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(&error.as_bytes()[..good]);
        ConfigError::new(&text, vec![(good, "this is not UTF-8 text".to_owned())]).in_file(path)
    })
}

/// Line and column of an offset, in characters as editors count them.
fn place(text: &str, at: usize) -> (usize, usize) {
    let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let before = &text[..at];
    let line = before.rfind('\n').map_or(before, |newline| &before[newline + 1..]);
    (1 + before.matches('\n').count(), 1 + line.chars().count())
}

/// What was typed may hold anything; what is said is one line.
fn one_line(said: &str) -> String {
    let escaped = said.chars().flat_map(|c| {
        let (plain, escape) = if c.is_control() { (None, Some(c.escape_default())) } else { (Some(c), None) };
        plain.into_iter().chain(escape.into_iter().flatten())
    });
    let mut line: String = escaped.take(LINE_MAX + 1).collect();
    if line.chars().count() > LINE_MAX {
        line.pop();
        line.push_str("..");
    }
    line
}

/// How many mistakes are told at once: more do not fit on a screen.
pub const PROBLEMS_MAX: usize = 20;
/// Bytes of a configuration: a thousand exports fit in a quarter of it.
const FILE_MAX: u64 = 1 << 20;
/// Characters of what is said about one mistake.
const LINE_MAX: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_from_one() {
        let text = "ab\nä = 1\r\n\nx";
        for (at, want) in [(0, (1, 1)), (2, (1, 3)), (3, (2, 1)), (5, (2, 2)), (11, (3, 1)), (12, (4, 1)), (99, (4, 2))]
        {
            assert_eq!(place(text, at), want, "{at}");
        }
    }

    #[test]
    fn what_is_said_is_one_line_of_bounded_length() {
        assert_eq!(one_line("a\nb\u{7}"), "a\\nb\\u{7}");
        assert_eq!(one_line(&"x".repeat(LINE_MAX)).len(), LINE_MAX);
        assert_eq!(one_line(&"x".repeat(LINE_MAX + 1)), "x".repeat(LINE_MAX) + "..");
    }

    #[test]
    fn problems_past_the_bound_are_counted() {
        let found = (0..PROBLEMS_MAX + 3).rev().map(|at| (at, format!("p{at}"))).collect();
        let error = ConfigError::new(&"x".repeat(40), found).in_file(Path::new("m.toml"));
        let shown = error.to_string();
        assert_eq!((error.problems().len(), error.count()), (PROBLEMS_MAX, PROBLEMS_MAX + 3));
        assert!(
            shown.starts_with("m.toml:1:1: p0\nm.toml:1:2: p1\n") && shown.ends_with("1:20: p19\nand 3 more"),
            "{shown}"
        );
    }
}
