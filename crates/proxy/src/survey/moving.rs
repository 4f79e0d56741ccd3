//! What it costs to serve a directory at two servers in turn instead of at one.
//!
//! Servers that keep state of what they serve take it from each other: capabilities of CephFS, tokens
//! of GPFS. The same calls are made in directories that one server alone is asked about and in
//! directories that two are asked about in turn, and a server is compared with itself: one that is
//! slower than the other, or farther away, says nothing of moves. One call of each kind comes after
//! the other, so that other load on the servers meets all of them alike. A cost counts if it was met
//! in every round; that there is none counts if most rounds say so.

use super::Trouble;
use super::crew::{Crew, Kind};
use super::seen::{getattr, lookup};
use midas_net::ClientError;
use midas_nfs::nfs3::Nfsstat3;
use std::thread;
use std::time::{Duration, Instant};

/// What was measured between two servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moving {
    /// The two servers.
    pub servers: [usize; 2],
    /// Each kind of call with its medians, from the round in which it cost least.
    pub costs: Vec<Cost>,
    /// The rounds, and those in which no call cost much.
    pub rounds: [usize; 2],
    /// Why it ended early.
    pub broke: Option<String>,
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
    fn of(servers: [usize; 2], costs: Vec<Cost>, broke: Option<String>) -> Self {
        let cheap = !costs.iter().any(Cost::much);
        Self { servers, costs, rounds: [1, usize::from(cheap)], broke }
    }

    /// Whether a call should stay at its home. A single round that broke says too little.
    pub fn costs(&self) -> bool {
        let [all, _] = self.rounds;
        (self.broke.is_none() || all > 1) && self.costs.iter().any(Cost::much)
    }

    /// Whether a call may move. What is neither is not known.
    pub fn free(&self) -> bool {
        let [all, cheap] = self.rounds;
        self.broke.is_none() && !self.costs() && 2 * cheap > all
    }

    /// Two rounds as one. Of each kind of call what is cheaper counts: what other load adds is met in
    /// one of them.
    fn or_cheaper(self, other: Self) -> Self {
        let cheaper = |one: Cost| {
            let again = other.costs.iter().find(|cost| (cost.what, cost.server) == (one.what, one.server));
            let cheaper = |again: &Cost| match again.much() == one.much() {
                true => again.ratio() < one.ratio(),
                false => one.much(),
            };
            again.copied().filter(cheaper).unwrap_or(one)
        };
        let costs = self.costs.into_iter().map(cheaper).collect();
        let rounds = [0, 1].map(|at| self.rounds[at] + other.rounds[at]);
        Self { servers: self.servers, costs, rounds, broke: self.broke.or(other.broke) }
    }
}

/// Measures between the first two servers through which this directory can be changed. None: there are no two.
pub(super) fn measure(crew: &mut Crew<'_>, scratch: &[u8], writers: &[usize]) -> Result<Option<Moving>, Trouble> {
    let &[first, second, ..] = writers else { return Ok(None) };
    let until = Instant::now() + PATIENCE;
    let mut all = round(crew, scratch, (0, [first, second]), until)?;
    for number in 1..ROUNDS {
        let [_, cheap] = all.rounds;
        if all.broke.is_some() || 2 * cheap > ROUNDS {
            break;
        }
        match round(crew, scratch, (number, [first, second]), until) {
            Ok(round) => all = all.or_cheaper(round),
            Err(_) if crew.stopped() => return Err(Trouble::interrupted()),
            Err(why) => all.broke = Some(why.to_string()),
        }
    }
    Ok(Some(all))
}

