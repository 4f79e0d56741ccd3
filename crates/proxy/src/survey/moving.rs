//! What it costs to serve a directory at two servers in turn instead of at one.
//!
//! Servers that keep state of what they serve take it from each other: capabilities of CephFS, tokens
//! of GPFS. The same calls are made in directories that one server alone is asked about and in
//! directories that two are asked about in turn, and a server is compared with itself: one that is
//! slower than the other, or farther away, says nothing of moves. One call of each kind comes after
//! the other, so that other load on the servers meets all of them alike, and a cost counts if it was
//! met in every round.

use super::Trouble;
use super::crew::{Crew, Kind};
use super::seen::getattr;
use midas_net::ClientError;
use midas_nfs::nfs3::Nfsstat3;
use std::thread;
use std::time::{Duration, Instant};

/// What was measured between two servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moving {
    /// The two servers.
    pub servers: [usize; 2],
    /// Each kind of call with its medians.
    pub costs: Vec<Cost>,
}

/// What a kind of call takes at one of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The calls, in words.
    pub what: &'static str,
    /// The server that they were sent to.
    pub server: usize,
    /// The median where no other server is asked.
    pub alone: Duration,
    /// The median where another one is asked in turn, or has looked once.
    pub shared: Duration,
}

impl Cost {
    /// How many times as long a call takes.
    pub fn ratio(&self) -> f64 {
        self.shared.as_secs_f64() / self.alone.as_secs_f64().max(1e-9)
    }

    /// Whether that is more than measuring alone makes of calls that cost the same.
    pub fn much(&self) -> bool {
        self.ratio() >= MUCH && self.shared >= self.alone + NOTICED
    }
}

impl Moving {
    /// Whether a call should stay at its home.
    pub fn costs(&self) -> bool {
        self.costs.iter().any(Cost::much)
    }

    /// Of two rounds what is cheaper, kind by kind: what other load adds is met in one of them.
    fn or_cheaper(self, other: Self) -> Self {
        let cheaper = |(one, other): (Cost, Cost)| if other.ratio() < one.ratio() { other } else { one };
        let costs = self.costs.into_iter().zip(other.costs).map(cheaper).collect();
        Self { servers: self.servers, costs }
    }
}

/// Measures between the first two servers through which this directory can be changed. None: there are no two.
pub(super) fn measure(crew: &mut Crew<'_>, scratch: &[u8], writers: &[usize]) -> Result<Option<Moving>, Trouble> {
    let &[first, second, ..] = writers else { return Ok(None) };
    let mut least = round(crew, scratch, 0, [first, second])?;
    for number in 1..ROUNDS {
        // What costs nothing once costs nothing.
        if !least.costs() {
            break;
        }
        least = least.or_cheaper(round(crew, scratch, number, [first, second])?);
    }
    Ok(Some(least))
}

fn round(crew: &mut Crew<'_>, scratch: &[u8], number: usize, hands: [usize; 2]) -> Result<Moving, Trouble> {
    let scene = Scene::set(crew, scratch, number, hands)?;
    let mut times = [(); 2].map(|()| Times::default());
    let mut seen = Vec::with_capacity(CALLS);
    for call in 0..CALLS {
        seen.push(scene.create(crew, call, &mut times)?);
    }
    for files in &seen {
        scene.look(crew, files, &mut times)?;
    }
    let costs = |(hand, times): (usize, &Times)| {
        let server = crew.server(hand);
        let cost =
            move |what, alone: &[_], shared: &[_]| Cost { what, server, alone: median(alone), shared: median(shared) };
        [
            cost("CREATE", &times.created_alone, &times.created_shared),
            cost("CREATE after the other has looked", &times.created_alone, &times.created_seen),
            cost("GETATTR of new files", &times.looked_alone, &times.looked_shared),
        ]
    };
    let costs = hands.into_iter().zip(&times).flat_map(costs).collect();
    Ok(Moving { servers: hands.map(|hand| crew.server(hand)), costs })
}

/// What the calls of one server took.
#[derive(Default)]
struct Times {
    created_alone: Vec<Duration>,
    created_shared: Vec<Duration>,
    created_seen: Vec<Duration>,
    looked_alone: Vec<Duration>,
    looked_shared: Vec<Duration>,
}

/// Directories of two servers.
struct Scene {
    hands: [usize; 2],
    /// One of each server that the other is never asked about.
    alone: [Vec<u8>; 2],
    /// One of each server that the other has looked at once.
    seen: [Vec<u8>; 2],
    /// One that both are asked about in turn.
    shared: Vec<u8>,
}

/// Files that were made by one call of each server.
struct Files {
    alone: [Vec<u8>; 2],
    shared: [Vec<u8>; 2],
}

