//! The report: one page that needs nothing but itself. No script, no font, no picture is loaded, so that it can be mailed and archived.

use super::claims::{Claim, Finding, Subject};
use super::figures::Figure;
use super::setting::{BASELINES, MIDAS, Reading, Study};
use super::tables::{range, sentence, short};
use crate::sim::compare::Cell;
use std::fmt::Write as _;

/// Everything that the page shows.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    pub(crate) command: &'a str,
    pub(crate) study: &'a Study,
    pub(crate) findings: &'a [Finding],
    pub(crate) figures: &'a [Figure],
    /// The file names of the tables.
    pub(crate) tables: &'a [&'a str],
}

/// How a table shows a cell.
type Shown = fn(&Cell) -> String;

impl Page<'_> {
    pub(crate) fn show(&self) -> String {
        let parts = [self.head(), self.short(), self.claims(), self.figures(), self.tables(), self.files()];
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
             content=\"width=device-width, initial-scale=1\">\n<title>MIDAS: the paper's evaluation</title>\n<style>\n{}</style>\n\
             </head>\n<body>\n<main>\n{}</main>\n</body>\n</html>\n",
            include_str!("style.css"),
            parts.join("\n")
        )
    }

    fn head(&self) -> String {
        let setting = &self.study.setting;
        let seeds = match setting.seeds {
            1 => "seed 1".to_owned(),
            seeds => format!("seeds 1 to {seeds}"),
        };
        let (service, load) = self.study.rows.first().map_or(("", 0.0), |row| (row.service.as_str(), row.load));
        let facts = [
            ("Command", format!("<code>{}</code>", escape(self.command))),
            ("Version", format!("midas {}", env!("CARGO_PKG_VERSION"))),
            ("Servers", format!("{}, service time {service}", setting.servers)),
            ("Calls", format!("load {load} where a workload has no rhythm of its own, {} s, {seeds}", setting.seconds)),
            ("Runs", format!("{}, each checked against every invariant", self.study.rows.len())),
        ];
        let facts = facts.map(|(name, value)| format!("<dt>{name}</dt><dd>{value}</dd>\n")).concat();
        format!(
            "<h1>The paper's evaluation, reproduced</h1>\n<p class=\"faint\">What the MIDAS paper claims, what is measured, and \
             under which reading of its words a claim holds. Every verdict is computed from the figures of this run.</p>\n\
             <nav><a href=\"#short\">In short</a><a href=\"#claims\">Claims</a><a href=\"#figures\">Figures</a>\
             <a href=\"#tables\">Tables</a><a href=\"#files\">Files</a></nav>\n<dl>\n{facts}</dl>\n"
        )
    }

    fn short(&self) -> String {
        let mut text = "<h2 id=\"short\">In short</h2>\n<p class=\"faint\">Against which reading of round-robin a claim holds; in brackets, for which \
                        reading of MIDAS.</p>\n<ol>\n"
            .to_owned();
        for claim in Claim::ALL {
            let said = sentence(&of(self.findings, claim));
            let _ = writeln!(text, "<li><strong>{}.</strong> {}</li>", escape(claim.says()), escape(&said));
        }
        text.push_str("</ol>\n");
        if let Some(note) = lowest(self.study) {
            let _ = writeln!(text, "<p>{}</p>", escape(&note));
        }
        text
    }

    fn claims(&self) -> String {
        let mut text = format!(
            "<h2 id=\"claims\">Claims</h2>\n<p>The paper compares <em>round-robin (Lustre)</em> with <em>MIDAS (power of d)</em>. \
             Both can be read in several ways:</p>\n{}{}<p>A cell shows the mean over the workloads and the range.</p>\n",
            readings("Round-robin", &BASELINES),
            readings("MIDAS", &MIDAS)
        );
        for claim in Claim::ALL {
            let (name, says) = (claim.name(), escape(claim.says()));
            let _ = writeln!(text, "<h3 id=\"{name}\">{says}</h3>\n<p class=\"faint\">{}</p>", escape(claim.test()));
            text.push_str(&matrix(claim, &of(self.findings, claim)));
        }
        text
    }

    fn figures(&self) -> String {
        let mut text = "<h2 id=\"figures\">Figures</h2>\n".to_owned();
        for figure in self.figures {
            let _ = writeln!(
                text,
                "<figure id=\"{}\">\n<div class=\"scroll\" tabindex=\"0\">{}</div>\n<figcaption>{}</figcaption>\n</figure>",
                figure.file.trim_end_matches(".svg"),
                inline(figure),
                escape(&figure.caption)
            );
        }
        text
    }

    fn tables(&self) -> String {
        let tables: [(&str, Shown); 5] = [
            ("Mean queue of a server", |cell| short(cell.mean_queue)),
            ("Longest queue of any server", |cell| short(cell.worst_queue)),
            ("Dispersion: CV over servers of the time-averaged queue", |cell| {
                format!("{:.1} %", cell.dispersion * 100.0)
            }),
            ("Mean latency (ms)", |cell| short(cell.mean_ms)),
            ("99th percentile of the latency (ms)", |cell| short(cell.p99_ms)),
        ];
        let mut text = "<h2 id=\"tables\">Tables</h2>\n<p class=\"faint\">Mean over the seeds.</p>\n".to_owned();
        for (title, value) in tables {
            let _ = writeln!(text, "<h3>{title}</h3>");
            text.push_str(&by_workload(self.study, value));
        }
        text
    }

    fn files(&self) -> String {
        let names = self.tables.iter().copied().chain(self.figures.iter().map(|figure| figure.file));
        let links: Vec<String> = names.map(|name| format!("<a href=\"{name}\">{name}</a>")).collect();
        format!("<h2 id=\"files\">Files</h2>\n<p>Beside this page: {}.</p>\n", links.join(", "))
    }
}

