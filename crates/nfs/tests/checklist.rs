//! The protocol checklist, line by line, as far as bytes alone can show it: a handles, b RPC over TCP, f directories, k MOUNT and
//! portmap. What needs a socket is shown where the sockets are.

mod support;

use midas_nfs::mount::{self, MountStat, Mounted};
use midas_nfs::nfs3::{
    Call, DirOp, Entry, EntryPlus, FileHandle, LookupOk, Nfsstat3, Page, Procedure, ReaddirOk, Reply,
};
use midas_nfs::portmap::{self, Mapping};
use midas_nfs::record::{self, MARK, Records, Step, TooLong};
use midas_nfs::rpc::{self, AuthStat, AuthSys, Credential, NotACall, OpaqueAuth, Refusal, flavor};
use midas_nfs::xdr::{Malformed, Reader, put};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use support::bytes;

#[test]
fn a1_a_handle_of_64_bytes_passes_and_one_of_65_is_malformed() {
    for (length, expected) in [(0, true), (1, true), (63, true), (64, true), (65, false), (1 << 20, false)] {
        let handle = vec![0xa5; length];
        let args = bytes(|out| put::opaque(out, &handle));
        let read = Call::decode(Procedure::Getattr, &args);
        let object = FileHandle::new(&handle);
        assert_eq!(object.is_some(), expected, "{length} bytes");
        assert_eq!(read, object.map(|object| Call::Getattr { object }).ok_or(Malformed::TooLong), "{length} bytes");
    }
}

#[test]
fn b1_a_record_at_the_limit_is_taken_and_a_byte_more_ends_the_connection() {
    const LIMIT: usize = 1000;
    for pieces in [vec![LIMIT], vec![1, LIMIT - 1], vec![0, 300, 0, 700], vec![250; 4]] {
        assert_eq!(last_of(&fragments(&pieces), LIMIT), Ok(Some(LIMIT)), "{pieces:?}");
        let claimed = LIMIT + 1;
        let mut more = pieces;
        *more.last_mut().expect("every case has a piece") += 1;
        assert_eq!(last_of(&fragments(&more), LIMIT), Err(TooLong { claimed }), "{more:?}");
    }
}

#[test]
fn b1_a_claim_holds_no_memory_and_a_large_record_in_pieces_gives_its_memory_back() {
    const LIMIT: usize = 1 << 30;
    let mut records = Records::new(LIMIT);
    let claim = (LIMIT as u32).to_be_bytes();
    assert_eq!(records.next(&claim), Ok(Step::More { consumed: MARK, needed: 1 }));
    assert_eq!(records.held(), 0, "a gigabyte is claimed and nothing came");
    let mut records = Records::new(LIMIT);
    let large = fragments(&[1 << 16, 1 << 16]);
    assert!(matches!(records.next(&large), Ok(Step::Record { body, .. }) if body.len() == 1 << 17));
    assert_eq!(records.next(&[]), Ok(Step::More { consumed: 0, needed: MARK }));
    assert_eq!(records.held(), 0);
}

#[test]
fn b1_a_record_of_one_fragment_is_a_slice_of_what_came() {
    let input = bytes(|out| record::put(out, |out| out.extend_from_slice(b"body")));
    let mut records = Records::new(4);
    let Ok(Step::Record { body, consumed }) = records.next(&input) else {
        panic!("the record is whole");
    };
    assert_eq!((body.as_ptr(), consumed), (input[MARK..].as_ptr(), input.len()));
    assert_eq!(records.held(), 0);
}

#[test]
fn b2_the_xid_is_the_first_word_of_every_call_and_reply() {
    let xid = 0x0102_0304;
    let call = rpc::Call { xid, ..null_call(OpaqueAuth::NONE) };
    let messages = [
        bytes(|out| call.encode(out)),
        bytes(|out| rpc::Reply::accept(out, xid)),
        bytes(|out| rpc::Reply::refuse(out, xid, Refusal::SystemErr)),
        bytes(|out| rpc::Reply::refuse(out, xid, Refusal::Auth(AuthStat::BADCRED))),
    ];
    for message in messages {
        assert_eq!(message[..4], [1, 2, 3, 4]);
    }
}