/// One round. The error is why not even the CREATEs could be measured.
fn round(
    crew: &mut Crew<'_>,
    scratch: &[u8],
    (number, hands): (usize, [usize; 2]),
    until: Instant,
) -> Result<Moving, Trouble> {
    let scene = Scene::set(crew, scratch, (number, hands), until)?;
    let mut times = [(); 2].map(|()| Times::default());
    let mut seen = Vec::with_capacity(CALLS);
    for call in 0..CALLS {
        seen.push(scene.create(crew, call, &mut times)?);
    }
    let looks = seen.iter().enumerate().try_for_each(|(call, files)| scene.look(crew, (call, files), &mut times));
    let broke = looks.err().map(|why| why.to_string());
    if crew.stopped() {
        return Err(Trouble::interrupted());
    }
    let costs = |(hand, times): (usize, &Times)| {
        let server = crew.server(hand);
        let cost = move |what, alone: &[_], shared: &[_]| {
            Some(Cost { what, server, alone: median(alone)?, shared: median(shared)? })
        };
        [
            cost("CREATE", &times.created_alone, &times.created_shared),
            cost("CREATE after the other has looked", &times.created_alone, &times.created_seen),
            cost("GETATTR of what the other has made", &times.looked_alone, &times.looked_shared),
            cost("GETATTR of its own after the other has looked", &times.looked_alone, &times.looked_own),
        ]
    };
    let costs = hands.into_iter().zip(&times).flat_map(costs).flatten().collect();
    Ok(Moving::of(hands.map(|hand| crew.server(hand)), costs, broke))
}

/// What the calls of one server took.
#[derive(Default)]
struct Times {
    created_alone: Vec<Duration>,
    created_shared: Vec<Duration>,
    created_seen: Vec<Duration>,
    looked_alone: Vec<Duration>,
    looked_shared: Vec<Duration>,
    looked_own: Vec<Duration>,
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
    /// Nothing is measured after that.
    until: Instant,
}

/// Files that were made by one call of each server.
struct Files {
    alone: [Vec<u8>; 2],
    shared: [Vec<u8>; 2],
}

impl Scene {
    fn set(
        crew: &mut Crew<'_>,
        scratch: &[u8],
        (round, hands): (usize, [usize; 2]),
        until: Instant,
    ) -> Result<Self, Trouble> {
        let mut directory = |hand: usize, name: &str| {
            let name = format!("{name}{hand}-{round}");
            let make = |crew: &mut Crew<'_>| crew.make(hand, scratch, name.as_bytes(), Kind::Directory);
            timed(crew, until, make).map(|((dir, _), _)| dir)
        };
        let [first, second] = hands;
        let alone = [directory(first, "alone")?, directory(second, "alone")?];
        let seen = [directory(first, "seen")?, directory(second, "seen")?];
        let shared = directory(first, "shared")?;
        for (owner, other) in [(first, second), (second, first)] {
            let name = format!("seen{owner}-{round}");
            timed(crew, until, |crew| lookup(crew.client(other), scratch, name.as_bytes()))?;
        }
        Ok(Self { hands, alone, seen, shared, until })
    }

