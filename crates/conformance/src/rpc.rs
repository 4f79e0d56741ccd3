//! Records that no client sends, and records that are sent again.

use crate::names::Names;
use crate::run::{PATIENCE, Target, failure};
use crate::step::{Args, Cut, Login, Port, Raw, Step};
use crate::transcript::Line;
use midas_net::{Client, ClientError};
use midas_nfs::nfs3::{self, Call, Nfsstat3, Reply};
use midas_nfs::rpc::{self, OpaqueAuth, Refusal, flavor};
use midas_nfs::xdr::Reader;
use midas_nfs::{mount, record};
use std::time::Duration;

/// Sends a record on a connection of its own, and then a NULL call, to see whether the connection was kept.
pub(crate) fn send(target: &Target, names: &Names, step: &Step, raw: &Raw) -> Line {
    let address = match raw.port {
        Port::Nfs => target.nfs,
        Port::Mount => target.mount,
    };
    let mut client = Client::connect(address, &step.by.caller(), PATIENCE).expect("the server listens");
    let mut line = answer(&mut client, step, &cut(&message(names, step, raw), raw.cut));
    let program = match raw.port {
        Port::Nfs => (nfs3::PROGRAM, nfs3::VERSION),
        Port::Mount => (mount::PROGRAM, mount::VERSION),
    };
    let kept = client.call(program.0, program.1, 0, |_| {});
    line.add("connection", if kept.is_ok() { "kept" } else { "lost" });
    line
}

fn answer(client: &mut Client, step: &Step, bytes: &[u8]) -> Line {
    let reply = match client.exchange(bytes) {
        Ok(reply) => reply,
        Err(error) => return Line::new(step.name, failure(&error)),
    };
    let Ok(reply) = rpc::Reply::decode(reply) else { return Line::new(step.name, "an unreadable reply") };
    let mut line = match reply.results {
        Ok(results) => {
            let mut line = Line::new(step.name, "SUCCESS");
            let first = Reader::new(results).u32().map(|word| Nfsstat3(word).to_string());
            line.add("results", first.unwrap_or("void".to_owned()));
            line
        }
        Err(Refusal::ProgMismatch { low, high }) => versions(Line::new(step.name, "PROG_MISMATCH"), low, high),
        Err(Refusal::RpcMismatch { low, high }) => versions(Line::new(step.name, "RPC_MISMATCH"), low, high),
        Err(refusal) => Line::new(step.name, refusal),
    };
    if reply.xid != XID {
        line.add("xid", "another");
    }
    line
}

fn versions(mut line: Line, low: u32, high: u32) -> Line {
    line.add("versions", format!("{low} to {high}"));
    line
}

/// Sends a call, and the very same record again. Ganesha drops a repetition that comes before it has put its first reply
/// away, as the RFC proposes (4.5); then a client repeats itself, and so do we.
pub(crate) fn twice(target: &Target, step: &Step, call: &Call<'_>) -> Line {
    let mut client = Client::connect(target.nfs, &step.by.caller(), AGAIN).expect("the server listens");
    let body = step.by.caller().encode(0, MACHINE);
    let mut args = Vec::new();
    call.encode(&mut args);
    let head = rpc::Call {
        // As distinct from the client's own as the calls are from each other: nothing else uses the name.
        xid: XID ^ step.name.bytes().fold(0, |sum, byte| (sum << 5) ^ (sum >> 27) ^ u32::from(byte)),
        program: nfs3::PROGRAM,
        version: nfs3::VERSION,
        procedure: call.procedure() as u32,
        credential: OpaqueAuth { flavor: flavor::SYS, body: &body },
        verifier: OpaqueAuth::NONE,
        args: &args,
    };
    let mut bytes = Vec::new();
    record::put(&mut bytes, |out| head.encode(out));
    let mut reply = || {
        let mut last = client.exchange(&bytes).map(<[u8]>::to_vec);
        for _ in 1..TRIES {
            match last {
                Ok(_) => break,
                Err(_) => last = client.exchange(&bytes).map(<[u8]>::to_vec),
            }
        }
        last
    };
    match (reply(), reply()) {
        (Ok(first), Ok(second)) => {
            let mut line = Line::new(step.name, status(call, &first));
            let again = if first == second { "the same reply".to_owned() } else { status(call, &second) };
            line.add("again", again);
            line
        }
        (Err(error), _) | (_, Err(error)) => Line::new(step.name, failure(&error)),
    }
}