/// RFC 5531, 9: xid, REPLY, then accepted with a verifier and a status, or denied with a reason.
#[test]
fn b3_every_refusal_has_the_bytes_of_the_rfc() {
    let cases: [(Refusal, &[u32]); 7] = [
        (Refusal::ProgUnavail, &[7, 1, 0, 0, 0, 1]),
        (Refusal::ProgMismatch { low: 3, high: 4 }, &[7, 1, 0, 0, 0, 2, 3, 4]),
        (Refusal::ProcUnavail, &[7, 1, 0, 0, 0, 3]),
        (Refusal::GarbageArgs, &[7, 1, 0, 0, 0, 4]),
        (Refusal::SystemErr, &[7, 1, 0, 0, 0, 5]),
        (Refusal::RpcMismatch { low: 2, high: 2 }, &[7, 1, 1, 0, 2, 2]),
        (Refusal::Auth(AuthStat::TOOWEAK), &[7, 1, 1, 1, 5]),
    ];
    for (why, expected) in cases {
        let reply = bytes(|out| rpc::Reply::refuse(out, 7, why));
        assert_eq!(reply, words(expected), "{why}");
        assert_eq!(rpc::Reply::decode(&reply), Ok(rpc::Reply { xid: 7, results: Err(why) }));
    }
    assert_eq!(bytes(|out| rpc::Reply::accept(out, 7)), words(&[7, 1, 0, 0, 0, 0]));
}

#[test]
fn b3_null_takes_nothing_and_gives_nothing_in_every_program() {
    assert_eq!(Call::decode(Procedure::Null, &[]), Ok(Call::Null));
    assert_eq!(bytes(|out| Reply::Null.encode(out)), [0; 0]);
    for version in [mount::VERSION_OLD, mount::VERSION] {
        assert_eq!(mount::Call::decode(version, 0, &[]), Some(Ok(mount::Call::Null)));
    }
    for version in portmap::VERSIONS.0..=portmap::VERSIONS.1 {
        assert_eq!(portmap::Call::decode(version, 0, &[]), Some(Ok(portmap::Call::Null)));
        assert_eq!(answer(&portmap::Call::Null, version), [0; 0]);
    }
}

#[test]
fn b3_a_procedure_that_is_not_there_is_told_apart_from_garbage() {
    for number in 0..=21 {
        assert_eq!(Procedure::from_number(number).map(|procedure| procedure as u32), Some(number));
    }
    for number in [22, 100, u32::MAX] {
        assert_eq!(Procedure::from_number(number), None);
        assert_eq!(mount::Call::decode(mount::VERSION, number, &[]), None);
        assert_eq!(portmap::Call::decode(2, number, &[]), None);
    }
    assert_eq!(mount::Call::decode(mount::VERSION, 6, &[]), None);
    assert_eq!(mount::Call::decode(mount::VERSION_OLD, 1, &[0; 4]), None, "version 1 has another handle");
    for (version, procedure) in [(2, 5), (2, 6), (2, 9), (3, 5), (3, 9), (4, 10), (4, 12)] {
        assert_eq!(portmap::Call::decode(version, procedure, &[]), None, "procedure {procedure} of {version}");
    }
}

