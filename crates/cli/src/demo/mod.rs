//! `midas demo`: a day of a file system in a minute, under static placement, its rivals and MIDAS, in one process that leaves nothing
//! behind.

mod arm;
mod directory;
mod figures;
mod phase;
mod show;
mod site;
mod town;

use crate::failure::Failure;
use crate::nfsd::raise_file_limit;
use crate::signal;
use crate::sim::output::print;
use crate::stage::{Answers, Player};
use arm::Arm;
use clap::Args;
use figures::Figures;
use midas_core::time::Span;
use midas_workload::Request;
use phase::Phase;
use show::{Played, Ticker};
use site::{CAPACITY, Site, broken};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// See it work: a storm on four real NFS servers, static placement against MIDAS and others, with a dashboard
///
/// Starts four embedded metadata servers, two proxies and their witness on free loopback ports and sends the same calls through the
/// proxies once for each policy: calm, a storm on one directory, a job's start, a checkpoint. Prints where the dashboard is, a line a
/// phase, and what clients and servers saw. Needs no privileges and leaves nothing behind.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How long it takes in all, about
    #[arg(long, default_value_t = 50, value_name = "SECONDS")]
    seconds: u64,
    /// What is compared: policies, separated by commas, each with `+cache` behind it or not
    #[arg(long, default_value = Arm::USUAL)]
    policy: String,
    /// One seed is one load
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the dashboard's address and the summary alone
    #[arg(long)]
    headless: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
    /// Afterwards go on with the same load, policy after policy, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Instead: serve this directory through a proxy until Ctrl-C, and say how to mount it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["seconds", "policy", "seed", "headless", "keep"])]
    dir: Option<PathBuf>,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        raise_file_limit();
        if let Some(dir) = &self.dir {
            return directory::serve(dir, self.json, &*signal::stop_or_hangup()?);
        }
        let arms = Arm::parse_all(&self.policy)?;
        let load = Load::new(self.seconds, arms.len(), self.seed)?;
        let stop = signal::stop_or_hangup()?;
        let site = Site::start(self.seed)?;
        if !self.json {
            print(&format!("dashboard: {}\n", site.pages().join(" and ")))?;
        }
        self.compare(&arms, &load, &site, &stop)
    }

    fn compare(&self, arms: &[Arm], load: &Load, site: &Site, stop: &AtomicBool) -> Result<(), Failure> {
        let live = !self.json && !self.headless;
        if live {
            print(&show::opening(load.calls(), self.seed))?;
        }
        site.wait(stop)?;
        let mut scene = Scene { site, clients: site.clients()?, stop, live, round: 0 };
        site.look_around(&mut scene.clients)?;
        let start = Instant::now();
        if live {
            print(&format!("\n{}", show::head()))?;
        }
        let played = arms.iter().map(|arm| scene.play(*arm, load)).collect::<Result<Vec<_>, _>>()?;
        let seconds = start.elapsed().as_secs_f64();
        print(&match self.json {
            true => format!("{}\n", show::report(site, (self.seed, seconds), load.calls(), &played)),
            false => format!("{}{}", if live { "\n" } else { "" }, show::summary(&played)),
        })?;
        if self.keep {
            return self.go_on(&mut scene, arms, load);
        }
        if live {
            print(NEXT)?;
        }
        match played.iter().map(|played| played.total().errors).sum::<u64>() {
            0 => Ok(()),
            errors => Err(Failure::Broken(format!("{errors} calls were not answered as they should have been"))),
        }
    }

    /// The same load again and again, for those who watch.
    fn go_on(&self, scene: &mut Scene<'_>, arms: &[Arm], load: &Load) -> Result<(), Failure> {
        if !self.json {
            let sockets: Vec<String> = scene.site.sockets().iter().map(|path| path.display().to_string()).collect();
            let (pages, sockets) = (scene.site.pages().join(" and "), sockets.join(" and "));
            print(&format!(
                "\nThe load goes on, policy after policy, until Ctrl-C: {pages}\n\
                 For midas status, hot, top, explain: --socket {sockets}\n"
            ))?;
        }
        scene.live = false;
        for arm in arms.iter().cycle() {
            match scene.play(*arm, load) {
                Ok(_) => {}
                Err(Failure::Interrupted) => return Ok(()),
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }
}

/// What every policy gets.
struct Load {
    phases: Vec<(Phase, Vec<Request>)>,
}

impl Load {
    fn new(seconds: u64, arms: usize, seed: u64) -> Result<Self, Failure> {
        let unit = unit(seconds, arms).ok_or_else(|| {
            let least = (1..=SECONDS_MAX).find(|seconds| unit(*seconds, arms).is_some()).unwrap_or(SECONDS_MAX);
            Failure::Usage(format!("--seconds must be in {least}..{SECONDS_MAX} for {arms} policies, got {seconds}"))
        })?;
        let phases = Phase::ALL.map(|phase| (phase, phase.calls(seed, unit, CAPACITY)));
        Ok(Self { phases: phases.to_vec() })
    }

    fn calls(&self) -> usize {
        self.phases.iter().map(|(_, calls)| calls.len()).sum()
    }
}

/// How long the shortest phase lasts, so that all arms together take about so many seconds; none if that is too short to show anything, or
/// too long.
fn unit(seconds: u64, arms: usize) -> Option<Span> {
    let left = seconds as f64 - OPENING - arms as f64 * BETWEEN.as_secs_f64();
    let unit = Span::from_secs_f64(left.max(0.0) / (arms as f64 * UNITS));
    (unit >= UNIT_LEAST && seconds <= SECONDS_MAX).then_some(unit)
}

/// Who plays, and where.
struct Scene<'s> {
    site: &'s Site,
    clients: Vec<Player<'s>>,
    stop: &'s AtomicBool,
    /// Whether every phase is shown.
    live: bool,
    /// Arms that were played.
    round: u32,
}

