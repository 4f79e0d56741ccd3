//! One file as the rules see it: its text, and the same text with comments and literals blanked.
//!
//! Blanking keeps every line break, so a line of `code` is the same line of `text`.

use std::fmt;

/// One breach of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) line: usize,
    pub(crate) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.what)
    }
}

/// A file of the repository. `code` is empty of comments, strings and character literals.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) code: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let code = if has_extension(path, "rs") { blank(text) } else { text.to_owned() };
        Self { path: path.to_owned(), text: text.to_owned(), code }
    }

    pub(crate) fn is_rust(&self) -> bool {
        has_extension(&self.path, "rs")
    }

    /// The code with test modules blanked too; a file that holds only tests has none.
    pub(crate) fn product_code(&self) -> String {
        if self.path.ends_with("/tests.rs") || self.path.contains("/tests/") {
            return String::new();
        }
        let mut code = self.code.clone();
        while let Some(start) = code.find("#[cfg(test)]") {
            let end = item_end(&code, start);
            code.replace_range(start..end, &spaces(&code[start..end]));
        }
        code
    }
}

/// Where the item that starts at `start` ends: behind its `;`, or behind the brace that closes its body.
pub(crate) fn item_end(code: &str, start: usize) -> usize {
    let mut nesting = 0_usize;
    for (at, c) in code[start..].char_indices() {
        match c {
            '(' | '[' | '{' => nesting += 1,
            ')' | ']' => nesting = nesting.saturating_sub(1),
            '}' => {
                nesting = nesting.saturating_sub(1);
                if nesting == 0 {
                    return start + at + 1;
                }
            }
            ';' if nesting == 0 => return start + at + 1,
            _ => {}
        }
    }
    code.len()
}

/// The line of a byte offset, counted from one.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    1 + text[..offset].matches('\n').count()
}

/// Where `word` stands in `text` with no identifier character on either side.
pub(crate) fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_identifier) && !after.is_some_and(is_identifier)
    })
}

pub(crate) fn is_identifier(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

pub(crate) fn has_extension(path: &str, extension: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
}

/// Comments and literals become spaces; everything else, and every line break, stays.
fn blank(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let in_word = code.chars().next_back().is_some_and(is_identifier);
        if let Some(length) = opaque_length(rest, in_word) {
            code.push_str(&spaces(&rest[..length]));
            rest = &rest[length..];
        } else {
            code.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    code
}

fn spaces(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect()
}

/// The length of the comment or literal that starts here, if one does. `in_word`: an identifier runs into this place.
fn opaque_length(rest: &str, in_word: bool) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment_length(rest));
    }
    if !in_word && let Some(length) = raw_string_length(rest) {
        return Some(length);
    }
    match rest.as_bytes()[0] {
        b'"' => Some(quoted_length(rest, '"')),
        b'\'' if is_char_literal(rest) => Some(quoted_length(rest, '\'')),
        _ => None,
    }
}

fn block_comment_length(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn raw_string_length(rest: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"]
        .into_iter()
        .find(|prefix| rest.strip_prefix(prefix).is_some_and(|tail| tail.trim_start_matches('#').starts_with('"')))?;
    let tail = &rest[prefix.len()..];
    let hashes = tail.len() - tail.trim_start_matches('#').len();
    let open = prefix.len() + hashes + 1;
    let close = format!("\"{}", "#".repeat(hashes));
    Some(rest[open..].find(&close).map_or(rest.len(), |at| open + at + close.len()))
}

/// The length of a literal with escapes, quotes included.
fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// `'x'` and `'\n'` are literals, `'a` is a lifetime.
fn is_char_literal(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each case: the code before, what must be blanked, the code behind.
    #[test]
    fn comments_and_literals_are_blanked_and_lines_stay() {
        let cases = [
            ("a ", "// {", "\nb"),
            ("a ", "/* { /* { */ } */", " b"),
            ("f(", "\"{\\\"{\"", ")"),
            ("", "r#\"{\" \"#", ";x"),
            ("", "br\"\\\"", ";x"),
            ("bar", "\"{\\\"\"", "x"),
            ("", "'{'", " b"),
            ("x", "'\\''", " b"),
            ("<'a>(x: &'a T) {", "", "}"),
            ("", "\"a\nb\"", "c"),
            ("x", "\"unclosed", ""),
        ];
        for (before, opaque, behind) in cases {
            let expected = format!("{before}{}{behind}", spaces(opaque));
            assert_eq!(blank(&format!("{before}{opaque}{behind}")), expected, "{opaque}");
        }
        assert_eq!(spaces("a\nb"), " \n ");
    }

    #[test]
    fn an_item_ends_with_its_body_or_its_semicolon() {
        let cases = [
            ("fn f(a: [u8; 3]) { if a { } }|x", "body"),
            ("fn f();| {}", "declaration"),
            ("#[cfg(test)] mod t { fn f() { } }| }", "attribute"),
            ("fn f() {|", "unclosed"),
        ];
        for (drawn, name) in cases {
            let end = drawn.find('|').expect("every case marks its end");
            assert_eq!(item_end(&drawn.replace('|', ""), 0), end, "{name}");
        }
    }

    #[test]
    fn product_code_is_without_its_tests() {
        let text =
            "fn a() {}\n#[cfg(test)]\nextern crate std;\nfn b() {}\n#[cfg(test)]\nmod t { fn c() {} }\nfn d() {}";
        let code = Source::new("crates/x/src/lib.rs", text).product_code();
        assert!(["fn a", "fn b", "fn d"].iter().all(|item| code.contains(item)));
        assert!(!code.contains("fn c") && !code.contains("extern"));
        assert_eq!(line_of(&code, code.find("fn d").unwrap()), 7);
        assert_eq!(Source::new("crates/x/src/route/tests.rs", text).product_code(), "");
    }

    #[test]
    fn a_word_is_not_found_inside_another() {
        assert_eq!(words("fn_ fn xfn fn", "fn").collect::<Vec<_>>(), [4, 11]);
    }
}
