//! Plays the script against a server and prints what it answered; given two, prints where the second differs from the first
//! without being allowed to; given none, prints the rows of docs/conformance.md:
//! `transcript [ADDRESS NFS_PORT MOUNT_PORT PATH [ADDRESS NFS_PORT MOUNT_PORT PATH]]`.

use midas_conformance::{Kind, Target, diff, faults, rows, run};
use std::env;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let targets: Option<Vec<Target>> = words.chunks(4).map(target).collect();
    match targets.as_deref() {
        Some([]) => print!("{}\n{}", rows(Kind::Choice), rows(Kind::Departure)),
        Some([only]) => print!("{}", run(only)),
        Some([first, second]) => {
            let differences = diff(&run(first), &run(second));
            let faults = faults(&differences);
            println!("{} differences, {} of them not allowed", differences.len(), faults.len());
            for fault in &faults {
                println!("{fault}");
            }
            return if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        Some(_) | None => {
            eprintln!("usage: transcript [ADDRESS NFS_PORT MOUNT_PORT PATH [ADDRESS NFS_PORT MOUNT_PORT PATH]]");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn target(words: &[String]) -> Option<Target> {
    let [address, nfs, mount, path] = words else { return None };
    let address: IpAddr = address.parse().ok()?;
    let at = |port: &str| port.parse().ok().map(|port| SocketAddr::new(address, port));
    Some(Target { nfs: at(nfs)?, mount: at(mount)?, path: path.clone() })
}
