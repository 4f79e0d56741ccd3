//! What bad clients say over RPC, and what must come of it: one table, and a few ways to send, for every server of ours.
//!
//! Whoever is wrong is told so, or let go; the connection stays wherever it can. Nothing here knows which server is asked: what only one
//! of them refuses, it adds to the table.

use crate::raw::{Raw, call, getattr, in_one_fragment, status, with_credential, xid};
use midas_nfs::nfs3::{self, Nfsstat3, Procedure};
use midas_nfs::record::mark;
use midas_nfs::rpc::{AuthStat, OpaqueAuth, Refusal, flavor};
use midas_nfs::{mount, portmap};
use std::collections::BTreeSet;
use std::net::{Shutdown, SocketAddr};
use std::thread;

/// A record, and what it is refused with; nothing where there is nobody to answer.
pub type Exchange = (Vec<u8>, Option<Refusal>);

/// Plays the table, and what is this server's own: each is answered so, and the connection stays, in step.
pub fn refuses_by_name(address: SocketAddr, root: &[u8], own: Vec<Exchange>) {
    let mut raw = Raw::connect(address);
    for (record, refusal) in [absent(), garbage(), credentials(), own].concat() {
        match refusal {
            Some(refusal) => assert_eq!(raw.refused(&record), refusal, "{record:x?}"),
            None => raw.send(&record),
        }
        raw.alive();
    }
    raw.served(root);
}

/// Programs, versions, procedures and arguments that are not there.
fn absent() -> Vec<Exchange> {
    let named = [
        (call(2, 100_227, 3, 0, &[]), Refusal::ProgUnavail),
        (call(3, nfs3::PROGRAM, 2, 0, &[]), Refusal::ProgMismatch { low: 3, high: 3 }),
        (call(4, nfs3::PROGRAM, 4, 0, &[]), Refusal::ProgMismatch { low: 3, high: 3 }),
        (call(5, nfs3::PROGRAM, 3, 22, &[]), Refusal::ProcUnavail),
        (call(6, nfs3::PROGRAM, 3, u32::MAX, &[]), Refusal::ProcUnavail),
        (call(8, nfs3::PROGRAM, 3, 1, &[0, 0, 0, 65]), Refusal::GarbageArgs),
        (call(9, nfs3::PROGRAM, 3, 3, &[0xff; 64]), Refusal::GarbageArgs),
        (call(10, mount::PROGRAM, 2, 0, &[]), Refusal::ProgMismatch { low: 1, high: 3 }),
        (call(11, mount::PROGRAM, 3, 6, &[]), Refusal::ProcUnavail),
        (call(12, mount::PROGRAM, 3, 1, &[0xff; 8]), Refusal::GarbageArgs),
        (call(13, portmap::PROGRAM, 5, 0, &[]), Refusal::ProgMismatch { low: 2, high: 4 }),
        (call(14, portmap::PROGRAM, 2, 5, &[]), Refusal::ProcUnavail),
    ];
    // Arguments end too early in every procedure that has some.
    let short = Procedure::ALL.into_iter().filter(|procedure| *procedure != Procedure::Null);
    let short = short.map(|procedure| (call(17, nfs3::PROGRAM, 3, procedure as u32, &[]), Refusal::GarbageArgs));
    named.into_iter().chain(short).map(|(record, refusal)| (record, Some(refusal))).collect()
}

/// What is no call, or not one of our RPC.
fn garbage() -> Vec<Exchange> {
    let mut old = call(2, nfs3::PROGRAM, 3, 0, &[]);
    old[11] = 1;
    vec![
        // Too short for a number.
        (vec![], None),
        (vec![1], None),
        (vec![0, 0, 0, 1, 0, 0], None),
        // A reply.
        (vec![0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0], None),
        (vec![0, 0, 0, 1, 0, 0, 0, 0], Some(Refusal::GarbageArgs)),
        (old, Some(Refusal::RpcMismatch { low: 2, high: 2 })),
    ]
}

