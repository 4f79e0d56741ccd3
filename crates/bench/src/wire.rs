//! Calls as bytes: everything up to the arguments is built once, and five words of it are patched per call.

use midas_nfs::nfs3;
use midas_nfs::record;
use midas_nfs::rpc::{self, AuthSys, OpaqueAuth, flavor};
use midas_nfs::xdr::padded;

/// The head of every call of a run, ready to be copied.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    head: Vec<u8>,
    uid_at: usize,
}

/// What differs between two calls of the same procedure and arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) xid: u32,
    /// Unique in the run: a server that executes a call twice shows it twice.
    pub(crate) stamp: u32,
    pub(crate) uid: u32,
}

impl Template {
    /// For calls from `machine`, at most [`AuthSys::NAME`] bytes of it.
    pub(crate) fn new(machine: &str, gid: u32) -> Self {
        let machine = &machine.as_bytes()[..machine.len().min(AuthSys::NAME)];
        let sys = AuthSys::new(0, machine, 0, gid, &[]).expect("the name was cut and there are no groups");
        let mut body = Vec::new();
        sys.encode(&mut body);
        let call = rpc::Call {
            xid: 0,
            program: nfs3::PROGRAM,
            version: nfs3::VERSION,
            procedure: 0,
            credential: OpaqueAuth { flavor: flavor::SYS, body: &body },
            verifier: OpaqueAuth::NONE,
            args: &[],
        };
        let mut head = Vec::new();
        record::put(&mut head, |out| call.encode(out));
        Self { head, uid_at: STAMP_AT + 8 + padded(machine.len()) }
    }

    /// Appends one call as a record.
    pub(crate) fn put(&self, out: &mut Vec<u8>, mark: Mark, call: &nfs3::Call<'_>) {
        let at = out.len();
        out.extend_from_slice(&self.head);
        let mut patch = |offset: usize, word: u32| {
            out[at + offset..at + offset + 4].copy_from_slice(&word.to_be_bytes());
        };
        patch(XID_AT, mark.xid);
        patch(PROCEDURE_AT, call.procedure() as u32);
        patch(STAMP_AT, mark.stamp);
        patch(self.uid_at, mark.uid);
        call.encode(out);
        record::end(out, at);
    }
}

/// Offsets in a record: its mark, then xid, direction, RPC version, program, version, procedure, flavor and length of the
/// credential, whose first word is the stamp.
const XID_AT: usize = 4;
const PROCEDURE_AT: usize = 24;
const STAMP_AT: usize = 36;

#[cfg(test)]
mod tests {
    use super::*;
    use midas_nfs::nfs3::FileHandle;
    use midas_nfs::rpc::Credential;

    #[test]
    fn what_was_patched_is_what_a_server_reads() {
        for machine in ["m", "midas-12345678", &"x".repeat(300)] {
            let template = Template::new(machine, 7);
            let mut out = vec![0xee];
            let object = FileHandle::new(b"handle").unwrap();
            let mark = Mark { xid: 0x0102_0304, stamp: 99, uid: 1001 };
            template.put(&mut out, mark, &nfs3::Call::Getattr { object });
            let length = u32::from_be_bytes(*out[1..].first_chunk().unwrap()) & 0x7fff_ffff;
            assert_eq!(length as usize, out.len() - 5);
            let call = rpc::Call::decode(&out[5..]).unwrap();
            assert_eq!((call.xid, call.program, call.version, call.procedure), (0x0102_0304, 100_003, 3, 1));
            let Ok(Credential::Sys(sys)) = Credential::decode(&call.credential) else { panic!("AUTH_SYS") };
            assert_eq!((sys.stamp, sys.uid, sys.gid), (99, 1001, 7));
            assert_eq!(sys.machinename, &machine.as_bytes()[..machine.len().min(255)]);
            assert_eq!(nfs3::Call::decode(nfs3::Procedure::Getattr, call.args), Ok(nfs3::Call::Getattr { object }));
        }
    }
}
