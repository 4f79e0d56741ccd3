//! B: RPC over TCP.

use crate::support::{client, plain, start};
use midas_lab::raw::{Raw, call, getattr, handle, in_one_fragment, nfs, results, status, with_credential, xid};
use midas_lab::{create, hostile};
use midas_nfs::nfs3::{self, DirOp, Nfsstat3, Procedure, Reply};
use midas_nfs::record::mark;
use midas_nfs::rpc::{OpaqueAuth, Refusal};
use midas_nfs::{mount, nlm};
use midas_nfsd::{Bounds, Command, Config, Fault, ServiceTimes};
use std::num::NonZeroUsize;

#[test]
fn b1_a_call_in_many_fragments_with_empty_ones_between_is_one_call() {
    let (_nfsd, address) = plain();
    hostile::joins_fragments(address, &client(address).1);
}

#[test]
fn b1_a_sender_of_one_byte_at_a_time_is_served_and_holds_up_nobody() {
    let (_nfsd, address) = plain();
    hostile::waits_for_single_bytes(address, &client(address).1);
}

#[test]
fn b1_a_record_over_the_cap_ends_its_connection_alone() {
    let (_nfsd, address) = plain();
    hostile::closes_large_claims(address, Bounds::default().record as u32, 1);
}

#[test]
fn b2_answers_in_another_order_carry_their_calls_xids() {
    let service = ServiceTimes::parse("getattr=const:200ms,lookup=const:1ms", 1).unwrap();
    let (_nfsd, address) = start(&Config { service, workers: NonZeroUsize::new(2).unwrap(), ..Config::default() });
    let (_, root) = client(address);
    let mut raw = Raw::connect(address);
    let what = DirOp { dir: handle(&root), name: b"nothing" };
    let records = [getattr(0xdead_0001, &root), nfs(0xbeef_0002, &nfs3::Call::Lookup { what })];
    raw.say(&records.map(|record| in_one_fragment(&record)).concat());
    let xids = [raw.receive(), raw.receive()].map(|answer| xid(&answer));
    assert_eq!(xids, [0xbeef_0002, 0xdead_0001]);
}

#[test]
fn b3_b4_what_is_wrong_is_refused_by_name_and_the_connection_stays() {
    let (_nfsd, address) = plain();
    let no_locks = (call(1, nlm::PROGRAM, 4, 0, &[]), Some(Refusal::ProgUnavail));
    hostile::refuses_by_name(address, &client(address).1, vec![no_locks]);
}

#[test]
fn b3_null_is_answered_without_a_credential() {
    let (_nfsd, address) = plain();
    let mut raw = Raw::connect(address);
    for program in [nfs3::PROGRAM, mount::PROGRAM] {
        raw.send(&with_credential(9, (program, 3, 0), OpaqueAuth::NONE, &[]));
        assert_eq!(results(&raw.receive()), []);
    }
}

#[test]
fn b5_ten_thousand_calls_in_flight_on_one_connection_are_all_answered() {
    let (nfsd, address) = plain();
    let (_, root) = client(address);
    let mut raw = Raw::connect(address);
    nfsd.command(0, Command::Fault(Fault::Hang)).unwrap();
    hostile::answers_all(&mut raw, &root, 10_000, || nfsd.command(0, Command::Fault(Fault::None)).unwrap());
}

#[test]
fn b5_a_client_over_its_bound_is_read_later_and_never_refused() {
    let service = ServiceTimes::parse("const:100us", 1).unwrap();
    let bounds = Bounds { calls: 16, ..Bounds::default() };
    let (_nfsd, address) =
        start(&Config { service, workers: NonZeroUsize::new(4).unwrap(), bounds, ..Config::default() });
    let (_, root) = client(address);
    hostile::answers_all(&mut Raw::connect(address), &root, 10_000, || {});
}

#[test]
fn b5_a_client_that_does_not_read_is_not_read_and_loses_nothing() {
    let bounds = Bounds { unread: 64 << 10, ..Bounds::default() };
    let (_nfsd, address) = start(&Config { bounds, ..Config::default() });
    let (_, root) = client(address);
    // More answers than the sockets' buffers hold, before the first is read.
    hostile::answers_all(&mut Raw::connect(address), &root, 100_000, || {});
}

#[test]
fn b1_many_large_records_at_once_take_turns_for_the_memory_and_all_are_answered() {
    let bounds = Bounds { unfinished: 3 << 20, ..Bounds::default() };
    let (_nfsd, address) = start(&Config { bounds, ..Config::default() });
    let (mut setup, root) = client(address);
    let file = create(&mut setup, &root, b"file");
    let data = vec![7; 1 << 20];
    let stable = nfs3::StableHow::Unstable;
    let body = nfs(5, &nfs3::Call::Write { file: handle(&file), offset: 0, count: 1 << 20, stable, data: &data });
    let mut raws: Vec<Raw> = (0..60).map(|_| Raw::connect(address)).collect();
    std::thread::scope(|scope| {
        // Half of each first, so that every connection holds the beginning of a record.
        for raw in &mut raws {
            let body = &body;
            scope.spawn(move || {
                raw.say(&mark(body.len()));
                raw.say(&body[..body.len() / 2]);
                raw.say(&body[body.len() / 2..]);
                assert_eq!(status(&raw.receive()), Nfsstat3::OK);
            });
        }
    });
}

#[test]
fn a_client_that_ends_its_side_gets_its_answers_and_is_let_go() {
    let (_nfsd, address) = plain();
    hostile::answers_who_ends(address, &client(address).1);
}

#[test]
fn b5_large_answers_that_are_not_read_stop_the_reading_within_a_batch() {
    let bounds = Bounds { unread: 1 << 20, ..Bounds::default() };
    let (_nfsd, address) = start(&Config { bounds, ..Config::default() });
    let (mut setup, root) = client(address);
    let file = create(&mut setup, &root, b"file");
    let (data, stable) = (vec![7; 64 << 10], nfs3::StableHow::Unstable);
    setup.nfs(&nfs3::Call::Write { file: handle(&file), offset: 0, count: 64 << 10, stable, data: &data }).unwrap();
    let mut raw = Raw::connect(address);
    let read = nfs3::Call::Read { file: handle(&file), offset: 0, count: 64 << 10 };
    let out: Vec<u8> = (0..1000).flat_map(|xid| in_one_fragment(&nfs(xid, &read))).collect();
    raw.say(&out);
    // Others are served meanwhile, and every answer comes when it is read.
    Raw::connect(address).alive();
    for number in 0..1000 {
        let answer = raw.receive();
        assert_eq!(xid(&answer), number);
        let Reply::Read(Ok(read)) = Reply::decode(Procedure::Read, results(&answer)).unwrap() else {
            panic!("it can be read")
        };
        assert_eq!(read.data.len(), 64 << 10);
    }
}
