//! A proxy without peers that keeps a journal: what must not be executed twice is not, though the
//! proxy died, and on a full disk nothing is sent that could not be known again.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::{handle, in_one_fragment, nfs, status};
use midas_lab::{PATIENCE, Part, create, require, until};
use midas_net::Client;
use midas_nfs::nfs3::{Call, CreateHow, DirOp, Nfsstat3, Sattr3};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::thread;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

/// The configuration's state table goes last, behind what a test adds: the journal's key is put into it.
fn with_journal(servers: &Nfsd, hold: &'static str) -> Serve {
    let pool = "failover_after = \"1s\"\nprobe_interval = \"100ms\"\nprobe_timeout = \"500ms\"\n".to_owned();
    let site = Site { pool, export: hold, ..Site::of(&servers.endpoints()) };
    let mut proxy = Serve::of(&site.config());
    proxy.rewrite("[state]\n", "[state]\njournal = true\n");
    restart(&mut proxy, Signal::TERM);
    proxy
}

fn restart(proxy: &mut Serve, signal: Signal) {
    proxy.signal(signal);
    proxy.ended();
    proxy.again();
}

fn patient(proxy: &Serve) -> (Client, Vec<u8>) {
    let (mut client, root) = proxy.client();
    client.patience(PATIENCE).unwrap();
    (client, root)
}

/// A call as the bytes that a client sends, and sends again.
fn record(xid: u32, call: &Call<'_>) -> Vec<u8> {
    in_one_fragment(&nfs(xid, call))
}

fn place<'a>(root: &'a [u8], name: &'a [u8]) -> DirOp<'a> {
    DirOp { dir: handle(root), name }
}

fn made<'a>(root: &'a [u8], name: &'a [u8]) -> Call<'a> {
    let how = CreateHow::Guarded(Sattr3 { mode: Some(0o644), ..Sattr3::default() });
    Call::Create { place: place(root, name), how }
}

fn executed(nfsd: &mut Nfsd, procedure: &str) -> u64 {
    nfsd.executed(procedure).iter().sum()
}

fn journal(proxy: &Serve) -> Value {
    let status: Value = serde_json::from_str(&proxy.command("status --json")).unwrap();
    status["journal"].clone()
}

/// A lone proxy was killed after it had answered: it forgot its answers, and a copy of a REMOVE deleted a newer file.
#[test]
fn a_call_that_was_answered_before_the_proxy_was_killed_gets_its_answer_again() {
    let mut nfsd = Nfsd::start(&["--servers", "2", "--truth"]);
    let mut proxy = with_journal(&nfsd, "server_hold_max = \"1s\"\n");
    let (mut client, root) = patient(&proxy);
    create(&mut client, &root, b"old");
    let calls = [record(70, &made(&root, b"once")), record(71, &Call::Remove { object: place(&root, b"old") })];
    let first = calls.each_ref().map(|call| client.exchange(call).unwrap().to_vec());
    assert_eq!(first.each_ref().map(|answer| status(answer)), [Nfsstat3::OK; 2]);
    create(&mut client, &root, b"old");
    let before = ["CREATE", "REMOVE"].map(|procedure| executed(&mut nfsd, procedure));
    restart(&mut proxy, Signal::KILL);
    let (mut client, _) = patient(&proxy);
    let again = calls.each_ref().map(|call| client.exchange(call).unwrap().to_vec());
    assert_eq!(again, first);
    assert_eq!(["CREATE", "REMOVE"].map(|procedure| executed(&mut nfsd, procedure)), before);
    assert_eq!(journal(&proxy)["recalled"], 2);
}

/// It was killed after a server had executed a call and before the answer came.
#[test]
fn a_call_whose_answer_died_with_the_proxy_is_looked_for_and_not_executed_again() {
    let mut nfsd = Nfsd::start(&["--servers", "2", "--truth"]);
    let mut proxy = with_journal(&nfsd, "server_hold_max = \"1s\"\n");
    let (mut client, root) = patient(&proxy);
    create(&mut client, &root, b"old");
    let calls = [record(70, &made(&root, b"once")), record(71, &Call::Remove { object: place(&root, b"old") })];
    for server in 0..2 {
        nfsd.tell(&format!("fault {server} mute"));
    }
    let (creates, removes) = (executed(&mut nfsd, "CREATE"), executed(&mut nfsd, "REMOVE"));
    let waiting: Vec<_> = calls
        .iter()
        .map(|call| {
            let ((mut client, _), call) = (patient(&proxy), call.clone());
            thread::spawn(move || client.exchange(&call).is_ok())
        })
        .collect();
    until("both are executed", || executed(&mut nfsd, "CREATE") > creates && executed(&mut nfsd, "REMOVE") > removes);
    proxy.signal(Signal::KILL);
    proxy.ended();
    assert!(waiting.into_iter().all(|call| !call.join().unwrap()), "nobody was answered");
    for server in 0..2 {
        nfsd.tell(&format!("fault {server} none"));
    }
    nfsd.truth();
    proxy.again();
    let (mut client, _) = patient(&proxy);
    let again = calls.each_ref().map(|call| status(client.exchange(call).unwrap()));
    assert_eq!(again, [Nfsstat3::OK; 2]);
    assert_eq!((executed(&mut nfsd, "CREATE"), executed(&mut nfsd, "REMOVE")), (creates + 1, removes + 1));
}

