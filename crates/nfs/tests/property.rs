//! What holds for every message, every stream and any bytes.

#[path = "../../../fuzz/src/lib.rs"]
#[allow(unreachable_pub, dead_code, reason = "a library of its own where the fuzzer builds it")]
mod fuzz;
mod support;

use midas_nfs::mount::{self, MountStat, Mounted};
use midas_nfs::nfs3::{
    Call, DirOp, Entries, FileHandle, Ftype3, Nfsstat3, Page, Procedure, ReaddirOk, ReaddirplusOk, Reply, made, subject,
};
use midas_nfs::record::{MARK, Records, Step};
use midas_nfs::rpc::{self, AuthStat, AuthSys, Credential, OpaqueAuth, Refusal, flavor};
use proptest::collection::vec;
use proptest::prelude::*;
use support::messages::{call, failure, success};
use support::{auth_sys, bytes, check, entry, entry_plus, failure_status, handle, opaque, opaque_auth, post_op};

#[test]
fn every_call_is_read_as_it_was_written() {
    for procedure in Procedure::ALL {
        check(call(procedure), |call| {
            let args = bytes(|out| call.encode(out));
            assert_eq!(args.len() % 4, 0);
            assert_eq!(Call::decode(procedure, &args), Ok(call));
            assert_eq!(call.procedure(), procedure);
            assert_eq!(subject(procedure, &args), subject_of(&call));
        });
    }
}

/// What [`subject`] reads without the rest.
fn subject_of<'a>(call: &Call<'a>) -> Option<(FileHandle<'a>, Option<&'a [u8]>)> {
    let named = |of: &DirOp<'a>| Some((of.dir, Some(of.name)));
    match call {
        Call::Null | Call::Rename { .. } | Call::Link { .. } => None,
        Call::Lookup { what } => named(what),
        Call::Create { place, .. }
        | Call::Mkdir { place, .. }
        | Call::Symlink { place, .. }
        | Call::Mknod { place, .. } => named(place),
        Call::Remove { object } | Call::Rmdir { object } => named(object),
        Call::Getattr { object }
        | Call::Setattr { object, .. }
        | Call::Access { object, .. }
        | Call::Pathconf { object } => Some((*object, None)),
        Call::Readlink { symlink } => Some((*symlink, None)),
        Call::Read { file, .. } | Call::Write { file, .. } | Call::Commit { file, .. } => Some((*file, None)),
        Call::Readdir { dir, .. } | Call::Readdirplus { dir, .. } => Some((*dir, None)),
        Call::Fsstat { fsroot } | Call::Fsinfo { fsroot } => Some((*fsroot, None)),
    }
}

#[test]
fn every_reply_is_read_as_it_was_written() {
    for procedure in Procedure::ALL {
        check(any_reply(procedure), |reply| {
            let results = bytes(|out| reply.encode(out));
            assert_eq!(results.len() % 4, 0);
            assert_eq!(Reply::decode(procedure, &results), Ok(reply));
            assert!(procedure == Procedure::Null || results[..4] == reply.status().0.to_be_bytes());
            if let Reply::Create(_) | Reply::Mkdir(_) | Reply::Symlink(_) = reply {
                assert_eq!(made(&results), made_of(&reply));
                let cut = (0..results.len()).filter_map(|length| made(&results[..length]));
                assert!(cut.into_iter().all(|cut| Some(cut) == made_of(&reply)), "a part says what the whole says");
            }
        });
    }
}

/// What [`made`] reads without the rest.
fn made_of<'a>(reply: &Reply<'a>) -> Option<(FileHandle<'a>, Option<Ftype3>)> {
    match reply {
        Reply::Create(Ok(ok)) | Reply::Mkdir(Ok(ok)) | Reply::Symlink(Ok(ok)) => {
            Some((ok.object?, ok.attributes.map(|of| of.ftype)))
        }
        _ => None,
    }
}

