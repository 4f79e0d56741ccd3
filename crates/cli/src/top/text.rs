//! Words, figures and small charts for cells of a terminal.

use ratatui::text::Span;

/// A name as it may be shown: what would move the cursor, hide or turn text around is spelled out.
pub(crate) fn clean(name: &str) -> String {
    name.chars().flat_map(|c| if hidden(c) { c.escape_unicode().collect() } else { vec![c] }).collect()
}

/// Control characters, and those without a width that change what stands beside them.
fn hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Cells that a text takes.
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The beginning of what is too wide, with an ellipsis behind it.
pub(crate) fn beginning(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        if width(&kept) + width(c.encode_utf8(&mut [0; 4])) + 1 > most {
            break;
        }
        kept.push(c);
    }
    kept + "…"
}

/// The end of what is too wide, with an ellipsis in front: of a path the end tells most.
pub(crate) fn ending(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut from = text.len();
    for (at, _) in text.char_indices().rev() {
        if width(&text[at..]) + 1 > most {
            break;
        }
        from = at;
    }
    format!("…{}", &text[from..])
}

/// Lines of at most so many cells, cut between words; a word that is wider gets lines of its own.
pub(crate) fn wrap(text: &str, most: usize) -> Vec<String> {
    let most = most.max(2);
    let mut lines = vec![String::new()];
    for word in text.split(' ').flat_map(|word| pieces(word, most)) {
        let last = lines.last_mut().expect("there is one from the start");
        match last.is_empty() {
            true => last.push_str(&word),
            false if width(last) + 1 + width(&word) <= most => {
                last.push(' ');
                last.push_str(&word);
            }
            false => lines.push(word),
        }
    }
    lines
}

fn pieces(word: &str, most: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for c in word.chars() {
        let last = pieces.last_mut().expect("there is one from the start");
        if width(last) + width(c.encode_utf8(&mut [0; 4])) > most {
            pieces.push(c.to_string());
        } else {
            last.push(c);
        }
    }
    pieces
}

/// A figure of things a second, or the like: whole from 100 on.
pub(crate) fn rate(value: f64) -> String {
    if value.abs() < 99.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// Milliseconds, as `midas status` shows them.
pub(crate) fn ms(value: f64) -> String {
    format!("{value:.3}")
}

/// A share in hundredths.
pub(crate) fn share(value: f64) -> String {
    format!("{:.1} %", 100.0 * value)
}

/// A part of a whole as a bar of so many cells, in eighths of a cell.
pub(crate) fn bar(part: f64, cells: usize) -> String {
    let eighths = (part.clamp(0.0, 1.0) * cells as f64 * 8.0).round() as usize;
    let (full, rest) = (eighths / 8, eighths % 8);
    let rest = if rest > 0 { RESTS[rest - 1] } else { "" };
    "█".repeat(full) + rest
}

/// The course of a figure over the last [`SPAN`] points: the highest in each cell. Cells begin at fixed points, so that they do not flicker.
pub(crate) fn trend(course: &[(u64, f64)], top: f64, cells: usize) -> String {
    let Some((now, _)) = course.last() else { return String::new() };
    let each = (SPAN / cells.max(1) as u64).max(1);
    let last = now / each;
    let mut highest = vec![None::<f64>; cells];
    for (number, value) in course {
        let back = (last - number / each) as usize;
        if let Some(cell) = cells.checked_sub(back + 1).and_then(|at| highest.get_mut(at)) {
            *cell = Some(cell.map_or(*value, |other| other.max(*value)));
        }
    }
    highest.into_iter().map(|value| value.map_or(' ', |value| level(value, top))).collect()
}

fn level(value: f64, top: f64) -> char {
    let part = if top > 0.0 { (value / top).clamp(0.0, 1.0) } else { 0.0 };
    LEVELS[(part * (LEVELS.len() - 1) as f64).round() as usize]
}

/// A minute.
const SPAN: u64 = 120;
const RESTS: [&str; 7] = ["▏", "▎", "▍", "▌", "▋", "▊", "▉"];
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_without_what_moves_the_cursor() {
        let cases = [
            ("plain name", "plain name"),
            ("a\nb\x1b[2J", "a\\u{a}b\\u{1b}[2J"),
            ("\u{9b}x", "\\u{9b}x"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("Übung 日本", "Übung 日本"),
        ];
        for (name, want) in cases {
            assert_eq!(clean(name), want);
        }
    }

    #[test]
    fn what_is_shortened_says_so_and_fits() {
        assert_eq!((beginning("abcdef", 6), ending("abcdef", 6)), ("abcdef".to_owned(), "abcdef".to_owned()));
        assert_eq!((beginning("abcdef", 4), ending("abcdef", 4)), ("abc…".to_owned(), "…def".to_owned()));
        assert_eq!((beginning("日本語", 4), ending("日本語", 4)), ("日…".to_owned(), "…語".to_owned()));
        for most in 1..8 {
            assert!(width(&beginning("日本語abc", most)) <= most && width(&ending("日本語abc", most)) <= most);
        }
    }

    #[test]
    fn lines_break_between_words_and_no_letter_is_lost() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrap("", 5), [""]);
    }

    #[test]
    fn charts_have_the_cells_that_they_are_given() {
        assert_eq!(
            (bar(0.0, 4), bar(0.5, 4), bar(1.0, 4), bar(9.0, 2)),
            (String::new(), "██".into(), "████".into(), "██".into())
        );
        assert_eq!(bar(0.5, 1), "▌");
        let course: Vec<(u64, f64)> = (1..=10).map(|number| (number, number as f64)).collect();
        let drawn = trend(&course, 10.0, 120);
        assert_eq!((drawn.chars().count(), drawn.trim_start()), (120, "▂▂▃▄▅▅▆▇▇█"));
        let drawn = trend(&course, 10.0, 60);
        assert_eq!(drawn.trim_start(), "▂▃▅▆▇█", "the highest of two points in each");
        assert_eq!(trend(&[], 1.0, 5), "");
    }
}