impl Scene {
    fn set(crew: &mut Crew<'_>, scratch: &[u8], round: usize, hands: [usize; 2]) -> Result<Self, Trouble> {
        let mut directory = |hand: usize, name: &str| {
            let name = format!("{name}{hand}-{round}");
            timed(crew, |crew| crew.make(hand, scratch, name.as_bytes(), Kind::Directory)).map(|((dir, _), _)| dir)
        };
        let [first, second] = hands;
        let alone = [directory(first, "alone")?, directory(second, "alone")?];
        let seen = [directory(first, "seen")?, directory(second, "seen")?];
        let shared = directory(first, "shared")?;
        for (dir, other) in seen.iter().zip([second, first]) {
            timed(crew, |crew| getattr(crew.client(other), dir))?;
        }
        Ok(Self { hands, alone, seen, shared })
    }

    /// One CREATE of each server in each kind of directory.
    fn create(&self, crew: &mut Crew<'_>, call: usize, times: &mut [Times; 2]) -> Result<Files, Trouble> {
        let mut make = |side: usize, dir: &[u8], name: &str| {
            let hand = self.hands[side];
            timed(crew, |crew| crew.make(hand, dir, name.as_bytes(), Kind::File)).map(|((file, _), time)| (file, time))
        };
        let (mut alone, mut shared) = ([const { Vec::new() }; 2], [const { Vec::new() }; 2]);
        for side in [0, 1] {
            let (file, time) = make(side, &self.alone[side], &format!("n{call}"))?;
            times[side].created_alone.push(time);
            alone[side] = file;
            times[side].created_seen.push(make(side, &self.seen[side], &format!("n{call}"))?.1);
            let (file, time) = make(side, &self.shared, &format!("n{call}-{side}"))?;
            times[side].created_shared.push(time);
            shared[side] = file;
        }
        Ok(Files { alone, shared })
    }

    /// One GETATTR of each server of a file of its own, and of each of those that both are asked about.
    fn look(&self, crew: &mut Crew<'_>, files: &Files, times: &mut [Times; 2]) -> Result<(), Trouble> {
        let mut look = |side: usize, file: &[u8]| {
            let hand = self.hands[side];
            timed(crew, |crew| getattr(crew.client(hand), file)).map(|(_, time)| time)
        };
        for side in [0, 1] {
            times[side].looked_alone.push(look(side, &files.alone[side])?);
            for file in &files.shared {
                times[side].looked_shared.push(look(side, file)?);
            }
        }
        Ok(())
    }
}

/// A call and how long it took. A server that wants to be asked again later is, a few times.
fn timed<T>(
    crew: &mut Crew<'_>,
    mut call: impl FnMut(&mut Crew<'_>) -> Result<T, ClientError>,
) -> Result<(T, Duration), Trouble> {
    for attempt in 0.. {
        if crew.stopped() {
            return Err(Trouble::interrupted());
        }
        let start = Instant::now();
        match call(crew) {
            Ok(answer) => return Ok((answer, start.elapsed())),
            Err(ClientError::Status(Nfsstat3::JUKEBOX)) if attempt < ATTEMPTS => thread::sleep(PAUSE),
            Err(error) => return Err(Trouble::of("measuring what a move costs", &error)),
        }
    }
    Err(Trouble::interrupted())
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

/// Calls of each kind in a round.
const CALLS: usize = 16;
/// Rounds that must agree.
const ROUNDS: usize = 3;
/// Calls that cost the same differ by less; over CephFS they differ by 4 to 36 times.
const MUCH: f64 = 1.8;
/// What nobody would notice is not much, whatever the ratio.
const NOTICED: Duration = Duration::from_micros(100);
/// How often a server may ask for patience, and how long it gets.
const ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(alone: u64, shared: u64) -> Cost {
        let [alone, shared] = [alone, shared].map(Duration::from_micros);
        Cost { what: "CREATE", server: 0, alone, shared }
    }

    fn moving(costs: &[(u64, u64)]) -> Moving {
        Moving { servers: [0, 1], costs: costs.iter().map(|(alone, shared)| cost(*alone, *shared)).collect() }
    }

    #[test]
    fn what_costs_much_is_told_from_what_measuring_makes_of_equal_calls() {
        for (alone, shared, much) in
            [(535, 1970, true), (87, 600, true), (58, 62, false), (20, 60, false), (1000, 1700, false)]
        {
            assert_eq!(cost(alone, shared).much(), much, "{alone} and {shared} us");
        }
    }

    #[test]
    fn a_cost_counts_if_every_round_met_it() {
        let dear = [(535, 1970), (58, 62)];
        for (other, costs) in [([(500, 2000), (60, 61)], true), ([(535, 600), (58, 900)], false)] {
            let least = moving(&dear).or_cheaper(moving(&other));
            assert_eq!((least.costs.len(), least.costs()), (2, costs), "{least:?}");
        }
    }

    #[test]
    fn a_median_is_not_moved_by_a_few_slow_calls() {
        let times: Vec<Duration> =
            (0..24).map(|call| Duration::from_micros(if call % 3 == 0 { 5000 } else { 100 })).collect();
        assert_eq!(median(&times), Duration::from_micros(100));
        assert_eq!(median(&[]), Duration::ZERO);
    }
}