/// Credentials that nobody of ours takes.
fn credentials() -> Vec<Exchange> {
    let too_many_groups = [&[0; 16][..], &17_u32.to_be_bytes(), &[0; 68]].concat();
    let cases = [
        (flavor::GSS, &[0; 20][..], AuthStat::REJECTEDCRED),
        (2, &[], AuthStat::REJECTEDCRED),
        (flavor::SYS, &[0; 3], AuthStat::BADCRED),
        (flavor::SYS, &too_many_groups, AuthStat::BADCRED),
    ];
    let denied = |(flavor, body, why): (u32, &[u8], AuthStat)| {
        [Procedure::Null, Procedure::Getattr].map(|procedure| {
            let what = (nfs3::PROGRAM, nfs3::VERSION, procedure as u32);
            (with_credential(3, what, OpaqueAuth { flavor, body }, &[]), Some(Refusal::Auth(why)))
        })
    };
    cases.into_iter().flat_map(denied).collect()
}

/// A call in many fragments, with empty ones between them, is one call.
pub fn joins_fragments(address: SocketAddr, root: &[u8]) {
    let body = getattr(1, root);
    for size in [1, 3, 4, 7, body.len()] {
        let mut raw = Raw::connect(address);
        for piece in body.chunks(size) {
            raw.say(&[0; 4]);
            raw.say(&(piece.len() as u32).to_be_bytes());
            raw.say(piece);
        }
        raw.say(&mark(0));
        assert_eq!(status(&raw.receive()), Nfsstat3::OK, "pieces of {size}");
        raw.served(root);
    }
}

/// Who sends one byte at a time is served, and holds up nobody.
pub fn waits_for_single_bytes(address: SocketAddr, root: &[u8]) {
    let (mut slow, mut other) = (Raw::connect(address), Raw::connect(address));
    for byte in in_one_fragment(&getattr(1, root)) {
        slow.say(&[byte]);
        other.served(root);
    }
    assert_eq!(status(&slow.receive()), Nfsstat3::OK);
}

/// Claims over the largest record end their connections, and no others. Each kind comes so many times.
pub fn closes_large_claims(address: SocketAddr, largest: u32, times: usize) {
    let mut bystander = Raw::connect(address);
    for claim in [1 << 30, largest + 1] {
        for last in [0x8000_0000, 0] {
            for _ in 0..times {
                let mut raw = Raw::connect(address);
                raw.say(&(claim | last).to_be_bytes());
                assert!(raw.closed(), "after a claim of {claim} bytes");
            }
        }
    }
    bystander.alive();
}

/// Who ends its side gets its answers, is let go, and what it left unfinished is forgotten.
pub fn answers_who_ends(address: SocketAddr, root: &[u8]) {
    for calls in [0, 1, 50] {
        let mut raw = Raw::connect(address);
        for xid in 0..calls {
            raw.send(&getattr(xid, root));
        }
        raw.say(&mark(100)[..3]);
        raw.0.shutdown(Shutdown::Write).expect("it is connected");
        for _ in 0..calls {
            assert_eq!(status(&raw.receive()), Nfsstat3::OK);
        }
        assert!(raw.closed());
    }
}

/// Sends so many calls at once and collects the answers: every call has one, a good one.
pub fn answers_all(raw: &mut Raw, root: &[u8], count: u32, midway: impl FnOnce()) {
    let mut writer = Raw(raw.0.try_clone().expect("a connection has two ends here"));
    let root = root.to_vec();
    let sender = thread::spawn(move || (0..count).for_each(|xid| writer.send(&getattr(xid, &root))));
    midway();
    let mut answered = BTreeSet::new();
    for _ in 0..count {
        let answer = raw.receive();
        assert_eq!(status(&answer), Nfsstat3::OK);
        answered.insert(xid(&answer));
    }
    sender.join().expect("all were sent");
    assert!(answered.into_iter().eq(0..count));
}
