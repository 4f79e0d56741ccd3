//! B: RPC over TCP.

use crate::support::{Raw, call, client, getattr, nfs, plain, start};
use midas_nfs::nfs3::{self, DirOp, Procedure, Reply};
use midas_nfs::record::mark;
use midas_nfs::rpc::{self, AuthStat, OpaqueAuth, Refusal, flavor};
use midas_nfsd::{Bounds, Command, Config, Fault, ServiceTimes};
use std::collections::BTreeSet;
use std::io::Write;

fn attributes(answer: &[u8]) -> Reply<'_> {
    let reply = rpc::Reply::decode(answer).unwrap();
    Reply::decode(Procedure::Getattr, reply.results.unwrap()).unwrap()
}

#[test]
fn b1_a_call_in_many_fragments_with_empty_ones_between_is_one_call() {
    let (_nfsd, address) = plain();
    let (_, root) = client(address);
    let body = getattr(1, &root);
    for size in [1, 3, 4, 7, body.len()] {
        let mut raw = Raw::connect(address);
        for piece in body.chunks(size) {
            raw.0.write_all(&[0; 4]).unwrap();
            raw.0.write_all(&(piece.len() as u32).to_be_bytes()).unwrap();
            raw.0.write_all(piece).unwrap();
        }
        raw.0.write_all(&mark(0)).unwrap();
        assert!(matches!(attributes(&raw.receive()), Reply::Getattr(Ok(_))));
        raw.alive();
    }
}

#[test]
fn b1_a_sender_of_one_byte_at_a_time_is_served_and_holds_up_nobody() {
    let (_nfsd, address) = plain();
    let (mut other, root) = client(address);
    let body = getattr(1, &root);
    let mut raw = Raw::connect(address);
    for byte in mark(body.len()).iter().chain(&body) {
        raw.0.write_all(&[*byte]).unwrap();
        let call = nfs3::Call::Getattr { object: crate::support::handle(&root) };
        assert!(matches!(other.nfs(&call).unwrap(), Reply::Getattr(Ok(_))));
    }
    assert!(matches!(attributes(&raw.receive()), Reply::Getattr(Ok(_))));
}

#[test]
fn b1_a_record_over_the_cap_ends_its_connection_alone() {
    let (_nfsd, address) = plain();
    let mut bystander = Raw::connect(address);
    for claim in [1 << 30, Bounds::default().record + 1] {
        for last in [0x8000_0000, 0] {
            let mut raw = Raw::connect(address);
            raw.0.write_all(&(claim as u32 | last).to_be_bytes()).unwrap();
            assert!(raw.closed());
        }
    }
    bystander.alive();
}

#[test]
fn b2_answers_in_another_order_carry_their_calls_xids() {
    let service = ServiceTimes::parse("getattr=const:200ms,lookup=const:1ms", 1).unwrap();
    let (_nfsd, address) = start(&Config { service, workers: 2, ..Config::default() });
    let (_, root) = client(address);
    let mut raw = Raw::connect(address);
    raw.send(&getattr(0xdead_0001, &root));
    let what = DirOp { dir: crate::support::handle(&root), name: b"nothing" };
    raw.send(&nfs(0xbeef_0002, &nfs3::Call::Lookup { what }));
    let xids = [raw.receive(), raw.receive()].map(|answer| rpc::Reply::decode(&answer).unwrap().xid);
    assert_eq!(xids, [0xbeef_0002, 0xdead_0001]);
}

#[test]
fn b3_what_is_not_there_is_refused_by_name_and_the_connection_stays() {
    let (_nfsd, address) = plain();
    let mut raw = Raw::connect(address);
    let cases = [
        (call(1, 100_021, 4, 0, &[]), Refusal::ProgUnavail),
        (call(2, 100_227, 3, 0, &[]), Refusal::ProgUnavail),
        (call(3, nfs3::PROGRAM, 2, 0, &[]), Refusal::ProgMismatch { low: 3, high: 3 }),
        (call(4, nfs3::PROGRAM, 4, 0, &[]), Refusal::ProgMismatch { low: 3, high: 3 }),
        (call(5, nfs3::PROGRAM, 3, 22, &[]), Refusal::ProcUnavail),
        (call(6, nfs3::PROGRAM, 3, u32::MAX, &[]), Refusal::ProcUnavail),
        (call(7, nfs3::PROGRAM, 3, 1, &[]), Refusal::GarbageArgs),
        (call(8, nfs3::PROGRAM, 3, 1, &[0, 0, 0, 65]), Refusal::GarbageArgs),
        (call(9, nfs3::PROGRAM, 3, 3, &[0xff; 64]), Refusal::GarbageArgs),
        (call(10, 100_005, 2, 0, &[]), Refusal::ProgMismatch { low: 1, high: 3 }),
        (call(11, 100_005, 3, 6, &[]), Refusal::ProcUnavail),
        (call(12, 100_005, 3, 1, &[0xff; 8]), Refusal::GarbageArgs),
        (call(13, 100_000, 5, 0, &[]), Refusal::ProgMismatch { low: 2, high: 4 }),
        (call(14, 100_000, 2, 5, &[]), Refusal::ProcUnavail),
    ];
    for (body, why) in cases {
        assert_eq!(raw.refused(&body), why);
        raw.alive();
    }
}

