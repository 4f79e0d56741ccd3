//! A server in this process.

use midas_lab::mounted;
use midas_net::Client;
use midas_nfsd::{Config, Limits, Namespace, Nfsd};
use std::net::SocketAddr;
use std::sync::Arc;

pub(crate) fn start(config: &Config) -> (Nfsd, SocketAddr) {
    let nfsd = Nfsd::start(config, &Arc::new(Namespace::memory(Limits::default()))).unwrap();
    let address = nfsd.addresses()[0];
    (nfsd, address)
}

pub(crate) fn plain() -> (Nfsd, SocketAddr) {
    start(&Config::default())
}

pub(crate) fn client(address: SocketAddr) -> (Client, Vec<u8>) {
    mounted(address, address, "/")
}
