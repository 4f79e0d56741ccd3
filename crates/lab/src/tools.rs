//! Clients in user space: real ones, each one command with a time limit whose output and status the caller reads, and our own.

use crate::bounded::bounded;
use crate::wait::PATIENCE;
use midas_net::{Caller, Client};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Output;

/// Where a server listens, and the path that its clients mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// A loopback address.
    pub address: Ipv4Addr,
    /// The port of program 100003.
    pub nfs_port: u16,
    /// The port of program 100005.
    pub mount_port: u16,
    /// The exported path.
    pub path: String,
}

impl Endpoint {
    /// What libnfs calls this name below the export. The name begins with a slash, or is empty.
    pub fn url(&self, name: &str) -> String {
        let Self { address, nfs_port, mount_port, path } = self;
        format!("nfs://{address}{path}{name}?version=3&nfsport={nfs_port}&mountport={mount_port}")
    }

    /// A client of it, and the export's root.
    pub fn client(&self) -> (Client, Vec<u8>) {
        let at = |port| SocketAddr::new(self.address.into(), port);
        mounted(at(self.nfs_port), at(self.mount_port), if self.path.is_empty() { "/" } else { &self.path })
    }
}

/// A client, as root, that asked one address for an export's root and calls another.
pub fn mounted(nfs: SocketAddr, mount: SocketAddr, path: &str) -> (Client, Vec<u8>) {
    let connect = |address| Client::connect(address, &Caller::ROOT, PATIENCE).expect("somebody listens");
    let root = connect(mount).mount(path.as_bytes()).expect("it may be mounted").root;
    (connect(nfs), root)
}

/// libnfs's listing of a directory.
pub fn nfs_ls(server: &Endpoint, directory: &str) -> Output {
    tool("nfs-ls", &[&server.url(directory)])
}

/// libnfs's copy. Each end is a local path or an [`Endpoint::url`].
pub fn nfs_cp(from: &str, to: &str) -> Output {
    tool("nfs-cp", &[from, to])
}

/// libnfs's output of a file's content.
pub fn nfs_cat(server: &Endpoint, file: &str) -> Output {
    tool("nfs-cat", &[&server.url(file)])
}

/// showmount, with its own arguments. It asks rpcbind's port 111, which the server must have.
pub fn showmount(arguments: &[&str]) -> Output {
    tool("showmount", arguments)
}

/// rpcinfo's null call of a program over TCP; no rpcbind takes part.
pub fn null_call(address: Ipv4Addr, port: u16, program: u32, version: u32) -> Output {
    let universal = format!("{address}.{}.{}", port / 256, port % 256);
    tool("rpcinfo", &["-a", &universal, "-T", "tcp", &program.to_string(), &version.to_string()])
}

/// rpcinfo, with its own arguments.
pub fn rpcinfo(arguments: &[&str]) -> Output {
    tool("rpcinfo", arguments)
}

/// What a command said that must succeed.
pub fn succeeded(output: &Output) -> String {
    let [said, complained] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{:?}: {said}{complained}", output.status);
    said
}

fn tool(name: &str, arguments: &[&str]) -> Output {
    bounded(name, PATIENCE).args(arguments).output().expect("`timeout` is in coreutils")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_host_ports_and_path() {
        let server = Endpoint { address: Ipv4Addr::LOCALHOST, nfs_port: 1, mount_port: 2, path: "/x".to_owned() };
        assert_eq!(server.url("/d/f"), "nfs://127.0.0.1/x/d/f?version=3&nfsport=1&mountport=2");
    }
}
