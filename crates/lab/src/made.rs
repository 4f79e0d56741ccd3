//! Files and directories that a test needs, made over the wire.

use crate::raw::handle;
use midas_net::Client;
use midas_nfs::nfs3::{Call, CreateHow, DirOp, Reply, Sattr3};

/// Makes a file that is not there yet; its handle.
pub fn create(client: &mut Client, dir: &[u8], name: &[u8]) -> Vec<u8> {
    let how = CreateHow::Guarded(Sattr3 { mode: Some(0o644), ..Sattr3::default() });
    match client.nfs(&Call::Create { place: DirOp { dir: handle(dir), name }, how }) {
        Ok(Reply::Create(Ok(made))) => made.object.expect("a server tells the handle").bytes().to_vec(),
        failed => panic!("CREATE {}: {failed:?}", name.escape_ascii()),
    }
}

/// Makes a directory; its handle.
pub fn mkdir(client: &mut Client, dir: &[u8], name: &[u8]) -> Vec<u8> {
    let attributes = Sattr3 { mode: Some(0o755), ..Sattr3::default() };
    match client.nfs(&Call::Mkdir { place: DirOp { dir: handle(dir), name }, attributes }) {
        Ok(Reply::Mkdir(Ok(made))) => made.object.expect("a server tells the handle").bytes().to_vec(),
        failed => panic!("MKDIR {}: {failed:?}", name.escape_ascii()),
    }
}