#[test]
fn b3_arguments_that_cannot_be_read_are_malformed_in_every_procedure() {
    for procedure in Procedure::ALL.into_iter().skip(1) {
        assert_eq!(Call::decode(procedure, &[]), Err(Malformed::Short), "{procedure}");
        assert_eq!(Call::decode(procedure, &words(&[65])), Err(Malformed::TooLong), "{procedure}");
    }
    let place = [1, 0x6100_0000, 1, 0x6200_0000];
    let cases: [(Procedure, &[u32], Malformed); 6] = [
        (Procedure::Setattr, &[0, 2], Malformed::Value),
        (Procedure::Setattr, &[0, 0, 0, 0, 0, 3], Malformed::Value),
        (Procedure::Write, &[0, 0, 0, 0, 3, 0], Malformed::Value),
        (Procedure::Write, &[0, 0, 0, 0, 2, 5, 0], Malformed::Short),
        (Procedure::Create, &[place[0], place[1], place[2], place[3], 3], Malformed::Value),
        (Procedure::Mknod, &[place[0], place[1], place[2], place[3], 8], Malformed::Value),
    ];
    for (procedure, args, why) in cases {
        assert_eq!(Call::decode(procedure, &words(args)), Err(why), "{procedure} of {args:?}");
    }
    for (version, procedure) in [(2, 3), (3, 3), (4, 3), (4, 9)] {
        assert_eq!(portmap::Call::decode(version, procedure, &[0; 4]), Some(Err(Malformed::Short)));
    }
    let path = words(&[mount::MNTPATHLEN as u32 + 1]);
    assert_eq!(mount::Call::decode(mount::VERSION, 1, &path), Some(Err(Malformed::TooLong)));
}

/// Whatever begins as a call is answered with its xid; a reply, or less than its head, cannot be.
#[test]
fn b3_a_header_that_cannot_be_read_is_refused_not_closed() {
    let refused = |why| Err(NotACall::Refuse { xid: 7, why });
    let mismatch = Refusal::RpcMismatch { low: 2, high: 2 };
    let cases: [(&[u32], Result<(), NotACall>); 10] = [
        (&[], Err(NotACall::Unanswerable)),
        (&[7], Err(NotACall::Unanswerable)),
        (&[7, 1, 0, 0, 0, 0], Err(NotACall::Unanswerable)),
        (&[7, 2], Err(NotACall::Unanswerable)),
        (&[7, 0], refused(Refusal::GarbageArgs)),
        (&[7, 0, 2, 100_003, 3], refused(Refusal::GarbageArgs)),
        (&[7, 0, 1], refused(mismatch)),
        (&[7, 0, 3, 100_003, 3, 0, 0, 0, 0, 0], refused(mismatch)),
        (&[7, 0, 2, 100_003, 3, 0, 0, 0], refused(Refusal::Auth(AuthStat::BADVERF))),
        (&[7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0], Ok(())),
    ];
    for (record, expected) in cases {
        assert_eq!(rpc::Call::decode(&words(record)).map(|_| ()), expected, "{record:?}");
    }
}

#[test]
fn b4_a_credential_that_we_do_not_take_is_an_auth_error_and_the_next_call_is_read() {
    let gss = OpaqueAuth { flavor: flavor::GSS, body: &[0, 0, 0, 1, 0, 0, 0, 1] };
    let mut stream = Vec::new();
    for credential in [gss, OpaqueAuth::NONE] {
        record::put(&mut stream, |out| null_call(credential).encode(out));
    }
    let mut records = Records::new(100);
    let mut found = Vec::new();
    let mut rest = &stream[..];
    while let Ok(Step::Record { body, consumed }) = records.next(rest) {
        let call = rpc::Call::decode(body).expect("the header can be read, whatever the credential");
        found.push(Credential::decode(&call.credential).map(|_| ()));
        rest = &rest[consumed..];
    }
    assert_eq!(found, [Err(Refusal::Auth(AuthStat::REJECTEDCRED)), Ok(())]);
    let denied = bytes(|out| rpc::Reply::refuse(out, 7, Refusal::Auth(AuthStat::REJECTEDCRED)));
    assert_eq!(denied, words(&[7, 1, 1, 1, 2]), "MSG_DENIED, AUTH_ERROR, AUTH_REJECTEDCRED");
}

