//! `midas history`: whether what clients saw can have been.

use crate::failure::Failure;
use crate::progress::Progress;
use crate::sim::output::print;
use crate::sim::table::Table;
use clap::{Args, Subcommand, ValueEnum};
use midas_history::{ABSENT, Attributes, BadHistory, Blocks, Mode, Name, Place, Record, Report, SILENT, check, short};
use midas_workload::units::parse_span;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Look into histories that `midas bench coherence` wrote
#[derive(Debug, Subcommand)]
pub(crate) enum History {
    Check(Check),
    Show(Show),
}

impl History {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Check(check) => check.run(),
            Self::Show(show) => show.run(),
        }
    }
}

/// Print the calls of a history that had to do with an object or a name, with the attributes that they saw
///
/// For looking into what `midas history check` found: it names registers, calls and times as they are given here.
#[derive(Args, Debug)]
#[command(after_long_help = SHOW_EXAMPLES)]
pub(crate) struct Show {
    /// The files of one run
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Only calls that name, found or saw this object, such as #9e4728
    #[arg(long, value_name = "OBJECT")]
    object: Vec<String>,
    /// Only calls on this name, such as d0/n1, and listings of its directory
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
    /// Only calls without an answer
    #[arg(long)]
    unanswered: bool,
    /// Only calls that had not ended at this time, in microseconds
    #[arg(long, value_name = "US", default_value_t = 0)]
    from: u64,
    /// Only calls that had begun by this time, in microseconds
    #[arg(long, value_name = "US", default_value_t = u64::MAX)]
    to: u64,
    /// No more than so many
    #[arg(long, value_name = "CALLS", default_value_t = 1000)]
    limit: usize,
}

impl Show {
    fn run(self) -> Result<(), Failure> {
        let bad = |bad: BadHistory| Failure::Usage(bad.to_string());
        let mut shown = 0;
        for record in Blocks::open(&self.files).map_err(bad)? {
            let record = record.map_err(bad)?;
            if !self.wants(&record) {
                continue;
            }
            print(&self.line(&record))?;
            shown += 1;
            if shown == self.limit {
                return print("(more: --limit)\n");
            }
        }
        Ok(())
    }

    fn wants(&self, record: &Record) -> bool {
        let during = record.end / 1000 >= self.from && record.start / 1000 <= self.to;
        let any = self.object.is_empty() && self.name.is_empty();
        during
            && (!self.unanswered || record.status == SILENT)
            && (any || self.of_object(record) || self.of_name(record))
    }

    fn of_object(&self, record: &Record) -> bool {
        let listed = record.names.iter().map(|(_, object)| *object);
        let seen = record.seen.iter().map(|seen| seen.object);
        let all = [record.object, record.found, record.victim].into_iter().chain(listed).chain(seen);
        all.filter(|object| *object != ABSENT).any(|object| self.object.contains(&short(object)))
    }

    fn of_name(&self, record: &Record) -> bool {
        let whole = |place: &Place| self.name.contains(&place.to_string());
        let listed = |dir: u32, name: Name| whole(&Place { dir, name: Some(name) });
        [record.at, record.to].iter().flatten().any(whole)
            || record.at.is_some_and(|at| record.names.iter().any(|(name, _)| listed(at.dir, *name)))
    }

    fn line(&self, record: &Record) -> String {
        let mut line = format!("{record}\n");
        let wanted = |object: u64| self.object.is_empty() || self.object.contains(&short(object));
        for seen in record.seen.iter().filter(|seen| wanted(seen.object)) {
            let Attributes { object, size, mtime, ctime, nlink, mode, .. } = *seen;
            let _ = writeln!(
                line,
                "    saw {}: size {size}, mode {mode:o}, {nlink} links, mtime {mtime}, ctime {ctime}",
                short(object)
            );
        }
        line
    }
}

