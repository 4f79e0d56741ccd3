//! Small tables and figures for people.

/// Rows below their heads: the first column to the left, figures to the right.
pub(crate) fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let heads: Vec<String> = heads.iter().map(ToString::to_string).collect();
    let all = || std::iter::once(&heads).chain(rows);
    let width = |column: usize| all().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cell = |(column, (text, width)): (usize, (&String, &usize))| match column {
            0 => format!("  {text:width$}"),
            _ => format!("  {text:>width$}"),
        };
        row.iter().zip(&widths).enumerate().map(cell).collect::<String>()
    };
    all().map(line).collect::<Vec<_>>().join("\n")
}

/// Bytes in the largest unit that they fill.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (0..units.len() - 1).take_while(|unit| bytes >> (10 * (unit + 1)) > 0).count();
    match unit {
        0 => format!("{bytes} B"),
        unit => format!("{:.1} {}", bytes as f64 / (1_u64 << (10 * unit)) as f64, units[unit]),
    }
}

/// A share in hundredths; a dash for a share of nothing.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_below_each_other() {
        let rows = [vec!["names".to_owned(), "5".to_owned()], vec!["a".to_owned(), "12345".to_owned()]];
        assert_eq!(table(&["kind", "bytes"], &rows), "  kind   bytes\n  names      5\n  a      12345");
    }

    #[test]
    fn sizes_and_shares_are_short() {
        let cases = [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1 << 20, "1.0 MiB"), (3 << 29, "1.5 GiB")];
        for (bytes, want) in cases {
            assert_eq!(size(bytes), want);
        }
        assert_eq!((percent(Some(0.1234)), percent(None)), ("12.3 %".to_owned(), "-".to_owned()));
    }
}