#[test]
fn b4_a_credential_that_cannot_be_read_is_a_bad_one() {
    let groups = |count: u32| [vec![0, 0, 1, 1, count], vec![5; count as usize]].concat();
    let cases: [(u32, Vec<u32>, Result<usize, Refusal>); 9] = [
        (flavor::NONE, vec![], Ok(0)),
        (flavor::SYS, groups(0), Ok(0)),
        (flavor::SYS, groups(16), Ok(16)),
        (flavor::SYS, groups(17), Err(Refusal::Auth(AuthStat::BADCRED))),
        (flavor::SYS, vec![0, 0, 1, 1, 2, 5], Err(Refusal::Auth(AuthStat::BADCRED))),
        (flavor::SYS, vec![0, 256], Err(Refusal::Auth(AuthStat::BADCRED))),
        (flavor::SYS, vec![], Err(Refusal::Auth(AuthStat::BADCRED))),
        (2, groups(0), Err(Refusal::Auth(AuthStat::REJECTEDCRED))),
        (u32::MAX, vec![], Err(Refusal::Auth(AuthStat::REJECTEDCRED))),
    ];
    for (flavor, body, expected) in cases {
        let body = words(&body);
        let groups = Credential::decode(&OpaqueAuth { flavor, body: &body }).map(|credential| match credential {
            Credential::None => 0,
            Credential::Sys(auth) => auth.gids().len(),
        });
        assert_eq!(groups, expected, "flavor {flavor}, {body:?}");
    }
    assert_eq!(AuthSys::new(0, &[b'x'; 256], 0, 0, &[]), None);
    assert_eq!(AuthSys::new(0, b"", 0, 0, &[0; 17]), None);
    let long = words(&[7, 0, 2, 100_003, 3, 0, flavor::SYS, OpaqueAuth::LONGEST as u32 + 1]);
    let why = Refusal::Auth(AuthStat::BADCRED);
    assert_eq!(rpc::Call::decode(&long), Err(NotACall::Refuse { xid: 7, why }));
}

/// The sizes are counted by hand: attributes 88 or 4, verifier 8, per entry 4 + 8 + 4 + name + 8, end and eof 8.
#[test]
fn f2_count_is_the_size_of_the_whole_result_to_the_byte() {
    let fattr = Some(some_fattr());
    for (dir, names, size) in [
        (None, &[&b"a"[..]][..], 4 + 8 + 28 + 8),
        (None, &[b"abcd", b"abcde"], 4 + 8 + 28 + 32 + 8),
        (fattr, &[b"a"], 88 + 8 + 28 + 8),
        (fattr, &[b"abc", b"", b"abcdefgh"], 88 + 8 + 28 + 24 + 32 + 8),
    ] {
        for (count, all) in [(size, true), (size - 1, false)] {
            let mut page = Page::readdir(count, &dir);
            assert_eq!(names.iter().all(|name| page.push(&entry(name))), all, "{names:?} in {count}");
            let list = page.finish(false);
            let ok = ReaddirOk { dir_attributes: dir, cookieverf: [0; 8], list: &list };
            let written = bytes(|out| Reply::Readdir(Ok(ok)).encode(out)).len() - 4;
            assert_eq!(written == size as usize, all);
            assert!(written <= count as usize);
        }
    }
}

/// entryplus3 of a four-byte name: 4 + 24 and 4 + 84 of attributes and 4 + 4 + 8 of handle; dircount counts the 24 alone.
#[test]
fn f2_maxcount_counts_everything_and_dircount_the_names() {
    const PLUS: u32 = 4 + 24 + 88 + 16;
    let plus = EntryPlus {
        entry: entry(b"name"),
        attributes: Some(some_fattr()),
        handle: Some(FileHandle::new(b"8 bytes.").expect("eight are few")),
    };
    for (dircount, maxcount, taken) in [
        (u32::MAX, 20 + 3 * PLUS, 3),
        (u32::MAX, 20 + 3 * PLUS - 1, 2),
        (48, u32::MAX, 2),
        (47, u32::MAX, 1),
        (0, 20 + PLUS, 1),
        (0, 20 + PLUS - 1, 0),
    ] {
        let mut page = Page::readdirplus(dircount, maxcount, &None);
        let fitted = (0..3).take_while(|_| page.push_plus(&plus)).count();
        assert_eq!((fitted, page.entries()), (taken, taken), "dircount {dircount}, maxcount {maxcount}");
        assert_eq!(page.too_small(false), taken == 0);
    }
}

