//! Cells as text, with or without the terminal's colours.

use super::paint::Paint;
use super::text::width;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

/// Lines without blanks at their ends, and without empty ones at the end.
pub(crate) fn text(cells: &Buffer, paint: Paint) -> String {
    let area = cells.area();
    let lines: Vec<String> = (area.y..area.bottom()).map(|y| line(cells, y, paint)).collect();
    let shown = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    lines[..shown].iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

fn line(cells: &Buffer, y: u16, paint: Paint) -> String {
    let row = || (cells.area().x..cells.area().right()).filter_map(|x| cells.cell((x, y)));
    // Without colours a blank is a blank; with them, one may be reversed.
    let blank = |cell: &ratatui::buffer::Cell| cell.symbol() == " " && (!paint.colour() || cell.modifier.is_empty());
    let end = row().enumerate().filter(|(_, cell)| !blank(cell)).last().map_or(0, |(at, _)| at + 1);
    let mut text = String::new();
    let mut style = String::new();
    let mut covered = 0;
    for cell in row().take(end) {
        if covered > 0 {
            covered -= 1;
            continue;
        }
        covered = width(cell.symbol()).saturating_sub(1);
        let wanted = if paint.colour() { codes(cell.fg, cell.modifier) } else { String::new() };
        if wanted != style {
            text.push_str("\x1b[0m");
            text.push_str(&wanted);
            style = wanted;
        }
        text.push_str(cell.symbol());
    }
    if !style.is_empty() {
        text.push_str("\x1b[0m");
    }
    text
}

fn codes(colour: Color, modifier: Modifier) -> String {
    let colour = match colour {
        Color::Red => Some(31),
        Color::Green => Some(32),
        Color::Yellow => Some(33),
        Color::Cyan => Some(36),
        Color::DarkGray => Some(90),
        _not_painted => None,
    };
    let modifiers = [(Modifier::BOLD, 1), (Modifier::REVERSED, 7)];
    let modifiers = modifiers.into_iter().filter(|(one, _)| modifier.contains(*one)).map(|(_, code)| code);
    let all: Vec<String> = modifiers.chain(colour).map(|code: u8| code.to_string()).collect();
    if all.is_empty() { String::new() } else { format!("\x1b[{}m", all.join(";")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;
    use ratatui::text::{Line, Span};

    #[test]
    fn colours_are_written_only_where_they_are_wanted() {
        let paint = Paint::new(true);
        let mut cells = Buffer::empty(Rect::new(0, 0, 12, 3));
        let line = Line::from(vec![Span::raw("日 "), Span::styled("down", paint.bad()), Span::raw(" x")]);
        cells.set_line(0, 0, &line, 12);
        assert_eq!(text(&cells, paint), "日 \x1b[0m\x1b[1;31mdown\x1b[0m x\n");
        assert_eq!(text(&cells, Paint::new(false)), "日 down x\n");
    }
}
