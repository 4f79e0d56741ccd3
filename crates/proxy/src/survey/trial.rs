//! What only writing shows: cookies of a directory that is long enough, how soon changes are seen elsewhere, what it costs that a call moves,
//! what servers' clocks say, who root becomes. All inside one scratch directory, which goes away with the crew's journal.

use super::Trouble;
use super::cookies::{self, Cookies};
use super::crew::{Crew, Kind};
use super::moving::{self, Moving};
use super::staleness::{self, Staleness};
use midas_net::ClientError;
use midas_nfs::nfs3::Nfstime3;
use std::hash::{BuildHasher, RandomState};
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

/// What was measured.
#[derive(Clone, Debug)]
pub struct Trial {
    /// How long other servers answered with what was no longer true.
    pub staleness: Staleness,
    /// What it costs to serve a directory at two servers in turn; none where only one can be written to.
    pub moving: Result<Option<Moving>, Trouble>,
    /// Servers through which something was made: how far their clocks are ahead of ours, in seconds.
    pub clocks: Vec<(usize, f64)>,
    /// Who was said to write, and to whom the file system says it belongs.
    pub owner: (u32, u32),
    /// Servers through which nothing could be made, whatever they say of rights.
    pub read_only: Vec<usize>,
}

/// Everything in turn. The error is why nothing could be measured.
pub(super) fn run(crew: &mut Crew<'_>) -> Result<(Trial, Cookies), Trouble> {
    let name = format!("{PREFIX}{}-{:08x}", process::id(), RandomState::new().hash_one(0) as u32);
    let mut why = Trouble::Refused("it is read-only, or only a user whom we do not know may write there".to_owned());
    for first in crew.writers() {
        let root = crew.root(first);
        match crew.make(first, &root, name.as_bytes(), Kind::Directory) {
            Ok((scratch, attributes)) => return inside(crew, first, &scratch, attributes.uid),
            Err(error) => why = Trouble::of(&format!("MKDIR of {name}"), &error),
        }
    }
    Err(why)
}

fn inside(crew: &mut Crew<'_>, first: usize, scratch: &[u8], owner: u32) -> Result<(Trial, Cookies), Trouble> {
    let cookies = cookies_of(crew, first, scratch)?;
    let (mut places, mut clocks) = (Vec::new(), Vec::new());
    for hand in crew.writers() {
        match crew.make(hand, scratch, format!("w{hand}").as_bytes(), Kind::Directory) {
            Ok((place, attributes)) => {
                clocks.push((crew.server(hand), seconds(attributes.ctime) - now()));
                places.push((hand, place));
            }
            Err(ClientError::Status(_)) => {}
            Err(error) => return Err(Trouble::of("making directories", &error)),
        }
    }
    let staleness = staleness::measure(crew, &places)?;
    let writers: Vec<usize> = places.iter().map(|(hand, _)| *hand).collect();
    let moving = moving::measure(crew, scratch, &writers);
    if crew.stopped() {
        return Err(Trouble::interrupted());
    }
    let wrote = |hand: &usize| places.iter().any(|(other, _)| other == hand);
    let read_only = (0..crew.len()).filter(|hand| !wrote(hand)).map(|hand| crew.server(hand)).collect();
    Ok((Trial { staleness, moving, clocks, owner: (crew.uid(first), owner), read_only }, cookies))
}

/// Fills a directory that does not fit one page and judges by it.
fn cookies_of(crew: &mut Crew<'_>, hand: usize, scratch: &[u8]) -> Result<Cookies, Trouble> {
    if crew.len() < 2 {
        return Ok(cookies::judge(crew, &[]));
    }
    let failed = |error| Trouble::of("making names", &error);
    let (names, _) = crew.make(hand, scratch, b"names", Kind::Directory).map_err(failed)?;
    for number in 0..NAMES {
        if crew.stopped() {
            return Err(Trouble::interrupted());
        }
        crew.make(hand, &names, format!("n{number:03}").as_bytes(), Kind::File).map_err(failed)?;
    }
    Ok(cookies::judge(crew, &[names]))
}

fn seconds(time: Nfstime3) -> f64 {
    f64::from(time.seconds) + f64::from(time.nseconds) / 1e9
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// What the scratch directory's name begins with.
const PREFIX: &str = ".midas-doctor-";
/// Many pages, and still a matter of a second or two.
const NAMES: usize = 300;