#[test]
fn f2_nothing_fits_is_toosmall_and_never_an_empty_page_that_does_not_end() {
    for (count, dir, name, eof, too_small) in [
        (47, None, Some(&b"a"[..]), false, true),
        (48, None, Some(b"a"), false, false),
        (20, None, None, true, false),
        (19, None, None, true, true),
        (104, Some(some_fattr()), None, true, false),
        (103, Some(some_fattr()), None, true, true),
        (0, None, None, true, true),
    ] {
        let mut page = Page::readdir(count, &dir);
        let fitted = name.is_none_or(|name| page.push(&entry(name)));
        assert_eq!(page.too_small(eof && fitted), too_small, "{count} bytes for {name:?}");
    }
    for procedure in [Procedure::Readdir, Procedure::Readdirplus] {
        let reply = bytes(|out| Reply::failed(procedure, Nfsstat3::TOOSMALL).encode(out));
        assert_eq!(reply, words(&[10005, 0]), "{procedure}");
    }
}

/// Every byte but NUL and the slash, in every position of a word, in calls and in listings.
#[test]
fn f3_names_are_bytes_and_pass_unchanged() {
    let dir = FileHandle::new(b"dir").expect("three are few");
    let alphabet: Vec<u8> = (1..=u8::MAX).filter(|byte| *byte != b'/').collect();
    let mut names: Vec<Vec<u8>> = (0..4).map(|shift| alphabet[shift..].to_vec()).collect();
    names.extend([b".".to_vec(), b"..".to_vec(), b"\xc3\x28".to_vec(), b"e\xcc\x81".to_vec(), vec![b'x'; 255]]);
    let mut page = Page::readdir(u32::MAX, &None);
    for name in &names {
        let call = Call::Lookup { what: DirOp { dir, name } };
        let args = bytes(|out| call.encode(out));
        assert!(args.windows(name.len()).any(|window| window == name), "the name is in the bytes as it is");
        assert_eq!(Call::decode(Procedure::Lookup, &args), Ok(call));
        assert!(page.push(&entry(name)));
    }
    let list = page.finish(true);
    let walked = ReaddirOk { dir_attributes: None, cookieverf: [0; 8], list: &list }.entries();
    let walked: Vec<Vec<u8>> = walked.map(|entry| entry.expect("a whole list").name.to_vec()).collect();
    assert_eq!(walked, names, "in the order in which they were given, the dots among them");
}

#[test]
fn f3_fileids_and_cookies_keep_all_their_bits() {
    for value in [1, u64::from(u32::MAX), 1 << 32, 1 << 63, u64::MAX] {
        let mut page = Page::readdir(u32::MAX, &None);
        assert!(page.push(&Entry { fileid: value, name: b"x", cookie: !value }));
        let list = page.finish(true);
        let entry = ReaddirOk { dir_attributes: None, cookieverf: [0; 8], list: &list }.entries().next();
        assert_eq!(entry, Some(Ok(Entry { fileid: value, name: b"x", cookie: !value })));
    }
}

#[test]
fn h3_a_lookup_without_attributes_still_has_its_handle() {
    let object = FileHandle::new(b"object").expect("six are few");
    let reply = Reply::Lookup(Ok(LookupOk { object, attributes: None, dir_attributes: None }));
    let results = bytes(|out| reply.encode(out));
    assert_eq!(results, [&words(&[0, 6])[..], b"object\0\0", &words(&[0, 0])].concat());
    assert_eq!(Reply::decode(Procedure::Lookup, &results), Ok(reply));
}

