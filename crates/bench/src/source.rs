//! Which call comes next. Everything is drawn from the seed; the only thing remembered is which of a slot's own files exists.

use crate::action::Action;
use crate::config::{Config, Load, Pace};
use crate::job::Job;
use crate::schedule::{Part, Schedule, Share, setting};
use crate::slots::Script;
use crate::tree::{DIRECTORY, Handle, Name, Tree};
use midas_core::rng::Rng;
use midas_workload::{Request, Setting, Spec};
use std::time::Duration;

/// The calls of one event loop in one slice.
#[derive(Debug)]
pub(crate) struct Source {
    kind: Kind,
    /// The slice's number in the run: part of every new name.
    slice: u32,
    part: Part,
    users: u32,
    /// Whose turn it is.
    turn: u32,
}

#[derive(Debug)]
enum Kind {
    One { action: Action, rng: Rng },
    Stream(Box<Endless>),
}

/// A workload that begins anew when it is over, for closed loops, which have no use for its times.
#[derive(Debug)]
struct Endless {
    spec: Spec,
    setting: Setting,
    share: Share,
}

/// Where a call will be sent from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct From {
    /// The slot's number in the run.
    pub(crate) slot: u32,
    /// The connection's number in the run.
    pub(crate) connection: u32,
}

impl Source {
    pub(crate) fn new(config: &Config, load: &Load, slice: u32, seed: u64, part: Part) -> Self {
        let kind = match load {
            Load::Op(action) => {
                let purpose = u64::from_be_bytes(*b"places..").wrapping_add(u64::from(part.worker));
                Kind::One { action: *action, rng: Rng::for_purpose(seed, purpose) }
            }
            Load::Workload(spec) => {
                let setting = aimed(config, &setting(CLOSED_RATE, CLOSED_LENGTH), seed);
                let share = Share::in_turn(spec, &setting, part);
                Kind::Stream(Box::new(Endless { spec: spec.clone(), share, setting }))
            }
        };
        Self { kind, slice, part, users: config.users, turn: 0 }
    }

    /// The next call; `request` is what a schedule asks for.
    pub(crate) fn next(&mut self, from: From, script: Script, request: Option<Request>, tree: &Tree) -> Job {
        match (&mut self.kind, request) {
            (Kind::Stream(_), Some(request)) => self.requested(&request, tree),
            (Kind::Stream(endless), None) => {
                let request = endless.next();
                self.requested(&request, tree)
            }
            (Kind::One { action, rng }, _) => {
                let action = *action;
                let directory = rng.below(tree.shape.directories as usize) as u32;
                let file = rng.below(tree.shape.files as usize) as u32;
                self.turn = (self.turn + 1) % self.users;
                let client = self.turn * self.part.connections + from.connection;
                let job = Job { action, client, directory, ..Job::IDLE };
                self.one(job, from, script, file, tree)
            }
        }
    }

    /// One procedure over and over.
    fn one(&self, job: Job, from: From, script: Script, file: u32, tree: &Tree) -> Job {
        let object = || tree.file(job.directory, file);
        let made = |letter, count| Name::Made { letter, slice: self.slice, maker: from.slot, count };
        let own = made(b'c', script.count);
        match job.action {
            Action::Null | Action::Readdir | Action::Readdirplus | Action::Fsstat => job,
            Action::Lookup => Job { name: Name::File(file), ..job },
            Action::Missing => Job { name: Name::Made { letter: b'm', slice: 0, maker: 0, count: file }, ..job },
            Action::Scan => Job { name: made(b'm', script.count), ..job },
            Action::Getattr | Action::Access | Action::Setattr | Action::Read | Action::Write | Action::Commit => {
                Job { name: Name::File(file), object: object(), ..job }
            }
            Action::Readlink => Job { name: Name::Link, object: tree.link(job.directory), ..job },
            Action::Create => Job { name: own, guarded: true, ..job },
            Action::Mkdir => Job { name: made(DIRECTORY, script.count), ..job },
            Action::Link => Job { name: made(b'k', script.count), object: object(), ..job },
            // What goes away must have been made: a slot makes its own file first.
            Action::Remove | Action::Rename if !script.exists => {
                Job { action: Action::Create, directory: from.slot, name: own, guarded: true, ..job }
            }
            Action::Remove => Job { directory: from.slot, name: own, ..job },
            Action::Rename => {
                let to = (from.slot, made(b'c', script.count + 1));
                Job { directory: from.slot, name: own, to, ..job }
            }
        }
    }

    /// What a slot's own file is after a call. After a failure nothing is known of it, so another one takes its place.
    pub(crate) fn ended(&self, script: &mut Script, job: &Job, ok: bool) {
        let Kind::One { action, .. } = &self.kind else { return };
        *script = match (action, job.action, ok) {
            (Action::Remove | Action::Rename, Action::Create, true) => Script { exists: true, ..*script },
            (Action::Rename, Action::Rename, true) => Script { count: script.count + 1, exists: true },
            (_, _, true | false) => Script { count: script.count + 1, exists: false },
        };
    }

