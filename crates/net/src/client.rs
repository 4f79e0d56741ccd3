//! A blocking client: one connection, one call at a time. For set-up, tools and tests, where clarity counts and speed does not.

use crate::dial::{RESERVED_LAST, Source, dial, may_reserve};
use midas_nfs::nfs3::{self, FileHandle};
use midas_nfs::record::{self, Records, Step, TooLong};
use midas_nfs::rpc::{self, AuthSys, OpaqueAuth, Refusal, flavor};
use midas_nfs::xdr::Malformed;
use midas_nfs::{mount, nfs3::Nfsstat3};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A connection to one RPC server, on behalf of one user.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    records: Records,
    input: Vec<u8>,
    output: Vec<u8>,
    reply: Vec<u8>,
    credential: Vec<u8>,
    xid: u32,
    patience: Duration,
}

/// On whose behalf calls are made (AUTH_SYS).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups; the first [`AuthSys::GIDS`] count.
    pub gids: Vec<u32>,
}

impl Caller {
    /// The superuser.
    pub const ROOT: Self = Self { uid: 0, gid: 0, gids: Vec::new() };

    /// The body of the credential.
    pub fn encode(&self, stamp: u32, machine: &[u8]) -> Vec<u8> {
        let gids = &self.gids[..self.gids.len().min(AuthSys::GIDS)];
        let machine = &machine[..machine.len().min(AuthSys::NAME)];
        let sys = AuthSys::new(stamp, machine, self.uid, self.gid, gids).expect("both lengths were cut");
        let mut body = Vec::new();
        sys.encode(&mut body);
        body
    }
}

/// The root of an export, as MNT gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The root's handle.
    pub root: Vec<u8>,
    /// The kinds of credentials that are taken there.
    pub flavors: Vec<u32>,
}

impl Client {
    /// Connects from a reserved port where it can; every later wait is bounded by `patience` too.
    pub fn connect(address: SocketAddr, caller: &Caller, patience: Duration) -> io::Result<Self> {
        Self::connect_from(Source::Reserved, address, caller, patience)
    }

    /// Connects from a port of this kind.
    pub fn connect_from(source: Source, address: SocketAddr, caller: &Caller, patience: Duration) -> io::Result<Self> {
        let stream = dial(address, source, patience).map_err(|error| in_words(error, patience))?;
        Ok(Self {
            stream,
            records: Records::new(RECORD_LIMIT),
            input: Vec::new(),
            output: Vec::new(),
            reply: Vec::new(),
            credential: caller.encode(0, b"midas"),
            // A server's duplicate request cache outlives a connection: two that count from the same number would be taken
            // for one client that repeats itself.
            xid: RandomState::new().hash_one(address) as u32,
            patience,
        })
    }

    /// Waits at most this long for each answer from now on.
    pub fn patience(&mut self, patience: Duration) -> io::Result<()> {
        self.patience = patience;
        self.stream.set_read_timeout(Some(patience))
    }

    /// The port that calls come from.
    pub fn port(&self) -> io::Result<u16> {
        self.stream.local_addr().map(|address| address.port())
    }

    /// Whether calls come from a port that is not reserved though this process may use reserved
    /// ones: all of them were taken.
    pub fn lacks_port(&self) -> bool {
        may_reserve() && self.port().is_ok_and(|port| port > RESERVED_LAST)
    }

    /// Calls on behalf of someone else from now on.
    pub fn become_caller(&mut self, caller: &Caller) {
        self.credential = caller.encode(0, b"midas");
    }

    /// The same with a machine's name and a stamp, by which a server that counts knows one call from another.
    pub fn become_marked(&mut self, caller: &Caller, stamp: u32, machine: &[u8]) {
        self.credential = caller.encode(stamp, machine);
    }

