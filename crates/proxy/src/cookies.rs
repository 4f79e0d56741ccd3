//! Whether a listing that one server began may go on at another: decided when a server is admitted, before it takes calls (nfs3.md, F1).
//!
//! The roots are listed in small pages at it and at every server that is open, each going on with the other's cookies: the same names with the
//! same cookies must follow. A root that fits one page shows nothing, one that changes meanwhile neither: then listings stay where they began.

use crate::clock::duration;
use crate::pool::{Pool, lock};
use midas_core::id::ServerId;
use midas_net::{Caller, Client, ClientError};
use midas_nfs::nfs3::{Call, FileHandle, Nfsstat3, Reply, Verifier};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is known of a pool's cookies.
#[derive(Debug)]
pub(crate) struct Cookies {
    said: Mutex<Vec<Said>>,
    portable: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// There was no other server to ask.
    Nothing,
    /// It goes on where every other stopped, and they where it did.
    Portable,
    /// It does not, or that could not be seen.
    Bound,
}

impl Cookies {
    pub(crate) fn new(servers: usize) -> Self {
        Self { said: Mutex::new(vec![Said::Nothing; servers]), portable: AtomicBool::new(false) }
    }

    /// Whether a listing may go on anywhere.
    pub(crate) fn portable(&self) -> bool {
        self.portable.load(Ordering::Relaxed)
    }

    fn heard(&self, server: ServerId, others: &[ServerId], same: bool) {
        let mut said = lock(&self.said);
        said[server.index()] = if same { Said::Portable } else { Said::Bound };
        for other in others.iter().filter(|_| same) {
            let other = &mut said[other.index()];
            *other = if *other == Said::Nothing { Said::Portable } else { *other };
        }
        let several = said.iter().filter(|said| **said == Said::Portable).count() > 1;
        self.portable.store(several && !said.contains(&Said::Bound), Ordering::Relaxed);
    }
}

/// Asks a server that is about to be admitted.
pub(crate) fn ask(pool: &Pool, server: ServerId, roots: &[Vec<u8>]) {
    let others: Vec<ServerId> = pool.servers.ids().filter(|other| *other != server && pool.open(*other)).collect();
    match compare(pool, server, &others, roots) {
        Ok(Some(same)) => pool.cookies.heard(server, &others, same),
        Ok(None) => {}
        // Who could not be asked has shown nothing.
        Err(_) => pool.cookies.heard(server, &others, false),
    }
}

fn compare(pool: &Pool, server: ServerId, others: &[ServerId], roots: &[Vec<u8>]) -> Result<Option<bool>, ClientError> {
    let connect =
        |server| Client::connect(pool.server(server).address, &Caller::ROOT, duration(pool.config.probe_timeout));
    let mut own = connect(server)?;
    let mut all = None;
    for other in others {
        let mut other = connect(*other)?;
        let (mut shown, mut same) = (false, true);
        for root in roots {
            for verdict in [goes_on(&mut own, &mut other, root)?, goes_on(&mut other, &mut own, root)?] {
                shown |= verdict.is_some();
                same &= verdict != Some(false);
            }
        }
        all = Some(all.unwrap_or(true) && shown && same);
    }
    Ok(all)
}

/// Whether the second goes on where the first stopped; none if that cannot be seen.
fn goes_on(first: &mut Client, second: &mut Client, dir: &[u8]) -> Result<Option<bool>, ClientError> {
    for _ in 0..TRIES {
        let pages = list(first, dir)?;
        if pages.len() < 2 {
            return Ok(None);
        }
        let mut same = true;
        for two in pages.windows(2) {
            same &= match page(second, dir, two[0].end()) {
                Ok(page) => page == two[1],
                Err(ClientError::Status(_)) => false,
                Err(error) => return Err(error),
            };
        }
        if same || list(first, dir)? == pages {
            return Ok(Some(same));
        }
    }
    Ok(None)
}

#[derive(Debug, PartialEq, Eq)]
struct Shown {
    names: Vec<(Vec<u8>, u64)>,
    verifier: Verifier,
    eof: bool,
}

impl Shown {
    /// What the next page is asked for with.
    fn end(&self) -> (u64, Verifier) {
        (self.names.last().map_or(0, |(_, cookie)| *cookie), self.verifier)
    }
}

/// The first pages of a directory.
fn list(client: &mut Client, dir: &[u8]) -> Result<Vec<Shown>, ClientError> {
    let mut pages: Vec<Shown> = Vec::new();
    while pages.len() < PAGES && pages.last().is_none_or(|page| !page.eof && !page.names.is_empty()) {
        let from = pages.last().map_or((0, Verifier::default()), Shown::end);
        pages.push(page(client, dir, from)?);
    }
    Ok(pages)
}

fn page(client: &mut Client, dir: &[u8], (cookie, cookieverf): (u64, Verifier)) -> Result<Shown, ClientError> {
    let dir = FileHandle::new(dir).ok_or(ClientError::Status(Nfsstat3::BADHANDLE))?;
    match client.nfs(&Call::Readdir { dir, cookie, cookieverf, count: COUNT })? {
        Reply::Readdir(Ok(page)) => {
            let mut entries = page.entries();
            let names: Result<_, _> =
                entries.by_ref().map(|entry| entry.map(|it| (it.name.to_vec(), it.cookie))).collect();
            let names = names.map_err(ClientError::Malformed)?;
            Ok(Shown { names, verifier: page.cookieverf, eof: entries.eof() == Some(true) })
        }
        failed => Err(ClientError::Status(failed.status())),
    }
}

/// Small, so that a root of a dozen names has several pages; large enough for the longest name.
const COUNT: u32 = 512;
/// So many are looked at.
const PAGES: usize = 4;
/// A directory that changed is listed anew so often.
const TRIES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_portable_once_every_server_that_was_asked_goes_on_for_every_other() {
        let cookies = Cookies::new(3);
        let [a, b, c] = [0, 1, 2].map(ServerId);
        cookies.heard(b, &[a], true);
        assert!(cookies.portable());
        cookies.heard(c, &[a, b], false);
        assert!(!cookies.portable());
        cookies.heard(b, &[a], true);
        assert!(!cookies.portable(), "the third may come back");
        cookies.heard(c, &[a], true);
        assert!(cookies.portable());
    }
}
