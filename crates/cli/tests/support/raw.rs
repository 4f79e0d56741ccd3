//! A connection on which anything can be said, and the calls that are said on it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use midas_net::Caller;
use midas_nfs::nfs3::{self, FileHandle};
use midas_nfs::record;
use midas_nfs::rpc::{self, OpaqueAuth, Refusal, flavor};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Raw(pub(crate) TcpStream);

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    /// Sends a record in one fragment.
    pub(crate) fn send(&mut self, body: &[u8]) {
        let mut out = Vec::new();
        record::put(&mut out, |out| out.extend_from_slice(body));
        self.0.write_all(&out).unwrap();
    }

    /// The next record, whole.
    pub(crate) fn receive(&mut self) -> Vec<u8> {
        let mut mark = [0; 4];
        self.0.read_exact(&mut mark).unwrap();
        let word = u32::from_be_bytes(mark);
        assert!(word >= 0x8000_0000, "answers come in one fragment");
        let mut body = vec![0; (word & 0x7fff_ffff) as usize];
        self.0.read_exact(&mut body).unwrap();
        body
    }

    /// Whether the other side closes the connection.
    pub(crate) fn closed(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// What a call is refused with; its xid must come back.
    pub(crate) fn refused(&mut self, call: &[u8]) -> Refusal {
        self.send(call);
        let answer = self.receive();
        let reply = rpc::Reply::decode(&answer).unwrap();
        assert_eq!(reply.xid.to_be_bytes(), call[..4]);
        reply.results.unwrap_err()
    }

    /// A NULL call is answered: the connection is alive and in step.
    pub(crate) fn alive(&mut self) {
        self.send(&call(0x0a11_0e00, nfs3::PROGRAM, 3, 0, &[]));
        let answer = self.receive();
        assert_eq!(rpc::Reply::decode(&answer).unwrap(), rpc::Reply { xid: 0x0a11_0e00, results: Ok(&[]) });
    }

    /// GETATTR is answered by a server: what was forwarded before is in step too.
    pub(crate) fn served(&mut self, root: &[u8]) {
        self.send(&getattr(0x0a11_0e01, root));
        let answer = self.receive();
        assert_eq!(status(&answer), nfs3::Nfsstat3::OK);
    }
}

/// The status of an accepted call.
pub(crate) fn status(answer: &[u8]) -> nfs3::Nfsstat3 {
    let results = rpc::Reply::decode(answer).unwrap().results.unwrap();
    nfs3::Nfsstat3(u32::from_be_bytes(*results.first_chunk().unwrap()))
}

/// A call on behalf of root.
pub(crate) fn call(xid: u32, program: u32, version: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
    let body = Caller::ROOT.encode(0, b"test");
    with_credential(xid, (program, version, procedure), OpaqueAuth { flavor: flavor::SYS, body: &body }, args)
}

/// A call of a program's version and procedure, with any credential.
pub(crate) fn with_credential(
    xid: u32,
    (program, version, procedure): (u32, u32, u32),
    credential: OpaqueAuth<'_>,
    args: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    rpc::Call { xid, program, version, procedure, credential, verifier: OpaqueAuth::NONE, args }.encode(&mut out);
    out
}

/// An NFSv3 call on behalf of root.
pub(crate) fn nfs(xid: u32, what: &nfs3::Call<'_>) -> Vec<u8> {
    let mut args = Vec::new();
    what.encode(&mut args);
    call(xid, nfs3::PROGRAM, nfs3::VERSION, what.procedure() as u32, &args)
}

pub(crate) fn getattr(xid: u32, root: &[u8]) -> Vec<u8> {
    nfs(xid, &nfs3::Call::Getattr { object: handle(root) })
}

pub(crate) fn handle(bytes: &[u8]) -> FileHandle<'_> {
    FileHandle::new(bytes).unwrap()
}