    /// One CREATE of each server in each kind of directory.
    fn create(&self, crew: &mut Crew<'_>, call: usize, times: &mut [Times; 2]) -> Result<Files, Trouble> {
        let mut make = |side: usize, dir: &[u8], name: &str| {
            let hand = self.hands[side];
            let make = |crew: &mut Crew<'_>| crew.make(hand, dir, name.as_bytes(), Kind::File);
            timed(crew, self.until, make).map(|((file, _), time)| (file, time))
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

    /// GETATTRs of one file that nobody else has looked at, of one that the other has made, and of its
    /// own after that. What another has made is looked up by its name first: by its handle alone
    /// a server may have to search for it, and that is no move.
    fn look(&self, crew: &mut Crew<'_>, (call, files): (usize, &Files), times: &mut [Times; 2]) -> Result<(), Trouble> {
        let look = |crew: &mut Crew<'_>, side: usize, file: &[u8]| {
            timed(crew, self.until, |crew| getattr(crew.client(self.hands[side]), file)).map(|(_, time)| time)
        };
        for side in [0, 1] {
            times[side].looked_alone.push(look(crew, side, &files.alone[side])?);
            let name = format!("n{call}-{}", 1 - side);
            timed(crew, self.until, |crew| lookup(crew.client(self.hands[side]), &self.shared, name.as_bytes()))?;
        }
        for side in [0, 1] {
            times[side].looked_own.push(look(crew, side, &files.shared[side])?);
            times[side].looked_shared.push(look(crew, side, &files.shared[1 - side])?);
        }
        Ok(())
    }
}

/// A call and how long it took, with the time for which its server asked for patience: servers say
/// JUKEBOX while they call state back from each other.
fn timed<T>(
    crew: &mut Crew<'_>,
    until: Instant,
    mut call: impl FnMut(&mut Crew<'_>) -> Result<T, ClientError>,
) -> Result<(T, Duration), Trouble> {
    let start = Instant::now();
    for attempt in 0.. {
        if crew.stopped() {
            return Err(Trouble::interrupted());
        }
        if Instant::now() >= until {
            return Err(Trouble::Silent(format!("measuring what a move costs: not done in {PATIENCE:?}")));
        }
        match call(crew) {
            Ok(answer) => return Ok((answer, start.elapsed())),
            Err(ClientError::Status(Nfsstat3::JUKEBOX)) if attempt < ATTEMPTS => thread::sleep(PAUSE),
            Err(error) => return Err(Trouble::of("measuring what a move costs", &error)),
        }
    }
    Err(Trouble::interrupted())
}

fn median(times: &[Duration]) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
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
/// How long all rounds may take together; over quick servers they take less than a second.
const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(alone: u64, shared: u64) -> Cost {
        let [alone, shared] = [alone, shared].map(Duration::from_micros);
        Cost { what: "CREATE", server: 0, alone, shared }
    }

    fn moving(costs: &[(u64, u64)]) -> Moving {
        let numbered = costs.iter().enumerate();
        let costs = numbered.map(|(server, (alone, shared))| Cost { server, ..cost(*alone, *shared) });
        Moving::of([0, 1], costs.collect(), None)
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
    fn a_cost_counts_if_every_round_met_it_and_none_if_most_met_none() {
        let (dear, cheap) = ([(535, 1970), (58, 62)], [(500, 600), (60, 61)]);
        let cases = [
            (vec![dear, dear, dear], (true, false)),
            (vec![dear, [(535, 600), (58, 900)], dear], (false, false)),
            (vec![dear, cheap, cheap], (false, true)),
            (vec![cheap, dear, dear], (false, false)),
            (vec![cheap, cheap], (false, true)),
            // Twice as long, but nobody would notice; then much, though less than twice.
            (vec![[(90, 180), (58, 62)], [(300, 560), (58, 62)], [(90, 180), (58, 62)]], (false, true)),
            (vec![[(300, 560), (58, 62)], [(90, 180), (58, 62)]], (false, false)),
        ];
        for (rounds, want) in cases {
            let all = rounds.iter().map(|costs| moving(costs)).reduce(Moving::or_cheaper).unwrap();
            assert_eq!((all.costs(), all.free()), want, "{rounds:?}: {all:?}");
        }
    }

    #[test]
    fn what_was_met_before_it_broke_counts_and_what_was_not_met_does_not() {
        let broken = |costs: &[(u64, u64)]| Moving { broke: Some("no answer".to_owned()), ..moving(costs) };
        for (first, second, want) in [
            (moving(&[(535, 1970), (58, 62)]), broken(&[(535, 1970)]), (true, false)),
            (moving(&[(535, 600), (58, 62)]), broken(&[(535, 600)]), (false, false)),
        ] {
            let all = first.or_cheaper(second);
            assert_eq!((all.costs(), all.free(), all.costs.len()), (want.0, want.1, 2), "{all:?}");
        }
        let first = broken(&[(535, 1970)]);
        assert_eq!((first.costs(), first.free()), (false, false), "one round, and not even whole");
    }

    #[test]
    fn a_median_is_not_moved_by_a_few_slow_calls_and_half_of_slow_ones_move_it() {
        let times = |every: usize| -> Vec<Duration> {
            (0..24).map(|call| Duration::from_micros(if call % every == 0 { 5000 } else { 100 })).collect()
        };
        assert_eq!(median(&times(3)), Some(Duration::from_micros(100)));
        assert_eq!(median(&times(2)), Some(Duration::from_millis(5)));
        assert_eq!(median(&[]), None);
    }
}
