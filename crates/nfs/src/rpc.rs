//! ONC RPC version 2 (RFC 5531): the header of a call, the header of a reply, and every way to refuse a call.

use crate::xdr::{Malformed, Reader, padded, put};
use alloc::vec::Vec;
use core::fmt;

/// A call, its arguments still bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call<'a> {
    /// The client's number for it.
    pub xid: u32,
    /// The program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The procedure's number.
    pub procedure: u32,
    /// Who calls.
    pub credential: OpaqueAuth<'a>,
    /// What proves it.
    pub verifier: OpaqueAuth<'a>,
    /// The arguments.
    pub args: &'a [u8],
}

/// What a server can make of a record that is no call it can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotACall {
    /// A call that must be refused.
    Refuse {
        /// The client's number for it.
        xid: u32,
        /// Why.
        why: Refusal,
    },
    /// Nothing that could be answered: no xid, or a reply.
    Unanswerable,
}

impl<'a> Call<'a> {
    /// Reads a record that came from a client.
    pub fn decode(record: &'a [u8]) -> Result<Self, NotACall> {
        let mut from = Reader::new(record);
        let (Ok(xid), Ok(CALL)) = (from.u32(), from.u32()) else {
            return Err(NotACall::Unanswerable);
        };
        let refuse = |why| NotACall::Refuse { xid, why };
        let garbage = |_: Malformed| refuse(Refusal::GarbageArgs);
        if from.u32().map_err(garbage)? != RPC_VERSION {
            return Err(refuse(Refusal::RpcMismatch { low: RPC_VERSION, high: RPC_VERSION }));
        }
        let mut word = || from.u32().map_err(garbage);
        let (program, version, procedure) = (word()?, word()?, word()?);
        let credential = OpaqueAuth::decode(&mut from).map_err(|_| refuse(Refusal::Auth(AuthStat::BADCRED)))?;
        let verifier = OpaqueAuth::decode(&mut from).map_err(|_| refuse(Refusal::Auth(AuthStat::BADVERF)))?;
        Ok(Self { xid, program, version, procedure, credential, verifier, args: from.rest() })
    }

    /// The arguments of a record that [`Call::decode`] has read before: nothing but lengths is
    /// looked at.
    pub fn args_of(record: &'a [u8]) -> Option<&'a [u8]> {
        let behind_auth = |from: &'a [u8]| {
            let [_, _, _, _, b0, b1, b2, b3] = *from.first_chunk()?;
            from.get(8 + padded(u32::from_be_bytes([b0, b1, b2, b3]) as usize)..)
        };
        behind_auth(behind_auth(record.get(HEAD..)?)?)
    }

    /// Appends the header and the arguments that it holds.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for word in [self.xid, CALL, RPC_VERSION, self.program, self.version, self.procedure] {
            put::u32(out, word);
        }
        self.credential.encode(out);
        self.verifier.encode(out);
        out.extend_from_slice(self.args);
    }
}

/// A reply, its results still bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reply<'a> {
    /// The call's number.
    pub xid: u32,
    /// The results, or why there are none.
    pub results: Result<&'a [u8], Refusal>,
}

impl<'a> Reply<'a> {
    /// Reads a record that came from a server.
    #[inline]
    pub fn decode(record: &'a [u8]) -> Result<Self, Malformed> {
        // What nearly every reply begins with, as `accept` writes it.
        if let Some((xid, rest)) = record.split_first_chunk()
            && let Some((head, results)) = rest.split_first_chunk()
            && head == ACCEPTED
        {
            return Ok(Self { xid: u32::from_be_bytes(*xid), results: Ok(results) });
        }
        Self::decode_any(record)
    }

    fn decode_any(record: &'a [u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(record);
        let (xid, REPLY) = (from.u32()?, from.u32()?) else {
            return Err(Malformed::Value);
        };
        let results = match from.u32()? {
            MSG_ACCEPTED => {
                OpaqueAuth::decode(&mut from)?;
                accepted(&mut from)?
            }
            MSG_DENIED => Err(denied(&mut from)?),
            _ => return Err(Malformed::Value),
        };
        Ok(Self { xid, results })
    }

    /// Appends the header of a reply with results, which follow.
    pub fn accept(out: &mut Vec<u8>, xid: u32) {
        put::u32(out, xid);
        out.extend_from_slice(ACCEPTED);
    }

