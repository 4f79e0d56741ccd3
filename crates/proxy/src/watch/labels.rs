//! Which job a client works for, as the site says: a file or a command that names addresses.
//!
//! Read on a thread of its own, under limits of size and time. What cannot be read leaves the labels as they were, and is said once.

use super::printable;
use crate::config;
use crate::event::Shared;
use crate::keeper::pause;
use crate::log;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Jobs by client.
#[derive(Debug, Default)]
pub(crate) struct Labels(RwLock<HashMap<IpAddr, String>>);

impl Labels {
    /// The job of this client, where the site says so.
    pub(crate) fn job_of(&self, client: IpAddr) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&client).cloned()
    }

    fn set(&self, jobs: HashMap<IpAddr, String>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = jobs;
    }
}

/// Reads labels until the daemon ends. Where file and command both name a client, the file has the last word.
pub(crate) fn run(shared: &Shared, config: &config::Watch) {
    let (mut seen, mut next) = (None, Instant::now());
    let (mut by_file, mut by_command) = (Source::new("jobs_file"), Source::new("jobs_command"));
    while config.jobs_file.is_some() || config.jobs_command.is_some() {
        let file = config.jobs_file.as_deref().map_or(Ok(None), |file| changed(file, &mut seen));
        let mut news = by_file.take(file);
        if let Some(command) = config.jobs_command.as_deref().filter(|_| Instant::now() >= next) {
            next = Instant::now() + crate::clock::duration(config.jobs_every);
            let said = said_by(command, &[], COMMAND_PATIENCE, &shared.stop);
            if shared.stop.load(Relaxed) {
                return;
            }
            news |= by_command.take(said.map(Some));
        }
        if news {
            let mut jobs = by_command.jobs.clone();
            jobs.extend(by_file.jobs.clone());
            shared.watch.labels.set(jobs);
        }
        if !pause(shared, LOOK) {
            return;
        }
    }
}

/// Where labels come from, and what it said last.
struct Source {
    key: &'static str,
    jobs: HashMap<IpAddr, String>,
    failing: bool,
}

impl Source {
    fn new(key: &'static str) -> Self {
        Self { key, jobs: HashMap::new(), failing: false }
    }

    /// Takes what was read, if anything new was; whether it was. What is wrong is said once, until it is right again.
    fn take(&mut self, read: io::Result<Option<String>>) -> bool {
        match read.and_then(|text| text.map(|text| parse(&text)).transpose()) {
            Ok(jobs) => {
                let Some(jobs) = jobs else { return false };
                self.jobs = jobs;
                if std::mem::take(&mut self.failing) {
                    log::info("jobs can be read again", &[("key", &self.key)]);
                }
                true
            }
            Err(why) => {
                if !std::mem::replace(&mut self.failing, true) {
                    let facts: &log::Facts<'_> = &[("key", &self.key), ("why", &why)];
                    log::warn("jobs cannot be read: clients keep those that they have", facts);
                }
                false
            }
        }
    }
}

/// The text of a file, if it is another than before.
fn changed(file: &Path, seen: &mut Option<(SystemTime, u64)>) -> io::Result<Option<String>> {
    // Whatever waits for somebody at its other end is not waited for.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let open = OpenOptions::new().read(true).custom_flags(flags).open(file)?;
    let about = open.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let now = (about.modified()?, about.len());
    if *seen == Some(now) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    open.take(TEXT_MOST + 1).read_to_end(&mut bytes)?;
    let text = text(bytes)?;
    *seen = Some(now);
    Ok(Some(text))
}

/// What a command writes, in time and before the daemon ends; it and whatever it started end with it.
pub(crate) fn said_by(command: &str, told: &[(&str, &str)], most: Duration, stop: &AtomicBool) -> io::Result<String> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .envs(told.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    let patience = Patience { until: Instant::now() + most, most, stop };
    let said = child.stdout.take().map_or_else(|| Ok(Vec::new()), |out| read_all(out, &patience));
    let said = said.and_then(|said| wait(&child, &patience).map(|()| said));
    let status = end(&mut child);
    let said = said?;
    match status?.success() {
        true => text(said),
        false => Err(io::Error::other("the command ended with an error")),
    }
}

