//! Whole listings: READDIR or READDIRPLUS from the first page to the last.
//!
//! How many names fit a page is the server's business; that every name comes once, that pages keep their limits and that
//! entries tell the truth is not.

use crate::describe::{listed, same};
use crate::run::{Observer, failure};
use crate::step::{Listing, Step};
use crate::transcript::Line;
use midas_net::{Client, ClientError};
use midas_nfs::nfs3::{Call, DirOp, Fattr3, FileHandle, Nfsstat3, Reply, Verifier};
use std::collections::BTreeSet;

/// Plays a listing.
pub(crate) fn list(
    client: &mut Client,
    observer: &mut Observer,
    step: &Step,
    what: &Listing,
    dir: FileHandle<'_>,
) -> Line {
    let mut found: Vec<Found> = Vec::new();
    let mut pages = 0;
    let (mut cookie, mut verifier) = (0, Verifier::default());
    loop {
        let page = match page(client, what, dir, cookie, verifier) {
            Ok(Ok(page)) => page,
            Ok(Err(status)) => return Line::new(step.name, status),
            Err(error) => return Line::new(step.name, failure(&error)),
        };
        pages += 1;
        assert!(pages < PAGES_MAX, "{}: the listing does not end", step.name);
        if what.removing {
            page.found.iter().for_each(|found| remove(client, dir, &found.name));
        }
        let end = page.eof || page.found.is_empty();
        verifier = page.verifier;
        cookie = page.found.last().map_or(cookie, |found| found.cookie);
        let (eof, size) = (page.eof, page.size);
        found.extend(page.found);
        if size > what.count as usize {
            return Line::new(step.name, "a page over its limit");
        }
        if end {
            return summary(observer, step, what, dir, &found, pages, eof);
        }
    }
}

fn summary(
    observer: &mut Observer,
    step: &Step,
    what: &Listing,
    dir: FileHandle<'_>,
    found: &[Found],
    pages: usize,
    eof: bool,
) -> Line {
    let mut line = Line::new(step.name, Nfsstat3::OK);
    let names: BTreeSet<Vec<u8>> = found.iter().map(|found| found.name.clone()).collect();
    line.add("names", listed(&names.iter().cloned().collect::<Vec<_>>()));
    line.add("each once", (names.len() == found.len()).to_string());
    line.add("pages", if pages == 1 { "one" } else { "several" });
    line.add("eof", eof.to_string());
    if !what.removing {
        line.add("fileids", fileids(observer, dir, found));
    }
    if what.plus.is_some() {
        let (handles, attributes) = truth(observer, dir, found);
        line.add("handles", handles);
        line.add("attributes", attributes);
    }
    line
}

/// Every name of a directory but `.` and `..`.
pub(crate) fn names(client: &mut Client, dir: FileHandle<'_>) -> Vec<Vec<u8>> {
    let what = Listing { dir: "", plus: None, count: COUNT, removing: false };
    let (mut cookie, mut verifier, mut names) = (0, Verifier::default(), Vec::new());
    for _ in 0..PAGES_MAX {
        // A head of Ganesha 4.3 answers NOENT at times where another has just removed a name.
        let mut refused = None;
        let mut ask = || {
            let page = page(client, &what, dir, cookie, verifier).expect("the server answers");
            page.map_err(|status| refused = Some(status)).ok()
        };
        let page = (0..ASKED_MAX).find_map(|_| ask());
        let page = page.unwrap_or_else(|| panic!("root can list from cookie {cookie}: {refused:?}"));
        (cookie, verifier) = (page.found.last().map_or(cookie, |found| found.cookie), page.verifier);
        let end = page.eof || page.found.is_empty();
        names.extend(page.found.into_iter().map(|found| found.name).filter(|name| !is_dot(name)));
        if end {
            return names;
        }
    }
    panic!("the listing does not end");
}

/// Whether every entry has its object's file number.
fn fileids(observer: &mut Observer, dir: FileHandle<'_>, found: &[Found]) -> String {
    let wrong = found.iter().filter(|found| {
        let seen = lookup(observer, dir, &found.name).map(|(_, seen)| seen.fileid);
        seen != Some(found.fileid)
    });
    match wrong.map(|found| found.name.escape_ascii().to_string()).collect::<Vec<_>>().as_slice() {
        [] => "as LOOKUP's".to_owned(),
        wrong => format!("others for {}", wrong.join(" ")),
    }
}

