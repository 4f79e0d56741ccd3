//! Calls and handles that were made to have one 64-bit key. The key only places calls: nobody gets
//! another's answer by it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_core::key::Key;
use midas_core::rng::mix;
use midas_lab::mkdir;
use midas_lab::raw::{Raw, getattr, handle, in_one_fragment, nfs, results, status, xid};
use midas_nfs::nfs3::{Call, DirOp, Nfsstat3, Procedure, Reply, Sattr3};
use rustix::process::Signal;
use std::collections::BTreeMap;
use support::members::Members;
use support::nfsd::Nfsd;
use support::serve::{Export, Site};

/// Other bytes with the same key: 16 of them, at a multiple of 8, are changed. Those that come in
/// must satisfy `fit`.
fn twin(bytes: &[u8], at: usize, fit: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap());
    let step = |state: u64, word: u64| mix(state ^ word).wrapping_mul(SALT);
    let before = (0..at).step_by(8).fold(mix(bytes.len() as u64 ^ SALT), |state, at| step(state, word(at)));
    let candidates = (1..1000_u64).map(|number| {
        let first = mix(number) | 0x4040_4040_4040_4040;
        let second = step(before, word(at)) ^ step(before, first) ^ word(at + 8);
        [first.to_le_bytes(), second.to_le_bytes()].concat()
    });
    let other = candidates.into_iter().find(|other| fit(other)).unwrap();
    let twin = [&bytes[..at], &other, &bytes[at + 16..]].concat();
    assert!(twin != bytes && Key::of(&twin) == Key::of(bytes), "the key is made otherwise now");
    twin
}

/// The owner of a handle was asked for once for all handles with its key: what was said of junk held
/// for the directory.
#[test]
fn a_junk_handle_with_the_key_of_a_directory_does_not_make_the_directory_stale() {
    let nfsd = Nfsd::start(&["--servers", "2"]);
    let (mut direct, top) = nfsd.endpoint(0).client();
    let below = mkdir(&mut direct, &top, b"scratch");
    mkdir(&mut direct, &top, b"software");
    let made = |number| mkdir(&mut direct, &below, format!("made-{number}").as_bytes());
    let directories: Vec<Vec<u8>> = (0..DIRECTORIES).map(made).collect();
    let site = Site { source: "/scratch".to_owned(), ..Site::of(&nfsd.endpoints()) };
    let mut proxy = site.and(&Export { access: "ro", ..Export::of("/software", "/software") }).start();
    // It has seen none of them.
    proxy.signal(Signal::KILL);
    proxy.ended();
    proxy.again();
    let mut raw = Raw::connect(proxy.nfs[0]);
    let calls = directories.iter().enumerate().flat_map(|(number, directory)| {
        let junk = getattr(2 * number as u32, &twin(directory, 0, |_| true));
        [in_one_fragment(&junk), in_one_fragment(&getattr(2 * number as u32 + 1, directory))]
    });
    raw.say(&calls.collect::<Vec<_>>().concat());
    let said: BTreeMap<u32, Nfsstat3> = (0..2 * DIRECTORIES)
        .map(|_| {
            let answer = raw.receive();
            (xid(&answer), status(&answer))
        })
        .collect();
    for (xid, status) in said {
        let (junk, ok) = (xid % 2 == 0, status == Nfsstat3::OK);
        assert_ne!(junk, ok, "call {xid} is answered {status:?}");
    }
}

/// A client's call was known again at another member by the key of its record: who sent another
/// call with the same number and the same key had the first one's answer, and nothing was made.
#[test]
fn a_call_with_the_number_and_the_key_of_another_is_executed_at_another_member_too() {
    let mut nfsd = Nfsd::start(&["--servers", "2", "--truth", "--export", "/scratch"]);
    let members = Members::start(|| Site { export: LEASED, ..Site::of(&nfsd.endpoints()) });
    let (_, root) = members.daemons[0].client();
    let [mut first, mut second] = [0, 1].map(|member| Raw::connect(members.daemons[member].nfs[0]));
    for number in 0..CALLS {
        let name = format!("{number:04}{}", "n".repeat(60));
        let place = DirOp { dir: handle(&root), name: name.as_bytes() };
        let one = nfs(number, &Call::Mkdir { place, attributes: Sattr3::default() });
        // Behind the number, which does not count, the name's middle at a multiple of 8.
        let body = &one[4..];
        let begin = body.windows(60).position(|window| window == [b'n'; 60]).unwrap();
        let other = twin(body, begin.next_multiple_of(8), |bytes| !bytes.iter().any(|byte| [0, b'/'].contains(byte)));
        let other = [&one[..4], &other].concat();
        let made = [(&mut first, &one), (&mut second, &other)].map(|(member, record)| {
            member.send(record);
            let answer = member.receive();
            match Reply::decode(Procedure::Mkdir, results(&answer)).unwrap() {
                Reply::Mkdir(Ok(made)) => made.object.unwrap().bytes().to_vec(),
                refused => panic!("{:?}", refused.status()),
            }
        });
        assert_ne!(made[0], made[1], "the second was told what the first has made");
    }
    assert_eq!(nfsd.executed("MKDIR").iter().sum::<u64>(), u64::from(2 * CALLS));
}

/// The salt of [`Key::of`].
const SALT: u64 = 0x6d69_6461_7321_0001;
const DIRECTORIES: u32 = 150;
const CALLS: u32 = 16;
const LEASED: &str = "mode = \"lease\"\nwriters = \"midas-only\"\nserver_hold_max = \"2s\"\n";
