//! The lock manager's protocol (X/Open XNFS, chapter 10), of which only one answer is spoken: no locks here.
//!
//! It must be spoken. A client that finds no lock manager asks for it again and again, and whoever wanted the lock hangs
//! (Linux 6.1, with GETPORT answered 0); told "no locks", it fails at once with ENOLCK.

use crate::rpc::{self, Refusal};
use crate::xdr::{Reader, put};
use alloc::vec::Vec;

/// The program's number.
pub const PROGRAM: u32 = 100_021;
/// Versions 1 and 3 have offsets of 32 bits, 4 has 64; their answers are the same. There is no version 2 in use.
pub const VERSIONS: [u32; 3] = [1, 3, 4];

/// Appends the answer to a call, with its header. Procedures whose results would come as calls of our own are unavailable.
pub fn answer(call: &rpc::Call<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
    if !VERSIONS.contains(&call.version) {
        return Err(Refusal::ProgMismatch { low: VERSIONS[0], high: VERSIONS[2] });
    }
    let status = match call.procedure {
        NULL | FREE_ALL => None,
        TEST | LOCK | GRANTED | SHARE | NM_LOCK => Some(DENIED_NOLOCKS),
        CANCEL | UNLOCK | UNSHARE => Some(OK),
        _ => return Err(Refusal::ProcUnavail),
    };
    // Every call that has results begins with the cookie that begins them.
    let cookie = status.map(|_| Reader::new(call.args).opaque(COOKIE)).transpose().map_err(|_| Refusal::GarbageArgs)?;
    rpc::Reply::accept(out, call.xid);
    if let (Some(cookie), Some(status)) = (cookie, status) {
        put::opaque(out, cookie);
        put::u32(out, status);
    }
    if matches!(call.procedure, SHARE | UNSHARE) {
        put::u32(out, 0);
    }
    Ok(())
}

const NULL: u32 = 0;
const TEST: u32 = 1;
const LOCK: u32 = 2;
const CANCEL: u32 = 3;
const UNLOCK: u32 = 4;
const GRANTED: u32 = 5;
const SHARE: u32 = 20;
const UNSHARE: u32 = 21;
const NM_LOCK: u32 = 22;
const FREE_ALL: u32 = 23;
/// What was not held is released.
const OK: u32 = 0;
/// LCK_DENIED_NOLOCKS: this server cannot give any.
const DENIED_NOLOCKS: u32 = 2;
/// The longest cookie.
const COOKIE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::OpaqueAuth;
    use std::vec;

    fn asked(version: u32, procedure: u32, args: &[u8]) -> Result<Vec<u8>, Refusal> {
        let (credential, verifier) = (OpaqueAuth::NONE, OpaqueAuth::NONE);
        let mut out = Vec::new();
        answer(&rpc::Call { xid: 7, program: PROGRAM, version, procedure, credential, verifier, args }, &mut out)?;
        Ok(rpc::Reply::decode(&out).expect("it is a reply").results.expect("it is accepted").to_vec())
    }

    #[test]
    fn j_every_lock_is_denied_at_once_and_letting_go_succeeds() {
        let cookie = [0, 0, 0, 3, 1, 2, 3, 0];
        let with = |words: &[u32]| {
            [&cookie[..], &words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>()].concat()
        };
        for version in VERSIONS {
            for (procedure, results) in [
                (NULL, vec![]),
                (TEST, with(&[DENIED_NOLOCKS])),
                (LOCK, with(&[DENIED_NOLOCKS])),
                (NM_LOCK, with(&[DENIED_NOLOCKS])),
                (UNLOCK, with(&[OK])),
                (CANCEL, with(&[OK])),
                (SHARE, with(&[DENIED_NOLOCKS, 0])),
                (UNSHARE, with(&[OK, 0])),
                (FREE_ALL, vec![]),
            ] {
                let args = with(&[1, 2, 3]);
                assert_eq!(asked(version, procedure, &args), Ok(results), "procedure {procedure} of {version}");
            }
        }
    }

    #[test]
    fn j_what_cannot_be_answered_is_refused() {
        for procedure in (6..20).chain([24, u32::MAX]) {
            assert_eq!(asked(4, procedure, &[]), Err(Refusal::ProcUnavail), "procedure {procedure}");
        }
        for version in [0, 2, 5] {
            assert_eq!(asked(version, LOCK, &[]), Err(Refusal::ProgMismatch { low: 1, high: 4 }));
        }
        assert_eq!(asked(4, LOCK, &[]), Err(Refusal::GarbageArgs));
        assert_eq!(asked(4, LOCK, &1025_u32.to_be_bytes()), Err(Refusal::GarbageArgs));
    }
}
