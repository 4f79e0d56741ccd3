//! The midas command: one file a subcommand.

mod bench;
mod bypass;
mod cache;
mod check;
mod cluster;
mod completions;
mod control;
mod demo;
mod doctor;
mod drain;
mod explain;
mod failure;
mod help;
mod history;
mod hot;
mod init;
mod invalidate;
mod man;
mod nfsd;
mod notify;
mod progress;
mod ready;
mod serve;
mod set;
mod signal;
mod sim;
mod stage;
mod status;
mod table;
mod top;
mod trace;
mod warm;
mod workload;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// MIDAS takes metadata hotspots off your file servers.
#[derive(Debug, Parser)]
#[command(name = "midas", version, arg_required_else_help = true)]
struct Midas {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Put load on an NFSv3 server or proxy and measure it, or compare several
    Bench(Box<bench::Bench>),
    #[command(subcommand)]
    History(history::History),
    /// Simulate metadata servers behind MIDAS and behind its rivals, on one machine, deterministically
    #[command(subcommand)]
    Sim(Box<sim::Sim>),
    Demo(demo::Options),
    Nfsd(nfsd::Options),
    Init(init::Options),
    Check(check::Options),
    Doctor(doctor::Options),
    Serve(serve::Options),
    Status(status::Options),
    Ready(ready::Options),
    Hot(hot::Options),
    Cluster(cluster::Options),
    Explain(explain::Options),
    Set(set::Options),
    Cache(cache::Options),
    Warm(warm::Options),
    Trace(trace::Options),
    Invalidate(invalidate::Options),
    Drain(drain::Drain),
    Undrain(drain::Undrain),
    Bypass(bypass::Options),
    Top(top::Options),
    Man(man::Options),
    Completions(completions::Options),
}

fn main() -> ExitCode {
    let result = match typed() {
        Ok(Midas { command: Command::Bench(command) }) => command.run(),
        Ok(Midas { command: Command::History(command) }) => command.run(),
        Ok(Midas { command: Command::Sim(command) }) => command.run(),
        Ok(Midas { command: Command::Demo(options) }) => options.run(),
        Ok(Midas { command: Command::Nfsd(options) }) => options.run(),
        Ok(Midas { command: Command::Init(options) }) => options.run(),
        Ok(Midas { command: Command::Check(options) }) => options.run(),
        Ok(Midas { command: Command::Doctor(options) }) => options.run(),
        Ok(Midas { command: Command::Serve(options) }) => options.run(),
        Ok(Midas { command: Command::Status(options) }) => options.run(),
        Ok(Midas { command: Command::Ready(options) }) => options.run(),
        Ok(Midas { command: Command::Hot(options) }) => options.run(),
        Ok(Midas { command: Command::Cluster(options) }) => options.run(),
        Ok(Midas { command: Command::Explain(options) }) => options.run(),
        Ok(Midas { command: Command::Set(options) }) => options.run(),
        Ok(Midas { command: Command::Cache(options) }) => options.run(),
        Ok(Midas { command: Command::Warm(options) }) => options.run(),
        Ok(Midas { command: Command::Trace(options) }) => options.run(),
        Ok(Midas { command: Command::Invalidate(options) }) => options.run(),
        Ok(Midas { command: Command::Drain(options) }) => options.run(),
        Ok(Midas { command: Command::Undrain(options) }) => options.run(),
        Ok(Midas { command: Command::Bypass(options) }) => options.run(),
        Ok(Midas { command: Command::Top(options) }) => options.run(),
        Ok(Midas { command: Command::Man(options) }) => options.run(),
        Ok(Midas { command: Command::Completions(options) }) => options.run(),
        Err(error) => Failure::from_clap(&error, &Midas::command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// What was typed; asked for help, the commands in groups.
fn typed() -> Result<Midas, clap::Error> {
    Midas::from_arg_matches(&help::grouped(Midas::command()).try_get_matches()?)
}