    fn requested(&self, request: &Request, tree: &Tree) -> Job {
        let action = Action::of(request.op);
        let directory = request.directory;
        let fresh = |letter| Name::Made { letter, slice: self.slice, maker: directory, count: request.file };
        let (name, object) = match action {
            Action::Lookup | Action::Create | Action::Remove | Action::Rename | Action::Mkdir => {
                let letter = if action == Action::Lookup { b'm' } else { b'c' };
                (if request.missing { fresh(letter) } else { Name::File(request.file) }, Handle::NONE)
            }
            // No workload has them: their names are of one procedure's own.
            Action::Missing | Action::Scan => (fresh(b'm'), Handle::NONE),
            Action::Link => (fresh(b'k'), tree.file(directory, request.file)),
            Action::Getattr | Action::Access | Action::Setattr | Action::Read | Action::Write | Action::Commit => {
                (Name::File(request.file), tree.file(directory, request.file))
            }
            Action::Readlink => (Name::Link, tree.link(directory)),
            Action::Readdir | Action::Readdirplus | Action::Fsstat | Action::Null => (Name::None, Handle::NONE),
        };
        let to = request.target.map_or((0, Name::None), |(directory, file)| (directory, Name::File(file)));
        Job { action, client: request.client, directory, name, to, object, guarded: false }
    }

    /// Whether names change hands in this load: then handles are learned, and some failures are natural.
    pub(crate) fn is_workload(&self) -> bool {
        matches!(self.kind, Kind::Stream(_))
    }
}

impl Endless {
    fn next(&mut self) -> Request {
        loop {
            if let Some(request) = self.share.next() {
                return request;
            }
            self.share.again(&self.spec, &self.setting);
        }
    }
}

/// When the calls of one event loop are due in one slice.
pub(crate) fn schedule(config: &Config, load: &Load, pace: Pace, seed: u64, part: Part) -> Schedule {
    let length = config.warmup + config.slice;
    match (pace, load) {
        (Pace::Closed { .. }, _) => Schedule::closed(),
        (Pace::Open { rate, arrivals, .. }, Load::Op(_)) => Schedule::steady(arrivals, rate, length, seed, part),
        (Pace::Open { rate, .. }, Load::Workload(spec)) => {
            Schedule::workload(Share::new(spec, &aimed(config, &setting(rate, length), seed), part))
        }
    }
}

/// The workload's cluster with this run's names and clients.
fn aimed(config: &Config, setting: &Setting, seed: u64) -> Setting {
    Setting {
        directories: config.shape.directories,
        files: config.shape.files,
        write_share: config.write_share,
        clients: config.connections.saturating_mul(config.users),
        seed,
        ..setting.clone()
    }
}

/// In a closed loop a workload's times only say in which order its parts come.
const CLOSED_RATE: f64 = 10_000.0;
const CLOSED_LENGTH: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;
    use crate::tree::Shape;
    use midas_nfs::nfs3::FileHandle;

    fn tree() -> Tree {
        let handle = |byte: u8| Handle::from(FileHandle::new(&[byte]).unwrap());
        let mut tree = Tree::new(Shape { directories: 2, files: 2 }, handle(0));
        tree.directories = vec![handle(1), handle(2)];
        tree.files = (10..14).map(handle).collect();
        tree
    }

    fn source(load: &Load) -> Source {
        let target = Target::parse("host:1").unwrap();
        let mut config = Config::new(target, load.clone(), Pace::Closed { depth: 1 });
        config.shape = tree().shape;
        Source::new(&config, load, 3, 1, Part { worker: 0, workers: 1, connections: 1 })
    }

    #[test]
    fn a_slot_makes_its_file_before_it_removes_or_renames_it() {
        let ok = [true; 5];
        let cases: [(Action, [bool; 5], &str); 3] = [
            (Action::Remove, ok, "create c3-7-0, remove c3-7-0, create c3-7-1, remove c3-7-1, create c3-7-2"),
            (Action::Rename, ok, "create c3-7-0, rename c3-7-0, rename c3-7-1, rename c3-7-2, rename c3-7-3"),
            (
                Action::Rename,
                [true, false, false, true, true],
                "create c3-7-0, rename c3-7-0, create c3-7-1, create c3-7-2, rename c3-7-2",
            ),
        ];
        for (action, outcomes, want) in cases {
            let (mut source, tree, mut script) = (source(&Load::Op(action)), tree(), Script::default());
            let mut calls = Vec::new();
            for ok in outcomes {
                let job = source.next(From { slot: 7, connection: 0 }, script, None, &tree);
                source.ended(&mut script, &job, ok);
                calls.push(format!("{} {}", job.action.name(), String::from_utf8_lossy(job.name.text().bytes())));
            }
            assert_eq!(calls.join(", "), want);
        }
    }

    #[test]
    fn every_operation_becomes_a_call_that_can_be_encoded() {
        let tree = tree();
        for action in Action::ALL {
            let mut source = source(&Load::Op(*action));
            let script = Script { count: 1, exists: true };
            let job = source.next(From { slot: 0, connection: 0 }, script, None, &tree);
            let mut out = Vec::new();
            job.with_call(&tree, &[7; 8], |call| {
                assert_eq!(call.procedure(), action.procedure());
                call.encode(&mut out);
                assert_eq!(midas_nfs::nfs3::Call::decode(call.procedure(), &out).as_ref(), Ok(call));
            });
        }
    }

    #[test]
    fn a_workload_in_a_closed_loop_never_ends_and_stays_inside_the_names() {
        let (mut source, tree) = (source(&Load::Workload(Spec::parse("spotify").unwrap())), tree());
        for _ in 0..10_000 {
            let job = source.next(From { slot: 0, connection: 0 }, Script::default(), None, &tree);
            assert!(job.directory < 2);
        }
    }
}
