//! The paper's claims, and whether the figures of this very run bear them out. Paper: P19.
//!
//! Nothing here knows a result: a claim is a test of one workload and a rule of how many workloads must pass. A claim may hold under one
//! reading of the paper's words and fail under another, so each is judged under all of them.

use super::setting::{BASELINES, MIDAS, Study};
use crate::sim::compare::Cell;

/// What the paper says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    MeanQueue,
    WorstQueue,
    LowerEverywhere,
    Hotspots,
    Fairness,
    BaselineDispersion,
    MidasDispersion,
    PerfectUniformity,
}

/// One claim under one reading of both sides.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) claim: Claim,
    /// The reading of round-robin; none where the claim is about MIDAS alone.
    pub(crate) baseline: Option<&'static str>,
    /// The reading of MIDAS; none where the claim is about round-robin alone.
    pub(crate) midas: Option<&'static str>,
    pub(crate) measured: Measured,
    pub(crate) verdict: Verdict,
}

/// A figure over the workloads that a claim speaks of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) low: f64,
    pub(crate) mean: f64,
    pub(crate) high: f64,
    pub(crate) passed: Vec<String>,
    pub(crate) failed: Vec<String>,
}

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Holds,
    Partly { passed: usize, of: usize },
    Fails,
}

/// How many workloads must pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Every,
    Any,
    /// The mean over the workloads passes the claim's own test.
    Mean,
}

/// Whom a claim speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Both,
    Baseline,
    Midas,
}

impl Claim {
    pub(crate) const ALL: [Self; 8] = [
        Self::MeanQueue,
        Self::WorstQueue,
        Self::LowerEverywhere,
        Self::Hotspots,
        Self::Fairness,
        Self::BaselineDispersion,
        Self::MidasDispersion,
        Self::PerfectUniformity,
    ];