#[test]
fn every_header_is_read_as_it_was_written() {
    let flavors: &[u32] = &[flavor::NONE, flavor::SYS, 2, 3, flavor::GSS, u32::MAX];
    check((any::<[u32; 4]>(), opaque_auth(flavors), opaque_auth(flavors), opaque(50)), |(words, cred, verf, args)| {
        let [xid, program, version, procedure] = words;
        let call = rpc::Call { xid, program, version, procedure, credential: cred, verifier: verf, args };
        assert_eq!(rpc::Call::decode(&bytes(|out| call.encode(out))), Ok(call));
    });
    check((any::<u32>(), opaque(50)), |(xid, results)| {
        let mut record = bytes(|out| rpc::Reply::accept(out, xid));
        record.extend_from_slice(results);
        assert_eq!(rpc::Reply::decode(&record), Ok(rpc::Reply { xid, results: Ok(results) }));
    });
    check((any::<u32>(), refusal()), |(xid, why)| {
        let record = bytes(|out| rpc::Reply::refuse(out, xid, why));
        assert_eq!(rpc::Reply::decode(&record), Ok(rpc::Reply { xid, results: Err(why) }));
    });
    check(auth_sys(), |auth| {
        let body = bytes(|out| auth.encode(out));
        assert_eq!(AuthSys::decode(&body), Ok(auth));
        if body.len() <= OpaqueAuth::LONGEST {
            let credential = OpaqueAuth { flavor: flavor::SYS, body: &body };
            assert_eq!(Credential::decode(&credential), Ok(Credential::Sys(auth)));
        }
    });
}

#[test]
fn every_message_of_mount_is_read_as_it_was_written() {
    let version = prop_oneof![Just(mount::VERSION), Just(mount::VERSION_OLD)];
    check((version, mount_call()), |(version, call)| {
        let args = bytes(|out| call.encode(out));
        let answered = version == mount::VERSION || !matches!(call, mount::Call::Mnt(_));
        assert_eq!(mount::Call::decode(version, call.procedure(), &args), answered.then_some(Ok(call)));
    });
    check((handle(), vec(any::<u32>(), 0..=32)), |(handle, flavors)| {
        let mounted = Mounted { handle, flavors };
        let results = bytes(|out| Mounted::encode(Ok(&mounted), out));
        assert_eq!(Mounted::decode(&results), Ok(Ok(mounted)));
    });
    check((1..=u32::MAX).prop_map(MountStat), |stat| {
        assert_eq!(Mounted::decode(&bytes(|out| Mounted::encode(Err(stat), out))), Ok(Err(stat)));
    });
    check(vec((opaque(mount::MNTPATHLEN), vec(opaque(20), 0..4)), 0..5), |exports| {
        let given = exports.iter().map(|(path, groups)| (*path, &groups[..]));
        let results = bytes(|out| mount::put_exports(out, given));
        let paths: Vec<&[u8]> = exports.iter().map(|(path, _)| *path).collect();
        assert_eq!(mount::exports(&results, paths.len()), Ok(paths.clone()));
        assert!(paths.is_empty() || mount::exports(&results, paths.len() - 1).is_err());
    });
}

#[test]
fn records_are_the_same_however_they_are_fragmented_and_cut() {
    let fragments = vec(vec(any::<u8>(), 0..20), 1..6);
    check((vec(fragments, 1..6), vec(1..40_usize, 1..8)), |(records, cuts)| {
        let (mut stream, mut expected, mut limit) = (Vec::new(), Vec::new(), 0);
        for fragments in &records {
            for (index, fragment) in fragments.iter().enumerate() {
                stream.extend_from_slice(&mark(fragment.len(), index + 1 == fragments.len()));
                stream.extend_from_slice(fragment);
            }
            limit = limit.max(fragments.concat().len());
            expected.push(fragments.concat());
        }
        assert_eq!(read(&stream, &cuts, limit), Ok(expected));
        if limit > 0 {
            assert!(read(&stream, &cuts, limit - 1).is_err(), "one record is over the limit");
        }
    });
}

#[test]
fn no_bytes_break_a_decoder() {
    for (_, target) in fuzz::TARGETS {
        check(vec(any::<u8>(), 0..300), |bytes| target(&bytes));
    }
    // Half of random words are no lengths at all: small ones go deeper.
    let words = vec(prop_oneof![0..8_u32, any::<u32>()], 0..80);
    check((any::<u8>(), words), |(kind, words)| {
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        fuzz::nfs3::check(&[&[kind][..], &words].concat());
        fuzz::rpc::check(&words);
        fuzz::record::check(&words);
    });
}

#[test]
fn a_broken_byte_breaks_no_decoder() {
    let seeds = fuzz::seeds::all();
    let targets = |name| fuzz::TARGETS.iter().find(|(target, _)| *target == name).expect("every seed has a target").1;
    check((0..seeds.len(), any::<prop::sample::Index>(), any::<u8>()), |(seed, at, byte)| {
        let mut bytes = seeds[seed].bytes.clone();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        targets(seeds[seed].target)(&bytes);
    });
}

