//! The core's dependency list: what it may use is named here, and anything else is a breach.

use crate::source::{Finding, Source};

/// Both are `no_std`. A longer list is a decision about the core, not about this test.
const ALLOWED: [&str; 2] = ["libm", "hashbrown"];

/// Dependencies that are not on the list, in whichever of Cargo's three spellings. What only tests use is not counted.
pub(crate) fn foreign_dependencies(source: &Source) -> Vec<Finding> {
    let mut section = "";
    let mut found = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        let line = line.trim();
        let name = if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
            dependency_in_header(section)
        } else if is_dependency_table(section) {
            dependency_in_line(line)
        } else {
            None
        };
        if let Some(name) = name.filter(|name| !ALLOWED.contains(name)) {
            let what = format!("the core may not depend on `{name}`, only on {}", ALLOWED.join(" and "));
            found.push(Finding { line: index + 1, what });
        }
    }
    found
}

/// `dependencies`, `build-dependencies`, and either of them under a `target`.
fn is_dependency_table(section: &str) -> bool {
    let last = section.rsplit('.').next().unwrap_or(section);
    ["dependencies", "build-dependencies"].contains(&last)
}

/// `[dependencies.libm]`
fn dependency_in_header(section: &str) -> Option<&str> {
    let (table, name) = section.rsplit_once('.')?;
    is_dependency_table(table).then_some(name)
}

/// `libm = "0.2"` or `libm.workspace = true`
fn dependency_in_line(line: &str) -> Option<&str> {
    let (key, _) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
    key.split('.').next().map(|name| name.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_outside_the_list_is_found_however_it_is_spelled() {
        let cases: [(&str, &[usize]); 8] = [
            ("[dependencies]\nlibm.workspace = true\nhashbrown = { version = \"1\" }", &[]),
            ("[dependencies]\nlibm = \"0.2\"\nserde = \"1\"", &[3]),
            ("[dependencies]\nrand.workspace = true", &[2]),
            ("[dependencies.tokio]\nversion = \"1\"", &[1]),
            ("[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"", &[2]),
            ("[build-dependencies]\ncc = \"1\"", &[2]),
            ("[dev-dependencies]\nproptest = \"1\"", &[]),
            ("[package]\nname = \"midas-core\"\n[dependencies]\n# serde = 1", &[]),
        ];
        for (text, expected) in cases {
            let lines: Vec<usize> =
                foreign_dependencies(&Source::new("Cargo.toml", text)).iter().map(|f| f.line).collect();
            assert_eq!(lines, expected, "{text}");
        }
    }
}
