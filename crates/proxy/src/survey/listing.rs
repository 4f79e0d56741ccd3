//! A directory in small pages, with the cookies between them.

use super::seen::handle;
use midas_net::{Client, ClientError};
use midas_nfs::nfs3::{Call, Reply, Verifier};

/// Names in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) names: Vec<Vec<u8>>,
    /// Where pages ended, but for the last.
    pub(super) cuts: Vec<Cut>,
}

/// A place in a listing, as a client would go on from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// How many names came before.
    pub(super) names: usize,
    pub(super) at: Mark,
}

/// What the call that goes on says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    cookie: u64,
    verifier: Verifier,
}

/// Lists from a mark on until `limit` names came or there are no more.
pub(super) fn list(client: &mut Client, dir: &[u8], from: Mark, limit: usize) -> Result<Listing, ClientError> {
    let (mut listing, mut at) = (Listing::default(), from);
    loop {
        let call = Call::Readdir { dir: handle(dir)?, cookie: at.cookie, cookieverf: at.verifier, count: COUNT };
        let page = match client.nfs(&call)? {
            Reply::Readdir(Ok(page)) => page,
            failed => return Err(ClientError::Status(failed.status())),
        };
        let mut entries = page.entries();
        let before = listing.names.len();
        for entry in entries.by_ref() {
            let entry = entry.map_err(ClientError::Malformed)?;
            at.cookie = entry.cookie;
            listing.names.push(entry.name.to_vec());
        }
        at.verifier = page.cookieverf;
        // Neither names nor an end: going on would go on for ever.
        let ended = entries.eof() == Some(true) || listing.names.len() == before;
        if ended || listing.names.len() >= limit {
            listing.names.truncate(limit);
            return Ok(listing);
        }
        listing.cuts.push(Cut { names: listing.names.len(), at });
    }
}

/// `.` and `..` are in a listing, and no names to look up.
pub(super) fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// Small, so that also a directory of some forty names has several pages; large enough for the longest name.
const COUNT: u32 = 1024;
