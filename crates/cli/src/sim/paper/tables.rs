//! The tables as CSV, and the numbers as people read them.

use super::claims::{Claim, Finding};
use super::setting::MIDAS;
use crate::sim::compare::Cell;
use std::fmt::Write as _;

/// Queues: one line a workload and policy.
pub(crate) fn queues_csv(cells: &[Cell]) -> String {
    let mut text = "workload,policy,mean_queue,worst_queue,dispersion\n".to_owned();
    for cell in cells {
        let (mean, worst, dispersion) = (cell.mean_queue, cell.worst_queue, cell.dispersion);
        let _ = writeln!(text, "{},{},{mean:.6},{worst:.3},{dispersion:.6}", cell.workload, cell.policy);
    }
    text
}

/// Latencies: one line a workload and policy.
pub(crate) fn latency_csv(cells: &[Cell]) -> String {
    let mut text = "workload,policy,mean_ms,p50_ms,p99_ms\n".to_owned();
    for cell in cells {
        let (mean, p50, p99) = (cell.mean_ms, cell.p50_ms, cell.p99_ms);
        let _ = writeln!(text, "{},{},{mean:.3},{p50:.3},{p99:.3}", cell.workload, cell.policy);
    }
    text
}

/// Claims: one line a claim and reading.
pub(crate) fn claims_csv(findings: &[Finding]) -> String {
    let mut text = "claim,says,round_robin,midas,low,mean,high,passed,of,verdict,passed_on\n".to_owned();
    for finding in findings {
        let measured = &finding.measured;
        let of = measured.passed.len() + measured.failed.len();
        let _ = writeln!(
            text,
            "{},\"{}\",{},{},{:.6},{:.6},{:.6},{},{of},{},{}",
            finding.claim.name(),
            finding.claim.says(),
            finding.baseline.unwrap_or_default(),
            finding.midas.unwrap_or_default(),
            measured.low,
            measured.mean,
            measured.high,
            measured.passed.len(),
            finding.verdict.word(),
            measured.passed.join(" "),
        );
    }
    text
}

/// A claim's figure: a change, as a factor where it is large, or a share.
pub(crate) fn figure(claim: Claim, value: f64) -> String {
    match claim.is_change() {
        true if value >= 1.0 => format!("x{}", short(value + 1.0)),
        true => format!("{:+.0} %", (value * 100.0).round() + 0.0),
        false => format!("{:.0} %", value * 100.0),
    }
}

/// Three digits or so.
pub(crate) fn short(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "inf".to_owned(),
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Mean over the workloads, and the range.
pub(crate) fn range(finding: &Finding) -> String {
    let show = |value| figure(finding.claim, value);
    let measured = &finding.measured;
    format!("{} ({} .. {})", show(measured.mean), show(measured.low), show(measured.high))
}

/// One sentence: under which readings a claim holds.
pub(crate) fn sentence(findings: &[&Finding]) -> String {
    let chosen = |word: &str| -> Vec<&Finding> {
        findings.iter().copied().filter(|finding| finding.verdict.word() == word).collect()
    };
    let (held, partly, fails) = (chosen("holds"), chosen("partly"), chosen("fails"));
    match (held.len(), partly.len(), fails.len()) {
        (_, 0, 0) => "Holds under every reading.".to_owned(),
        (0, _, 0) => "Holds on some workloads under every reading.".to_owned(),
        (0, 0, _) => "Holds under no reading.".to_owned(),
        (0, _, _) => format!("Holds on some workloads {}; nowhere else.", named(&partly)),
        (_, 0, _) => format!("Holds {}; nowhere else.", named(&held)),
        (_, _, 0) => format!("Holds {}; on some workloads {}.", named(&held), named(&partly)),
        (_, _, _) => format!("Holds {}; on some workloads {}; nowhere else.", named(&held), named(&partly)),
    }
}

/// The readings, by whom MIDAS is compared with: `against rr-directory (all), rr-client (first-fit)`.
fn named(findings: &[&Finding]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for finding in findings {
        let (name, midas) = (finding.baseline.or(finding.midas), finding.midas.filter(|_| finding.baseline.is_some()));
        let name = name.unwrap_or_default();
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, others)) => others.extend(midas),
            None => groups.push((name, midas.into_iter().collect())),
        }
    }
    let compared = groups.iter().any(|(_, midas)| !midas.is_empty());
    let names = groups.into_iter().map(|(name, midas)| match midas.len() {
        0 => name.to_owned(),
        all if all == MIDAS.len() => format!("{name} (all)"),
        _ => format!("{name} ({})", midas.join(", ")),
    });
    let names = names.collect::<Vec<_>>().join(", ");
    if compared { format!("against {names}") } else { format!("for {names}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::paper::claims::{Measured, Verdict};

    fn finding(baseline: Option<&'static str>, midas: Option<&'static str>, verdict: Verdict) -> Finding {
        let measured = Measured {
            low: -0.8,
            mean: -0.234,
            high: 37.6,
            passed: vec!["uniform".into(), "bursts".into()],
            failed: vec!["on-off".into()],
        };
        let claim = if midas.is_some() { Claim::MeanQueue } else { Claim::BaselineDispersion };
        Finding { claim, baseline, midas, measured, verdict }
    }

    #[test]
    fn every_line_of_a_table_has_every_column() {
        let text = claims_csv(&[finding(Some("rr"), Some("paper"), Verdict::Partly { passed: 2, of: 3 })]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "claim,says,round_robin,midas,low,mean,high,passed,of,verdict,passed_on");
        assert_eq!(
            lines[1],
            "mean-queue,\"MIDAS lowers the mean queue by about 23 %\",rr,paper,-0.800000,-0.234000,37.600000,2,3,partly,uniform bursts"
        );
        assert!(Claim::ALL.iter().all(|claim| !claim.says().contains('"')));
    }

    #[test]
    fn changes_are_percent_and_large_ones_are_factors() {
        assert_eq!(range(&finding(Some("rr"), Some("paper"), Verdict::Fails)), "-23 % (-80 % .. x38.6)");
        assert_eq!(figure(Claim::MidasDispersion, 1.31), "131 %");
    }

    #[test]
    fn a_sentence_names_the_readings_under_which_a_claim_holds() {
        let partly = Verdict::Partly { passed: 2, of: 3 };
        let rr = |verdict| finding(Some("rr"), Some("paper"), verdict);
        let client = |verdict| finding(Some("rr-client"), Some("first-fit"), verdict);
        let cases = [
            (vec![rr(Verdict::Holds), client(Verdict::Holds)], "Holds under every reading."),
            (vec![rr(Verdict::Fails), client(Verdict::Fails)], "Holds under no reading."),
            (vec![rr(partly), client(partly)], "Holds on some workloads under every reading."),
            (vec![rr(Verdict::Holds), client(Verdict::Fails)], "Holds against rr (paper); nowhere else."),
            (vec![rr(partly), client(Verdict::Fails)], "Holds on some workloads against rr (paper); nowhere else."),
            (
                vec![rr(partly), client(Verdict::Holds)],
                "Holds against rr-client (first-fit); on some workloads against rr (paper).",
            ),
            (
                vec![finding(Some("rr"), None, Verdict::Holds), finding(Some("random"), None, Verdict::Fails)],
                "Holds for rr; nowhere else.",
            ),
        ];
        for (findings, wanted) in cases {
            assert_eq!(sentence(&findings.iter().collect::<Vec<_>>()), wanted);
        }
    }
}
