//! Headers of calls and replies. Input: a record.

use super::{assert_same_but_padding, bytes};
use midas_nfs::rpc::{AuthSys, Call, Credential, NotACall, OpaqueAuth, Refusal, Reply, flavor};

/// The record as a call, as a reply and as the body of an AUTH_SYS credential.
pub fn check(data: &[u8]) {
    call(data);
    reply(data);
    auth_sys(data);
}

fn call(record: &[u8]) {
    match Call::decode(record) {
        Ok(call) => {
            let again = bytes(|out| call.encode(out));
            assert_eq!(again.len(), record.len());
            assert_same_but_padding(record, &again);
            assert_eq!(Call::decode(&again), Ok(call));
            credential(&call.credential);
        }
        Err(NotACall::Refuse { xid, why }) => {
            assert_eq!(record[..4], xid.to_be_bytes());
            refused(xid, why);
        }
        Err(NotACall::Unanswerable) => assert!(record.len() < 8 || record[4..8] != [0; 4], "a call has an answer"),
    }
}

/// A refusal is a reply that says the same.
fn refused(xid: u32, why: Refusal) {
    let reply = bytes(|out| Reply::refuse(out, xid, why));
    assert_eq!(Reply::decode(&reply), Ok(Reply { xid, results: Err(why) }));
}

fn credential(auth: &OpaqueAuth<'_>) {
    match Credential::decode(auth) {
        Ok(Credential::None) => assert_eq!(auth.flavor, flavor::NONE),
        Ok(Credential::Sys(_)) => assert_eq!(auth.flavor, flavor::SYS),
        Err(why) => refused(0, why),
    }
}

fn reply(record: &[u8]) {
    let Ok(reply) = Reply::decode(record) else {
        return;
    };
    match reply.results {
        Ok(results) => {
            assert!(record.ends_with(results));
            let mut again = bytes(|out| Reply::accept(out, reply.xid));
            again.extend_from_slice(results);
            assert_eq!(Reply::decode(&again), Ok(reply));
        }
        Err(why) => refused(reply.xid, why),
    }
}

fn auth_sys(body: &[u8]) {
    if let Ok(auth) = AuthSys::decode(body) {
        let again = bytes(|out| auth.encode(out));
        assert_same_but_padding(body, &again);
        assert_eq!(AuthSys::decode(&again), Ok(auth));
        assert_eq!(AuthSys::new(auth.stamp, auth.machinename, auth.uid, auth.gid, auth.gids()), Some(auth));
    }
}
