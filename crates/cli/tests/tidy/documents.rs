//! The rules on documents: what they point at must exist.
//!
//! The table of the paper's elements has rows `| P6 | .. | `path` | `name`, `Type::name` |`. An element may have several
//! rows, a row several paths. An element that is not built yet says so in its path cell, in the words of `NOT_BUILT`.

use crate::source::{Finding, Source, words};

const ELEMENTS: usize = 21;
const NOT_BUILT: &str = "not built yet";

/// Elements that are missing from the table, files that do not exist, names that their files do not contain.
pub(crate) fn broken_elements(source: &Source, read: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let rows: Vec<(usize, Vec<&str>)> =
        source.text.lines().enumerate().filter_map(|(index, line)| Some((index + 1, element_row(line)?))).collect();
    let mut found: Vec<Finding> = (1..=ELEMENTS)
        .map(|number| format!("P{number}"))
        .filter(|element| !rows.iter().any(|(_, cells)| cells[0] == element))
        .map(|element| Finding { line: 1, what: format!("{element} has no row") })
        .collect();
    for (line, cells) in &rows {
        found.extend(broken_row(cells, &read).into_iter().map(|what| Finding { line: *line, what }));
    }
    found
}

/// The cells of a row that begins with an element's number.
fn element_row(line: &str) -> Option<Vec<&str>> {
    let cells: Vec<&str> = line.trim().strip_prefix('|')?.trim_end_matches('|').split('|').map(str::trim).collect();
    let number = cells[0].strip_prefix('P')?;
    number.parse::<usize>().ok().map(|_| cells)
}

fn broken_row(cells: &[&str], read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let [element, .., paths, names] = cells else {
        return vec!["a row is `| Pn | .. | path | name |`".to_owned()];
    };
    if *paths == NOT_BUILT {
        return Vec::new();
    }
    let (paths, names) = (quoted(paths), quoted(names));
    if paths.is_empty() || names.is_empty() {
        return vec![format!("{element} names no file or no identifier, and does not say `{NOT_BUILT}`")];
    }
    let texts: Vec<(&str, Option<String>)> = paths.into_iter().map(|path| (path, read(path))).collect();
    let absent = texts.iter().filter(|(_, text)| text.is_none());
    let absent = absent.map(|(path, _)| format!("{element}: `{path}` does not exist"));
    let unknown = names.iter().filter(|name| !texts.iter().flat_map(|(_, text)| text).any(|text| contains(text, name)));
    absent.chain(unknown.map(|name| format!("{element}: `{name}` is not in the file the row names"))).collect()
}

/// Whether a file has this item: its last segment, and the type it belongs to, if any. Module names are not looked for.
fn contains(text: &str, name: &str) -> bool {
    let segments: Vec<&str> = name.trim_end_matches("()").split("::").collect();
    let (last, path) = segments.split_last().expect("a split has at least one part");
    let types = path.iter().filter(|segment| segment.starts_with(char::is_uppercase));
    types.chain([last]).all(|segment| words(text, segment).next().is_some())
}

/// What stands between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Links to files that do not exist. Links to other hosts and links inside code are not looked at.
pub(crate) fn broken_links(source: &Source, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let directory = source.path.rsplit_once('/').map_or(String::new(), |(directory, _)| format!("{directory}/"));
    let mut fenced = false;
    let mut found = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in local_links(line) {
            if !exists(&format!("{directory}{target}")) {
                found.push(Finding { line: index + 1, what: format!("`{target}` does not exist") });
            }
        }
    }
    found
}

fn local_links(line: &str) -> Vec<String> {
    let without_code: String = line.split('`').step_by(2).collect();
    without_code
        .split("](")
        .skip(1)
        .filter_map(|tail| tail.split([')', ' ', '#']).next())
        .filter(|target| !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:"))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> Option<String> {
        (path == "route.rs").then(|| "impl Pins { fn choose() {} }".to_owned())
    }

    fn table(rows: &str) -> String {
        (2..=ELEMENTS).fold(rows.to_owned(), |text, number| format!("{text}\n| P{number} | x | {NOT_BUILT} | |"))
    }

    #[test]
    fn a_row_resolves_or_says_what_is_wrong() {
        let cases = [
            ("| P1 | Model | `route.rs` | `route::choose`, `Pins::choose()` |", None),
            ("| P1 | Model | `none.rs`, `route.rs` | `choose` |", Some("`none.rs` does not exist")),
            ("| P1 | Model | `route.rs` | `choose`, `choos` |", Some("`choos` is not in the file")),
            ("| P1 | Model | `route.rs` | `Budget::choose` |", Some("`Budget::choose` is not in the file")),
            ("| P1 | Model | - | - |", Some("names no file")),
            ("| P1 | Model | `route.rs` | |", Some("names no file or no identifier")),
            ("| P1 | x |", Some("a row is")),
            ("| P1 | Model | not built yet | `midas serve` |", None),
            ("", Some("P1 has no row")),
        ];
        for (row, expected) in cases {
            let found = broken_elements(&Source::new("docs/paper.md", &table(row)), read);
            assert_eq!(found.len(), usize::from(expected.is_some()), "{row}: {found:?}");
            assert!(expected.is_none_or(|what| found[0].what.contains(what)), "{row}: {found:?}");
        }
    }

    #[test]
    fn a_link_to_a_file_that_is_not_there_is_found() {
        let cases: [(&str, &[usize]); 7] = [
            ("[a](paper.md) [b](paper.md#p6)", &[]),
            ("x\n[a](absent.md)", &[2]),
            ("[a](paper.md) and [`b`](absent.md#x)", &[1]),
            ("![figure](figure.svg \"title\")", &[1]),
            ("[a](https://example.org/x) [b](#here) [c](mailto:a@example.org)", &[]),
            ("```\n[a](absent.md)\n```\n[a](absent.md)", &[4]),
            ("`[a](absent.md)`", &[]),
        ];
        for (text, expected) in cases {
            let found = broken_links(&Source::new("docs/x.md", text), |path| path == "docs/paper.md");
            assert_eq!(found.iter().map(|found| found.line).collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
