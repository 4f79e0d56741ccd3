//! Whether a listing that was begun at one server may go on at another: with the first one's cookie and verifier, the rest of the names
//! must come, in the same order.
//!
//! Asked around the ring of servers, at several places of a directory. A directory that changes meanwhile proves nothing.

use super::crew::Crew;
use super::listing::{Cut, Listing, Mark, list};
use midas_net::{Client, ClientError};

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cookies {
    /// Every server went on where another had stopped.
    Portable {
        /// Names in the directory that was listed.
        names: usize,
    },
    /// One did not: listings must end where they begin.
    Bound {
        /// Who began.
        from: usize,
        /// Who did not go on.
        to: usize,
        /// What it did instead.
        why: String,
    },
    /// It could not be judged.
    Unknown(String),
}

/// Judges by the first of these directories that has several pages.
pub(super) fn judge(crew: &mut Crew<'_>, directories: &[Vec<u8>]) -> Cookies {
    if crew.len() < 2 {
        return Cookies::Unknown("there is no other server to ask".to_owned());
    }
    for directory in directories {
        match list(crew.client(0), directory, Mark::default(), NAMES) {
            Ok(listing) if !listing.cuts.is_empty() => return around(crew, directory),
            Ok(_) | Err(_) => {}
        }
    }
    Cookies::Unknown("no directory that was looked at is too long for one page".to_owned())
}

fn around(crew: &mut Crew<'_>, directory: &[u8]) -> Cookies {
    let mut names = 0;
    for from in 0..crew.len() {
        let to = (from + 1) % crew.len();
        if crew.stopped() {
            return Cookies::Unknown("interrupted".to_owned());
        }
        match pair(crew, directory, from, to) {
            Ok(Verdict::Same(listed)) => names = listed,
            Ok(Verdict::Other(why)) => return Cookies::Bound { from: crew.server(from), to: crew.server(to), why },
            Ok(Verdict::Changing) => return Cookies::Unknown("the directory changes all the time".to_owned()),
            Err(error) => return Cookies::Unknown(error.to_string()),
        }
    }
    Cookies::Portable { names }
}

enum Verdict {
    Same(usize),
    Other(String),
    Changing,
}

fn pair(crew: &mut Crew<'_>, directory: &[u8], from: usize, to: usize) -> Result<Verdict, ClientError> {
    for _ in 0..TRIES {
        let listing = list(crew.client(from), directory, Mark::default(), NAMES)?;
        let Some(why) = differs(crew.client(to), directory, &listing)? else {
            return Ok(Verdict::Same(listing.names.len()));
        };
        if list(crew.client(from), directory, Mark::default(), NAMES)? == listing {
            return Ok(Verdict::Other(why));
        }
    }
    Ok(Verdict::Changing)
}

/// How the rest of a listing differs at another server.
fn differs(client: &mut Client, directory: &[u8], listing: &Listing) -> Result<Option<String>, ClientError> {
    let step = listing.cuts.len().div_ceil(PLACES).max(1);
    for Cut { names, at } in listing.cuts.iter().step_by(step) {
        let rest = &listing.names[*names..];
        let found = match list(client, directory, *at, rest.len()) {
            Ok(found) => found.names,
            Err(ClientError::Status(status)) => return Ok(Some(format!("it answers {status}"))),
            Err(error) => return Err(error),
        };
        if found != rest {
            let same = found.iter().zip(rest).take_while(|(one, other)| one == other).count();
            return Ok(Some(format!("of {} names that should follow, {same} came in their order", rest.len())));
        }
    }
    Ok(None)
}

/// Of a long directory so many names are looked at.
const NAMES: usize = 1000;
/// So many places of a directory are tried.
const PLACES: usize = 5;
/// A directory that changed is listed anew so often.
const TRIES: usize = 3;
