//! `midas sim paper`: the paper's evaluation, reproduced and judged. Paper: P19.

mod claims;
mod figures;
mod html;
mod setting;
mod tables;

use crate::failure::Failure;
use crate::sim::output::{ensure_writable, make_directory, print, save, to_csv, to_json};
use crate::sim::table::Table;
use claims::{Claim, Finding, Subject, Verdict};
use clap::Args;
use serde_json::{Value, json};
use setting::{BASELINES, MIDAS, Setting, Study};
use std::path::{Path, PathBuf};

/// Reproduce the paper's evaluation: its figures, its tables, its claims against what is measured.
///
/// Writes report.html (one page that needs nothing else), the figures as SVG and the tables as CSV. The paper leaves open what its
/// 'round-robin' and its 'MIDAS' are, so every claim is judged under every reading.
#[derive(Args, Debug)]
pub(crate) struct Paper {
    /// Where the report goes; the directory is made
    #[arg(long, value_name = "DIR", default_value = "out/paper")]
    out: PathBuf,
    /// 100 s and 2 seeds instead of 300 s and 5
    #[arg(long)]
    quick: bool,
    /// How many seeds
    #[arg(long, value_name = "N")]
    seeds: Option<u32>,
    /// Metadata servers (1..1024)
    #[arg(long, value_name = "M", default_value_t = 8)]
    servers: u32,
    /// Print one JSON object with the claims and one row a seed, and nothing else
    #[arg(long)]
    json: bool,
}

impl Paper {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let setting = Setting::new(self.servers, self.seeds, self.quick);
        setting.configs()?;
        self.make_place()?;
        let study = setting.study()?;
        let findings = claims::judge(&study);
        write(&self.out, &self.command(), &study, &findings)?;
        match self.json {
            true => print(&format!("{}\n", object(&study, &findings))),
            false => print(&summary(&study, &findings, &self.out)),
        }
    }

    /// Before the work, so that nobody waits for a report that cannot be written. An old report stays until there is a new one.
    fn make_place(&self) -> Result<(), Failure> {
        make_directory(&self.out)?;
        ensure_writable(&self.out.join("report.html"))
    }

    /// What must be typed to get the same figures.
    fn command(&self) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        let seeds = self.seeds.map_or_else(String::new, |seeds| format!(" --seeds {seeds}"));
        format!("midas sim paper{quick}{seeds} --servers {}", self.servers)
    }
}

fn write(out: &Path, command: &str, study: &Study, findings: &[Finding]) -> Result<(), Failure> {
    let figures = figures::draw(study)?;
    let tables = [
        ("queues.csv", tables::queues_csv(&study.cells)),
        ("latency.csv", tables::latency_csv(&study.cells)),
        ("claims.csv", tables::claims_csv(findings)),
        ("rows.csv", to_csv(&study.rows)),
    ];
    let names = tables.each_ref().map(|(name, _)| *name);
    let page = html::Page { command, study, findings, figures: &figures, tables: &names };
    for (name, text) in &tables {
        save(&out.join(name), text)?;
    }
    for figure in &figures {
        save(&out.join(figure.file), &figure.svg)?;
    }
    save(&out.join("report.html"), &page.show())
}

/// One line a claim and reading of MIDAS; readings of round-robin across.
fn summary(study: &Study, findings: &[Finding], out: &Path) -> String {
    let mut headings = vec!["claim", "midas"];
    headings.extend(BASELINES.iter().map(|reading| reading.policy));
    let mut table = Table::new(&headings);
    for claim in Claim::ALL.into_iter().filter(|claim| claim.subject() != Subject::Midas) {
        let readings: Vec<Option<&str>> = match claim.subject() {
            Subject::Both => MIDAS.iter().map(|reading| Some(reading.policy)).collect(),
            Subject::Baseline | Subject::Midas => vec![None],
        };
        for midas in readings {
            let row = findings.iter().filter(|finding| finding.claim == claim && finding.midas == midas);
            let mut cells = vec![claim.name().to_owned(), midas.unwrap_or("-").to_owned()];
            cells.extend(row.map(brief));
            table.row(cells);
        }
    }
    let mut alone = Table::new(&["claim", "midas", "measured"]);
    for finding in findings.iter().filter(|finding| finding.claim.subject() == Subject::Midas) {
        let midas = finding.midas.unwrap_or_default().to_owned();
        alone.row(vec![finding.claim.name().to_owned(), midas, brief(finding)]);
    }
    let said =
        Claim::ALL.map(|claim| format!("- {}. {}\n", claim.says(), tables::sentence(&html::of(findings, claim))));
    let note = html::lowest(study).map_or_else(String::new, |note| note + "\n");
    format!(
        "mean over {} workloads; yes, no, or the workloads on which a claim holds\n{}\n{}\nIn brackets, for which reading of MIDAS:\n{}{note}\nThe report: {}\n",
        study.setting.workloads.len(),
        table.show(2),
        alone.show(2),
        said.concat(),
        out.join("report.html").display()
    )
}

