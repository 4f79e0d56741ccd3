//! What strict mode shares (nfs3.md, D4): the answer of a call that has not left yet, and of no other.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::create;
use midas_lab::raw::{self, Raw, handle};
use midas_nfs::nfs3::{Call, Nfsstat3};
use serde_json::json;
use std::collections::BTreeSet;
use support::nfsd::Nfsd;
use support::serve::Site;

const CALLS: u32 = 16;

/// One server takes one call at a time: of sixteen identical ones that come together the first leaves, the second must wait here,
/// and the others wait with that one.
#[test]
fn identical_calls_that_wait_for_a_server_leave_as_one() {
    let mut nfsd = Nfsd::start(&["--service", "const:200ms", "--truth"]);
    let pool = "in_flight_max = 1\n".to_owned();
    let proxy = Site { pool, ..Site::of(&nfsd.endpoints()) }.start();
    let (mut client, root) = proxy.client();
    let file = create(&mut client, &root, b"file");
    let call = Call::Access { object: handle(&file), access: 0x3f };
    let together: Vec<u8> = (1..=CALLS).flat_map(|xid| raw::in_one_fragment(&raw::nfs(xid, &call))).collect();
    let mut raw = Raw::connect(proxy.nfs[0]);
    raw.say(&together);
    let answered: BTreeSet<u32> = (0..CALLS)
        .map(|_| {
            let answer = raw.receive();
            assert_eq!(raw::status(&answer), Nfsstat3::OK);
            raw::xid(&answer)
        })
        .collect();
    assert_eq!(answered.len() as u32, CALLS, "everyone has an answer");
    assert_eq!(nfsd.executed("ACCESS").iter().sum::<u64>(), 2);
    let status: serde_json::Value = serde_json::from_str(&proxy.command("status --json")).unwrap();
    let reads = json!({ "answered": 0, "absent": 0, "joined": CALLS - 2, "fetched": 0 });
    assert_eq!(status["exports"][0]["cache"]["reads"], reads);
    // Each of these has left before the next one comes.
    for xid in 1..=3 {
        raw.send(&raw::nfs(xid, &call));
        assert_eq!(raw::status(&raw.receive()), Nfsstat3::OK);
    }
    assert_eq!(nfsd.executed("ACCESS").iter().sum::<u64>(), 5);
}
