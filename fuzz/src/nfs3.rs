//! Arguments and results of NFSv3, MOUNT and portmap. Input: what it is (see [`Kind`]), then the bytes.

use super::{assert_same_but_padding, bytes};
use midas_nfs::nfs3::{Call, Entry, EntryPlus, Page, PostOpAttr, Procedure, Reply};
use midas_nfs::portmap::{self, Mapping};
use midas_nfs::xdr::Reader;
use midas_nfs::{mount, nfs3};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What an input's first byte says of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Arguments of a procedure.
    Call(Procedure),
    /// Results of a procedure.
    Reply(Procedure),
    /// Arguments of a procedure of MOUNT; the version comes first.
    MountCall(u8),
    /// Results of MNT.
    Mounted,
    /// Results of EXPORT.
    Exports,
    /// Arguments of a procedure of portmap; the version comes first.
    Portmap(u8),
}

impl Kind {
    /// Every kind; an input's first byte is an index, and wraps around.
    pub fn all() -> Vec<Self> {
        let calls = Procedure::ALL.into_iter().map(Self::Call);
        let replies = Procedure::ALL.into_iter().map(Self::Reply);
        let mounts = (0..=MOUNT_PROCEDURES).map(Self::MountCall);
        let ports = (0..=PORTMAP_PROCEDURES).map(Self::Portmap);
        calls.chain(replies).chain(mounts).chain([Self::Mounted, Self::Exports]).chain(ports).collect()
    }
}

/// One message.
pub fn check(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let kinds = Kind::all();
    match kinds[usize::from(*kind) % kinds.len()] {
        Kind::Call(procedure) => call(procedure, rest),
        Kind::Reply(procedure) => reply(procedure, rest),
        Kind::MountCall(procedure) => mount_call(procedure.into(), rest),
        Kind::Mounted => mounted(rest),
        Kind::Exports => exports(rest),
        Kind::Portmap(procedure) => ports(procedure.into(), rest),
    }
}

fn call(procedure: Procedure, args: &[u8]) {
    let Ok(call) = Call::decode(procedure, args) else {
        return;
    };
    assert_eq!(call.procedure(), procedure);
    let again = bytes(|out| call.encode(out));
    assert_same_but_padding(args, &again);
    assert_eq!(Call::decode(procedure, &again), Ok(call));
}

fn reply(procedure: Procedure, results: &[u8]) {
    // Any bytes.
    let _front = nfs3::made(results);
    let Ok(reply) = Reply::decode(procedure, results) else {
        return;
    };
    let again = bytes(|out| reply.encode(out));
    assert_same_but_padding(results, &again);
    assert_eq!(Reply::decode(procedure, &again), Ok(reply));
    match reply {
        Reply::Readdir(Ok(ok)) => {
            listing(ok.list, &ok.dir_attributes, ok.entries(), |entry| *entry, |page, entry| page.push(entry));
        }
        Reply::Readdirplus(Ok(ok)) => {
            let push = |page: &mut Page, entry: &EntryPlus<'_>| page.push_plus(entry);
            listing(ok.list, &ok.dir_attributes, ok.entries(), |plus| plus.entry, push);
        }
        other => assert!(procedure == Procedure::Null || results[..4] == other.status().0.to_be_bytes()),
    }
}

/// A listing that can be walked can be built, and one that is built under limits keeps them.
fn listing<'a, T>(
    list: &[u8],
    dir: &PostOpAttr,
    mut entries: nfs3::Entries<'a, T>,
    entry: impl Fn(&T) -> Entry<'a>,
    push: impl Fn(&mut Page, &T) -> bool,
) {
    let walked: Vec<T> = entries.by_ref().map_while(Result::ok).collect();
    assert!(entries.next().is_none(), "an error ends the walk");
    if let Some(eof) = entries.eof() {
        let mut page = Page::readdir(u32::MAX, dir);
        assert!(walked.iter().all(|item| push(&mut page, item)));
        assert_same_but_padding(list, &page.finish(eof));
    }
    let (dircount, maxcount) = (list.len() / 3, list.len() / 2);
    let mut page = Page::readdirplus(dircount as u32, maxcount as u32, dir);
    let taken = walked.iter().take_while(|item| push(&mut page, item)).count();
    assert_eq!(taken, page.entries());
    let dir_size: usize = walked[..taken].iter().map(|item| entry(item).size()).sum();
    assert!(taken <= 1 || dir_size <= dircount, "{dir_size} bytes of names where {dircount} were asked for");
    let too_small = page.too_small(false);
    let size = 4 + dir.map_or(0, |_| nfs3::Fattr3::SIZE) + size_of::<nfs3::Verifier>() + page.finish(false).len();
    assert_eq!(too_small, taken == 0);
    assert!(too_small || size <= maxcount, "{size} bytes where {maxcount} were asked for");
}

