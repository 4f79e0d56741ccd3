//! `midas sim scenarios`: every scenario file, many seeds, all checkers.

use super::batch::run_all;
use super::options::Options;
use super::output::print;
use super::table::Table;
use crate::failure::Failure;
use crate::progress::Progress;
use clap::Args;
use midas_sim::report::Run;
use std::path::{Path, PathBuf};

/// Run every scenario file over many seeds with all checkers.
///
/// A scenario is a TOML file whose keys are the long options of `midas sim run`. A broken invariant ends the command with the seed that
/// shows it.
#[derive(Args, Debug)]
pub(crate) struct Scenarios {
    /// The directory that holds the files
    #[arg(long, default_value = "scenarios")]
    dir: PathBuf,
    /// How many seeds
    #[arg(long, default_value_t = 32)]
    seeds: u32,
    /// Policies, separated by commas
    #[arg(long, default_value = "paper,first-fit")]
    policy: String,
}

impl Scenarios {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let started = std::time::Instant::now();
        let files = files(&self.dir)?;
        let mut table = Table::new(&["scenario", "runs", "calls", "worst queue", "hits", "stale", "failed"]);
        let mut progress = Progress::new("scenario", files.len());
        let mut runs_total = 0;
        for path in &files {
            let options = read(path)?.with(&self.policy, self.seeds);
            let configs = options.configs().map_err(|failure| named(path, failure))?;
            let runs =
                run_all(&configs, &mut Progress::new("simulating", configs.len())).map_err(|f| named(path, f))?;
            runs_total += runs.len();
            table.row(line(path, &runs));
            progress.step(&path.display().to_string());
        }
        drop(progress);
        let seconds = started.elapsed().as_secs_f64();
        print(&table.show(1))?;
        print(&format!("{runs_total} runs in {seconds:.1} s, no invariant broken\n"))
    }
}

fn line(path: &Path, runs: &[Run]) -> Vec<String> {
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let mean = |value: &dyn Fn(&Run) -> f64| runs.iter().map(value).sum::<f64>() / runs.len() as f64;
    vec![
        name,
        runs.len().to_string(),
        runs.iter().map(|run| run.row.calls).sum::<u64>().to_string(),
        runs.iter().map(|run| run.row.worst_queue).max().unwrap_or(0).to_string(),
        format!("{:.3}", mean(&|run| run.row.cache_hit_share)),
        format!("{:.6}", mean(&|run| run.row.stale_share)),
        format!("{:.4}", mean(&|run| run.row.failed_share)),
    ]
}

/// The scenario files, in the order of their names.
fn files(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(dir).map_err(|error| Failure::Usage(format!("{}: {error}", dir.display())))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    match files.is_empty() {
        true => Err(Failure::Usage(format!("{} holds no scenario (a .toml file)", dir.display()))),
        false => Ok(files),
    }
}

fn read(path: &Path) -> Result<Options, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::io(path, &error))?;
    toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        Failure::Usage(format!("{}:{line}: {}", path.display(), error.message().replace('\n', " ")))
    })
}

fn named(path: &Path, failure: Failure) -> Failure {
    match failure {
        Failure::Usage(text) => Failure::Usage(format!("{}: {text}", path.display())),
        Failure::Broken(text) => Failure::Broken(format!("{}: {text}", path.display())),
        Failure::Unanswered(text) => Failure::Unanswered(format!("{}: {text}", path.display())),
        Failure::Interrupted => Failure::Interrupted,
    }
}
