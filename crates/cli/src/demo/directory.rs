//! `midas demo --dir`: a real directory behind embedded servers and a proxy, for a real client to mount.

use super::site::{SERVERS, broken};
use crate::failure::Failure;
use crate::sim::output::print;
use crate::stage::Place;
use midas_nfsd::{Config, DirectoryOptions, Handles, Namespace, Nfsd};
use midas_proxy::Proxy;
use midas_proxy::config::Config as ProxyConfig;
use serde_json::json;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Until told to stop.
pub(super) fn serve(directory: &Path, as_json: bool, stop: &AtomicBool) -> Result<(), Failure> {
    let options = DirectoryOptions { key: Some(key()), handles: Handles::Best };
    let namespace = Namespace::directory_with(directory, &options).map_err(|error| Failure::io(directory, &error))?;
    let listen = vec![SocketAddr::from(([127, 0, 0, 1], 0)); SERVERS];
    // Before all else: what the others keep there goes last.
    let place = Place::new().map_err(broken)?;
    let nfsd = Nfsd::start(&Config { listen, ..Config::default() }, &Arc::new(namespace)).map_err(broken)?;
    let config = ProxyConfig::parse(&configured(&nfsd.addresses(), place.path())).map_err(broken)?;
    let proxy = Proxy::start(&config).map_err(broken)?;
    ready(&proxy, stop)?;
    print(&said(&proxy, directory, place.path(), as_json)?)?;
    while !stop.load(Ordering::Relaxed) {
        if let Some(server) = nfsd.dead() {
            return Err(Failure::Broken(format!("server {server} has died")));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn ready(proxy: &Proxy, stop: &AtomicBool) -> Result<(), Failure> {
    let start = Instant::now();
    while !proxy.ready(Duration::ZERO) {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        if start.elapsed() > PATIENCE {
            return Err(broken("the proxy did not admit its servers"));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn said(proxy: &Proxy, directory: &Path, place: &Path, as_json: bool) -> Result<String, Failure> {
    let port = |addresses: &[SocketAddr]| addresses.first().map(SocketAddr::port);
    let (nfs, mount) = port(proxy.nfs()).zip(port(proxy.mount())).ok_or_else(|| broken("the proxy listens nowhere"))?;
    let mount = format!("mount -t nfs -o vers=3,tcp,port={nfs},mountport={mount},nolock 127.0.0.1:/ /mnt");
    let page = proxy.admin_tcp().map_or_else(String::new, |admin| format!("http://{admin}/"));
    let (served, socket) = (directory.display(), place.join("socket"));
    Ok(match as_json {
        true => {
            let value = json!({ "serves": directory, "mount": mount, "port": nfs, "page": page, "socket": socket });
            format!("{value}\n")
        }
        false => format!(
            "dashboard: {page}\n{served} behind {SERVERS} embedded servers and a proxy, until Ctrl-C. Mount it (as root, on this machine):\n  \
             {mount}\nand look:\n  midas status --socket {}\n",
            socket.display()
        ),
    })
}

/// Others may change the directory too: nothing is cached.
fn configured(servers: &[SocketAddr], place: &Path) -> String {
    let listed: Vec<String> = servers.iter().map(|server| format!("\"{server}\"")).collect();
    format!(
        "threads = 1\n[listen]\nnfs = \"127.0.0.1:0\"\n\
         [[pool]]\nname = \"demo\"\nservers = [{}]\nstaleness = \"0s\"\n\
         [[export]]\npath = \"/\"\npool = \"demo\"\nclients = \"127.0.0.0/8\"\naccess = \"rw\"\nsquash = \"none\"\n\
         insecure = true\npolicy = \"first-fit\"\n\
         [log]\nlevel = \"error\"\n[state]\nfile = \"{1}/state\"\n\
         [admin]\nsocket = \"{1}/socket\"\ntcp = \"127.0.0.1:0\"\n",
        listed.join(", "),
        place.display(),
    )
}

/// Of this process alone: kept with the directory, it would be left behind.
fn key() -> [u8; 16] {
    let word = || RandomState::new().hash_one(0).to_ne_bytes();
    let (first, second) = (word(), word());
    std::array::from_fn(|at| if at < 8 { first[at] } else { second[at - 8] })
}

/// How long the servers may take to be admitted.
const PATIENCE: Duration = Duration::from_secs(60);
/// How soon a signal is seen.
const LOOK: Duration = Duration::from_millis(20);
