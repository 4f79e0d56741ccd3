//! A client that writes as RFC 1813 (3.3.7, 3.3.21) wants it: data that is not durable is kept until a COMMIT has shown the verifier that
//! its writes have shown; otherwise it is sent again.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use midas_lab::raw::handle;
use midas_net::Client;
use midas_nfs::nfs3::{Call, Reply, StableHow};

pub(crate) struct Writer {
    client: Client,
    handle: Vec<u8>,
    content: Vec<u8>,
    verifiers: Vec<[u8; 8]>,
}

impl Writer {
    /// A new file of so many bytes, none of them written yet.
    pub(crate) fn create((mut client, root): (Client, Vec<u8>), name: &str, bytes: usize) -> Self {
        let handle = midas_lab::create(&mut client, &root, name.as_bytes());
        let seed = name.bytes().fold(1_u32, |sum, byte| sum * 31 + u32::from(byte));
        let content = (0..bytes as u32).map(|i| ((i ^ seed).wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        Self { client, handle, content, verifiers: Vec::new() }
    }

    /// Sends everything, not durable.
    pub(crate) fn write(&mut self) {
        self.verifiers.clear();
        for (index, data) in self.content.chunks(CHUNK).enumerate() {
            let (offset, file) = ((index * CHUNK) as u64, handle(&self.handle));
            let call = Call::Write { file, offset, count: data.len() as u32, stable: StableHow::Unstable, data };
            match self.client.nfs(&call).unwrap() {
                Reply::Write(Ok(ok)) => {
                    assert_eq!(ok.count as usize, data.len());
                    self.verifiers.push(ok.verf);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Makes it durable; how often everything had to be sent again.
    pub(crate) fn commit(&mut self) -> usize {
        for again in 0..AGAIN_MOST {
            let file = handle(&self.handle);
            let verifier = match self.client.nfs(&Call::Commit { file, offset: 0, count: 0 }).unwrap() {
                Reply::Commit(Ok(ok)) => ok.verf,
                other => panic!("{other:?}"),
            };
            if self.verifiers.iter().all(|shown| *shown == verifier) {
                return again;
            }
            self.write();
        }
        panic!("the verifier changes for ever");
    }

    /// Whether what can be read is what was written, by another client too.
    pub(crate) fn check(&self, client: &mut Client) {
        let mut read = Vec::new();
        loop {
            let file = handle(&self.handle);
            match client.nfs(&Call::Read { file, offset: read.len() as u64, count: CHUNK as u32 }).unwrap() {
                Reply::Read(Ok(ok)) => {
                    read.extend_from_slice(ok.data);
                    if ok.eof {
                        break;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(read == self.content, "{} bytes were read, {} written", read.len(), self.content.len());
    }
}

const CHUNK: usize = 64 << 10;
const AGAIN_MOST: usize = 8;