    /// The name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::MeanQueue => "mean-queue",
            Self::WorstQueue => "worst-queue",
            Self::LowerEverywhere => "lower-everywhere",
            Self::Hotspots => "hotspots",
            Self::Fairness => "fairness",
            Self::BaselineDispersion => "dispersion-round-robin",
            Self::MidasDispersion => "dispersion-midas",
            Self::PerfectUniformity => "zero-dispersion",
        }
    }

    /// What the paper claims.
    pub(crate) fn says(self) -> &'static str {
        match self {
            Self::MeanQueue => "MIDAS lowers the mean queue by about 23 %",
            Self::WorstQueue => "MIDAS shortens the worst queue by 50 to 80 %",
            Self::LowerEverywhere => "MIDAS has lower queues on all workloads",
            Self::Hotspots => "Under bursty and periodic traffic round-robin forms hotspots, and MIDAS mitigates them",
            Self::Fairness => "MIDAS spreads calls more fairly",
            Self::BaselineDispersion => "Round-robin's dispersion lies between 20 and 88 %",
            Self::MidasDispersion => "MIDAS' dispersion stays below about 43 %",
            Self::PerfectUniformity => "At best, MIDAS has no dispersion at all",
        }
    }

    /// What is measured, and when a workload counts.
    pub(crate) fn test(self) -> &'static str {
        match self {
            Self::MeanQueue => {
                "Change of the mean queue. Holds if the mean change over the workloads is -18 % or better; else the \
                 workloads that reach that by themselves are counted."
            }
            Self::WorstQueue => "Change of the longest queue of any server. A workload counts at -50 % or better.",
            Self::LowerEverywhere => "Change of the mean queue. A workload counts if it falls by more than 0.5 %.",
            Self::Hotspots => {
                "Change of the longest queue, on the workloads that are bursty or periodic. A workload counts if \
                 round-robin's dispersion is at least 20 % there and MIDAS has both a lower one and a shorter worst queue."
            }
            Self::Fairness => {
                "Change of the dispersion. A workload counts if it falls. Dispersion is relative to the mean queue: where \
                 MIDAS makes queues vanish it may rise although nothing is worse."
            }
            Self::BaselineDispersion => "Dispersion of round-robin. A workload counts if it lies in 20..88 %.",
            Self::MidasDispersion => "Dispersion of MIDAS. A workload counts if it is at most 43 %.",
            Self::PerfectUniformity => "Dispersion of MIDAS. Holds if it is below 0.5 % on any workload.",
        }
    }

    pub(crate) fn subject(self) -> Subject {
        match self {
            Self::MeanQueue | Self::WorstQueue | Self::LowerEverywhere | Self::Hotspots | Self::Fairness => {
                Subject::Both
            }
            Self::BaselineDispersion => Subject::Baseline,
            Self::MidasDispersion | Self::PerfectUniformity => Subject::Midas,
        }
    }

    /// Whether the figure is a change rather than a share.
    pub(crate) fn is_change(self) -> bool {
        self.subject() == Subject::Both
    }

    fn rule(self) -> Rule {
        match self {
            Self::MeanQueue => Rule::Mean,
            Self::PerfectUniformity => Rule::Any,
            Self::WorstQueue
            | Self::LowerEverywhere
            | Self::Hotspots
            | Self::Fairness
            | Self::BaselineDispersion
            | Self::MidasDispersion => Rule::Every,
        }
    }

    /// Whether the claim speaks of a workload.
    fn concerns(self, workload: &str) -> bool {
        self != Self::Hotspots || BURSTY_OR_PERIODIC.contains(&workload)
    }

    fn figure(self, baseline: &Cell, midas: &Cell) -> f64 {
        match self {
            Self::MeanQueue | Self::LowerEverywhere => change(baseline.mean_queue, midas.mean_queue),
            Self::WorstQueue | Self::Hotspots => change(baseline.worst_queue, midas.worst_queue),
            Self::Fairness => change(baseline.dispersion, midas.dispersion),
            Self::BaselineDispersion => baseline.dispersion,
            Self::MidasDispersion | Self::PerfectUniformity => midas.dispersion,
        }
    }

    fn passes(self, figure: f64, baseline: &Cell, midas: &Cell) -> bool {
        match self {
            Self::MeanQueue => figure <= ABOUT_23,
            Self::WorstQueue => figure <= -0.50,
            Self::LowerEverywhere => figure < -NOISE,
            Self::Hotspots => {
                figure < 0.0 && baseline.dispersion >= DISPERSION.0 && midas.dispersion < baseline.dispersion
            }
            Self::Fairness => figure < 0.0,
            Self::BaselineDispersion => (DISPERSION.0..=DISPERSION.1).contains(&figure),
            Self::MidasDispersion => figure <= 0.43,
            Self::PerfectUniformity => figure < NOISE,
        }
    }
}

/// Every claim under every reading.
pub(crate) fn judge(study: &Study) -> Vec<Finding> {
    let mut findings = Vec::new();
    for claim in Claim::ALL {
        match claim.subject() {
            Subject::Both => BASELINES.iter().for_each(|baseline| {
                findings
                    .extend(MIDAS.iter().map(|midas| finding(study, claim, Some(baseline.policy), Some(midas.policy))));
            }),
            Subject::Baseline => {
                findings.extend(BASELINES.iter().map(|reading| finding(study, claim, Some(reading.policy), None)));
            }
            Subject::Midas => {
                findings.extend(MIDAS.iter().map(|reading| finding(study, claim, None, Some(reading.policy))));
            }
        }
    }
    findings
}

fn finding(study: &Study, claim: Claim, baseline: Option<&'static str>, midas: Option<&'static str>) -> Finding {
    // A claim about one side only looks at that side.
    let (left, right) = (baseline.or(midas).unwrap_or_default(), midas.or(baseline).unwrap_or_default());
    let pairs = study
        .setting
        .workloads
        .iter()
        .filter_map(|workload| Some((study.cell(left, workload)?, study.cell(right, workload)?)));
    let measured = measure(claim, pairs);
    let verdict = verdict(claim, &measured);
    Finding { claim, baseline, midas, measured, verdict }
}