fn mount_call(procedure: u32, data: &[u8]) {
    let Some((version, args)) = data.split_first() else {
        return;
    };
    if let Some(Ok(call)) = mount::Call::decode((*version).into(), procedure, args) {
        assert_eq!(call.procedure(), procedure);
        let again = bytes(|out| call.encode(out));
        assert_same_but_padding(args, &again);
        assert_eq!(mount::Call::decode((*version).into(), procedure, &again), Some(Ok(call)));
    }
}

fn mounted(results: &[u8]) {
    if let Ok(result) = mount::Mounted::decode(results) {
        let again = bytes(|out| mount::Mounted::encode(result.as_ref().map_err(|stat| *stat), out));
        assert_same_but_padding(results, &again);
        assert_eq!(mount::Mounted::decode(&again), Ok(result));
    }
}

fn exports(results: &[u8]) {
    if let Ok(paths) = mount::exports(results, MOST_EXPORTS) {
        assert!(paths.len() <= MOST_EXPORTS);
        let nobody: &[&[u8]] = &[];
        let again = bytes(|out| mount::put_exports(out, paths.iter().map(|path| (*path, nobody))));
        assert!(again.len() <= results.len());
        assert_eq!(mount::exports(&again, MOST_EXPORTS), Ok(paths));
    }
}

fn ports(procedure: u32, data: &[u8]) {
    let Some((version, args)) = data.split_first() else {
        return;
    };
    let version = 2 + u32::from(version % 3);
    let Some(Ok(call)) = portmap::Call::decode(version, procedure, args) else {
        return;
    };
    let known = [
        Mapping { program: 100_003, version: 3, address: SocketAddr::from((Ipv4Addr::LOCALHOST, 2049)) },
        Mapping { program: 100_005, version: 3, address: SocketAddr::from((Ipv6Addr::UNSPECIFIED, 635)) },
    ];
    let answer = bytes(|out| call.answer(out, version, &known, IpAddr::V4(Ipv4Addr::LOCALHOST), 1));
    let mut from = Reader::new(&answer);
    let listed = match call {
        portmap::Call::Null => Ok(0),
        portmap::Call::Change => from.bool().map(usize::from),
        portmap::Call::Getport { .. } | portmap::Call::Gettime => from.u32().map(|_| 0),
        portmap::Call::Getaddr { .. } => from.opaque(LONGEST_ADDRESS).map(|_| 0),
        portmap::Call::Dump => mappings(&mut from, version),
    };
    assert_eq!(listed, Ok(if call == portmap::Call::Dump { known.len() } else { 0 }));
    assert!(from.rest().is_empty(), "the answer ends where its type does");
}

/// The number of mappings in a DUMP.
fn mappings(from: &mut Reader<'_>, version: u32) -> Result<usize, midas_nfs::xdr::Malformed> {
    let mut count = 0;
    while from.bool()? {
        let words = if version == 2 { 4 } else { 2 };
        (0..words).try_for_each(|_| from.u32().map(drop))?;
        let strings = if version == 2 { 0 } else { 3 };
        (0..strings).try_for_each(|_| from.opaque(LONGEST_ADDRESS).map(drop))?;
        count += 1;
    }
    Ok(count)
}

/// One more than MOUNT has, so that an unknown one is there too.
const MOUNT_PROCEDURES: u8 = 6;
/// As many as rpcbind version 4 has.
const PORTMAP_PROCEDURES: u8 = 12;
const MOST_EXPORTS: usize = 16;
const LONGEST_ADDRESS: usize = 64;
