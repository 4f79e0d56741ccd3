//! Where figures go: JSON for scripts, CSV for tables, text for people.

use crate::failure::Failure;
use clap::Args;
use midas_core::time::Span;
use midas_sim::report::Row;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Where the figures go.
#[derive(Args, Debug)]
pub(crate) struct Output {
    /// Print one JSON object with one row a seed, and nothing else
    #[arg(long)]
    json: bool,
    /// Write the rows to a CSV file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write rows.csv, rows.json and table.txt into a directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Output {
    /// Makes sure, before any work is done, that the files can be written.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        if let Some(path) = &self.csv {
            ensure_writable(path)?;
        }
        match &self.out {
            Some(directory) => make_directory(directory),
            None => Ok(()),
        }
    }

    /// Writes the files and prints the JSON or the text.
    pub(crate) fn write(&self, rows: &[Row], text: &str) -> Result<(), Failure> {
        let json = json!({ "rows": rows.iter().map(to_json).collect::<Vec<_>>() });
        if let Some(path) = &self.csv {
            save(path, &to_csv(rows))?;
        }
        if let Some(directory) = &self.out {
            save(&directory.join("rows.csv"), &to_csv(rows))?;
            save(&directory.join("rows.json"), &format!("{json}\n"))?;
            save(&directory.join("table.txt"), text)?;
        }
        print(&if self.json { format!("{json}\n") } else { text.to_owned() })
    }
}

/// Makes a directory, or says why not.
pub(crate) fn make_directory(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path).map_err(|error| Failure::io(path, &error))
}

/// Makes sure that a file can be written, and leaves what is in it.
pub(crate) fn ensure_writable(path: &Path) -> Result<(), Failure> {
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).map_err(|error| Failure::io(path, &error))
}

/// Writes a file, or says which one could not be written.
pub(crate) fn save(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| Failure::io(path, &error))
}

/// Prints to stdout; a reader that has gone away is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::Broken(error.to_string())),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Milliseconds with three digits: more than the clock of any client shows.
fn ms(span: Span) -> f64 {
    (span.as_millis_f64() * 1e3).round() / 1e3
}

fn short(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// One row, every column a key.
pub(crate) fn to_json(row: &Row) -> Value {
    json!({
        "policy": row.policy,
        "workload": row.workload,
        "service": row.service,
        "servers": row.servers,
        "proxies": row.proxies,
        "load": row.load,
        "seed": row.seed,
        "calls": row.calls,
        "mean_queue": short(row.mean_queue),
        "worst_queue": row.worst_queue,
        "dispersion": short(row.dispersion),
        "latency_mean_ms": ms(row.latency.mean),
        "latency_p50_ms": ms(row.latency.p50),
        "latency_p99_ms": ms(row.latency.p99),
        "latency_p999_ms": ms(row.latency.p999),
        "steered_share": short(row.steered_share),
        "bad_move_share": short(row.bad_move_share),
        "bad_move_share_reads": short(row.bad_move_share_reads),
        "servers_per_directory": short(row.servers_per_directory),
        "cache_hit_share": short(row.cache_hit_share),
        "stale_share": short(row.stale_share),
        "failed_share": short(row.failed_share),
        "shares_received": short(row.shares_received),
        "mds_requests": short(row.mds_requests),
        "revokes": short(row.revokes),
        "digest": format!("{:016x}", row.digest),
    })
}

/// The same columns in the same order, from the same place.
pub(crate) fn to_csv(rows: &[Row]) -> String {
    let mut text = Row::COLUMNS.join(",") + "\n";
    for row in rows {
        let values = to_json(row);
        let cells = Row::COLUMNS.map(|column| match &values[column] {
            Value::String(text) if text.contains(',') => format!("\"{text}\""),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        let _ = writeln!(text, "{}", cells.join(","));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use midas_sim::config::Config;
    use midas_sim::policy::Contender;
    use midas_workload::Spec;

    #[test]
    fn every_column_of_the_csv_is_a_key_of_the_json() {
        let mut config =
            Config::new(Contender::parse("paper:key=object,pin=free").unwrap(), Spec::parse("uniform").unwrap());
        config.duration = Span::from_secs(5);
        let row = midas_sim::run(&config).unwrap().row;
        let values = to_json(&row);
        assert_eq!(values.as_object().unwrap().len(), Row::COLUMNS.len());
        assert!(Row::COLUMNS.iter().all(|column| values.get(column).is_some()));
        let csv = to_csv(&[row]);
        assert!(
            csv.lines().nth(1).unwrap().starts_with("\"paper:key=object,pin=free\",uniform,const:100ms,8,1,0.7,1,")
        );
    }
}
