//! What it costs to serve a directory at two servers in turn instead of at one.
//!
//! Servers that keep state of what they serve take it from each other: capabilities of CephFS, tokens
//! of GPFS. The same calls are made through one server and through two in turn, in two directories
//! that the first has made, one call of each after the other, so that other load on the servers meets
//! both alike. Then the second server looks at the first directory once, and the first goes on alone:
//! some servers pay for that look for ever.

use super::Trouble;
use super::crew::{Crew, Kind};
use super::seen::getattr;
use midas_net::ClientError;
use std::time::{Duration, Instant};

/// What was measured between two servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moving {
    /// The server that has made the directories.
    pub home: usize,
    /// The other one.
    pub other: usize,
    /// Each kind of call with its medians.
    pub costs: Vec<Cost>,
}

/// What a kind of call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The calls, in words.
    pub what: &'static str,
    /// The median at one server.
    pub one: Duration,
    /// The median at two in turn, or at the first when the second has looked.
    pub two: Duration,
}

impl Cost {
    /// How many times as long a call takes.
    pub fn ratio(&self) -> f64 {
        self.two.as_secs_f64() / self.one.as_secs_f64().max(1e-9)
    }

    /// Whether that is more than measuring alone makes of equal servers.
    pub fn much(&self) -> bool {
        self.ratio() >= MUCH && self.two >= self.one + NOTICED
    }
}

impl Moving {
    /// The kind of call that suffers most.
    pub fn worst(&self) -> Option<&Cost> {
        self.costs.iter().max_by(|one, other| one.ratio().total_cmp(&other.ratio()))
    }

    /// Whether a call should stay at its home.
    pub fn costs(&self) -> bool {
        self.costs.iter().any(Cost::much)
    }
}

/// Measures between the first two servers through which this directory can be changed. None: there are no two.
pub(super) fn measure(crew: &mut Crew<'_>, scratch: &[u8], writers: &[usize]) -> Result<Option<Moving>, Trouble> {
    let &[home, other, ..] = writers else { return Ok(None) };
    let failed = |error| Trouble::of("measuring what a move costs", &error);
    let mut scene = Scene::set(crew, scratch, home, other).map_err(failed)?;
    let creates = scene.create(crew)?;
    let looks = scene.look(crew)?;
    let after = scene.create_alone(crew)?;
    let costs = vec![
        Cost { what: "CREATE", one: median(&creates[0]), two: median(&creates[1]) },
        Cost { what: "GETATTR of new files", one: median(&looks[0]), two: median(&looks[1]) },
        Cost { what: "CREATE after the other server has looked", one: median(&creates[0]), two: median(&after) },
    ];
    Ok(Some(Moving { home: crew.server(home), other: crew.server(other), costs }))
}

/// A directory that one server is asked about, and one that two are asked about in turn.
struct Scene {
    home: usize,
    other: usize,
    alone: Vec<u8>,
    shared: Vec<u8>,
    /// Files in the first.
    files: Vec<Vec<u8>>,
}

impl Scene {
    fn set(crew: &mut Crew<'_>, scratch: &[u8], home: usize, other: usize) -> Result<Self, ClientError> {
        let (alone, _) = crew.make(home, scratch, b"alone", Kind::Directory)?;
        let (shared, _) = crew.make(home, scratch, b"shared", Kind::Directory)?;
        Ok(Self { home, other, alone, shared, files: Vec::new() })
    }

    /// CREATEs at the first server, and at both in turn.
    fn create(&mut self, crew: &mut Crew<'_>) -> Result<[Vec<Duration>; 2], Trouble> {
        let mut took = [Vec::new(), Vec::new()];
        for number in 0..CALLS {
            let name = format!("n{number}");
            let (file, time) = made(crew, self.home, &self.alone, &name)?;
            self.files.push(file);
            took[0].push(time);
            let hand = if number % 2 == 0 { self.other } else { self.home };
            took[1].push(made(crew, hand, &self.shared, &name)?.1);
        }
        Ok(took)
    }

    /// GETATTRs of new files at the server that has made them, then at both in turn.
    fn look(&self, crew: &mut Crew<'_>) -> Result<[Vec<Duration>; 2], Trouble> {
        let mut took = [Vec::new(), Vec::new()];
        for file in &self.files {
            took[0].push(looked(crew, self.home, file)?);
        }
        for file in &self.files {
            for hand in [self.other, self.home] {
                took[1].push(looked(crew, hand, file)?);
            }
        }
        Ok(took)
    }

    /// CREATEs at the first server again, in the directory that the other has looked at.
    fn create_alone(&self, crew: &mut Crew<'_>) -> Result<Vec<Duration>, Trouble> {
        looked(crew, self.other, &self.alone)?;
        (0..CALLS).map(|number| Ok(made(crew, self.home, &self.alone, &format!("m{number}"))?.1)).collect()
    }
}

fn made(crew: &mut Crew<'_>, hand: usize, dir: &[u8], name: &str) -> Result<(Vec<u8>, Duration), Trouble> {
    if crew.stopped() {
        return Err(Trouble::interrupted());
    }
    let start = Instant::now();
    match crew.make(hand, dir, name.as_bytes(), Kind::File) {
        Ok((file, _)) => Ok((file, start.elapsed())),
        Err(error) => Err(Trouble::of("measuring what a move costs", &error)),
    }
}

fn looked(crew: &mut Crew<'_>, hand: usize, object: &[u8]) -> Result<Duration, Trouble> {
    let start = Instant::now();
    match getattr(crew.client(hand), object) {
        Ok(_) => Ok(start.elapsed()),
        Err(error) => Err(Trouble::of("measuring what a move costs", &error)),
    }
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Calls of each kind: half of them are enough to outweigh what other load does to a few.
const CALLS: usize = 24;
/// Equal servers differ by less, also where others use them; CephFS by 4 to 36 times.
const MUCH: f64 = 1.8;
/// What nobody would notice is not much, whatever the ratio.
const NOTICED: Duration = Duration::from_micros(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(one: u64, two: u64) -> Cost {
        Cost { what: "CREATE", one: Duration::from_micros(one), two: Duration::from_micros(two) }
    }

    #[test]
    fn what_costs_much_is_told_from_what_measuring_makes_of_equal_servers() {
        for (one, two, much) in
            [(535, 1970, true), (87, 600, true), (58, 62, false), (20, 60, false), (1000, 1700, false)]
        {
            assert_eq!(cost(one, two).much(), much, "{one} and {two} us");
        }
        let moving = Moving { home: 0, other: 1, costs: vec![cost(58, 62), cost(535, 1970), cost(80, 84)] };
        assert_eq!((moving.costs(), moving.worst()), (true, Some(&cost(535, 1970))));
    }

    #[test]
    fn a_median_is_not_moved_by_a_few_slow_calls() {
        let times: Vec<Duration> =
            (0..24).map(|call| Duration::from_micros(if call % 3 == 0 { 5000 } else { 100 })).collect();
        assert_eq!(median(&times), Duration::from_micros(100));
        assert_eq!(median(&[]), Duration::ZERO);
    }
}