/// The findings of one claim.
pub(crate) fn of(findings: &[Finding], claim: Claim) -> Vec<&Finding> {
    findings.iter().filter(|finding| finding.claim == claim).collect()
}

/// Whether anyone has a lower mean queue than one round-robin dispatcher: with constant service times that is the central queue.
pub(crate) fn lowest(study: &Study) -> Option<String> {
    let against = |cell: &Cell| study.cell("rr", &cell.workload).map(|rr| cell.mean_queue / rr.mean_queue);
    let others = study.cells.iter().filter(|cell| cell.policy != "rr");
    let (ratio, cell) = others.filter_map(|cell| Some((against(cell)?, cell))).min_by(|a, b| a.0.total_cmp(&b.0))?;
    let (policy, workload) = (&cell.policy, &cell.workload);
    let verdict = match ratio < 1.0 {
        true => "so somebody does better",
        false => "so nobody does better",
    };
    Some(format!(
        "With constant service times one round-robin dispatcher equals the central queue. The lowest mean queue of any other \
         policy is {ratio:.4} times that ({policy} on {workload}), {verdict}."
    ))
}

fn readings(word: &str, readings: &[Reading]) -> String {
    let line = |reading: &Reading| {
        format!("<tr><th>{}</th><td class=\"text\">{}</td></tr>\n", escape(reading.policy), escape(reading.meaning))
    };
    let lines = readings.iter().map(line).collect::<Vec<_>>().concat();
    scroll(&format!("<tr><th>{word}</th><td class=\"text\"><small>what it may mean</small></td></tr>\n{lines}"))
}

/// Readings of round-robin down, readings of MIDAS across; one line where a claim is about one side.
fn matrix(claim: Claim, findings: &[&Finding]) -> String {
    let (across, down): (&[Reading], Vec<Option<&str>>) = match claim.subject() {
        Subject::Both => (&MIDAS, BASELINES.iter().map(|reading| Some(reading.policy)).collect()),
        Subject::Baseline => (&BASELINES, vec![None]),
        Subject::Midas => (&MIDAS, vec![None]),
    };
    let mut text = format!("<tr><th></th>{}</tr>\n", heads(across.iter().map(|reading| reading.policy)));
    for name in down {
        let row = findings.iter().filter(|finding| name.is_none() || finding.baseline == name);
        let cells: Vec<String> = row.map(|finding| verdict_cell(finding)).collect();
        let against = name.map_or("measured".to_owned(), |name| format!("against {}", escape(name)));
        let _ = writeln!(text, "<tr><th>{against}</th>{}</tr>", cells.concat());
    }
    scroll(&text)
}

fn heads<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("<th>{}</th>", escape(name))).collect::<Vec<_>>().concat()
}

fn verdict_cell(finding: &Finding) -> String {
    let passed = match finding.measured.passed.is_empty() {
        true => "on no workload".to_owned(),
        false => format!("on {}", finding.measured.passed.join(", ")),
    };
    format!(
        "<td class=\"{}\" title=\"{}\">{}<small>{}</small></td>",
        finding.verdict.word(),
        escape(&passed),
        escape(&finding.verdict.show()),
        escape(&range(finding))
    )
}

fn by_workload(study: &Study, value: Shown) -> String {
    let heads = heads(study.setting.workloads.iter().copied());
    let mut text = format!("<tr><th>policy</th>{heads}</tr>\n");
    for policy in &study.setting.policies {
        let cells = study.setting.workloads.iter().map(|workload| {
            let shown = study.cell(policy, workload).map(value).unwrap_or_default();
            format!("<td>{}</td>", escape(&shown))
        });
        let _ = writeln!(text, "<tr><th>{}</th>{}</tr>", escape(policy), cells.collect::<Vec<_>>().concat());
    }
    scroll(&text)
}

fn scroll(rows: &str) -> String {
    format!("<div class=\"scroll\" tabindex=\"0\"><table>\n{rows}</table></div>\n")
}

/// Inside a page an SVG needs no name space, and has a name for those who cannot see it.
fn inline(figure: &Figure) -> String {
    let label = format!("role=\"img\" aria-label=\"{}\"", escape(&figure.title));
    figure.svg.replacen("xmlns=\"http://www.w3.org/2000/svg\"", &label, 1)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
