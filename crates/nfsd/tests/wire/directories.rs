//! F: directories.

use crate::support::{client, plain};
use midas_lab::create;
use midas_lab::raw::handle;
use midas_net::Client;
use midas_nfs::nfs3::{self, Call, DirOp, Nfsstat3, Reply};
use std::collections::BTreeSet;

/// Every name of a directory, listed with pages of `count` bytes, and the size of each page's resok.
fn list(client: &mut Client, dir: &[u8], count: u32, plus: bool) -> Result<Vec<(Vec<u8>, u64)>, Nfsstat3> {
    let (mut names, mut cookie, mut cookieverf) = (Vec::new(), 0, [0; 8]);
    for _ in 0..10_000 {
        let call = match plus {
            true => Call::Readdirplus { dir: handle(dir), cookie, cookieverf, dircount: count, maxcount: count },
            false => Call::Readdir { dir: handle(dir), cookie, cookieverf, count },
        };
        let mut page = Vec::new();
        let eof = match client.nfs(&call).unwrap() {
            Reply::Readdir(Ok(ok)) => {
                let mut entries = ok.entries();
                page.extend(
                    entries.by_ref().map(Result::unwrap).map(|entry| (entry.name.to_vec(), entry.fileid, entry.cookie)),
                );
                cookieverf = ok.cookieverf;
                let size = 4 + ok.dir_attributes.map_or(0, |_| 84) + 8 + ok.list.len();
                assert!(size <= count as usize, "{size} bytes for {count}");
                entries.eof()
            }
            Reply::Readdirplus(Ok(ok)) => {
                let mut entries = ok.entries();
                page.extend(
                    entries
                        .by_ref()
                        .map(Result::unwrap)
                        .map(|plus| (plus.entry.name.to_vec(), plus.entry.fileid, plus.entry.cookie)),
                );
                cookieverf = ok.cookieverf;
                let size = 4 + ok.dir_attributes.map_or(0, |_| 84) + 8 + ok.list.len();
                assert!(size <= count as usize, "{size} bytes for {count}");
                entries.eof()
            }
            failed => return Err(failed.status()),
        };
        assert!(!page.is_empty() || eof == Some(true), "an empty page without eof: a client would ask for ever");
        cookie = page.last().map_or(cookie, |(_, _, cookie)| *cookie);
        names.extend(page.into_iter().map(|(name, fileid, _)| (name, fileid)));
        if eof == Some(true) {
            return Ok(names);
        }
    }
    panic!("the listing does not end")
}

#[test]
fn f2_counts_are_xdr_sizes_and_every_page_size_lists_every_name_once() {
    let (_nfsd, address) = plain();
    let (mut client, root) = client(address);
    let made: BTreeSet<Vec<u8>> =
        (0..200).map(|number| format!("{number:0>width$}", width = 3 + number % 40).into_bytes()).collect();
    for name in &made {
        create(&mut client, &root, name);
    }
    for plus in [false, true] {
        for count in [320, 333, 512, 1000, 4096, 65_536] {
            let mut names: Vec<_> = list(&mut client, &root, count, plus).unwrap();
            names.retain(|(name, _)| name != b"." && name != b"..");
            assert_eq!(names.len(), made.len(), "count {count}");
            assert_eq!(names.into_iter().map(|(name, _)| name).collect::<BTreeSet<_>>(), made);
        }
    }
}

#[test]
fn f2_no_room_for_one_entry_is_toosmall_never_an_empty_page() {
    let (_nfsd, address) = plain();
    let (mut client, root) = client(address);
    create(&mut client, &root, &[b'x'; 255]);
    for plus in [false, true] {
        for count in [0, 1, 50, 104, 120] {
            assert_eq!(list(&mut client, &root, count, plus), Err(Nfsstat3::TOOSMALL), "count {count}");
        }
    }
    // Room for `.` and `..` but not for the long name: the listing stops there and says so.
    assert_eq!(list(&mut client, &root, 200, false), Err(Nfsstat3::TOOSMALL));
}

#[test]
fn f3_names_are_bytes() {
    let (_nfsd, address) = plain();
    let (mut client, root) = client(address);
    let bytes = (1..=255_u8).filter(|byte| *byte != b'/');
    let mut made: BTreeSet<Vec<u8>> = bytes.map(|byte| vec![b'n', byte]).collect();
    made.insert(vec![0xff; 255]);
    made.insert(b"\xc3\x28 not utf-8".to_vec());
    for name in &made {
        create(&mut client, &root, name);
    }
    let names = list(&mut client, &root, 8192, true).unwrap();
    let listed: BTreeSet<_> =
        names.into_iter().map(|(name, _)| name).filter(|name| name != b"." && name != b"..").collect();
    assert_eq!(listed, made);
    for name in &made {
        let found = client.nfs(&Call::Lookup { what: DirOp { dir: handle(&root), name } }).unwrap();
        assert_eq!(found.status(), Nfsstat3::OK, "{name:?}");
    }
}

#[test]
fn f3_no_fileid_is_zero_and_dot_and_dot_dot_are_there() {
    let (_nfsd, address) = plain();
    let (mut client, root) = client(address);
    create(&mut client, &root, b"file");
    let names = list(&mut client, &root, 8192, false).unwrap();
    assert!(names.iter().all(|(_, fileid)| *fileid != 0));
    let Reply::Getattr(Ok(of_root)) = client.nfs(&nfs3::Call::Getattr { object: handle(&root) }).unwrap() else {
        panic!("the root has attributes")
    };
    let dots: Vec<_> = names.iter().filter(|(name, _)| name.starts_with(b".")).collect();
    assert_eq!(dots, [&(b".".to_vec(), of_root.fileid), &(b"..".to_vec(), of_root.fileid)]);
}
