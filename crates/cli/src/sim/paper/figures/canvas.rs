//! What all figures share: a grid of panels on one card, colours, axes.
//!
//! Figures are drawn at twice their size, because the backend rounds to whole pixels. Ink, grid and card have colours of their own that
//! nothing else uses, so that the report's style can replace them in the dark. No font is needed: the reader's own is used.

use crate::failure::Failure;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

/// A part of a figure.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Whether drawing went well.
pub(crate) type Painted = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// A figure of so many panels under a title, each painted by its number.
pub(crate) fn grid(
    title: &str,
    panels: usize,
    height: u32,
    paint: impl Fn(usize, &Area) -> Painted,
) -> Result<String, Failure> {
    let rows = panels.div_ceil(COLUMNS);
    let size = (WIDTH, HEAD + rows as u32 * height);
    let mut text = String::new();
    let mut drawn = || -> Painted {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&CARD)?;
        let (head, body) = root.split_vertically(HEAD);
        head.draw_text(title, &font(HEAD_SIZE, INK), (36, 36))?;
        for (index, area) in body.split_evenly((rows, COLUMNS)).iter().enumerate().take(panels) {
            paint(index, area)?;
        }
        root.present()
    };
    drawn().map_err(|error| Failure::Broken(format!("{title}: {error}")))?;
    Ok(at_half_size(&join_dots(&text), size))
}

/// A text's looks.
pub(crate) fn font(size: u32, colour: RGBColor) -> TextStyle<'static> {
    let style = FontDesc::new(FontFamily::Name("system-ui, sans-serif"), f64::from(size), FontStyle::Normal);
    TextStyle { color: colour.to_backend_color(), ..TextStyle::from(style) }
}

