//! Portmap over UDP: clients that name no ports ask so. One question, one answer; only of portmap, only to clients of an export,
//! and what is dropped is asked again. Never more than a short batch at a time: the thread accepts connections too.

use crate::mountd::Mountd;
use midas_net::local_for;
use midas_nfs::{portmap, rpc};
use mio::net::UdpSocket;
use std::io::ErrorKind;
use std::net::IpAddr;

/// Answers what waits at the socket, for clients that somebody knows.
pub(crate) fn answer(mountd: &Mountd, socket: &UdpSocket, known: impl Fn(IpAddr) -> bool) {
    let mut question = [0; QUESTION];
    let mut out = Vec::new();
    for _ in 0..BATCH {
        let (length, client) = match socket.recv_from(&mut question) {
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        out.clear();
        // An answer is larger than its question: strangers get none, or they could have it sent to others.
        if known(client.ip().to_canonical()) && reply(mountd, local_for(socket, client), &question[..length], &mut out)
        {
            let _lost = socket.send_to(&out, client);
        }
    }
}

/// Appends the answer to a question, if it is one.
fn reply(mountd: &Mountd, local: IpAddr, question: &[u8], out: &mut Vec<u8>) -> bool {
    let (xid, why) = match rpc::Call::decode(question) {
        Ok(call) if call.program != portmap::PROGRAM => (call.xid, rpc::Refusal::ProgUnavail),
        Ok(call) => match mountd.portmap(local, &call, out) {
            Ok(()) => return true,
            Err(why) => (call.xid, why),
        },
        Err(rpc::NotACall::Refuse { xid, why }) => (xid, why),
        Err(rpc::NotACall::Unanswerable) => return false,
    };
    out.clear();
    rpc::Reply::refuse(out, xid, why);
    true
}

/// The largest question: RFC 5531 has 400 bytes of credential and verifier each at most, and portmap's strings are short.
const QUESTION: usize = 2048;
/// Questions answered before connections are looked at again.
const BATCH: usize = 256;