/// Find what no client may see: old attributes, names that are gone, changes that were lost or happened twice
///
/// Every name and every attribute of a file is a register. With --mode strict or lease (the same promise) each of them must be
/// linearizable: there is an order of all calls, true to the times at which they began and ended, in which every call saw what it saw. The
/// check is exact: what it flags is impossible, what it does not flag has such an order, but for registers that it had to give up, which are counted (docs/consistency.md has the model, and what NFS allows beyond it).
/// With --mode ttl every value that was read must have been current at most --bound before the call began.
///
/// Calls without an answer may have been executed at any later time, or not. Several files are one history if one run wrote them.
///
/// Exit codes: 0 nothing found, 1 violations, 2 the file cannot be read or is not whole.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(crate) struct Check {
    /// The files of one run
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// What was promised
    #[arg(long, value_enum, default_value_t = Promise::Lease)]
    mode: Promise,
    /// With --mode ttl: how old an answer may be
    #[arg(long, value_name = "TIME", required_if_eq("mode", "ttl"))]
    bound: Option<String>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Promise {
    /// Nothing is answered from a cache
    Strict,
    /// Caches are told before anything changes
    Lease,
    /// Answers may be old, up to --bound
    Ttl,
}

impl Check {
    fn run(self) -> Result<(), Failure> {
        let mode = self.mode()?;
        let mut progress = None;
        let result = check(&self.files, mode, &mut |done, total| {
            progress.get_or_insert_with(|| Progress::new("checked", total as usize)).at(done as usize, "calls");
        });
        drop(progress);
        let report = result.map_err(|bad| Failure::Usage(bad.to_string()))?;
        match self.json {
            true => print(&format!("{}\n", serde_json::json!(report)))?,
            false => print(&text(&report))?,
        }
        match report.violations {
            0 => Ok(()),
            1 => Err(Failure::Broken("1 violation".to_owned())),
            many => Err(Failure::Broken(format!("{many} violations"))),
        }
    }

    fn mode(&self) -> Result<Mode, Failure> {
        match (self.mode, &self.bound) {
            (Promise::Strict | Promise::Lease, None) => Ok(Mode::Linearizable),
            (Promise::Strict | Promise::Lease, Some(_)) => {
                Err(Failure::Usage("--bound goes with --mode ttl".to_owned()))
            }
            (Promise::Ttl, None) => Err(Failure::Usage("--mode ttl needs --bound, such as --bound 5s".to_owned())),
            (Promise::Ttl, Some(text)) => {
                let span = parse_span(text).map_err(|error| Failure::Usage(format!("--bound: {error}")))?;
                Ok(Mode::Bounded(span.as_nanos()))
            }
        }
    }
}

fn text(report: &Report) -> String {
    let mut table = Table::new(&["call", "times", "unanswered"]);
    for count in &report.kinds {
        table.row(vec![count.kind.to_owned(), count.calls.to_string(), count.silent.to_string()]);
    }
    let mut text = table.show(1);
    let _ = writeln!(
        text,
        "{} calls in {:.1} s, at most {} at once, {} changes in doubt; {} objects, {} registers, {} steps",
        report.calls,
        report.seconds,
        report.concurrency,
        report.unknown,
        report.objects,
        report.registers,
        report.steps
    );
    if report.undecided > 0 {
        let _ = writeln!(
            text,
            "UNDECIDED: {} times too many orders were possible to look at all of them",
            report.undecided
        );
    }
    if report.presumed > 0 {
        let _ = writeln!(
            text,
            "{} changes that were sent again were taken for done because what they would have left was there",
            report.presumed
        );
    }
    if report.torn > 0 {
        let _ = writeln!(text, "{} times of change were read by a server while they changed, in halves", report.torn);
    }
    if report.forgotten > 0 {
        let _ = writeln!(text, "{} attributes of objects that were long out of use were forgotten", report.forgotten);
    }
    for violation in &report.shown {
        let _ = write!(text, "{violation}");
    }
    let rest = report.violations - report.shown.len() as u64;
    if rest > 0 {
        let _ = writeln!(text, "... and {rest} more");
    }
    if report.violations == 0 {
        text += "no violation\n";
    }
    text
}

const EXAMPLES: &str = "\
Examples:
  midas bench coherence 10.0.0.9:2049/export --history calls && midas history check calls

  Two generators at the same time on one machine, through two proxies:
    midas history check calls-a calls-b --mode lease

  An export in ttl mode, whose answers may be five seconds old:
    midas history check calls --mode ttl --bound 5s

  In a script:
    midas history check calls --json | jq '.violations, .shown[0]'";

const SHOW_EXAMPLES: &str = "\
Examples:
  midas history show calls --name d0/n1 --from 84730700000 --to 84730800000

  An object's whole life:
    midas history show calls --object '#9e4728' --limit 100000";