/// An axis whose ticks are chosen by hand.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) range: Range<f64>,
    pub(crate) ticks: Vec<f64>,
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let part = (value - self.range.start) / (self.range.end - self.range.start);
        limit.0 + (part * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// A logarithmic axis that begins with zero: 0, 1, 10, 100 and so on are ticks.
pub(crate) fn from_zero(top: f64) -> Axis {
    let ticks = std::iter::once(0.0).chain(powers().take_while(|power| *power <= top).map(log1)).collect();
    Axis { range: 0.0..log1(top.max(1.0)) * 1.04, ticks }
}

/// Where a value stands on such an axis.
pub(crate) fn log1(value: f64) -> f64 {
    libm::log10(1.0 + value.max(0.0))
}

/// The value of a tick on such an axis.
pub(crate) fn show_log1(at: f64) -> String {
    show_short(libm::pow(10.0, at) - 1.0)
}

/// 20, 3k, 1M.
pub(crate) fn show_short(value: f64) -> String {
    let value = value.round();
    match value {
        _ if value >= 1e6 => format!("{}M", value / 1e6),
        _ if value >= 1e3 => format!("{}k", value / 1e3),
        _ => format!("{value}"),
    }
}

/// 1, 10, 100 and so on.
pub(crate) fn powers() -> impl Iterator<Item = f64> {
    (0..9).map(|exponent| libm::pow(10.0, f64::from(exponent)))
}

/// A server's colour, in every figure.
pub(crate) fn of_server(server: usize) -> RGBColor {
    SERVERS[server % SERVERS.len()]
}

/// A policy's colour, in every figure.
pub(crate) fn of_policy(policy: &str) -> RGBColor {
    match policy {
        "rr" | "rr-client" => RGBColor(0x6b, 0x8f, 0xc9),
        "rr-directory" | "hash-directory" | "hash-object" => RGBColor(0xe0, 0x8e, 0x45),
        "jsq" => RGBColor(0x2f, 0xa5, 0xb5),
        "first-fit" => RGBColor(0x2a, 0xa8, 0x6b),
        paper if paper.starts_with("paper") => RGBColor(0xa4, 0x6b, 0xc9),
        _ => RGBColor(0x9a, 0xa5, 0xb5),
    }
}

/// Thousands of dots become two paths: a tenth of the text. Where many fall on one point, the dot is larger.
fn join_dots(svg: &str) -> String {
    let mut text = String::with_capacity(svg.len() / 2);
    let mut dots: BTreeMap<(i32, i32), u32> = BTreeMap::new();
    for line in svg.lines() {
        if let Some(dot) = dot(line) {
            *dots.entry(dot).or_default() += 1;
            continue;
        }
        let dots = std::mem::take(&mut dots);
        text.push_str(&path(dots.iter().filter(|(_, count)| **count < MANY).map(|(dot, _)| *dot), 3, "0.6"));
        text.push_str(&path(dots.iter().filter(|(_, count)| **count >= MANY).map(|(dot, _)| *dot), 8, "1"));
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn dot(line: &str) -> Option<(i32, i32)> {
    let rest = line.strip_prefix("<circle cx=\"")?;
    let (x, rest) = rest.split_once("\" cy=\"")?;
    let (y, rest) = rest.split_once("\" r=\"")?;
    let ours = rest.starts_with(&format!("{DOT_RADIUS}\"")) && rest.contains(&format!("fill=\"{DOT_HEX}\""));
    ours.then_some((x.parse().ok()?, y.parse().ok()?))
}

fn path(dots: impl Iterator<Item = (i32, i32)>, width: u32, opacity: &str) -> String {
    let mut steps = String::new();
    let mut last = (0, 0);
    for dot in dots {
        let _ = write!(steps, "m{} {}h0", dot.0 - last.0, dot.1 - last.1);
        last = dot;
    }
    let looks = format!("stroke-width=\"{width}\" stroke-linecap=\"round\" opacity=\"{opacity}\"");
    match steps.is_empty() {
        true => steps,
        false => format!("<path d=\"{steps}\" fill=\"none\" stroke=\"{DOT_HEX}\" {looks}/>\n"),
    }
}

fn at_half_size(svg: &str, (width, height): (u32, u32)) -> String {
    let drawn = format!("width=\"{width}\" height=\"{height}\"");
    svg.replacen(&drawn, &format!("width=\"{}\" height=\"{}\"", width / 2, height / 2), 1)
}

const COLUMNS: usize = 3;
const WIDTH: u32 = 2400;
const HEAD: u32 = 100;
const HEAD_SIZE: u32 = 48;
/// So many calls on one point are a hot directory.
const MANY: u32 = 4;
pub(crate) const INK: RGBColor = RGBColor(0x1c, 0x24, 0x30);
pub(crate) const FAINT: RGBColor = RGBColor(0x5b, 0x66, 0x77);
pub(crate) const GRID: RGBColor = RGBColor(0xe1, 0xe5, 0xeb);
const CARD: RGBColor = RGBColor(0xff, 0xff, 0xff);
pub(crate) const TITLE_SIZE: u32 = 34;
pub(crate) const LABEL_SIZE: u32 = 27;
/// Dots of this size and colour are joined.
pub(crate) const DOT_RADIUS: i32 = 2;
pub(crate) const DOT: RGBColor = RGBColor(0x3b, 0x7d, 0xd8);
const DOT_HEX: &str = "#3B7DD8";
const SERVERS: [RGBColor; 8] = [
    RGBColor(0x44, 0x77, 0xaa),
    RGBColor(0xee, 0x66, 0x77),
    RGBColor(0x22, 0x99, 0x44),
    RGBColor(0xcc, 0xb0, 0x2c),
    RGBColor(0x4d, 0xb8, 0xe0),
    RGBColor(0xaa, 0x44, 0x99),
    RGBColor(0xee, 0x88, 0x33),
    RGBColor(0x88, 0x88, 0x99),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_become_one_path_and_other_circles_stay() {
        let circle = |x: i32, radius: i32, fill: &str| {
            format!("<circle cx=\"{x}\" cy=\"7\" r=\"{radius}\" opacity=\"1\" fill=\"{fill}\" stroke=\"none\"/>\n")
        };
        let dots = |x: i32, count: u32| circle(x, DOT_RADIUS, DOT_HEX).repeat(count as usize);
        let few = dots(5, 2) + &dots(9, 1) + &dots(20, MANY);
        let joined = join_dots(&format!("<svg>\n{few}{}</svg>\n", circle(1, 8, "#000000")));
        assert!(joined.contains("d=\"m5 7h0m4 0h0\"") && joined.contains("d=\"m20 7h0\""), "{joined}");
        assert_eq!(joined.matches("<circle").count(), 1);
    }

    #[test]
    fn ticks_of_a_logarithmic_axis_show_their_values() {
        for (value, shown) in [(0.0, "0"), (1.0, "1"), (100.0, "100"), (1000.0, "1k"), (3e6, "3M")] {
            assert_eq!(show_log1(log1(value)), shown);
        }
    }
}