    /// One NFSv3 call and its reply.
    pub fn nfs(&mut self, call: &nfs3::Call<'_>) -> Result<nfs3::Reply<'_>, ClientError> {
        let procedure = call.procedure();
        let results = self.call(nfs3::PROGRAM, nfs3::VERSION, procedure as u32, |out| call.encode(out))?;
        nfs3::Reply::decode(procedure, results).map_err(ClientError::Malformed)
    }

    /// The root handle of an export.
    pub fn mount(&mut self, path: &[u8]) -> Result<Mount, ClientError> {
        let call = mount::Call::Mnt(path);
        let results = self.call(mount::PROGRAM, mount::VERSION, call.procedure(), |out| call.encode(out))?;
        match mount::Mounted::decode(results).map_err(ClientError::Malformed)? {
            Ok(mounted) => Ok(Mount { root: mounted.handle.bytes().to_vec(), flavors: mounted.flavors }),
            Err(stat) => Err(ClientError::Status(Nfsstat3(stat.0))),
        }
    }

    /// The paths that can be mounted.
    pub fn exports(&mut self) -> Result<Vec<Vec<u8>>, ClientError> {
        let results = self.call(mount::PROGRAM, mount::VERSION, mount::Call::Export.procedure(), |_| {})?;
        let paths = mount::exports(results, EXPORTS).map_err(ClientError::Malformed)?;
        Ok(paths.into_iter().map(<[u8]>::to_vec).collect())
    }

    /// One call of any program; `args` appends the arguments.
    pub fn call(
        &mut self,
        program: u32,
        version: u32,
        procedure: u32,
        args: impl FnOnce(&mut Vec<u8>),
    ) -> Result<&[u8], ClientError> {
        self.xid = self.xid.wrapping_add(1);
        let credential = OpaqueAuth { flavor: flavor::SYS, body: &self.credential };
        let head =
            rpc::Call { xid: self.xid, program, version, procedure, credential, verifier: OpaqueAuth::NONE, args: &[] };
        self.output.clear();
        record::put(&mut self.output, |out| {
            head.encode(out);
            args(out);
        });
        self.stream.write_all(&self.output).map_err(|error| in_words(error, self.patience))?;
        loop {
            self.read_record()?;
            // Not ours: the answer to a call that was given up.
            if self.reply.get(..4) == Some(&self.xid.to_be_bytes()) {
                break;
            }
        }
        let reply = rpc::Reply::decode(&self.reply).map_err(ClientError::Malformed)?;
        reply.results.map_err(ClientError::Refused)
    }

    /// Sends bytes as they are and gives the next record that comes: for what `call` would never send.
    pub fn exchange(&mut self, bytes: &[u8]) -> Result<&[u8], ClientError> {
        self.stream.write_all(bytes).map_err(|error| in_words(error, self.patience))?;
        self.read_record()?;
        Ok(&self.reply)
    }

    fn read_record(&mut self) -> Result<(), ClientError> {
        loop {
            match self.records.next(&self.input).map_err(ClientError::TooLong)? {
                Step::Record { body, consumed } => {
                    self.reply.clear();
                    self.reply.extend_from_slice(body);
                    self.input.drain(..consumed);
                    return Ok(());
                }
                Step::More { consumed, .. } => {
                    self.input.drain(..consumed);
                }
            }
            let mut chunk = [0; CHUNK];
            let read = self.stream.read(&mut chunk).map_err(|error| in_words(error, self.patience))?;
            if read == 0 {
                return Err(ClientError::Io(io::ErrorKind::UnexpectedEof.into()));
            }
            self.input.extend_from_slice(&chunk[..read]);
        }
    }

    /// The handle of a name, found from the root down; `path` may begin with a slash.
    pub fn walk(&mut self, root: &[u8], path: &[u8]) -> Result<Vec<u8>, ClientError> {
        let mut at = root.to_vec();
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            let dir = FileHandle::new(&at).ok_or(ClientError::Malformed(Malformed::TooLong))?;
            let next = match self.nfs(&nfs3::Call::Lookup { what: nfs3::DirOp { dir, name } })? {
                nfs3::Reply::Lookup(Ok(found)) => found.object.bytes().to_vec(),
                other => return Err(ClientError::Status(other.status())),
            };
            at = next;
        }
        Ok(at)
    }
}

/// The error of a socket whose patience is over, as people say it: the system's words name the socket's state.
fn in_words(error: io::Error, patience: Duration) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let what = format!("it did not answer within {} ms", patience.as_millis());
            io::Error::new(io::ErrorKind::TimedOut, what)
        }
        _ => error,
    }
}

/// Why a call has no results.
#[derive(Debug)]
pub enum ClientError {
    /// The connection failed, or the server was silent for too long.
    Io(io::Error),
    /// The reply is larger than any should be.
    TooLong(TooLong),
    /// The reply cannot be read.
    Malformed(Malformed),
    /// The server refused the call.
    Refused(Refusal),
    /// The call itself failed.
    Status(Nfsstat3),
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::TooLong(error) => write!(f, "{error}"),
            Self::Malformed(error) => write!(f, "unreadable reply: {error}"),
            Self::Refused(refusal) => write!(f, "refused: {refusal}"),
            Self::Status(status) => write!(f, "{status}"),
        }
    }
}

impl std::error::Error for ClientError {}

/// Larger than any READ that we ask for.
const RECORD_LIMIT: usize = 4 << 20;
const CHUNK: usize = 16 << 10;
/// More exports than a server has.
const EXPORTS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn who_has_no_reserved_port_though_there_are_some_for_us_knows_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let from = |source| Client::connect_from(source, address, &Caller::ROOT, Duration::from_secs(9)).unwrap();
        let (reserved, any) = (from(Source::Reserved), from(Source::Any));
        let allowed = rustix::process::geteuid().is_root();
        assert_eq!((reserved.lacks_port(), any.lacks_port()), (false, allowed));
    }

    #[test]
    fn a_server_that_says_nothing_is_said_not_to_answer() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap();
        let mut client = Client::connect(address, &Caller::ROOT, Duration::from_secs(9)).unwrap();
        client.patience(Duration::from_millis(20)).unwrap();
        let error = client.nfs(&nfs3::Call::Null).unwrap_err();
        assert_eq!(error.to_string(), "it did not answer within 20 ms");
        assert!(matches!(error, ClientError::Io(error) if error.kind() == io::ErrorKind::TimedOut));
    }
}