fn measure<'a>(claim: Claim, pairs: impl Iterator<Item = (&'a Cell, &'a Cell)>) -> Measured {
    let (low, mean, high) = (f64::INFINITY, 0.0, f64::NEG_INFINITY);
    let mut measured = Measured { low, mean, high, passed: Vec::new(), failed: Vec::new() };
    for (baseline, midas) in pairs.filter(|(baseline, _)| claim.concerns(&baseline.workload)) {
        let figure = claim.figure(baseline, midas);
        measured.low = measured.low.min(figure);
        measured.high = measured.high.max(figure);
        measured.mean += figure;
        let side = match claim.passes(figure, baseline, midas) {
            true => &mut measured.passed,
            false => &mut measured.failed,
        };
        side.push(baseline.workload.clone());
    }
    measured.mean /= measured.count().max(1) as f64;
    measured
}

fn verdict(claim: Claim, measured: &Measured) -> Verdict {
    let (passed, of) = (measured.passed.len(), measured.count());
    let holds = match claim.rule() {
        Rule::Every => passed == of,
        Rule::Any => passed > 0,
        Rule::Mean => measured.mean <= ABOUT_23,
    };
    match (holds, passed) {
        _ if of == 0 => Verdict::Fails,
        (true, _) => Verdict::Holds,
        (false, 0) => Verdict::Fails,
        (false, _) => Verdict::Partly { passed, of },
    }
}

impl Measured {
    fn count(&self) -> usize {
        self.passed.len() + self.failed.len()
    }
}

impl Verdict {
    pub(crate) fn show(self) -> String {
        match self {
            Self::Holds => "holds".to_owned(),
            Self::Partly { passed, of } => format!("holds on {passed} of {of} workloads"),
            Self::Fails => "does not hold".to_owned(),
        }
    }

    /// The word that styles and scripts use.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Partly { .. } => "partly",
            Self::Fails => "fails",
        }
    }
}

/// Relative change; from nothing to something is without bound.
fn change(from: f64, to: f64) -> f64 {
    match (from > 0.0, to > 0.0) {
        (true, _) => to / from - 1.0,
        (false, true) => f64::INFINITY,
        (false, false) => 0.0,
    }
}