    /// Appends a whole reply that refuses the call.
    pub fn refuse(out: &mut Vec<u8>, xid: u32, why: Refusal) {
        let accepted = |out: &mut Vec<u8>, stat| {
            OpaqueAuth::NONE.encode(out);
            put::u32(out, stat);
        };
        put::u32(out, xid);
        put::u32(out, REPLY);
        put::u32(out, why.reply_stat());
        match why {
            Refusal::ProgUnavail => accepted(out, 1),
            Refusal::ProgMismatch { low, high } => {
                accepted(out, 2);
                put::u32(out, low);
                put::u32(out, high);
            }
            Refusal::ProcUnavail => accepted(out, 3),
            Refusal::GarbageArgs => accepted(out, 4),
            Refusal::SystemErr => accepted(out, 5),
            Refusal::RpcMismatch { low, high } => [0, low, high].iter().for_each(|word| put::u32(out, *word)),
            Refusal::Auth(AuthStat(stat)) => [1, stat].iter().for_each(|word| put::u32(out, *word)),
        }
    }
}

fn accepted<'a>(from: &mut Reader<'a>) -> Result<Result<&'a [u8], Refusal>, Malformed> {
    Ok(match from.u32()? {
        0 => Ok(from.rest()),
        1 => Err(Refusal::ProgUnavail),
        2 => Err(Refusal::ProgMismatch { low: from.u32()?, high: from.u32()? }),
        3 => Err(Refusal::ProcUnavail),
        4 => Err(Refusal::GarbageArgs),
        5 => Err(Refusal::SystemErr),
        _ => return Err(Malformed::Value),
    })
}

fn denied(from: &mut Reader<'_>) -> Result<Refusal, Malformed> {
    Ok(match from.u32()? {
        0 => Refusal::RpcMismatch { low: from.u32()?, high: from.u32()? },
        1 => Refusal::Auth(AuthStat(from.u32()?)),
        _ => return Err(Malformed::Value),
    })
}

/// Why a call has no results (accept_stat and reject_stat).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// PROG_UNAVAIL.
    ProgUnavail,
    /// PROG_MISMATCH, with the versions that there are.
    ProgMismatch {
        /// Lowest version.
        low: u32,
        /// Highest version.
        high: u32,
    },
    /// PROC_UNAVAIL.
    ProcUnavail,
    /// GARBAGE_ARGS.
    GarbageArgs,
    /// SYSTEM_ERR.
    SystemErr,
    /// RPC_MISMATCH: not version 2 of RPC.
    RpcMismatch {
        /// Lowest version.
        low: u32,
        /// Highest version.
        high: u32,
    },
    /// AUTH_ERROR.
    Auth(AuthStat),
}

impl Refusal {
    const fn reply_stat(self) -> u32 {
        match self {
            Self::ProgUnavail | Self::ProgMismatch { .. } | Self::ProcUnavail | Self::GarbageArgs | Self::SystemErr => {
                MSG_ACCEPTED
            }
            Self::RpcMismatch { .. } | Self::Auth(_) => MSG_DENIED,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProgUnavail => f.write_str("PROG_UNAVAIL"),
            Self::ProgMismatch { low, high } => write!(f, "PROG_MISMATCH (versions {low} to {high})"),
            Self::ProcUnavail => f.write_str("PROC_UNAVAIL"),
            Self::GarbageArgs => f.write_str("GARBAGE_ARGS"),
            Self::SystemErr => f.write_str("SYSTEM_ERR"),
            Self::RpcMismatch { low, high } => write!(f, "RPC_MISMATCH (versions {low} to {high})"),
            Self::Auth(stat) => write!(f, "AUTH_ERROR ({})", stat.0),
        }
    }
}

impl core::error::Error for Refusal {}

/// auth_stat: what is wrong with a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AuthStat(pub u32);

impl AuthStat {
    /// AUTH_BADCRED: it cannot be read.
    pub const BADCRED: Self = Self(1);
    /// AUTH_REJECTEDCRED: it is of a kind that we do not take; the client must begin anew.
    pub const REJECTEDCRED: Self = Self(2);
    /// AUTH_BADVERF: its verifier cannot be read.
    pub const BADVERF: Self = Self(3);
    /// AUTH_TOOWEAK: too weak for what it asks.
    pub const TOOWEAK: Self = Self(5);
}