fn read_all(mut out: ChildStdout, patience: &Patience<'_>) -> io::Result<Vec<u8>> {
    rustix::io::ioctl_fionbio(&out, true)?;
    let (mut said, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match out.read(&mut part) {
            Ok(0) => return Ok(said),
            Ok(count) => said.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => patience.step()?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if said.len() as u64 > TEXT_MOST {
            return Err(too_long());
        }
    }
}

/// Until it has exited; it is left to be reaped, so that nothing else can have its number.
fn wait(child: &Child, patience: &Patience<'_>) -> io::Result<()> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while waitid(WaitId::Pid(Pid::from_child(child)), options)?.is_none() {
        patience.step()?;
    }
    Ok(())
}

/// How long a command is waited for.
struct Patience<'s> {
    until: Instant,
    most: Duration,
    stop: &'s AtomicBool,
}

impl Patience<'_> {
    fn step(&self) -> io::Result<()> {
        if self.stop.load(Relaxed) {
            return Err(io::Error::other("the daemon ends"));
        }
        if Instant::now() >= self.until {
            return Err(io::Error::new(ErrorKind::TimedOut, format!("no end after {} s", self.most.as_secs())));
        }
        thread::sleep(STEP);
        Ok(())
    }
}

/// Ends it and whatever it left behind in its group.
fn end(child: &mut Child) -> io::Result<ExitStatus> {
    // All of them may have ended meanwhile.
    let _gone = kill_process_group(Pid::from_child(child), Signal::KILL);
    child.wait()
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    match bytes.len() as u64 > TEXT_MOST {
        true => Err(too_long()),
        false => String::from_utf8(bytes).map_err(|_| io::Error::other("not UTF-8")),
    }
}

fn too_long() -> io::Error {
    io::Error::other(format!("more than {} MiB", TEXT_MOST >> 20))
}

/// Lines of an address and a job. Of the rest only empty ones and those that begin with `#` are no mistake.
fn parse(text: &str) -> io::Result<HashMap<IpAddr, String>> {
    let mut jobs = HashMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| io::Error::other(format!("line {}: {why}", index + 1));
        let (address, job) = line.split_once(char::is_whitespace).ok_or_else(|| wrong("an address and a job"))?;
        let address: IpAddr = address.parse().map_err(|_| wrong("no address"))?;
        if jobs.len() >= LABELS_MAX {
            return Err(wrong(&format!("more than {LABELS_MAX} clients")));
        }
        let job: String = printable(job.trim().as_bytes()).chars().take(JOB_MOST).collect();
        jobs.insert(address.to_canonical(), job);
    }
    Ok(jobs)
}