#[test]
fn b3_null_is_answered_without_a_credential() {
    let (_nfsd, address) = plain();
    let mut raw = Raw::connect(address);
    for program in [nfs3::PROGRAM, 100_005] {
        let credential = OpaqueAuth::NONE;
        let mut body = Vec::new();
        let verifier = OpaqueAuth::NONE;
        rpc::Call { xid: 9, program, version: 3, procedure: 0, credential, verifier, args: &[] }.encode(&mut body);
        raw.send(&body);
        assert_eq!(rpc::Reply::decode(&raw.receive()).unwrap().results, Ok(&[][..]));
    }
}

#[test]
fn b3_garbage_is_answered_where_it_has_a_number_and_never_ends_the_connection() {
    let (_nfsd, address) = plain();
    let mut raw = Raw::connect(address);
    // Too short for a number, or a reply: nobody to answer.
    for nothing in [&[][..], &[1], &[0, 0, 0, 1, 0, 0], &[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0]] {
        raw.send(nothing);
        raw.alive();
    }
    assert_eq!(raw.refused(&[0, 0, 0, 1, 0, 0, 0, 0]), Refusal::GarbageArgs);
    let mut old = call(2, nfs3::PROGRAM, 3, 0, &[]);
    old[11] = 1;
    assert_eq!(raw.refused(&old), Refusal::RpcMismatch { low: 2, high: 2 });
    raw.alive();
}

#[test]
fn b4_a_credential_that_we_do_not_take_is_denied_and_the_connection_stays() {
    let (_nfsd, address) = plain();
    let mut raw = Raw::connect(address);
    let too_many_groups = [&[0; 16][..], &17_u32.to_be_bytes(), &[0; 68]].concat();
    let cases = [
        (flavor::GSS, &[0; 20][..], AuthStat::REJECTEDCRED),
        (2, &[], AuthStat::REJECTEDCRED),
        (flavor::SYS, &[0; 3], AuthStat::BADCRED),
        (flavor::SYS, &too_many_groups, AuthStat::BADCRED),
    ];
    for (flavor, body, stat) in cases {
        for procedure in [0, 1] {
            let credential = OpaqueAuth { flavor, body };
            let verifier = OpaqueAuth::NONE;
            let mut out = Vec::new();
            rpc::Call { xid: 3, program: nfs3::PROGRAM, version: 3, procedure, credential, verifier, args: &[] }
                .encode(&mut out);
            assert_eq!(raw.refused(&out), Refusal::Auth(stat));
            raw.alive();
        }
    }
}

/// Sends `count` calls at once and collects the xids of the answers, all of which must be good.
fn all_answered(raw: &mut Raw, root: &[u8], count: u32, midway: impl FnOnce()) {
    let mut writer = raw.0.try_clone().unwrap();
    let root = root.to_vec();
    let sender = std::thread::spawn(move || {
        for xid in 0..count {
            let body = getattr(xid, &root);
            writer.write_all(&mark(body.len())).unwrap();
            writer.write_all(&body).unwrap();
        }
    });
    midway();
    let mut xids = BTreeSet::new();
    for _ in 0..count {
        let answer = raw.receive();
        assert!(matches!(attributes(&answer), Reply::Getattr(Ok(_))));
        xids.insert(rpc::Reply::decode(&answer).unwrap().xid);
    }
    sender.join().unwrap();
    assert_eq!(xids.len(), count as usize);
}

#[test]
fn b5_ten_thousand_calls_in_flight_on_one_connection_are_all_answered() {
    let (nfsd, address) = plain();
    let (_, root) = client(address);
    let mut raw = Raw::connect(address);
    nfsd.command(0, Command::Fault(Fault::Hang)).unwrap();
    all_answered(&mut raw, &root, 10_000, || nfsd.command(0, Command::Fault(Fault::None)).unwrap());
}

#[test]
fn b5_a_client_over_its_bound_is_read_later_and_never_refused() {
    let service = ServiceTimes::parse("const:100us", 1).unwrap();
    let bounds = Bounds { calls: 16, ..Bounds::default() };
    let (_nfsd, address) = start(&Config { service, workers: 4, bounds, ..Config::default() });
    let (_, root) = client(address);
    all_answered(&mut Raw::connect(address), &root, 10_000, || {});
}

#[test]
fn b5_a_client_that_does_not_read_is_not_read_and_loses_nothing() {
    let bounds = Bounds { unread: 64 << 10, ..Bounds::default() };
    let (_nfsd, address) = start(&Config { bounds, ..Config::default() });
    let (_, root) = client(address);
    // More answers than the sockets' buffers hold, before the first is read.
    all_answered(&mut Raw::connect(address), &root, 100_000, || {});
}