#[test]
fn k_every_procedure_of_mount_is_read_in_both_versions() {
    let path = bytes(|out| put::opaque(out, b"/export"));
    let cases: [(u32, &[u8], mount::Call<'_>); 6] = [
        (0, &[], mount::Call::Null),
        (1, &path, mount::Call::Mnt(b"/export")),
        (2, &[], mount::Call::Dump),
        (3, &path, mount::Call::Umnt(b"/export")),
        (4, &[], mount::Call::Umntall),
        (5, &[], mount::Call::Export),
    ];
    for (number, args, call) in cases {
        assert_eq!(mount::Call::decode(mount::VERSION, number, args), Some(Ok(call)));
        let old = mount::Call::decode(mount::VERSION_OLD, number, args);
        assert_eq!(old, (number != 1).then_some(Ok(call)), "version 1 of procedure {number}");
        assert_eq!((call.procedure(), bytes(|out| call.encode(out))), (number, args.to_vec()));
    }
}

#[test]
fn k_mounts_answers_have_the_bytes_of_the_rfc() {
    let handle = FileHandle::new(b"root").expect("four are few");
    let mounted = Mounted { handle, flavors: vec![flavor::SYS, flavor::NONE] };
    let root = u32::from_be_bytes(*b"root");
    assert_eq!(bytes(|out| Mounted::encode(Ok(&mounted), out)), words(&[0, 4, root, 2, 1, 0]));
    assert_eq!(bytes(|out| Mounted::encode(Err(MountStat::ACCES), out)), words(&[13]));
    assert_eq!(Mounted::decode(&words(&[0, 4, root, 33])), Err(Malformed::TooLong), "more flavors than there are");
    let [path, node] = [*b"/ex\0", *b"n1\0\0"].map(u32::from_be_bytes);
    let nobody: [(&[u8], &[u8]); 0] = [];
    assert_eq!(bytes(|out| mount::put_dump(out, nobody)), words(&[0]));
    let dump = bytes(|out| mount::put_dump(out, [(&b"n1"[..], &b"/ex"[..])]));
    assert_eq!(dump, words(&[1, 2, node, 3, path, 0]));
    let (groups, everyone): ([&[u8]; 1], [&[u8]; 0]) = ([b"n1"], []);
    let exports = bytes(|out| mount::put_exports(out, [(&b"/ex"[..], &groups[..]), (b"/ex", &everyone)]));
    assert_eq!(exports, words(&[1, 3, path, 1, 2, node, 0, 1, 3, path, 0, 0]));
    assert_eq!(mount::exports(&exports, 2), Ok(vec![&b"/ex"[..], b"/ex"]));
    assert_eq!(mount::exports(&exports, 1), Err(Malformed::TooLong));
}

#[test]
fn k_getport_tells_the_port_over_tcp_and_zero_for_what_is_not_there() {
    for (program, version, protocol, port) in [
        (NFS, 3, TCP, 2049),
        (MOUNT, 3, TCP, 635),
        (MOUNT, 1, TCP, 636),
        // The program itself says PROG_MISMATCH, with the versions that it has.
        (NFS, 4, TCP, 2049),
        (NFS, 3, UDP, 0),
        (NLM, 4, TCP, 0),
        (100_227, 3, TCP, 0),
    ] {
        let args = words(&[program, version, protocol, 0]);
        let call = portmap::Call::decode(2, 3, &args).expect("GETPORT is answered").expect("it can be read");
        assert_eq!(answer(&call, 2), words(&[port]), "program {program}, version {version}, protocol {protocol}");
    }
}

#[test]
fn k_getaddr_tells_the_universal_address_that_the_client_can_reach() {
    let v6: IpAddr = "fe80::1".parse().expect("an address");
    let mapped: IpAddr = "::ffff:10.0.0.9".parse().expect("an address");
    let (v4, any4, any6) = (LOCAL, at(Ipv4Addr::UNSPECIFIED, 2049), at(Ipv6Addr::UNSPECIFIED, 2049));
    for (listens, local, netid, expected) in [
        (at(Ipv4Addr::new(10, 1, 2, 3), 2049), v4, "tcp", "10.1.2.3.8.1"),
        (any4, v4, "tcp", "10.0.0.7.8.1"),
        (any4, v4, "", "10.0.0.7.8.1"),
        (any6, v6, "tcp6", "fe80::1.8.1"),
        (any6, mapped, "tcp", "10.0.0.9.8.1"),
        (any4, v4, "udp", ""),
        (any4, v4, "udp6", ""),
        (any4, v4, "tcp6", ""),
        (any4, v6, "tcp6", ""),
        (any4, v6, "tcp", "0.0.0.0.8.1"),
        (any6, v6, "", "fe80::1.8.1"),
        (any6, mapped, "", "10.0.0.9.8.1"),
        (any6, mapped, "tcp6", ""),
        (at(Ipv6Addr::LOCALHOST, 2049), v6, "tcp6", "::1.8.1"),
        (at(Ipv6Addr::LOCALHOST, 2049), v4, "tcp", ""),
    ] {
        let known = [Mapping { program: NFS, version: 3, address: listens }];
        let args = getaddr(NFS, 3, netid);
        for version in [3, 4] {
            let call = portmap::Call::decode(version, 3, &args).expect("GETADDR is answered").expect("it can be read");
            let told = bytes(|out| call.answer(out, version, &known, local, 0));
            assert_eq!(Reader::new(&told).opaque(64), Ok(expected.as_bytes()), "{listens} from {local} by {netid}");
        }
    }
}

#[test]
fn k_of_listeners_of_both_families_each_client_is_told_its_own() {
    let known = [at(Ipv6Addr::LOCALHOST, 2049), at(Ipv4Addr::LOCALHOST, 2050)];
    let known = known.map(|address| Mapping { program: NFS, version: 3, address });
    for (local, port, address) in [("127.0.0.1", 2050, "127.0.0.1.8.2"), ("::1", 2049, "::1.8.1")] {
        let local: IpAddr = local.parse().expect("an address");
        let getport = portmap::Call::Getport { program: NFS, version: 3, protocol: TCP };
        assert_eq!(bytes(|out| getport.answer(out, 2, &known, local, 0)), words(&[port]));
        let getaddr = portmap::Call::Getaddr { program: NFS, version: 3, netid: b"", exact: true };
        let told = bytes(|out| getaddr.answer(out, 4, &known, local, 0));
        assert_eq!(Reader::new(&told).opaque(64), Ok(address.as_bytes()));
    }
}

#[test]
fn k_getversaddr_tells_that_version_or_nothing() {
    for (version, expected) in [(3, "10.0.0.7.8.1"), (4, "")] {
        let args = getaddr(NFS, version, "tcp");
        let call = portmap::Call::decode(4, 9, &args).expect("GETVERSADDR is answered").expect("it can be read");
        assert_eq!(Reader::new(&answer(&call, 4)).opaque(64), Ok(expected.as_bytes()), "version {version}");
    }
}

#[test]
fn k_rpcinfo_lists_what_is_there_in_every_version() {
    let v2 = [[1, NFS, 3, TCP, 2049], [1, MOUNT, 3, TCP, 635], [1, MOUNT, 1, TCP, 636]].concat();
    assert_eq!(answer(&portmap::Call::Dump, 2), words(&[&v2[..], &[0]].concat()));
    for version in [3, 4] {
        let expected = bytes(|out| {
            for (program, of, address) in
                [(NFS, 3, "10.0.0.7.8.1"), (MOUNT, 3, "10.0.0.7.2.123"), (MOUNT, 1, "10.0.0.7.2.124")]
            {
                out.extend(words(&[1, program, of]));
                for text in ["tcp", address, "superuser"] {
                    put::opaque(out, text.as_bytes());
                }
            }
            put::bool(out, false);
        });
        assert_eq!(answer(&portmap::Call::Dump, version), expected, "version {version}");
    }
    let dual = [Mapping { program: NFS, version: 3, address: at(Ipv6Addr::UNSPECIFIED, 2049) }];
    for (local, netid, address) in [("::ffff:10.0.0.9", "tcp", "10.0.0.9.8.1"), ("fe80::1", "tcp6", "fe80::1.8.1")] {
        let local = local.parse().expect("an address");
        let told = bytes(|out| portmap::Call::Dump.answer(out, 4, &dual, local, 0));
        let mut from = Reader::new(&told[12..]);
        assert_eq!((from.opaque(9), from.opaque(64)), (Ok(netid.as_bytes()), Ok(address.as_bytes())));
    }
}

#[test]
fn k_nothing_is_registered_over_the_wire_and_the_time_is_told() {
    let asked = words(&[NFS, 3, TCP, 1]);
    for (version, procedure) in [(2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (4, 2)] {
        let call = portmap::Call::decode(version, procedure, &asked).expect("SET is answered");
        assert_eq!(answer(&call.expect("with FALSE, whatever it asks"), version), words(&[0]));
    }
    for version in [3, 4] {
        let call = portmap::Call::decode(version, 6, &[]).expect("GETTIME is answered").expect("it has no arguments");
        assert_eq!(answer(&call, version), words(&[NOW]));
    }
}

fn answer(call: &portmap::Call<'_>, version: u32) -> Vec<u8> {
    let known = [(NFS, 3, 2049), (MOUNT, 3, 635), (MOUNT, 1, 636)].map(|(program, version, port)| Mapping {
        program,
        version,
        address: at(Ipv4Addr::UNSPECIFIED, port),
    });
    bytes(|out| call.answer(out, version, &known, LOCAL, NOW))
}

fn getaddr(program: u32, version: u32, netid: &str) -> Vec<u8> {
    let mut args = words(&[program, version]);
    for text in [netid, "", "root"] {
        put::opaque(&mut args, text.as_bytes());
    }
    args
}

fn at(ip: impl Into<IpAddr>, port: u16) -> SocketAddr {
    SocketAddr::new(ip.into(), port)
}

/// One record in fragments of these lengths.
fn fragments(lengths: &[usize]) -> Vec<u8> {
    let mut stream = Vec::new();
    for (index, length) in lengths.iter().enumerate() {
        let last = u32::from(index + 1 == lengths.len()) << 31;
        put::u32(&mut stream, *length as u32 | last);
        stream.extend(vec![0x5a; *length]);
    }
    stream
}

/// The length of the one record of a stream that comes byte by byte.
fn last_of(stream: &[u8], limit: usize) -> Result<Option<usize>, TooLong> {
    let mut records = Records::new(limit);
    let mut buffer = Vec::new();
    let mut found = None;
    for byte in stream {
        buffer.push(*byte);
        let consumed = match records.next(&buffer)? {
            Step::Record { body, consumed } => {
                found = Some(body.len());
                consumed
            }
            Step::More { consumed, .. } => consumed,
        };
        buffer.drain(..consumed);
        assert!(records.held() <= limit);
    }
    Ok(found)
}

fn null_call(credential: OpaqueAuth<'_>) -> rpc::Call<'_> {
    let verifier = OpaqueAuth::NONE;
    rpc::Call { xid: 7, program: NFS, version: 3, procedure: 0, credential, verifier, args: &[] }
}

fn entry(name: &[u8]) -> Entry<'_> {
    Entry { fileid: 1, name, cookie: 2 }
}

fn some_fattr() -> midas_nfs::nfs3::Fattr3 {
    let zeros = [&words(&[2])[..], &[0; 80]].concat();
    midas_nfs::nfs3::Fattr3::decode(&mut Reader::new(&zeros)).expect("a directory of zeros")
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));
const NOW: u32 = 1_700_000_000;
const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;
const NLM: u32 = 100_021;
const TCP: u32 = 6;
const UDP: u32 = 17;