/// The paper says 'approximately 23 %': five points less will do.
const ABOUT_23: f64 = -0.18;
/// Less than this is not told from nothing.
const NOISE: f64 = 0.005;
/// Round-robin's dispersion, as the paper has it.
const DISPERSION: (f64, f64) = (0.20, 0.88);
const BURSTY_OR_PERIODIC: [&str; 7] =
    ["bursts", "flash:10", "flash:100", "checkpoint", "diurnal", "on-off", "shifting"];

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(workload: &str, mean_queue: f64, worst_queue: f64, dispersion: f64) -> Cell {
        Cell {
            policy: "any".into(),
            workload: workload.into(),
            mean_queue,
            worst_queue,
            dispersion,
            mean_ms: 0.0,
            p50_ms: 0.0,
            p99_ms: 0.0,
            steered: 0.0,
            bad: 0.0,
            bad_reads: 0.0,
            spread: 0.0,
        }
    }

    /// Round-robin has a mean queue of 10, a worst one of 100 and this dispersion; MIDAS has those of the table.
    fn judged(claim: Claim, dispersion: f64, midas: &[(f64, f64, f64)]) -> (Measured, Verdict) {
        let workloads = ["bursts", "diurnal", "on-off"];
        let pairs: Vec<(Cell, Cell)> = midas
            .iter()
            .zip(workloads)
            .map(|((mean, worst, own), name)| (cell(name, 10.0, 100.0, dispersion), cell(name, *mean, *worst, *own)))
            .collect();
        let measured = measure(claim, pairs.iter().map(|(baseline, midas)| (baseline, midas)));
        let verdict = verdict(claim, &measured);
        (measured, verdict)
    }

    #[test]
    fn a_verdict_follows_from_the_figures_alone() {
        let partly = |passed| Verdict::Partly { passed, of: 3 };
        let calm = [(10.0, 100.0, 0.5); 3];
        let better = [(7.0, 40.0, 0.1); 3];
        let mixed = [(7.0, 40.0, 0.1), (10.0, 100.0, 0.5), (10.0, 100.0, 0.5)];
        let worse = [(20.0, 300.0, 2.0); 3];
        let cases = [
            (Claim::MeanQueue, [Verdict::Fails, Verdict::Holds, partly(1), Verdict::Fails]),
            (Claim::WorstQueue, [Verdict::Fails, Verdict::Holds, partly(1), Verdict::Fails]),
            (Claim::LowerEverywhere, [Verdict::Fails, Verdict::Holds, partly(1), Verdict::Fails]),
            (Claim::Hotspots, [Verdict::Fails, Verdict::Holds, partly(1), Verdict::Fails]),
            (Claim::Fairness, [Verdict::Fails, Verdict::Holds, partly(1), Verdict::Fails]),
            (Claim::BaselineDispersion, [Verdict::Holds; 4]),
            (Claim::MidasDispersion, [Verdict::Fails, Verdict::Holds, partly(1), Verdict::Fails]),
            (Claim::PerfectUniformity, [Verdict::Fails; 4]),
        ];
        for (claim, wanted) in cases {
            for (midas, wanted) in [calm, better, mixed, worse].iter().zip(wanted) {
                assert_eq!(judged(claim, 0.5, midas).1, wanted, "{} {midas:?}", claim.name());
            }
        }
    }

    #[test]
    fn the_mean_claim_looks_at_the_mean_over_workloads() {
        let (measured, verdict) = judged(Claim::MeanQueue, 0.5, &[(1.0, 1.0, 0.1), (10.0, 1.0, 0.1), (10.5, 1.0, 0.1)]);
        assert_eq!(verdict, Verdict::Holds);
        assert!((measured.mean + 0.2833).abs() < 1e-3 && (measured.low + 0.9).abs() < 1e-9, "{measured:?}");
        assert_eq!((measured.passed.len(), measured.failed.len()), (1, 2));
    }

    #[test]
    fn round_robin_without_hotspots_leaves_nothing_to_mitigate() {
        let better = [(1.0, 10.0, 0.01); 3];
        assert_eq!(judged(Claim::Hotspots, 0.19, &better).1, Verdict::Fails);
        assert_eq!(judged(Claim::Hotspots, 0.21, &better).1, Verdict::Holds);
        assert_eq!(judged(Claim::BaselineDispersion, 0.19, &better).1, Verdict::Fails);
        assert_eq!(judged(Claim::BaselineDispersion, 0.89, &better).1, Verdict::Fails);
    }

    #[test]
    fn one_workload_without_dispersion_is_enough_for_the_best_case() {
        let mixed = [(1.0, 10.0, 0.001), (1.0, 10.0, 0.3), (1.0, 10.0, 0.3)];
        assert_eq!(judged(Claim::PerfectUniformity, 0.5, &mixed).1, Verdict::Holds);
    }

    #[test]
    fn hotspots_are_judged_on_bursty_and_periodic_traffic_only() {
        let uniform = (cell("uniform", 10.0, 100.0, 0.5), cell("uniform", 1.0, 10.0, 0.1));
        let measured = measure(Claim::Hotspots, [(&uniform.0, &uniform.1)].into_iter());
        assert_eq!((measured.count(), verdict(Claim::Hotspots, &measured)), (0, Verdict::Fails));
    }

    #[test]
    fn from_nothing_to_something_is_no_small_change() {
        for (from, to, wanted) in [(2.0, 1.0, -0.5), (0.0, 0.0, 0.0), (0.0, 1.0, f64::INFINITY), (1.0, 0.0, -1.0)] {
            assert_eq!(change(from, to), wanted);
        }
    }
}
