//! What travels between NFSv3 clients and servers: bytes to calls and replies, and back.
//!
//! Sans-I/O: nothing here reads a socket, a clock or a file. Decoders borrow from the bytes that came and copy no opaque;
//! encoders append to a buffer that the caller gives. Names are the RFCs': 1813 (NFSv3 and MOUNT), 5531 (RPC), 4506 (XDR),
//! 1833 (portmap and rpcbind). A crate of its own because no public one decodes without copying every opaque.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod mount;
pub mod nfs3;
pub mod nlm;
pub mod portmap;
pub mod record;
pub mod rpc;
pub mod xdr;