/// opaque_auth: a credential or verifier as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpaqueAuth<'a> {
    /// The kind.
    pub flavor: u32,
    /// At most [`OpaqueAuth::LONGEST`] bytes.
    pub body: &'a [u8],
}

impl<'a> OpaqueAuth<'a> {
    /// AUTH_NONE.
    pub const NONE: Self = Self { flavor: flavor::NONE, body: &[] };
    /// Longest body.
    pub const LONGEST: usize = 400;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self { flavor: from.u32()?, body: from.opaque(Self::LONGEST)? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put::u32(out, self.flavor);
        put::opaque(out, self.body);
    }
}

/// auth_flavor.
pub mod flavor {
    /// AUTH_NONE.
    pub const NONE: u32 = 0;
    /// AUTH_SYS.
    pub const SYS: u32 = 1;
    /// RPCSEC_GSS.
    pub const GSS: u32 = 6;
}

/// Who calls, for a server that takes AUTH_NONE and AUTH_SYS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Credential<'a> {
    /// AUTH_NONE: nobody.
    None,
    /// AUTH_SYS.
    Sys(AuthSys<'a>),
}

impl<'a> Credential<'a> {
    /// What a credential says; the error is what the caller is told.
    pub fn decode(auth: &OpaqueAuth<'a>) -> Result<Self, Refusal> {
        match auth.flavor {
            flavor::NONE => Ok(Self::None),
            flavor::SYS => AuthSys::decode(auth.body).map(Self::Sys).map_err(|_| Refusal::Auth(AuthStat::BADCRED)),
            _ => Err(Refusal::Auth(AuthStat::REJECTEDCRED)),
        }
    }
}

/// authsys_parms: user and groups as a client's kernel states them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AuthSys<'a> {
    /// Chosen by the client.
    pub stamp: u32,
    /// The client's name, at most 255 bytes.
    pub machinename: &'a [u8],
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    gids: [u32; GIDS],
    count: u8,
}

impl<'a> AuthSys<'a> {
    /// Most further groups.
    pub const GIDS: usize = GIDS;
    /// Longest machine name.
    pub const NAME: usize = 255;

    /// None if there are too many groups or the name is too long.
    pub fn new(stamp: u32, machinename: &'a [u8], uid: u32, gid: u32, gids: &[u32]) -> Option<Self> {
        let mut fixed = [0; Self::GIDS];
        fixed.get_mut(..gids.len())?.copy_from_slice(gids);
        let count = gids.len() as u8;
        (machinename.len() <= Self::NAME).then_some(Self { stamp, machinename, uid, gid, gids: fixed, count })
    }

    /// The further groups.
    pub fn gids(&self) -> &[u32] {
        &self.gids[..self.count.into()]
    }

    /// Reads the body of an AUTH_SYS credential.
    pub fn decode(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(body);
        let (stamp, machinename) = (from.u32()?, from.opaque(Self::NAME)?);
        let (uid, gid, count) = (from.u32()?, from.u32()?, from.u32()?);
        if count as usize > Self::GIDS {
            return Err(Malformed::TooLong);
        }
        let mut gids = [0; Self::GIDS];
        for gid in &mut gids[..count as usize] {
            *gid = from.u32()?;
        }
        Ok(Self { stamp, machinename, uid, gid, gids, count: count as u8 })
    }

    /// Appends the body of an AUTH_SYS credential.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put::u32(out, self.stamp);
        put::opaque(out, self.machinename);
        for word in [self.uid, self.gid, self.count.into()] {
            put::u32(out, word);
        }
        self.gids().iter().for_each(|gid| put::u32(out, *gid));
    }
}

/// The one version of RPC that is in use.
pub const RPC_VERSION: u32 = 2;
const GIDS: usize = 16;
/// Bytes of a call before its credential.
const HEAD: usize = 24;
const CALL: u32 = 0;
const REPLY: u32 = 1;
const MSG_ACCEPTED: u32 = 0;
/// A reply after its xid: accepted, no verifier, success; results follow.
const ACCEPTED: &[u8; 20] = &[0, 0, 0, REPLY as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const MSG_DENIED: u32 = 1;
