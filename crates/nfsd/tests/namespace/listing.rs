//! Listings: pages, sizes, cookies that stay good.

use crate::world::{Client, ROOT, SERVER, World, user};
use midas_nfs::nfs3::{Call, CreateHow, DirOp, Nfsstat3, Procedure, Reply, Sattr3};
use midas_nfsd::{Handle, Limits};
use std::collections::{HashMap, HashSet};

/// One page: names with fileid and cookie, and whether the directory ended.
struct Page {
    names: Vec<(String, u64, u64)>,
    eof: bool,
    size: usize,
}

impl Page {
    fn cookie(&self) -> u64 {
        self.names.last().expect("a page that is not the end has an entry").2
    }
}

fn readdir(by: Client<'_>, dir: &Handle, cookie: u64, count: u32) -> Result<Page, Nfsstat3> {
    // A verifier that we never gave: a directory that merely changed must not end a listing.
    let call = Call::Readdir { dir: dir.file_handle(), cookie, cookieverf: *b"whatever", count };
    by.call(&call, |reply| match reply {
        Reply::Readdir(Ok(ok)) => {
            assert_eq!(ok.dir_attributes, by.attributes(dir).ok());
            let mut entries = ok.entries();
            let names = entries.by_ref().map(|entry| {
                let entry = entry.expect("an entry can be decoded");
                (String::from_utf8_lossy(entry.name).into_owned(), entry.fileid, entry.cookie)
            });
            let names = names.collect();
            Ok(Page { names, eof: entries.eof().expect("the list ends"), size: size(reply) })
        }
        Reply::Readdir(Err(failed)) => Err(failed.status),
        other => panic!("{other:?}"),
    })
}

/// Every entry has what LOOKUP gives.
fn readdirplus(by: Client<'_>, dir: &Handle, cookie: u64, counts: [u32; 2]) -> Result<Page, Nfsstat3> {
    let [dircount, maxcount] = counts;
    let call = Call::Readdirplus { dir: dir.file_handle(), cookie, cookieverf: [0; 8], dircount, maxcount };
    by.call(&call, |reply| match reply {
        Reply::Readdirplus(Ok(ok)) => {
            let mut entries = ok.entries();
            let names = entries.by_ref().map(|plus| {
                let plus = plus.expect("an entry can be decoded");
                let handle = by.lookup(dir, plus.entry.name).ok();
                assert_eq!(plus.handle, handle.as_ref().map(Handle::file_handle));
                assert_eq!(plus.attributes, handle.and_then(|handle| by.attributes(&handle).ok()));
                assert!(plus.attributes.is_none_or(|attributes| attributes.fileid == plus.entry.fileid));
                (String::from_utf8_lossy(plus.entry.name).into_owned(), plus.entry.fileid, plus.entry.cookie)
            });
            let names = names.collect();
            Ok(Page { names, eof: entries.eof().expect("the list ends"), size: size(reply) })
        }
        Reply::Readdirplus(Err(failed)) => Err(failed.status),
        other => panic!("{other:?}"),
    })
}

/// The XDR size of a reply without its status.
fn size(reply: &Reply<'_>) -> usize {
    let mut out = Vec::new();
    reply.encode(&mut out);
    out.len() - 4
}

/// All names, page by page.
fn walk(mut page: impl FnMut(u64) -> Result<Page, Nfsstat3>) -> Result<Vec<String>, Nfsstat3> {
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let next = page(cookie)?;
        names.extend(next.names.iter().map(|(name, ..)| name.clone()));
        if next.eof {
            return Ok(names);
        }
        cookie = next.cookie();
    }
}

/// Names but `.` and `..`, by READDIR and again by READDIRPLUS.
pub(crate) fn names(by: Client<'_>, dir: &Handle) -> Result<Vec<String>, Nfsstat3> {
    let plain = walk(|cookie| readdir(by, dir, cookie, 512))?;
    assert_eq!(walk(|cookie| readdirplus(by, dir, cookie, [512, 1024]))?, plain);
    Ok(plain.into_iter().filter(|name| name != "." && name != "..").collect())
}

fn create(by: Client<'_>, dir: &Handle, name: &str) -> Handle {
    by.file(dir, name, Sattr3::default())
}

fn remove(by: Client<'_>, dir: &Handle, name: &str) {
    let object = DirOp { dir: dir.file_handle(), name: name.as_bytes() };
    assert_eq!(by.status(&Call::Remove { object }), Nfsstat3::OK);
}

#[test]
fn every_name_comes_once_whatever_the_page_size() {
    for world in World::all() {
        let (by, root) = (world.by(ROOT), world.root());
        let mut expected: Vec<String> = (0..100).map(|i| format!("{}{i}", "n".repeat(i % 60))).collect();
        for name in &expected {
            create(by, &root, name);
        }
        expected.extend([".".to_owned(), "..".to_owned()]);
        expected.sort();
        for count in [220, 300, 512, 4096, 65_536, u32::MAX] {
            let mut names = walk(|cookie| {
                let page = readdir(by, &root, cookie, count)?;
                assert!(page.size <= count as usize, "{} bytes, {count} allowed", page.size);
                Ok(page)
            })
            .expect("every entry fits");
            names.sort();
            assert_eq!(names, expected, "{}: pages of {count}", world.name);
        }
        for counts in [[512, 400], [64, 4096], [u32::MAX, u32::MAX]] {
            let mut names = walk(|cookie| {
                let page = readdirplus(by, &root, cookie, counts)?;
                assert!(page.size <= counts[1] as usize);
                Ok(page)
            })
            .expect("every entry fits");
            names.sort();
            assert_eq!(names, expected, "{}: pages of {counts:?}", world.name);
        }
    }
}

