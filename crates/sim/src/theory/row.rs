//! One comparison: what theory says, what was measured, and whether the two agree. Every verdict is made here and nowhere else.

use super::interval::Estimate;
use std::fmt;

/// Comparisons of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The heading.
    pub title: &'static str,
    /// What is measured, what it is compared with, and when a row holds.
    pub note: &'static str,
    /// The comparisons.
    pub rows: Vec<TheoryRow>,
}

/// One comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct TheoryRow {
    /// The heading of its table.
    pub table: &'static str,
    /// What was measured.
    pub name: String,
    /// Where.
    pub parameter: String,
    /// What theory says.
    pub closed_form: f64,
    /// What was measured.
    pub measured: f64,
    /// Half the width of the 95 % confidence interval around it; 0 where nothing is left to chance.
    pub half_width: f64,
    /// Measured less closed form, relative to the closed form; the plain difference where that is 0.
    pub relative_error: f64,
    /// The paper's asymptotic form, where it has one.
    pub asymptotic: Option<f64>,
    /// Whether they agree.
    pub holds: bool,
}

/// How closely a measurement must agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Tolerance {
    /// Error and half width are each at most this share of the closed form.
    Share(f64),
    /// Error and half width are each at most this much.
    Within(f64),
    /// No difference at all.
    Exact,
}

/// What is compared.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) table: &'static str,
    pub(super) name: String,
    pub(super) parameter: String,
}

impl Tolerance {
    /// NaN never agrees.
    fn agrees(self, closed_form: f64, measured: Estimate) -> bool {
        let error = libm::fabs(measured.mean - closed_form);
        let both = |most: f64| error <= most && measured.half_width <= most;
        match self {
            Self::Share(share) => both(share * libm::fabs(closed_form)),
            Self::Within(most) => both(most),
            Self::Exact => both(0.0),
        }
    }
}

impl TheoryRow {
    pub(super) fn judge(subject: Subject, closed_form: f64, measured: Estimate, tolerance: Tolerance) -> Self {
        let difference = measured.mean - closed_form;
        let scale = if closed_form == 0.0 { 1.0 } else { libm::fabs(closed_form) };
        Self {
            table: subject.table,
            name: subject.name,
            parameter: subject.parameter,
            closed_form,
            measured: measured.mean,
            half_width: measured.half_width,
            relative_error: difference / scale,
            asymptotic: None,
            holds: tolerance.agrees(closed_form, measured),
        }
    }

    pub(super) fn beside(self, asymptotic: f64) -> Self {
        Self { asymptotic: Some(asymptotic), ..self }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |text: fn(&TheoryRow) -> &str| self.rows.iter().map(|row| text(row).len()).max().unwrap_or(0);
        let (names, parameters) = (width(|row| &row.name), width(|row| &row.parameter));
        let asymptotic = self.rows.iter().any(|row| row.asymptotic.is_some());
        writeln!(f, "{}\n{}", self.title, self.note)?;
        let head = if asymptotic { "  asymptotic" } else { "" };
        writeln!(
            f,
            "  {:names$}  {:parameters$}  {:>11} {:>11} {:>9} {:>9}  holds{head}",
            "", "", "closed form", "measured", "+-", "error"
        )?;
        for row in &self.rows {
            write!(
                f,
                "  {:names$}  {:parameters$}  {:>11.4} {:>11.4}",
                row.name, row.parameter, row.closed_form, row.measured
            )?;
            write!(f, " {:>9.4} {:>+8.2}%", row.half_width, row.relative_error * 100.0)?;
            let verdict = if row.holds { "  yes" } else { "   NO" };
            match row.asymptotic {
                Some(form) => writeln!(f, "  {verdict}  {form:>10.4}")?,
                None => writeln!(f, "  {verdict}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_can_be_no() {
        let cases = [
            (Tolerance::Share(0.02), 10.0, 10.1, 0.1, true),
            (Tolerance::Share(0.02), 10.0, 10.3, 0.1, false),
            (Tolerance::Share(0.02), 10.0, 10.0, 0.3, false),
            (Tolerance::Share(0.02), 10.0, f64::NAN, 0.1, false),
            (Tolerance::Within(1.0), 4.0, 4.9, 0.2, true),
            (Tolerance::Within(1.0), 4.0, 5.1, 0.2, false),
            (Tolerance::Exact, 2.0, 2.0, 0.0, true),
            (Tolerance::Exact, 2.0, 2.000_001, 0.0, false),
        ];
        for (tolerance, closed_form, mean, half_width, want) in cases {
            let got = tolerance.agrees(closed_form, Estimate { mean, half_width });
            assert_eq!(got, want, "{tolerance:?}: {closed_form} and {mean} +- {half_width}");
        }
    }
}