/// Without a journal such a copy is executed again: the option is what makes the difference.
#[test]
fn without_a_journal_a_copy_is_executed_after_a_crash() {
    let mut nfsd = Nfsd::start(&["--servers", "2", "--truth"]);
    let mut proxy = Site::of(&nfsd.endpoints()).start();
    assert!(journal(&proxy).is_null());
    let (mut client, root) = patient(&proxy);
    let call = record(70, &made(&root, b"once"));
    assert_eq!(status(client.exchange(&call).unwrap()), Nfsstat3::OK);
    restart(&mut proxy, Signal::KILL);
    let (mut client, _) = patient(&proxy);
    assert_eq!(status(client.exchange(&call).unwrap()), Nfsstat3::EXIST);
    assert_eq!(executed(&mut nfsd, "CREATE"), 2);
}

/// The disk is full, and has room again: calls wait, none is sent that is not written down, and
/// what is written afterwards can be read back. In a mount namespace of its own, where the
/// directory of the state is a small file system.
#[test]
fn on_a_full_disk_calls_wait_and_what_is_written_afterwards_can_be_read_back() {
    if std::env::var_os(INSIDE).is_none() {
        if !require(Part::MountNamespace) {
            return;
        }
        let name = "on_a_full_disk_calls_wait_and_what_is_written_afterwards_can_be_read_back";
        let inside = Command::new("unshare")
            .arg("-m")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(INSIDE, "1")
            .output()
            .unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&inside.stdout), String::from_utf8_lossy(&inside.stderr));
        assert!(inside.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let mut nfsd = Nfsd::start(&["--servers", "2", "--truth"]);
    let mut proxy = with_journal(&nfsd, "server_hold_max = \"1s\"\n");
    proxy.signal(Signal::TERM);
    proxy.ended();
    let directory = proxy.state().parent().unwrap().to_owned();
    small(&directory);
    proxy.again();
    let (mut client, root) = patient(&proxy);
    create(&mut client, &root, b"before");
    // What others leave there takes all the room.
    let filler = directory.join("filler");
    fill(&filler);
    let before = executed(&mut nfsd, "CREATE");
    let calls: Vec<Vec<u8>> = (0..200).map(|n| record(1000 + n, &made(&root, format!("n{n}").as_bytes()))).collect();
    let sent = calls.clone();
    let asks =
        thread::spawn(move || sent.iter().map(|call| client.exchange(call).unwrap().to_vec()).collect::<Vec<_>>());
    until("it says that it cannot write", || journal(&proxy)["broken"] == true);
    proxy.said("intents cannot be kept", 1);
    let waits = executed(&mut nfsd, "CREATE");
    assert!(waits < before + 200, "not everything is sent");
    std::fs::remove_file(&filler).unwrap();
    let answers = asks.join().unwrap();
    proxy.said("intents are kept again", 1);
    assert!(journal(&proxy)["anew"].as_u64().unwrap() >= 1);
    assert_eq!(executed(&mut nfsd, "CREATE"), before + 200);
    restart(&mut proxy, Signal::KILL);
    let (mut client, _) = patient(&proxy);
    let last = calls.len() - 1;
    assert_eq!(client.exchange(&calls[last]).unwrap(), answers[last], "what was written afterwards");
    assert_eq!(executed(&mut nfsd, "CREATE"), before + 200);
}

const INSIDE: &str = "MIDAS_TEST_FULL_DISK";

/// Mounts a small file system over a directory, with what the directory holds.
fn small(directory: &Path) {
    let kept: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| (entry.path(), std::fs::read(entry.path()).unwrap()))
        .collect();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(directory).status();
    assert!(mounted.unwrap().success(), "it was tried before");
    for (path, bytes) in kept {
        std::fs::write(path, bytes).unwrap();
    }
}

fn fill(path: &Path) {
    let mut length = 1 << 20;
    let mut bytes = Vec::new();
    while length >= 4096 {
        let more = vec![7; length];
        match std::fs::write(path, [&bytes[..], &more].concat()) {
            Ok(()) => bytes.extend(more),
            Err(_) => length /= 2,
        }
    }
    std::fs::write(path, &bytes).unwrap();
}