#[test]
fn a_cut_call_is_no_call() {
    for procedure in Procedure::ALL {
        check(call(procedure), |call| {
            let args = bytes(|out| call.encode(out));
            assert!((0..args.len()).all(|end| Call::decode(procedure, &args[..end]).is_err()));
        });
    }
}

#[test]
fn a_cut_reply_is_no_reply_and_a_cut_listing_does_not_end() {
    for procedure in Procedure::ALL {
        check(any_reply(procedure), |reply| {
            let results = bytes(|out| reply.encode(out));
            for end in 0..results.len() {
                match Reply::decode(procedure, &results[..end]) {
                    Ok(Reply::Readdir(Ok(cut))) => assert_unfinished(cut.entries(), cut.list),
                    Ok(Reply::Readdirplus(Ok(cut))) => assert_unfinished(cut.entries(), cut.list),
                    other => assert!(other.is_err(), "{end} bytes of {} are {other:?}", results.len()),
                }
            }
        });
    }
}

#[test]
fn the_arguments_of_a_call_are_found_by_its_lengths_alone() {
    check((opaque_auth(&[flavor::NONE, flavor::SYS]), any::<u32>()), |(auth, xid)| {
        let args = [1, 2, 3, 4];
        let call =
            rpc::Call { xid, program: 1, version: 2, procedure: 3, credential: auth, verifier: auth, args: &args };
        let record = bytes(|out| call.encode(out));
        assert_eq!(rpc::Call::args_of(&record), Some(&args[..]));
        for end in 0..record.len() {
            let decoded = rpc::Call::decode(&record[..end]).ok().map(|call| call.args);
            assert_eq!(rpc::Call::args_of(&record[..end]), decoded, "{end} bytes");
        }
    });
}

#[test]
fn a_cut_header_is_refused_or_unanswerable() {
    check((opaque_auth(&[flavor::NONE, flavor::SYS]), any::<u32>()), |(auth, xid)| {
        let call = rpc::Call { xid, program: 1, version: 2, procedure: 3, credential: auth, verifier: auth, args: b"" };
        let record = bytes(|out| call.encode(out));
        for end in 0..record.len() {
            match rpc::Call::decode(&record[..end]) {
                Err(rpc::NotACall::Refuse { xid: told, .. }) => assert!(end >= 8 && told == xid),
                other => assert!(end < 8 && other == Err(rpc::NotACall::Unanswerable), "{end} bytes are {other:?}"),
            }
        }
    });
    check((any::<u32>(), refusal()), |(xid, why)| {
        let record = bytes(|out| rpc::Reply::refuse(out, xid, why));
        assert!((0..record.len()).all(|end| rpc::Reply::decode(&record[..end]).is_err()));
    });
}

#[test]
fn a_page_of_readdir_keeps_to_its_limit_and_gives_back_what_it_took() {
    check((vec(entry(), 0..12), 0..700_u32, post_op(), any::<bool>()), |(entries, count, dir, eof)| {
        let mut page = Page::readdir(count, &dir);
        let taken = entries.iter().take_while(|entry| page.push(entry)).count();
        let too_small = page.too_small(eof);
        assert_eq!(page.entries(), taken);
        let list = page.finish(eof);
        let size = resok(&Reply::Readdir(Ok(ReaddirOk { dir_attributes: dir, cookieverf: [7; 8], list: &list })));
        assert_limits(taken, size, count, eof, too_small);
        let next = entries.get(taken).map_or(usize::MAX, |entry| 4 + entry.size());
        assert!(size.saturating_add(next) > count as usize, "the next entry would have fitted");
        let mut walk = ReaddirOk { dir_attributes: None, cookieverf: [7; 8], list: &list }.entries();
        assert_eq!(walk.by_ref().collect::<Result<Vec<_>, _>>().as_deref(), Ok(&entries[..taken]));
        assert_eq!(walk.eof(), Some(eof));
    });
}