impl Scene<'_> {
    fn play(&mut self, arm: Arm, load: &Load) -> Result<Played, Failure> {
        self.site.set(arm, self.stop)?;
        self.pause()?;
        let mut phases = Vec::new();
        for (phase, calls) in &load.phases {
            let figures = self.phase(arm, *phase, &phase::anew(calls, self.round % ROUNDS_MAX))?;
            if self.live {
                print(&show::row(arm, *phase, &figures))?;
            }
            phases.push(figures);
        }
        self.round += 1;
        Ok(Played { arm, phases })
    }

    /// Until every call is answered: what one phase leaves at the servers is not the next one's.
    fn phase(&mut self, arm: Arm, phase: Phase, calls: &[Request]) -> Result<Figures, Failure> {
        let Self { site, clients, stop, live, .. } = self;
        let start = Instant::now() + SOON;
        let answers = thread::scope(|scope| {
            let (ended, end) = mpsc::channel::<()>();
            let playing = scope.spawn(move || {
                let _ended = ended;
                together(clients, calls, start, stop)
            });
            let mut ticker = Ticker::new(*live);
            while matches!(end.recv_timeout(show::TICK), Err(RecvTimeoutError::Timeout)) {
                ticker.tick(arm, phase, site);
            }
            playing.join().expect("nobody who plays panics")
        });
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        let answers = answers.map_err(|error| broken(format!("{arm}, {}: {error}", phase.name())))?;
        Ok(Figures::new(calls.len(), answers, self.site.servers(start, Instant::now())))
    }

    /// Between two arms, so that one can see where one ends.
    fn pause(&self) -> Result<(), Failure> {
        let end = Instant::now() + BETWEEN;
        while Instant::now() < end {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted);
            }
            thread::sleep(SOON);
        }
        Ok(())
    }
}

/// Every client's calls, all at the same time.
fn together(clients: &mut [Player<'_>], calls: &[Request], start: Instant, stop: &AtomicBool) -> io::Result<Answers> {
    let play = |(number, player): (usize, &mut Player<'_>)| {
        let its: Vec<Request> = calls.iter().filter(|call| call.client as usize == number).copied().collect();
        player.play(&its, start, start + PATIENCE, stop)
    };
    let busy = |(number, _): &(usize, &mut Player<'_>)| calls.iter().any(|call| call.client as usize == *number);
    thread::scope(|scope| {
        let playing: Vec<_> =
            clients.iter_mut().enumerate().filter(busy).map(|player| scope.spawn(move || play(player))).collect();
        let mut all = Answers::default();
        for one in playing {
            all.add(one.join().expect("a player does not panic")?);
        }
        Ok(all)
    })
}

/// Until servers and proxies stand.
const OPENING: f64 = 2.0;
const BETWEEN: Duration = Duration::from_millis(400);
/// How many units an arm takes on average: seven in which calls come, and what static placement then needs to catch up.
const UNITS: f64 = 8.6;
const UNIT_LEAST: Span = Span::from_millis(150);
/// The longest queue is then well below what servers and proxies take.
const SECONDS_MAX: u64 = 300;
/// Names of created files are of so many rounds; then they begin again, are refused, and no more are kept.
const ROUNDS_MAX: u32 = 1000;
const SOON: Duration = Duration::from_millis(50);
/// For the last answer of a phase.
const PATIENCE: Duration = Duration::from_secs(900);
const NEXT: &str = "
Next, with servers of your own:
  midas check --config midas.toml    what a configuration means (docs/operating.md has every key)
  midas serve --config midas.toml    the proxy; clients mount it instead of a server
And to look further: midas demo --keep (the dashboard, under load), midas demo --dir DIR (mount something), midas bench --help (load),
make live-vs-sim (is the simulator right?), make demo-paper (the paper's evaluation).
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_shared_by_the_policies_and_too_little_is_refused() {
        let unit = |seconds, arms| unit(seconds, arms).map(|unit| (unit.as_secs_f64() * 100.0) as u32);
        assert_eq!(
            (unit(50, 5), unit(20, 5), unit(10, 5), unit(300, 1), unit(301, 5)),
            (Some(106), Some(37), None, Some(3460), None)
        );
        let refused = Load::new(10, 5, 1).map(|load| load.calls());
        assert!(matches!(&refused, Err(Failure::Usage(said)) if said.contains("11..300")), "{refused:?}");
    }

    #[test]
    fn as_many_rounds_as_there_are_names_for() {
        assert!(u64::from(ROUNDS_MAX) * 1_000_000 < u64::from(u32::MAX));
    }
}