/// Whether handles and attributes are those that LOOKUP and GETATTR give.
fn truth(observer: &mut Observer, dir: FileHandle<'_>, found: &[Found]) -> (String, String) {
    let (mut handles, mut attributes) = (BTreeSet::new(), BTreeSet::new());
    for entry in found {
        let Some((handle, seen)) = lookup(observer, dir, &entry.name) else { continue };
        handles.insert(match &entry.handle {
            None => "none",
            Some(given) if *given == handle => "as LOOKUP's",
            Some(_) => "others",
        });
        attributes.insert(same(entry.attributes.as_ref(), Some(&seen)));
    }
    let told = |set: BTreeSet<String>| set.into_iter().collect::<Vec<_>>().join(", ");
    (told(handles.into_iter().map(str::to_owned).collect()), told(attributes))
}

fn lookup(observer: &mut Observer, dir: FileHandle<'_>, name: &[u8]) -> Option<(Vec<u8>, Fattr3)> {
    let handle = observer.find(dir, name)?;
    let seen = observer.look(FileHandle::new(&handle)?)?;
    Some((handle, seen))
}

struct PageOf {
    found: Vec<Found>,
    eof: bool,
    verifier: Verifier,
    /// Bytes of the `resok`: what the client's limit counts.
    size: usize,
}

struct Found {
    name: Vec<u8>,
    fileid: u64,
    cookie: u64,
    handle: Option<Vec<u8>>,
    attributes: Option<Fattr3>,
}

fn page(
    client: &mut Client,
    what: &Listing,
    dir: FileHandle<'_>,
    cookie: u64,
    cookieverf: Verifier,
) -> Result<Result<PageOf, Nfsstat3>, ClientError> {
    let call = match what.plus {
        None => Call::Readdir { dir, cookie, cookieverf, count: what.count },
        Some(dircount) => Call::Readdirplus { dir, cookie, cookieverf, dircount, maxcount: what.count },
    };
    let attributes = |given: bool| size_of::<u32>() + if given { Fattr3::SIZE } else { 0 };
    Ok(match client.nfs(&call)? {
        Reply::Readdir(Ok(ok)) => {
            let mut entries = ok.entries();
            let plain = |(fileid, name, cookie)| Found { fileid, name, cookie, handle: None, attributes: None };
            let found = entries.by_ref().collect::<Result<Vec<_>, _>>().map_err(ClientError::Malformed)?;
            let found = found.iter().map(|entry| plain((entry.fileid, entry.name.to_vec(), entry.cookie))).collect();
            let size = attributes(ok.dir_attributes.is_some()) + size_of::<Verifier>() + ok.list.len();
            Ok(PageOf { found, eof: entries.eof() == Some(true), verifier: ok.cookieverf, size })
        }
        Reply::Readdirplus(Ok(ok)) => {
            let mut entries = ok.entries();
            let found = entries.by_ref().collect::<Result<Vec<_>, _>>().map_err(ClientError::Malformed)?;
            let found = found.iter().map(|plus| Found {
                fileid: plus.entry.fileid,
                name: plus.entry.name.to_vec(),
                cookie: plus.entry.cookie,
                handle: plus.handle.map(|handle| handle.bytes().to_vec()),
                attributes: plus.attributes,
            });
            let found = found.collect();
            let size = attributes(ok.dir_attributes.is_some()) + size_of::<Verifier>() + ok.list.len();
            Ok(PageOf { found, eof: entries.eof() == Some(true), verifier: ok.cookieverf, size })
        }
        other => Err(other.status()),
    })
}

fn remove(client: &mut Client, dir: FileHandle<'_>, name: &[u8]) {
    if !is_dot(name) {
        let gone = client.nfs(&Call::Remove { object: DirOp { dir, name } });
        assert!(matches!(gone, Ok(Reply::Remove(Ok(_)))), "a listed file can be removed: {gone:?}");
    }
}

fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// More pages than any directory of the script has names.
const PAGES_MAX: usize = 2000;
/// How often for one page.
const ASKED_MAX: usize = 100;
const COUNT: u32 = 1 << 15;