/// A file is looked at so often, and whether it is time for the command.
const LOOK: Duration = Duration::from_secs(1);
/// How long a command may take, and how often it is looked at.
const COMMAND_PATIENCE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(20);
/// Bytes of a file or of what a command says, clients in it, letters of a job.
const TEXT_MOST: u64 = 8 << 20;
const LABELS_MAX: usize = 65_536;
const JOB_MOST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::{CWD, Mode, mkfifoat};
    use std::fs;

    #[test]
    fn lines_name_a_client_and_its_job() {
        let jobs =
            parse("# made by squeue\n10.0.0.1 4711\n\n  ::ffff:10.0.0.2\t4712 (train)  \nfd00::1 x\x1b[2J\n").unwrap();
        let job = |address: &str| jobs.get(&address.parse::<IpAddr>().unwrap()).map(String::as_str);
        assert_eq!(
            (job("10.0.0.1"), job("10.0.0.2"), job("fd00::1")),
            (Some("4711"), Some("4712 (train)"), Some("x\\u{1b}[2J"))
        );
        assert_eq!(jobs.len(), 3);
    }

    #[test]
    fn a_line_that_is_no_label_is_named() {
        let line = |at: usize| format!("10.{}.{}.{} j", at >> 16, at >> 8 & 255, at & 255);
        let many = (0..=LABELS_MAX).map(line).collect::<Vec<_>>().join("\n");
        let cases = [
            ("10.0.0.1 a\nnode7 4711\n", "line 2: no address"),
            ("10.0.0.1\n", "line 1: an address and a job"),
            (many.as_str(), "line 65537: more than 65536 clients"),
        ];
        for (text, want) in cases {
            assert_eq!(parse(text).unwrap_err().to_string(), want);
        }
    }

    #[test]
    fn what_a_command_says_is_taken_if_it_ends_well() {
        let said = |command| said_by(command, &[], COMMAND_PATIENCE, &AtomicBool::new(false));
        assert_eq!(said("echo 10.0.0.1 $((40 + 2)); echo noise >&2").unwrap(), "10.0.0.1 42\n");
        assert_eq!(said("echo 10.0.0.1 x; exit 3").unwrap_err().to_string(), "the command ended with an error");
        assert_eq!(said("head -c 9000000 /dev/zero").unwrap_err().to_string(), "more than 8 MiB");
    }

    #[test]
    fn a_command_that_does_not_end_is_ended_with_whatever_it_started() {
        let start = Instant::now();
        let mut child = Command::new("/bin/sh")
            .args(["-c", "sleep 600 & sleep 600"])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let out = child.stdout.take().unwrap();
        let most = Duration::from_millis(100);
        let patience = Patience { until: start + most, most, stop: &AtomicBool::new(false) };
        assert_eq!(read_all(out, &patience).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(wait(&child, &patience).unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(!end(&mut child).unwrap().success());
    }

    #[test]
    fn what_a_command_leaves_behind_is_ended_too() {
        let pipe = std::env::temp_dir().join(format!("midas-jobs-left-{}", std::process::id()));
        mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let ours = OpenOptions::new().read(true).custom_flags(flags).open(&pipe).unwrap();
        let command = format!("exec 3>{}; sleep 600 >/dev/null & echo 10.0.0.1 a", pipe.display());
        assert_eq!(said_by(&command, &[], COMMAND_PATIENCE, &AtomicBool::new(false)).unwrap(), "10.0.0.1 a\n");
        let mut watched = [PollFd::new(&ours, PollFlags::IN)];
        let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
        assert_eq!(poll(&mut watched, Some(&patience)).unwrap(), 1, "it still holds its end");
        assert!(watched[0].revents().contains(PollFlags::HUP));
        fs::remove_file(&pipe).unwrap();
    }

    #[test]
    fn a_command_ends_when_the_daemon_does() {
        let start = Instant::now();
        for command in ["sleep 600", "exec >&-; sleep 600"] {
            let why = said_by(command, &[], COMMAND_PATIENCE, &AtomicBool::new(true)).unwrap_err();
            assert_eq!(why.to_string(), "the daemon ends", "{command}");
        }
        assert!(start.elapsed() < COMMAND_PATIENCE, "it took {:?}", start.elapsed());
    }

    #[test]
    fn what_cannot_be_read_leaves_the_labels_as_they_were() {
        let mut source = Source::new("jobs_file");
        let mut take = |read: io::Result<Option<String>>| (source.take(read), source.jobs.len(), source.failing);
        assert_eq!(take(Ok(Some("10.0.0.1 a".to_owned()))), (true, 1, false));
        assert_eq!(take(Ok(None)), (false, 1, false), "it did not change");
        assert_eq!(take(Err(io::Error::other("gone"))), (false, 1, true));
        assert_eq!(take(Ok(Some("node7 a".to_owned()))), (false, 1, true));
        assert_eq!(take(Ok(Some(String::new()))), (true, 0, false));
    }

    #[test]
    fn a_file_is_read_again_when_it_changed() {
        let file = std::env::temp_dir().join(format!("midas-jobs-{}", std::process::id()));
        let mut seen = None;
        assert!(changed(&file, &mut seen).is_err());
        fs::write(&file, "10.0.0.1 a\n").unwrap();
        assert_eq!(changed(&file, &mut seen).unwrap().as_deref(), Some("10.0.0.1 a\n"));
        assert_eq!(changed(&file, &mut seen).unwrap(), None);
        fs::write(&file, "10.0.0.1 another\n").unwrap();
        assert_eq!(changed(&file, &mut seen).unwrap().as_deref(), Some("10.0.0.1 another\n"));
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let pipe = std::env::temp_dir().join(format!("midas-jobs-pipe-{}", std::process::id()));
        mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        for file in [pipe.as_path(), Path::new("/dev/zero"), Path::new("/")] {
            assert_eq!(changed(file, &mut None).unwrap_err().to_string(), "not a regular file", "{}", file.display());
        }
        fs::remove_file(&pipe).unwrap();
    }
}
