//! A connection on which anything can be said, and the calls that are said on it.

use crate::wait::PATIENCE;
use midas_net::Caller;
use midas_nfs::nfs3::{self, FileHandle, Nfsstat3};
use midas_nfs::rpc::{self, OpaqueAuth, Refusal, flavor};
use midas_nfs::{mount, record};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A connection; what goes over it is up to the test.
#[derive(Debug)]
pub struct Raw(pub TcpStream);

impl Raw {
    /// Connects, with a limit on every wait.
    pub fn connect(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect(address).expect("somebody listens"))
    }

    /// Connects from this address of this machine, and from this port unless it is 0: as a
    /// stranger, or as a client that comes back where it was, or elsewhere.
    pub fn connect_from(source: SocketAddr, address: SocketAddr) -> Self {
        let family = if source.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("there are sockets");
        sockopt::set_socket_reuseaddr(&socket, true).expect("a socket has options");
        bind(&socket, &source).expect("the address is ours and the port is free");
        connect(&socket, &address).expect("somebody listens");
        Self::of(TcpStream::from(socket))
    }

    fn of(stream: TcpStream) -> Self {
        let bounded = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        bounded.and_then(|()| stream.set_nodelay(true)).expect("a connection has options");
        Self(stream)
    }

    /// Ends the connection as a client does that is killed or gives up: what was not read yet is thrown away.
    pub fn reset(self) {
        sockopt::set_socket_linger(&self.0, Some(Duration::ZERO)).expect("a connection has options");
    }

    /// Where it comes from.
    pub fn source(&self) -> SocketAddr {
        self.0.local_addr().expect("a connection has an address")
    }

    /// What MNT says: the root, or the status.
    pub fn mount(&mut self, path: &str) -> Result<Vec<u8>, u32> {
        self.send(&mnt(mount::VERSION, &mount::Call::Mnt(path.as_bytes())));
        let answer = self.receive();
        let (status, rest) = results(&answer).split_first_chunk::<4>().expect("results begin with a status");
        match u32::from_be_bytes(*status) {
            0 => {
                let (length, rest) = rest.split_first_chunk::<4>().expect("a handle begins with its length");
                Ok(rest[..u32::from_be_bytes(*length) as usize].to_vec())
            }
            status => Err(status),
        }
    }

    /// Sends these bytes as they are.
    pub fn say(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("it is read");
    }

    /// Sends a record in one fragment.
    pub fn send(&mut self, body: &[u8]) {
        self.say(&in_one_fragment(body));
    }

    /// The next record, whole.
    pub fn receive(&mut self) -> Vec<u8> {
        let mut mark = [0; 4];
        self.0.read_exact(&mut mark).expect("it answers");
        let word = u32::from_be_bytes(mark);
        assert!(word >= 0x8000_0000, "answers come in one fragment");
        let mut body = vec![0; (word & 0x7fff_ffff) as usize];
        self.0.read_exact(&mut body).expect("it answers to the end");
        body
    }

    /// Whether the other side closes the connection.
    pub fn closed(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// What a call is refused with; its xid must come back.
    pub fn refused(&mut self, call: &[u8]) -> Refusal {
        self.send(call);
        let answer = self.receive();
        let reply = rpc::Reply::decode(&answer).expect("an answer is a reply");
        assert_eq!(reply.xid.to_be_bytes(), call[..4]);
        reply.results.expect_err("it must be refused")
    }

    /// A NULL call is answered: the connection is alive and in step.
    pub fn alive(&mut self) {
        self.send(&call(0x0a11_0e00, nfs3::PROGRAM, 3, 0, &[]));
        let answer = self.receive();
        assert_eq!(rpc::Reply::decode(&answer), Ok(rpc::Reply { xid: 0x0a11_0e00, results: Ok(&[]) }));
    }

    /// GETATTR is answered: what went on to a server before is in step too.
    pub fn served(&mut self, root: &[u8]) {
        self.send(&getattr(0x0a11_0e01, root));
        let answer = self.receive();
        assert_eq!((xid(&answer), status(&answer)), (0x0a11_0e01, Nfsstat3::OK));
    }
}

/// A record with its mark.
pub fn in_one_fragment(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    record::put(&mut out, |out| out.extend_from_slice(body));
    out
}

/// What an accepted call was answered.
pub fn results(answer: &[u8]) -> &[u8] {
    rpc::Reply::decode(answer).expect("an answer is a reply").results.expect("it is accepted")
}

/// The call that is answered.
pub fn xid(answer: &[u8]) -> u32 {
    rpc::Reply::decode(answer).expect("an answer is a reply").xid
}

/// The status of an accepted call of NFS.
pub fn status(answer: &[u8]) -> Nfsstat3 {
    Nfsstat3(u32::from_be_bytes(*results(answer).first_chunk().expect("results begin with a status")))
}

/// A call on behalf of root.
pub fn call(xid: u32, program: u32, version: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
    let body = Caller::ROOT.encode(0, b"test");
    with_credential(xid, (program, version, procedure), OpaqueAuth { flavor: flavor::SYS, body: &body }, args)
}

/// A call of a program's version and procedure, with any credential.
pub fn with_credential(
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
pub fn nfs(xid: u32, what: &nfs3::Call<'_>) -> Vec<u8> {
    let mut args = Vec::new();
    what.encode(&mut args);
    call(xid, nfs3::PROGRAM, nfs3::VERSION, what.procedure() as u32, &args)
}

/// GETATTR of this object.
pub fn getattr(xid: u32, object: &[u8]) -> Vec<u8> {
    nfs(xid, &nfs3::Call::Getattr { object: handle(object) })
}

/// A MOUNT call.
pub fn mnt(version: u32, what: &mount::Call<'_>) -> Vec<u8> {
    let mut args = Vec::new();
    what.encode(&mut args);
    call(7, mount::PROGRAM, version, what.procedure(), &args)
}

/// A handle of these bytes.
pub fn handle(bytes: &[u8]) -> FileHandle<'_> {
    FileHandle::new(bytes).expect("a handle has at most 64 bytes")
}
