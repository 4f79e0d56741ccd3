//! Times as people write them.

use alloc::{format, string::String};
use midas_core::time::Span;

/// A time such as `100ms`, `0.5ms`, `20us`, `5s`, `2m`; or one line that says what is possible.
pub fn parse_span(text: &str) -> Result<Span, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => {
            return Err(format!(
                "'{text}' is not a time; write a number and one of ns, us, ms, s, m, h, such as 100ms"
            ));
        }
    };
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Span::from_secs_f64(number * factor)),
        Ok(_) | Err(_) => {
            Err(format!("'{text}' is not a time; write a number and one of ns, us, ms, s, m, h, such as 100ms"))
        }
    }
}

/// The shortest exact form.
pub fn show_span(span: Span) -> String {
    let nanos = span.as_nanos();
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
    let exact = units.into_iter().find(|(_, unit)| nanos.is_multiple_of(*unit));
    let (name, unit) = exact.unwrap_or(("ns", 1));
    format!("{}{name}", nanos / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_back() {
        let cases = [
            ("100ms", "100ms"),
            ("0.5ms", "500us"),
            ("20us", "20us"),
            ("300s", "300s"),
            ("5m", "300s"),
            ("7ns", "7ns"),
        ];
        for (text, want) in cases {
            assert_eq!(show_span(parse_span(text).unwrap()), want);
        }
        for text in ["", "5", "ms", "1.2.3s", "-1s", "1 s", "5d"] {
            assert!(parse_span(text).is_err(), "{text}");
        }
    }
}
