//! One client's connection. A call that was not answered when it ends is sent again on the next one: the very same record, as a
//! kernel's client sends it, and every other time through another target, as behind a floating address.

use midas_core::rng::Rng;
use midas_net::{Caller, Client, ClientError, Source};
use midas_nfs::nfs3::{self, Call, Procedure, Reply};
use midas_nfs::record;
use midas_nfs::rpc::{self, OpaqueAuth, flavor};
use midas_nfs::xdr::Malformed;
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub(super) struct Line<'a> {
    addresses: &'a [SocketAddr],
    /// Which of them.
    target: usize,
    client: Option<Client>,
    /// Kept over connections where it can be: some servers know a client's calls by it.
    port: Option<u16>,
    xid: u32,
    /// The call under way, and its answer.
    record: Vec<u8>,
    reply: Vec<u8>,
    patience: Duration,
    stop: &'a AtomicBool,
    rng: Rng,
}

/// How a call was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// Sendings after the first.
    pub(super) again: u32,
    /// How long after the first the last one was.
    pub(super) late: Duration,
    /// Whether one of them went to another target.
    pub(super) elsewhere: bool,
}

impl<'a> Line<'a> {
    pub(super) fn new(
        (addresses, target): (&'a [SocketAddr], usize),
        patience: Duration,
        stop: &'a AtomicBool,
        rng: Rng,
    ) -> Self {
        // Servers remember calls by their numbers: no two clients may count from the same one, in whichever run.
        let xid = RandomState::new().hash_one(target) as u32;
        let (record, reply) = (Vec::new(), Vec::new());
        Self { addresses, target, client: None, port: None, xid, record, reply, patience, stop, rng }
    }

    /// Where calls go.
    pub(super) fn target(&self) -> u32 {
        self.target as u32
    }

    /// Whether there is a connection; if not, one attempt is made.
    pub(super) fn connect(&mut self, patience: Duration) -> bool {
        if self.client.is_none() {
            let (address, source) = (self.addresses[self.target], self.port.map_or(Source::Reserved, Source::Same));
            self.client = Client::connect_from(source, address, &Caller::ROOT, patience).ok();
            self.port = self.client.as_ref().and_then(|client| client.port().ok()).or(self.port);
        }
        if self.client.is_none() {
            sleep(RETRY);
        }
        self.client.is_some()
    }

    /// Makes a call with this credential: its answer, and how it was sent. After `patience` in all it is given up.
    pub(super) fn call(&mut self, credential: &[u8], call: &Call<'_>) -> (Sent, Result<Reply<'_>, ClientError>) {
        let (mut sent, first) = (Sent::default(), Instant::now());
        self.put(credential, call);
        while let Err(error) = self.exchange() {
            self.client = None;
            if !ended(&error) || !self.once_more(first, &mut sent) {
                return (sent, Err(error));
            }
        }
        if let Some(client) = self.client.as_mut().filter(|_| sent.again > 0) {
            // One that cannot be set is lost, and the next call finds that out.
            let _lost = client.patience(self.patience);
        }
        (sent, understood(call.procedure(), self.xid, &self.reply))
    }

    fn put(&mut self, credential: &[u8], call: &Call<'_>) {
        self.xid = self.xid.wrapping_add(1);
        let head = rpc::Call {
            xid: self.xid,
            program: nfs3::PROGRAM,
            version: nfs3::VERSION,
            procedure: call.procedure() as u32,
            credential: OpaqueAuth { flavor: flavor::SYS, body: credential },
            verifier: OpaqueAuth::NONE,
            args: &[],
        };
        self.record.clear();
        record::put(&mut self.record, |out| {
            head.encode(out);
            call.encode(out);
        });
    }

    fn exchange(&mut self) -> Result<(), ClientError> {
        let client = self.client.as_mut().ok_or_else(|| ClientError::Io(ErrorKind::NotConnected.into()))?;
        let reply = client.exchange(&self.record)?;
        self.reply.clear();
        self.reply.extend_from_slice(reply);
        Ok(())
    }

    /// The connection ended under a call: whether there is another one, in time.
    fn once_more(&mut self, first: Instant, sent: &mut Sent) -> bool {
        if self.addresses.len() > 1 && self.rng.chance(0.5) {
            self.target = (self.target + 1 + self.rng.below(self.addresses.len() - 1)) % self.addresses.len();
            sent.elsewhere = true;
        }
        while !self.stop.load(Ordering::Relaxed) {
            let left = self.patience.saturating_sub(first.elapsed());
            if left.is_zero() {
                return false;
            }
            if self.connect(left) {
                sent.again += 1;
                sent.late = first.elapsed();
                return true;
            }
        }
        false
    }
}

/// Whether a connection ended: its client must make another one.
fn ended(error: &ClientError) -> bool {
    matches!(error, ClientError::Io(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

/// What a reply to this call says.
fn understood(procedure: Procedure, xid: u32, reply: &[u8]) -> Result<Reply<'_>, ClientError> {
    let reply = rpc::Reply::decode(reply).map_err(ClientError::Malformed)?;
    // One call at a time, each on the connection that it was sent on: there is no other answer.
    if reply.xid != xid {
        return Err(ClientError::Malformed(Malformed::Value));
    }
    let results = reply.results.map_err(ClientError::Refused)?;
    Reply::decode(procedure, results).map_err(ClientError::Malformed)
}

/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(20);