fn status(call: &Call<'_>, record: &[u8]) -> String {
    let results = rpc::Reply::decode(record).map_err(ClientError::Malformed);
    let results = results.and_then(|reply| reply.results.map_err(ClientError::Refused));
    let reply = results.and_then(|results| Reply::decode(call.procedure(), results).map_err(ClientError::Malformed));
    match reply {
        Ok(reply) => reply.status().to_string(),
        Err(error) => failure(&error),
    }
}

/// Whether these are DUMP's results: pairs of a name and a path.
pub(crate) fn is_mount_list(results: &[u8]) -> bool {
    let mut from = Reader::new(results);
    loop {
        match from.bool() {
            Ok(true) if from.opaque(mount::MNTNAMLEN).is_ok() && from.opaque(mount::MNTPATHLEN).is_ok() => {}
            Ok(false) => return from.rest().is_empty(),
            Ok(true) | Err(_) => return false,
        }
    }
}

fn message(names: &Names, step: &Step, raw: &Raw) -> Vec<u8> {
    let body = credential(step, raw.login);
    let args = arguments(names, raw.args);
    let flavor = match raw.login {
        Login::Sys | Login::SysCutShort | Login::SysGroups17 => flavor::SYS,
        Login::None => flavor::NONE,
        Login::Gss => flavor::GSS,
        Login::Unknown => UNKNOWN_FLAVOR,
    };
    let call = rpc::Call {
        xid: XID,
        program: raw.program,
        version: raw.version,
        procedure: raw.procedure,
        credential: OpaqueAuth { flavor, body: &body },
        verifier: OpaqueAuth::NONE,
        args: &args,
    };
    let mut out = Vec::new();
    call.encode(&mut out);
    out[RPC_VERSION_AT].copy_from_slice(&raw.rpc.to_be_bytes());
    out
}

fn credential(step: &Step, login: Login) -> Vec<u8> {
    let sys = step.by.caller().encode(0, MACHINE);
    match login {
        Login::Sys => sys,
        Login::SysCutShort => sys[..sys.len() - 4].to_vec(),
        Login::SysGroups17 => {
            let mut body = sys[..sys.len() - 4].to_vec();
            (0..18).for_each(|word: u32| body.extend_from_slice(&(if word == 0 { 17 } else { word }).to_be_bytes()));
            body
        }
        Login::None => Vec::new(),
        // rpc_gss_cred_t: version 1, RPCSEC_GSS_INIT, sequence 0, rpc_gss_svc_none, no handle (RFC 2203, 5).
        Login::Gss => [1, 1, 0, 1, 0].iter().flat_map(|word: &u32| word.to_be_bytes()).collect(),
        Login::Unknown => vec![0; 8],
    }
}

fn arguments(names: &Names, args: Args) -> Vec<u8> {
    let encoded = |call: &Call<'_>| {
        let mut out = Vec::new();
        names.resolve(call).encode(&mut out);
        out
    };
    match args {
        Args::Bytes(bytes) => bytes.to_vec(),
        Args::Of(call) => encoded(&call),
        Args::AllBut(count, call) => {
            let mut whole = encoded(&call);
            whole.truncate(whole.len() - count);
            whole
        }
        Args::AndMore(call) => [encoded(&call), vec![0xff; 8]].concat(),
    }
}

fn cut(message: &[u8], how: Cut) -> Vec<u8> {
    let fragments: Vec<&[u8]> = match how {
        Cut::Whole => vec![message],
        Cut::Words => message.chunks(4).collect(),
        Cut::WithEmpty => vec![&[], &message[..10], &[], &message[10..], &[]],
    };
    let last = fragments.len() - 1;
    let mut out = Vec::new();
    for (index, fragment) in fragments.iter().enumerate() {
        let mark = fragment.len() as u32 | if index == last { LAST } else { 0 };
        out.extend_from_slice(&mark.to_be_bytes());
        out.extend_from_slice(fragment);
    }
    out
}

/// After this long without an answer a call is sent again.
const AGAIN: Duration = Duration::from_millis(300);
const TRIES: usize = 30;
const XID: u32 = 0x6d69_6461;
const MACHINE: &[u8] = b"midas";
/// Where a call says which RPC it speaks.
const RPC_VERSION_AT: std::ops::Range<usize> = 8..12;
const UNKNOWN_FLAVOR: u32 = 390_000_000;
/// The bit of a mark that ends a record.
const LAST: u32 = 1 << 31;
