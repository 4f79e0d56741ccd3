//! How long a server answers with what was no longer true when something was changed through another.
//!
//! Each server gets a directory; all others look at it first, so that they know (and may keep) what was there. Then something is changed
//! through its server: attributes, a name that is new, a name that is gone. The others are asked until they agree, all at once, so that
//! the whole takes as long as the slowest.

use super::Trouble;
use super::crew::{Crew, FILE_MODE, Kind, mode};
use super::seen::{getattr, handle, lookup};
use midas_net::{Client, ClientError};
use midas_nfs::nfs3::{Call, Reply};
use std::thread;
use std::time::{Duration, Instant};

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Staleness {
    /// Every server that changed something, and every other that was asked about it.
    pub pairs: Vec<Pair>,
}

/// One server's view of another's changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Through whom it was changed.
    pub from: usize,
    /// Who was asked.
    pub to: usize,
    /// How long it was wrong: not at all is zero; none if it was still wrong after [`Staleness::BOUND`].
    pub after: Option<Duration>,
}

impl Staleness {
    /// Longer than any server is known to keep attributes by default: Ganesha 60 s, the kernel's client (behind a re-export) 60 s.
    pub const BOUND: Duration = Duration::from_secs(65);

    /// The pair that was wrong for longest.
    pub fn worst(&self) -> Option<Pair> {
        self.pairs.iter().copied().max_by_key(|pair| pair.after.unwrap_or(Duration::MAX))
    }
}

/// What is changed in one server's directory.
struct Scene<'a> {
    hand: usize,
    dir: &'a [u8],
    names: [String; 3],
    file: Vec<u8>,
    changed: Instant,
}

/// Measures between the servers that have a directory and all others.
pub(super) fn measure(crew: &mut Crew<'_>, places: &[(usize, Vec<u8>)]) -> Result<Staleness, Trouble> {
    let mut found = Staleness::default();
    for round in 0..ROUNDS {
        let mut scenes = Vec::new();
        for (hand, dir) in places {
            scenes.push(Scene::set(crew, round, *hand, dir).map_err(|error| Trouble::of("making files", &error))?);
        }
        for scene in &scenes {
            scene.show(crew);
        }
        for scene in &mut scenes {
            scene.change(crew).map_err(|error| Trouble::of("changing files", &error))?;
        }
        found.pairs = watch(crew, &scenes)?;
        if found.worst().is_some_and(|worst| worst.after != Some(Duration::ZERO)) {
            break;
        }
    }
    Ok(found)
}

impl<'a> Scene<'a> {
    fn set(crew: &mut Crew<'_>, round: usize, hand: usize, dir: &'a [u8]) -> Result<Self, ClientError> {
        let names = ["changed", "gone", "new"].map(|name| format!("{name}{round}"));
        let (file, _) = crew.make(hand, dir, names[0].as_bytes(), Kind::File)?;
        crew.make(hand, dir, names[1].as_bytes(), Kind::File)?;
        Ok(Self { hand, dir, names, file, changed: Instant::now() })
    }

    /// Lets everyone else look. What they answer does not count yet.
    fn show(&self, crew: &mut Crew<'_>) {
        for other in (0..crew.len()).filter(|other| *other != self.hand) {
            let client = crew.client(other);
            let _known = getattr(client, self.dir);
            let _agreed = self.agrees(client);
        }
    }

    fn change(&mut self, crew: &mut Crew<'_>) -> Result<(), ClientError> {
        let object = handle(&self.file)?;
        let call = Call::Setattr { object, new_attributes: mode(MODE_AFTER), guard: None };
        match crew.client(self.hand).nfs(&call)? {
            Reply::Setattr(Ok(_)) => {}
            failed => return Err(ClientError::Status(failed.status())),
        }
        crew.remove(self.hand, self.dir, self.names[1].as_bytes())?;
        crew.make(self.hand, self.dir, self.names[2].as_bytes(), Kind::File)?;
        self.changed = Instant::now();
        Ok(())
    }

    /// Whether this server knows of everything that was changed.
    fn agrees(&self, client: &mut Client) -> bool {
        let mut there = |name: &str| lookup(client, self.dir, name.as_bytes()).map(|found| found.is_some());
        let [_, gone, new] = &self.names;
        // All three are asked, whatever the first says: before the change, so that the server knows them.
        let (gone, new) = (there(gone), there(new));
        let changed = getattr(client, &self.file).map(|attributes| attributes.mode & 0o777 == MODE_AFTER);
        matches!((gone, new, changed), (Ok(false), Ok(true), Ok(true)))
    }
}

/// Asks until all agree or the bound is reached.
fn watch(crew: &mut Crew<'_>, scenes: &[Scene<'_>]) -> Result<Vec<Pair>, Trouble> {
    let others =
        |scene: usize| (0..crew.len()).filter(move |hand| *hand != scenes[scene].hand).map(move |to| (scene, to));
    let mut waiting: Vec<(usize, usize)> = (0..scenes.len()).flat_map(others).collect();
    let (mut pairs, begun) = (Vec::new(), Instant::now());
    for round in 0_u32.. {
        waiting.retain(|&(scene, to)| {
            let scene = &scenes[scene];
            let agrees = scene.agrees(crew.client(to));
            let late = begun.elapsed() > Staleness::BOUND;
            if agrees || late {
                let wrong_for = if round == 0 { Duration::ZERO } else { scene.changed.elapsed() };
                let (from, to) = (crew.server(scene.hand), crew.server(to));
                pairs.push(Pair { from, to, after: agrees.then_some(wrong_for) });
            }
            !agrees && !late
        });
        if waiting.is_empty() {
            break;
        }
        if crew.stopped() {
            return Err(Trouble::interrupted());
        }
        thread::sleep(POLL);
    }
    Ok(pairs)
}

/// Servers that agree at once are asked again with other files: they might have been lucky.
const ROUNDS: usize = 3;
/// Between two questions to the same server.
const POLL: Duration = Duration::from_millis(50);
const MODE_AFTER: u32 = 0o640;
const _: () = assert!(MODE_AFTER != FILE_MODE, "a change must show");