#[test]
fn a_page_of_readdirplus_keeps_to_both_limits_and_gives_back_what_it_took() {
    let limits = (0..400_u32, 0..2000_u32);
    check((vec(entry_plus(), 0..12), limits, post_op(), any::<bool>()), |(entries, limits, dir, eof)| {
        let (dircount, maxcount) = limits;
        let mut page = Page::readdirplus(dircount, maxcount, &dir);
        let taken = entries.iter().take_while(|entry| page.push_plus(entry)).count();
        let too_small = page.too_small(eof);
        let list = page.finish(eof);
        let ok = ReaddirplusOk { dir_attributes: dir, cookieverf: [7; 8], list: &list };
        assert_limits(taken, resok(&Reply::Readdirplus(Ok(ok))), maxcount, eof, too_small);
        let names: usize = entries[..taken].iter().map(|plus| plus.entry.size()).sum();
        assert!(taken <= 1 || names <= dircount as usize, "{names} bytes of names, {dircount} were asked for");
        let mut walk = ok.entries();
        assert_eq!(walk.by_ref().collect::<Result<Vec<_>, _>>().as_deref(), Ok(&entries[..taken]));
        assert_eq!(walk.eof(), Some(eof));
    });
}

/// Both kinds of results, with the RFC's statuses and with others.
fn any_reply(procedure: Procedure) -> impl Strategy<Value = Reply<'static>> {
    let unknown = (1..=u32::MAX).prop_map(Nfsstat3);
    prop_oneof![2 => success(procedure), 1 => failure(procedure, failure_status()), 1 => failure(procedure, unknown)]
}

fn mount_call() -> impl Strategy<Value = mount::Call<'static>> {
    prop_oneof![
        Just(mount::Call::Null),
        opaque(mount::MNTPATHLEN).prop_map(mount::Call::Mnt),
        Just(mount::Call::Dump),
        opaque(mount::MNTPATHLEN).prop_map(mount::Call::Umnt),
        Just(mount::Call::Umntall),
        Just(mount::Call::Export),
    ]
}

fn refusal() -> impl Strategy<Value = Refusal> {
    let range = any::<(u32, u32)>();
    prop_oneof![
        Just(Refusal::ProgUnavail),
        range.prop_map(|(low, high)| Refusal::ProgMismatch { low, high }),
        Just(Refusal::ProcUnavail),
        Just(Refusal::GarbageArgs),
        Just(Refusal::SystemErr),
        range.prop_map(|(low, high)| Refusal::RpcMismatch { low, high }),
        any::<u32>().prop_map(|stat| Refusal::Auth(AuthStat(stat))),
    ]
}

fn mark(length: usize, last: bool) -> [u8; MARK] {
    (length as u32 | u32::from(last) << 31).to_be_bytes()
}

/// The records of a stream that comes in pieces.
fn read(stream: &[u8], cuts: &[usize], limit: usize) -> Result<Vec<Vec<u8>>, midas_nfs::record::TooLong> {
    let mut records = Records::new(limit);
    let (mut buffer, mut found, mut rest) = (Vec::new(), Vec::new(), stream);
    for cut in cuts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at(rest.len().min(*cut));
        rest = after;
        buffer.extend_from_slice(piece);
        loop {
            let (consumed, whole) = match records.next(&buffer)? {
                Step::Record { body, consumed } => (consumed, Some(body.to_vec())),
                Step::More { consumed, .. } => (consumed, None),
            };
            buffer.drain(..consumed);
            assert!(records.held() <= limit, "{} bytes are held, the limit is {limit}", records.held());
            match whole {
                Some(record) => found.push(record),
                None => break,
            }
        }
    }
    assert!(buffer.is_empty(), "nothing is left of whole records");
    Ok(found)
}

fn assert_unfinished<T>(mut entries: Entries<'_, T>, list: &[u8]) {
    let walked = entries.by_ref().take(list.len()).flatten().count();
    assert_eq!(entries.eof(), None, "a cut listing has no end");
    assert!(walked * LEAST_ENTRY <= list.len(), "{walked} entries in {} bytes", list.len());
}

/// Bytes of the results without their status.
fn resok(reply: &Reply<'_>) -> usize {
    bytes(|out| reply.encode(out)).len() - 4
}

fn assert_limits(taken: usize, size: usize, limit: u32, eof: bool, too_small: bool) {
    assert!(too_small || size <= limit as usize, "{size} bytes, {limit} were asked for");
    assert!(too_small || taken > 0 || eof, "a client would ask for ever");
    assert!(!too_small || taken == 0, "what was taken is told");
}

/// Follows, fileid, an empty name, cookie.
const LEAST_ENTRY: usize = 24;