#[test]
fn a_page_that_holds_no_entry_is_too_small_and_an_empty_one_is_the_end() {
    for world in World::all() {
        let (by, root) = (world.by(ROOT), world.root());
        create(by, &root, &"n".repeat(255));
        for count in [0, 100, 128] {
            assert_eq!(readdir(by, &root, 0, count).err(), Some(Nfsstat3::TOOSMALL), "{}", world.name);
            assert_eq!(readdirplus(by, &root, 0, [count, count]).err(), Some(Nfsstat3::TOOSMALL), "{}", world.name);
        }
        let whole = readdir(by, &root, 0, 4096).expect("it is large enough");
        assert_eq!((whole.names.len(), whole.eof), (3, true));
        let end = readdir(by, &root, whole.cookie(), 4096).expect("it is large enough");
        assert_eq!((end.names.len(), end.eof), (0, true), "{}", world.name);
    }
}

#[test]
fn a_listing_shows_each_name_that_stays_once_while_others_come_and_go() {
    for world in World::all() {
        let (by, root) = (world.by(ROOT), world.root());
        let names: Vec<String> = (0..200).map(|i| format!("name-{i}")).collect();
        for name in &names {
            create(by, &root, name);
        }
        let mut step = 0;
        let seen = walk(|cookie| {
            // Every third goes away, new ones come, between any two pages.
            if let Some(name) = names.get(step * 3) {
                remove(by, &root, name);
                create(by, &root, &format!("late-{step}"));
            }
            step += 1;
            readdir(by, &root, cookie, 400)
        })
        .expect("a listing goes on");
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for name in &seen {
            *counts.entry(name).or_default() += 1;
        }
        let staying = names.iter().enumerate().filter(|(i, _)| i % 3 != 0);
        for (_, name) in staying {
            assert_eq!(counts.get(name.as_str()), Some(&1), "{}: {name}", world.name);
        }
        assert!(counts.values().all(|count| *count == 1), "{}", world.name);
    }
}

#[test]
fn dots_lead_to_the_directory_and_its_parent_and_never_above_the_root() {
    for world in World::all() {
        let (by, root) = (world.by(ROOT), world.root());
        let place = DirOp { dir: root.file_handle(), name: b"d" };
        let attributes = Sattr3 { mode: Some(0o700), ..Sattr3::default() };
        let dir = by.make(&Call::Mkdir { place, attributes }).expect("a new name");
        let [root_id, dir_id] = [&root, &dir].map(|handle| by.attributes(handle).expect("it is there").fileid);
        for (handle, own, parent) in [(&root, root_id, root_id), (&dir, dir_id, root_id)] {
            let page = readdir(by, handle, 0, 4096).expect("it can be read");
            let ids: HashMap<_, _> = page.names.into_iter().map(|(name, fileid, _)| (name, fileid)).collect();
            assert_eq!((ids["."], ids[".."]), (own, parent), "{}", world.name);
        }
        assert_eq!(by.lookup(&root, b".."), Ok(root), "{}", world.name);
        assert_eq!(by.lookup(&dir, b".."), Ok(root), "{}", world.name);
        assert_eq!(by.lookup(&dir, b"."), Ok(dir), "{}", world.name);
    }
}

#[test]
fn without_search_permission_names_come_without_handles() {
    for world in World::with_users() {
        let (by, root) = (world.by(ROOT), world.root());
        let attributes = Sattr3 { mode: Some(0o744), ..Sattr3::default() };
        let place = DirOp { dir: root.file_handle(), name: b"d" };
        let dir = by.make(&Call::Mkdir { place, attributes }).expect("a new name");
        create(by, &dir, "f");
        let names = walk(|cookie| readdirplus(world.by(user(1000)), &dir, cookie, [512, 512])).expect("it may be read");
        assert_eq!(names.len(), 3, "{}", world.name);
    }
}

#[test]
fn a_directory_of_a_million_names_works_and_is_the_same_on_every_server() {
    const NAMES: usize = 1_000_000;
    let world = World::memory(Limits::default());
    let root = world.root();
    let mut out = Vec::new();
    for i in 0..NAMES {
        let name = format!("file-{i}");
        let place = DirOp { dir: root.file_handle(), name: name.as_bytes() };
        let call = Call::Create { place, how: CreateHow::Guarded(Sattr3::default()) };
        out.clear();
        assert_eq!(world.namespace.execute(&SERVER, &ROOT, &call, &mut out), Nfsstat3::OK);
    }
    let other = midas_nfsd::Identity { server: 7, write_verifier: *b"another.", salt: 0 };
    let (mut cookie, mut pages, mut seen) = (0, [Vec::new(), Vec::new()], HashSet::new());
    loop {
        let call = Call::Readdir { dir: root.file_handle(), cookie, cookieverf: [0; 8], count: 1 << 18 };
        for (server, page) in [SERVER, other].iter().zip(&mut pages) {
            page.clear();
            assert_eq!(world.namespace.execute(server, &ROOT, &call, page), Nfsstat3::OK);
        }
        assert_eq!(pages[0], pages[1]);
        let Ok(Reply::Readdir(Ok(page))) = Reply::decode(Procedure::Readdir, &pages[0]) else { panic!("no page") };
        let mut entries = page.entries();
        for entry in entries.by_ref() {
            let entry = entry.expect("an entry can be decoded");
            cookie = entry.cookie;
            assert!(entry.fileid != 0 && seen.insert(entry.fileid) || entry.name.starts_with(b"."));
        }
        if entries.eof() == Some(true) {
            break;
        }
    }
    assert_eq!(seen.len(), NAMES + 1);
}
