//! Plays the script against a server and prints what it answered: `transcript ADDRESS NFS_PORT MOUNT_PORT PATH`.

use midas_conformance::{Target, run};
use std::env;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    match target(&words) {
        Some(target) => {
            print!("{}", run(&target));
            ExitCode::SUCCESS
        }
        None => {
            eprintln!("usage: transcript ADDRESS NFS_PORT MOUNT_PORT PATH");
            ExitCode::from(2)
        }
    }
}

fn target(words: &[String]) -> Option<Target> {
    let [address, nfs, mount, path] = words else { return None };
    let address: IpAddr = address.parse().ok()?;
    let at = |port: &str| port.parse().ok().map(|port| SocketAddr::new(address, port));
    Some(Target { nfs: at(nfs)?, mount: at(mount)?, path: path.clone() })
}
