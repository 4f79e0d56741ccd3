//! READDIR and READDIRPLUS: one page a call, under the caller's size limits.
//!
//! Cookies stay good while others create and remove, so the verifier is always zero and never looked at: a directory that
//! merely changed must not end a listing. A page without any entry is given at the end only; otherwise TOOSMALL.

use super::name::Name;
use super::reading::find;
use super::{Caller, LISTING_MAX, ensure, finish, is_dir, resolve, with};
use crate::handle::Handle;
use crate::store::{Object, Outcome, Store};
use crate::user::{EXECUTE, READ};
use midas_nfs::nfs3::{
    EntryPlus, Fattr3, FileHandle, Nfsstat3, Page, Procedure, ReaddirOk, ReaddirplusOk, Reply, Verifier,
};

pub(super) fn readdir<S: Store>(
    store: &S,
    by: Caller<'_>,
    dir: FileHandle<'_>,
    cookie: u64,
    count: u32,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let dir = resolve(store, by, dir, Procedure::Readdir, out)?;
    let dir_attributes = Some(dir.attributes);
    let list = may_list(by, &dir).and_then(|()| {
        let mut page = Page::readdir(count.min(LISTING_MAX), &dir_attributes);
        let eof = store.list(&dir.node, cookie, &mut |entry| page.push(entry))?;
        filled(page, eof)
    });
    let result = list.as_deref().map(|list| ReaddirOk { dir_attributes, cookieverf: VERIFIER, list });
    finish(out, &Reply::Readdir(with(result.map_err(|status| *status), dir_attributes)))
}

pub(super) fn readdirplus<S: Store>(
    store: &S,
    by: Caller<'_>,
    dir: FileHandle<'_>,
    cookie: u64,
    [dircount, maxcount]: [u32; 2],
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let dir = resolve(store, by, dir, Procedure::Readdirplus, out)?;
    let dir_attributes = Some(dir.attributes);
    let list = may_list(by, &dir).and_then(|()| {
        let mut page = Page::readdirplus(dircount, maxcount.min(LISTING_MAX), &dir_attributes);
        let may_search = by.who.may(&dir.attributes, EXECUTE);
        let eof = store.list(&dir.node, cookie, &mut |entry| {
            let member = may_search.then(|| member(store, by, &dir, entry.name)).flatten();
            let attributes = member.as_ref().map(|(_, attributes)| *attributes);
            let handle = member.as_ref().map(|(handle, _)| handle.file_handle());
            page.push_plus(&EntryPlus { entry: *entry, attributes, handle })
        })?;
        filled(page, eof)
    });
    let result = list.as_deref().map(|list| ReaddirplusOk { dir_attributes, cookieverf: VERIFIER, list });
    finish(out, &Reply::Readdirplus(with(result.map_err(|status| *status), dir_attributes)))
}

fn may_list<N>(by: Caller<'_>, dir: &Object<N>) -> Outcome<()> {
    is_dir(&dir.attributes)?;
    ensure(by.who.may(&dir.attributes, READ), Nfsstat3::ACCES)
}

/// What LOOKUP would give; an object that vanished or must not be shown stands in the listing by its name alone.
fn member<S: Store>(store: &S, by: Caller<'_>, dir: &Object<S::Node>, name: &[u8]) -> Option<(Handle, Fattr3)> {
    find(store, by, dir, Name::new(name).ok()?).ok()
}

fn filled(page: Page, eof: bool) -> Outcome<Vec<u8>> {
    ensure(!page.too_small(eof), Nfsstat3::TOOSMALL)?;
    Ok(page.finish(eof))
}

const VERIFIER: Verifier = [0; 8];