fn brief(finding: &Finding) -> String {
    let verdict = match finding.verdict {
        Verdict::Holds => "yes".to_owned(),
        Verdict::Partly { passed, of } => format!("{passed}/{of}"),
        Verdict::Fails => "no".to_owned(),
    };
    format!("{} {verdict:>5}", tables::figure(finding.claim, finding.measured.mean))
}

fn object(study: &Study, findings: &[Finding]) -> Value {
    let claims: Vec<Value> = findings
        .iter()
        .map(|finding| {
            let measured = &finding.measured;
            json!({
                "claim": finding.claim.name(),
                "says": finding.claim.says(),
                "round_robin": finding.baseline,
                "midas": finding.midas,
                "low": measured.low,
                "mean": measured.mean,
                "high": measured.high,
                "passed_on": measured.passed,
                "failed_on": measured.failed,
                "verdict": finding.verdict.word(),
            })
        })
        .collect();
    json!({ "claims": claims, "rows": study.rows.iter().map(to_json).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds of simulated time: enough for every part of the report, not for its verdicts.
    fn small() -> (Study, Vec<Finding>) {
        let setting = Setting {
            seconds: 12,
            seeds: 2,
            workloads: vec!["uniform", "bursts", "shifting"],
            ..Setting::new(4, None, true)
        };
        let study = setting.study().unwrap();
        let findings = claims::judge(&study);
        (study, findings)
    }

    fn page(study: &Study, findings: &[Finding]) -> (String, Vec<figures::Figure>) {
        let figures = figures::draw(study).unwrap();
        let page = html::Page { command: "midas <&>", study, findings, figures: &figures, tables: &["rows.csv"] };
        (page.show(), figures)
    }

    #[test]
    fn the_report_holds_every_claim_figure_and_table() {
        let (study, findings) = small();
        let pairs = BASELINES.len() * MIDAS.len();
        assert_eq!(findings.len(), 5 * pairs + BASELINES.len() + 2 * MIDAS.len());
        let (text, figures) = page(&study, &findings);
        assert_eq!(text.matches("<svg").count(), figures.len());
        assert_eq!(text.matches("<td class=\"").count() - BASELINES.len() - MIDAS.len() - 2, findings.len());
        for claim in Claim::ALL {
            assert!(text.contains(&format!("<h3 id=\"{}\">", claim.name())), "{}", claim.name());
        }
        for wanted in
            ["figure-1-traffic", "figure-2-round-robin", "figure-3-midas", "figure-4-first-fit", "latency", "queues"]
        {
            assert!(text.contains(&format!("<figure id=\"{wanted}\">")), "{wanted}");
        }
        assert!(text.contains("midas &lt;&amp;&gt;") && text.contains("href=\"rows.csv\""));
    }

    #[test]
    fn the_page_loads_nothing() {
        let (study, findings) = small();
        let (text, _) = page(&study, &findings);
        for outside in ["http:", "https:", "src=", "<script", "<link", "@import", "url("] {
            assert!(!text.contains(outside), "the page holds {outside}");
        }
    }

    #[test]
    fn every_figure_draws_its_data_and_names_its_axes() {
        let (study, _) = small();
        for figure in figures::draw(&study).unwrap() {
            assert!(figure.svg.starts_with("<svg width=\"1200\"") && figure.svg.trim_end().ends_with("</svg>"));
            let axes = [figure.svg.contains("(s)"), figure.svg.contains("(ms)"), figure.svg.contains("calls in queue")];
            assert!(axes.contains(&true), "{}", figure.file);
            let drawn = |workload: &&str| figure.svg.contains(*workload) || figure.file == "before-after.svg";
            assert!(study.setting.workloads.iter().all(drawn), "{}", figure.file);
        }
    }

    #[test]
    fn tables_have_a_line_for_everything() {
        let (study, findings) = small();
        let cells = study.setting.workloads.len() * study.setting.policies.len();
        let cases = [
            (tables::queues_csv(&study.cells), cells, "workload,policy,mean_queue,worst_queue,dispersion"),
            (tables::latency_csv(&study.cells), cells, "workload,policy,mean_ms,p50_ms,p99_ms"),
            (to_csv(&study.rows), cells * 2, "policy,workload,service"),
        ];
        for (text, lines, columns) in cases {
            assert_eq!(text.lines().count(), lines + 1);
            assert!(text.starts_with(columns));
        }
        let object = object(&study, &findings);
        assert_eq!(object["claims"].as_array().unwrap().len(), findings.len());
        assert_eq!(object["rows"].as_array().unwrap().len(), study.rows.len());
        assert!(summary(&study, &findings, Path::new("there")).ends_with("The report: there/report.html\n"));
    }

    #[test]
    fn what_is_drawn_over_time_is_what_is_measured() {
        let (study, _) = small();
        let run = study.trace("paper", "bursts").unwrap();
        let row =
            study.rows.iter().find(|row| (row.policy.as_str(), row.workload.as_str()) == ("paper", "bursts")).unwrap();
        assert_eq!(run.row, *row);
        assert!(run.queues.iter().flatten().max().unwrap() <= &row.worst_queue);
        assert_eq!(study.trace("rr", "bursts").unwrap().arrivals, run.arrivals);
    }
}
