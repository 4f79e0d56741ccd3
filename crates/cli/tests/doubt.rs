//! Calls whose server executed them and died, hung and ran them late, or came back: names and bytes
//! are what the clients were told, in every order of what the servers did.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::{self, Raw, handle};
use midas_lab::{PATIENCE, Scratch, create, mkdir, until};
use midas_net::{Client, Reservation};
use midas_nfs::nfs3::{Call, CreateHow, DirOp, Nfsstat3, Procedure, Reply, Sattr3, StableHow};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
use support::members::Members;
use support::nfsd::Nfsd;
use support::serve::Site;
use support::stage::{LONG, SHORT, Stage, file_at_home, found, read, status, write};
use support::switch::Switch;

/// A RENAME was executed and its server died. Meanwhile somebody else asked for the old name again:
/// the RENAME must not run a second time and move the new file over the old one.
#[test]
fn a_rename_whose_old_name_is_wanted_again_is_executed_once() {
    let mut stage = Stage::start(SHORT);
    let mut client = stage.client();
    create(&mut client, &stage.root, b"a");
    let number = found(&mut client, stage.place(b"a"));
    stage.home_is("mute");
    let (mut first, mut second, root) = (stage.client(), stage.client(), stage.root.clone());
    let renames = thread::spawn(move || {
        let dir = handle(&root);
        status(first.nfs(&Call::Rename { from: DirOp { dir, name: b"a" }, to: DirOp { dir, name: b"b" } }))
    });
    until("it is executed", || stage.executed("RENAME") == 1);
    let (root, made) = (stage.root.clone(), stage.executed("CREATE"));
    let makes = thread::spawn(move || {
        let place = DirOp { dir: handle(&root), name: b"a" };
        status(second.nfs(&Call::Create { place, how: CreateHow::Unchecked(Sattr3::default()) }))
    });
    until("the other call is executed or waits", || stage.executed("CREATE") > made || stage.held() > 0);
    stage.home_is("down");
    assert_eq!((renames.join().unwrap(), makes.join().unwrap()), (Nfsstat3::OK, Nfsstat3::OK));
    assert_eq!(stage.executed("RENAME"), 1);
    assert_eq!(found(&mut client, stage.place(b"b")), number, "the file that was renamed");
    let again = found(&mut client, stage.place(b"a"));
    assert!(again.is_some() && again != number, "the file that was made after it");
}

/// The second name of a RENAME counts as well: whoever changes it waits.
#[test]
fn a_rename_whose_new_name_is_taken_away_at_once_is_told_that_it_succeeded() {
    let mut stage = Stage::start(SHORT);
    let mut client = stage.client();
    create(&mut client, &stage.root, b"a");
    stage.home_is("half-reply");
    let (mut first, mut second, root) = (stage.client(), stage.client(), stage.root.clone());
    let renames = thread::spawn(move || {
        let dir = handle(&root);
        status(first.nfs(&Call::Rename { from: DirOp { dir, name: b"a" }, to: DirOp { dir, name: b"b" } }))
    });
    until("it is executed", || stage.executed("RENAME") == 1);
    stage.home_is("down");
    let root = stage.root.clone();
    let removes =
        thread::spawn(move || status(second.nfs(&Call::Remove { object: DirOp { dir: handle(&root), name: b"b" } })));
    assert_eq!((renames.join().unwrap(), removes.join().unwrap()), (Nfsstat3::OK, Nfsstat3::OK));
    assert_eq!((stage.executed("RENAME"), stage.executed("REMOVE")), (1, 1));
    assert_eq!([b"a", b"b"].map(|name| found(&mut client, stage.place(name))), [None, None]);
}

/// Calls that hang at their server, each of which another one of its kind would find done.
fn five_calls(root: &[u8], file: &[u8]) -> [(Procedure, Vec<u8>); 5] {
    let dir = handle(root);
    let named = |name| DirOp { dir, name };
    let attributes = Sattr3 { mode: Some(0o755), ..Sattr3::default() };
    let calls = [
        Call::Mkdir { place: named(b"made"), attributes },
        Call::Symlink { place: named(b"symlink"), attributes, target: b"target" },
        Call::Link { file: handle(file), link: named(b"link") },
        Call::Remove { object: named(b"removed") },
        Call::Rename { from: named(b"from"), to: named(b"to") },
    ];
    calls.map(|call| {
        let mut args = Vec::new();
        call.encode(&mut args);
        (call.procedure(), args)
    })
}

/// A call hung at its server and was not executed when another server was asked, so it was sent
/// there; before it arrived the first sending ran. EXIST and NOENT of the second sending are then
/// no answers for the client.
fn the_first_sending_overtakes_the_second(number: usize, cut: bool) {
    let mut stage = Stage::start(SHORT);
    let mut client = stage.client();
    let file = create(&mut client, &stage.root, b"file");
    for name in [&b"removed"[..], b"from"] {
        create(&mut client, &stage.root, name);
    }
    let (procedure, args) = five_calls(&stage.root, &file)[number].clone();
    stage.gates[stage.other].hold(&[procedure]);
    stage.home_is("hang");
    let mut asks = stage.client();
    let waiting = thread::spawn(move || {
        let results = asks.call(midas_nfs::nfs3::PROGRAM, 3, procedure as u32, |out| out.extend(&args));
        Reply::decode(procedure, results.unwrap()).unwrap().status()
    });
    until("it is sent elsewhere", || stage.gates[stage.other].came(procedure) > 0);
    if cut {
        stage.nfsd.tell(&format!("drop {}", stage.home));
    }
    stage.home_is("none");
    until("the first sending runs", || stage.executed(procedure.name()) > 0);
    stage.gates[stage.other].open();
    assert_eq!(waiting.join().unwrap(), Nfsstat3::OK, "{procedure:?}");
    let there = [&b"made"[..], b"symlink", b"link", b"removed", b"from", b"to"];
    let there = there.map(|name| found(&mut client, stage.place(name)).is_some());
    let done = [number == 0, number == 1, number == 2, number != 3, number != 4, number == 4];
    assert_eq!(there, done, "{procedure:?}");
}

#[test]
fn what_a_second_sending_finds_done_by_the_first_is_not_told_as_an_error() {
    for number in 0..5 {
        the_first_sending_overtakes_the_second(number, true);
    }
}

#[test]
fn a_first_sending_is_listened_to_while_its_connection_stands() {
    for number in [0, 3] {
        the_first_sending_overtakes_the_second(number, false);
    }
}

/// A REMOVE hung, was sent elsewhere and answered, and the name was made anew. What hung runs late:
/// it must not delete the new file.
fn a_removal_runs_late(hold: &'static str, cut: bool) {
    let mut stage = Stage::start(hold);
    let mut client = stage.client();
    create(&mut client, &stage.root, b"name");
    stage.home_is("hang");
    let object = stage.place(b"name");
    assert_eq!(status(client.nfs(&Call::Remove { object })), Nfsstat3::OK);
    let (mut again, root) = (stage.client(), stage.root.clone());
    let makes = thread::spawn(move || create(&mut again, &root, b"name"));
    until("it is answered or waits", || makes.is_finished() || stage.held() > 0);
    if cut {
        stage.nfsd.tell(&format!("drop {}", stage.home));
    }
    stage.home_is("none");
    until("what hung has run", || stage.nfsd.executed("REMOVE")[stage.home] == 1);
    makes.join().unwrap();
    assert!(found(&mut client, stage.place(b"name")).is_some(), "the new file was removed");
}

/// The same of a WRITE: it must not bring old bytes back.
fn a_write_runs_late(hold: &'static str, cut: bool) {
    let mut stage = Stage::start(hold);
    let mut client = stage.client();
    let root = stage.root.clone();
    let file = file_at_home(&mut stage, &mut client, &root);
    stage.home_is("hang");
    assert_eq!(write(&mut client, &file, b"old"), Nfsstat3::OK);
    let (mut again, into) = (stage.client(), file.clone());
    let writes = thread::spawn(move || write(&mut again, &into, b"new"));
    until("it is answered or waits", || writes.is_finished() || stage.held() > 0);
    if cut {
        stage.nfsd.tell(&format!("drop {}", stage.home));
    }
    let before = stage.nfsd.executed("WRITE")[stage.home];
    stage.home_is("none");
    until("what hung has run", || stage.nfsd.executed("WRITE")[stage.home] > before);
    assert_eq!(writes.join().unwrap(), Nfsstat3::OK);
    assert_eq!(read(&mut client, &file), b"new", "old bytes came back");
}

/// A CREATE that cuts a file to nothing, by its name.
fn cut(client: &mut Client, dir: &[u8], name: &[u8]) -> (Nfsstat3, Vec<u8>) {
    let empty = Sattr3 { size: Some(0), ..Sattr3::default() };
    let place = DirOp { dir: handle(dir), name };
    match client.nfs(&Call::Create { place, how: CreateHow::Unchecked(empty) }).unwrap() {
        Reply::Create(Ok(made)) => (Nfsstat3::OK, made.object.unwrap().bytes().to_vec()),
        failed => (failed.status(), Vec::new()),
    }
}

/// A CREATE that cuts a file to nothing hung, was sent elsewhere and answered, and the file was written to. What
/// hung runs late: the bytes that were acknowledged must stay.
fn a_cut_runs_late(hold: &'static str, is_cut_off: bool) {
    let mut stage = Stage::start(hold);
    let mut client = stage.client();
    stage.home_is("hang");
    let (told, file) = cut(&mut client, &stage.root.clone(), b"name");
    assert_eq!(told, Nfsstat3::OK);
    let (mut again, into) = (stage.client(), file.clone());
    let writes = thread::spawn(move || write(&mut again, &into, b"new"));
    until("it is answered or waits", || writes.is_finished() || stage.held() > 0);
    if is_cut_off {
        stage.nfsd.tell(&format!("drop {}", stage.home));
    }
    let before = stage.nfsd.executed("CREATE")[stage.home];
    stage.home_is("none");
    until("what hung has run", || stage.nfsd.executed("CREATE")[stage.home] > before);
    assert_eq!(writes.join().unwrap(), Nfsstat3::OK);
    assert_eq!(read(&mut client, &file), b"new", "bytes that were acknowledged are gone");
}

/// A WRITE hung, was sent elsewhere and answered, and the file was cut to nothing by its name. What hung runs late:
/// the file must stay empty.
fn a_write_runs_late_into_a_file_that_was_cut(hold: &'static str, is_cut_off: bool) {
    let mut stage = Stage::start(hold);
    let mut client = stage.client();
    let root = stage.root.clone();
    let file = file_at_home(&mut stage, &mut client, &root);
    let name = (0..64).map(|number| format!("f{number}").into_bytes()).find(|name| {
        let what = DirOp { dir: handle(&root), name };
        matches!(client.nfs(&Call::Lookup { what }), Ok(Reply::Lookup(Ok(found))) if found.object.bytes() == file)
    });
    let name = name.unwrap();
    stage.home_is("hang");
    assert_eq!(write(&mut client, &file, b"old"), Nfsstat3::OK);
    let mut again = stage.client();
    let cuts = thread::spawn(move || cut(&mut again, &root, &name).0);
    until("it is answered or waits", || cuts.is_finished() || stage.held() > 0);
    if is_cut_off {
        stage.nfsd.tell(&format!("drop {}", stage.home));
    }
    let before = stage.nfsd.executed("WRITE")[stage.home];
    stage.home_is("none");
    until("what hung has run", || stage.nfsd.executed("WRITE")[stage.home] > before);
    assert_eq!(cuts.join().unwrap(), Nfsstat3::OK);
    assert_eq!(read(&mut client, &file), b"", "old bytes came back");
}

#[test]
fn what_hung_and_runs_late_changes_nothing_that_was_changed_since() {
    a_removal_runs_late(LONG, false);
    a_write_runs_late(LONG, false);
    a_cut_runs_late(LONG, false);
    a_write_runs_late_into_a_file_that_was_cut(LONG, false);
}

#[test]
fn what_was_cut_off_and_runs_late_changes_nothing_that_was_changed_since() {
    // Longer than the test needs from the cut to the late execution, on a busy machine too.
    let hold = "server_hold_max = \"15s\"\n";
    let cases = [a_removal_runs_late, a_write_runs_late, a_cut_runs_late, a_write_runs_late_into_a_file_that_was_cut];
    // Each waits for the hold, and beside the others that costs no time.
    thread::scope(|scope| {
        let running = cases.map(|case| scope.spawn(move || case(hold, true)));
        let ended = running.map(|case| case.join().is_ok());
        assert_eq!(ended, [true; 4]);
    });
}

/// A server executed a call, and whoever is behind its address now remembers nothing of that, though no connection
/// was ever refused: an address that moved to another head. What the second sending finds made is not told as an error.
#[test]
fn what_was_made_before_a_connection_was_replaced_is_told_as_done() {
    for number in 0..3 {
        let mut stage = Stage::start(SHORT);
        let mut client = stage.client();
        let file = create(&mut client, &stage.root, b"file");
        for name in [&b"removed"[..], b"from"] {
            create(&mut client, &stage.root, name);
        }
        let (procedure, args) = five_calls(&stage.root, &file)[number].clone();
        stage.home_is("mute");
        let mut asks = stage.client();
        let waiting = thread::spawn(move || {
            let results = asks.call(midas_nfs::nfs3::PROGRAM, 3, procedure as u32, |out| out.extend(&args));
            Reply::decode(procedure, results.unwrap()).unwrap().status()
        });
        until("it is executed", || stage.executed(procedure.name()) > 0);
        stage.nfsd.tell(&format!("restart {}", stage.home));
        stage.home_is("none");
        assert_eq!(waiting.join().unwrap(), Nfsstat3::OK, "{procedure:?}");
    }
}

/// A RENAME was executed and its server died. The other one believes for a while that neither name has changed:
/// it is asked when that is over.
#[test]
fn a_server_that_believes_what_it_knew_does_not_tell_what_became_of_a_call() {
    let nfsd = Nfsd::start(&["--servers", "2", "--truth", "--attribute-cache", "4s"]);
    let mut stage = Stage::over(nfsd, SHORT, ("", "4s"));
    let mut client = stage.client();
    create(&mut client, &stage.root, b"a");
    let number = found(&mut client, stage.place(b"a"));
    stage.home_is("mute");
    let (mut direct, root) = stage.nfsd.endpoint(stage.other).client();
    for name in [b"a", b"b"] {
        found(&mut direct, DirOp { dir: handle(&root), name });
    }
    let (mut asks, root) = (stage.client(), stage.root.clone());
    let renames = thread::spawn(move || {
        let dir = handle(&root);
        status(asks.nfs(&Call::Rename { from: DirOp { dir, name: b"a" }, to: DirOp { dir, name: b"b" } }))
    });
    until("it is executed", || stage.executed("RENAME") == 1);
    stage.home_is("down");
    assert_eq!(renames.join().unwrap(), Nfsstat3::OK);
    assert_eq!(stage.executed("RENAME"), 1);
    assert_eq!(found(&mut client, stage.place(b"b")), number);
}

/// Two jobs take a lock by MKDIR. The second one's refusal was lost with a connection, and what it finds looks like
/// its own: it was told to the first that it is the first's.
#[test]
fn what_another_caller_was_told_to_have_made_is_not_a_second_callers() {
    let mut stage = Stage::start(SHORT);
    let (mut first, mut second, root) = (stage.client(), stage.client(), stage.root.clone());
    let lock = |client: &mut Client, root: &[u8]| {
        let attributes = Sattr3 { mode: Some(0o755), ..Sattr3::default() };
        status(client.nfs(&Call::Mkdir { place: DirOp { dir: handle(root), name: b"lock" }, attributes }))
    };
    assert_eq!(lock(&mut first, &root), Nfsstat3::OK);
    stage.home_is("mute");
    let waiting = thread::spawn(move || lock(&mut second, &root));
    until("it is refused", || stage.executed("MKDIR") == 2);
    stage.nfsd.tell(&format!("restart {}", stage.home));
    stage.home_is("none");
    assert_eq!(waiting.join().unwrap(), Nfsstat3::EXIST, "both have the lock");
}

/// A change waits until a late copy is over, and its client goes: it must not be executed when nobody wants it.
#[test]
fn what_waits_for_a_late_copy_dies_with_its_client() {
    let mut stage = Stage::start(LONG);
    let mut client = stage.client();
    create(&mut client, &stage.root, b"name");
    stage.home_is("hang");
    let object = stage.place(b"name");
    assert_eq!(status(client.nfs(&Call::Remove { object })), Nfsstat3::OK);
    let made = stage.executed("CREATE");
    let mut raw = Raw::connect(stage.proxy.nfs[0]);
    let how = CreateHow::Guarded(Sattr3::default());
    raw.send(&raw::nfs(7, &Call::Create { place: stage.place(b"name"), how }));
    until("it waits", || stage.held() > 0);
    raw.reset();
    until("it is dropped", || stage.held() == 0);
    stage.home_is("none");
    until("what hung has run", || stage.nfsd.executed("REMOVE")[stage.home] == 1);
    assert_eq!(stage.executed("CREATE"), made);
    assert_eq!(found(&mut client, stage.place(b"name")), None);
}

/// A server hangs, and the administrator's command fences it: nothing need wait until it could not run any more.
#[test]
fn a_server_that_is_fenced_keeps_nobody_waiting() {
    let scratch = Scratch::new();
    let file = scratch.path().join("fenced");
    let command = format!("on_down = \"echo $MIDAS_POOL $MIDAS_SERVER >> {}\"\n", file.display());
    let mut stage = Stage::with(LONG, &command);
    let mut client = stage.client();
    create(&mut client, &stage.root, b"name");
    stage.home_is("hang");
    let object = stage.place(b"name");
    assert_eq!(status(client.nfs(&Call::Remove { object })), Nfsstat3::OK);
    let begun = Instant::now();
    create(&mut client, &stage.root, b"name");
    assert!(begun.elapsed() < Duration::from_secs(40), "it waited for server_hold_max: {:?}", begun.elapsed());
    let server = stage.proxy.servers()[stage.home].clone();
    let name = server["name"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("heads {name}\n"), "once, for one server");
    stage.proxy.said("the fence's end", 1);
    assert_eq!(server["fenced"], true, "{server}");
}

/// A server that was drained and is empty is stopped for work on it: that is no reason to fence it.
#[test]
fn a_server_that_was_drained_is_not_fenced_when_it_is_stopped() {
    let scratch = Scratch::new();
    let file = scratch.path().join("fenced");
    let mut stage = Stage::with(LONG, &format!("on_down = \"echo $MIDAS_SERVER >> {}\"\n", file.display()));
    stage.proxy.command(&format!("drain {}", stage.proxy.servers()[stage.home]["name"].as_str().unwrap()));
    stage.proxy.until(stage.home, "it is empty", |server| server["in_flight"] == 0);
    stage.home_is("down");
    stage.proxy.until(stage.home, "it is known to be down", |server| server["health"] != "drained");
    longer_than_a_vote_holds();
    assert!(!file.exists(), "{}", std::fs::read_to_string(&file).unwrap_or_default());
}

/// A WRITE hangs at its server and its client goes: nobody needs a second copy of it elsewhere.
#[test]
fn a_write_whose_client_is_gone_is_not_sent_to_another_server() {
    let mut stage = Stage::start(SHORT);
    let mut client = stage.client();
    let root = stage.root.clone();
    let file = file_at_home(&mut stage, &mut client, &root);
    stage.home_is("hang");
    let (mut raw, stable) = (Raw::connect(stage.proxy.nfs[0]), StableHow::FileSync);
    raw.send(&raw::nfs(5, &Call::Write { file: handle(&file), offset: 0, count: 4, stable, data: b"gone" }));
    until("it is sent", || stage.gates[stage.home].came(Procedure::Write) == 1);
    raw.reset();
    stage.proxy.until(stage.home, "the server is given up", |server| server["in_flight"] == 0);
    until("nothing waits", || stage.held() == 0);
    assert_eq!(write(&mut client, &file, b"kept"), Nfsstat3::OK);
    assert_eq!(stage.gates[stage.other].came(Procedure::Write), 1, "the other client's alone");
    assert_eq!(read(&mut client, &file), b"kept");
}

/// Three members of a cluster over two servers, whose pool has a command that leaves a line in this
/// file. Each has its own way to the first server if it is given one.
fn fencing(nfsd: &Nfsd, file: &Path, ways: &[SocketAddr]) -> Members {
    let (member, command) = (Cell::new(0), format!("on_down = \"echo $MIDAS_SERVER >> {}\"\n", file.display()));
    let pool = format!("failover_after = \"1s\"\nprobe_interval = \"100ms\"\nprobe_timeout = \"1500ms\"\n{command}");
    Members::start(|| {
        let number = member.replace(member.get() + 1);
        let mut site = Site { pool: pool.clone(), export: LONG, ..Site::of(&nfsd.endpoints()) };
        site.servers[0] = ways.get(number).copied().unwrap_or(site.servers[0]);
        site
    })
}

/// What members say of a server holds for three seconds: whoever would fence by that has done so.
fn longer_than_a_vote_holds() {
    let begun = Instant::now();
    until("votes are old", || begun.elapsed() > Duration::from_secs(4));
}

/// In a cluster the command is run when the members agree that the server is down, by one of them.
#[test]
fn members_that_agree_fence_a_server_once() {
    let (mut nfsd, scratch) = (Nfsd::start(&["--servers", "2", "--truth"]), Scratch::new());
    let file = scratch.path().join("fenced");
    let members = fencing(&nfsd, &file, &[]);
    for (number, daemon) in members.daemons.iter().enumerate() {
        let (mut client, root) = daemon.client();
        client.patience(PATIENCE).unwrap();
        create(&mut client, &root, format!("f{number}").as_bytes());
    }
    let home = nfsd.executed("CREATE").iter().position(|calls| *calls > 0).unwrap();
    nfsd.tell(&format!("fault {home} down"));
    until("it is fenced", || members.daemons.iter().any(|daemon| daemon.servers()[home]["fenced"] == true));
    longer_than_a_vote_holds();
    let name = members.daemons[0].servers()[home]["name"].as_str().unwrap().to_owned();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{name}\n"), "once in all");
}

/// The first member alone does not reach a server: it is the way there that is broken.
#[test]
fn a_member_that_alone_finds_a_server_down_does_not_fence_it() {
    let (nfsd, scratch) = (Nfsd::start(&["--servers", "2", "--truth"]), Scratch::new());
    let (file, here) = (scratch.path().join("fenced"), SocketAddr::from(([127, 0, 0, 1], 0)));
    let way = Switch::start(here, nfsd.addresses[0]);
    let members = fencing(&nfsd, &file, &[way.address]);
    // Nobody listens there, and nobody else is given the port.
    let nowhere = Reservation::on(&[here.ip()]).unwrap();
    way.lead_to(SocketAddr::new(here.ip(), nowhere.port()), Duration::ZERO);
    members.daemons[0].until(0, "it is down for the first", |server| server["health"] == "down");
    longer_than_a_vote_holds();
    assert!(!file.exists(), "the others reach it");
}

/// A WRITE hung, was sent elsewhere and answered, all through one member of a cluster. Then another
/// member is given a newer one for the same file. What hung runs late, or its connection is gone
/// before (false): the newer bytes must stay.
fn a_write_of_another_member_runs_late(export: &'static str) -> bool {
    let mut nfsd = Nfsd::start(&["--servers", "2", "--truth"]);
    let pool = "failover_after = \"1s\"\nprobe_interval = \"100ms\"\nprobe_timeout = \"1500ms\"\n";
    let members = Members::start(|| Site { pool: pool.to_owned(), export, ..Site::of(&nfsd.endpoints()) });
    let [(mut first, root), (mut second, _), (mut third, _)] = [0, 1, 2].map(|member| members.daemons[member].client());
    for client in [&mut first, &mut second, &mut third] {
        client.patience(PATIENCE).unwrap();
    }
    let file = create(&mut first, &root, b"file");
    let before = nfsd.executed("WRITE");
    assert_eq!(write(&mut first, &file, b"one"), Nfsstat3::OK);
    let home = nfsd.executed("WRITE").iter().zip(&before).position(|(now, before)| now > before).unwrap();
    nfsd.tell(&format!("fault {home} hang"));
    assert_eq!(write(&mut first, &file, b"old"), Nfsstat3::OK);
    // Otherwise it would hang behind the first one.
    members.daemons[1].until(home, "the home is down for the other member", |server| server["health"] == "down");
    let into = file.clone();
    let writes = thread::spawn(move || write(&mut second, &into, b"new"));
    until("it is answered or waits", || writes.is_finished() || members.daemons[1].held() > 0);
    let before = nfsd.executed("WRITE")[home];
    nfsd.tell(&format!("fault {home} none"));
    let (told, mut ran) = (Instant::now(), false);
    let mut runs = || std::mem::replace(&mut ran, nfsd.executed("WRITE")[home] > before);
    until("what hung has run, or is gone", || runs() || told.elapsed() > Duration::from_secs(5));
    assert_eq!(writes.join().unwrap(), Nfsstat3::OK);
    assert_eq!(read(&mut third, &file), b"new", "old bytes came back");
    ran
}

#[test]
fn what_hung_at_one_member_changes_nothing_that_another_changed_since() {
    for export in [LONG, "mode = \"lease\"\nwriters = \"midas-only\"\nserver_hold_max = \"60s\"\n"] {
        assert!((0..4).any(|_| a_write_of_another_member_runs_late(export)), "nothing has run late");
    }
}

/// What one client has made, by its names: the bytes of files, none for directories.
type Model = BTreeMap<String, Option<Vec<u8>>>;

/// A client with names of its own, so that it is known what each of its calls does.
struct Clerk {
    client: Client,
    dir: Vec<u8>,
    model: Model,
    random: u64,
    calls: u64,
    /// Calls that were told another result than the model's, though names and bytes are the model's.
    otherwise: u64,
}

impl Clerk {
    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % end
    }

    /// One call, and what the model makes of it.
    fn step(&mut self) {
        let names = [self.below(6), self.below(6)].map(|name| format!("n{name}"));
        let [name, to] = names;
        let (dir, there) = (self.dir.clone(), self.model.get(&name).cloned());
        let named = |name: &'_ str| (dir.clone(), name.to_owned());
        let (at, at_to) = (named(&name), named(&to));
        let place = DirOp { dir: handle(&at.0), name: at.1.as_bytes() };
        let place_to = DirOp { dir: handle(&at_to.0), name: at_to.1.as_bytes() };
        let attributes = Sattr3 { mode: Some(0o755), ..Sattr3::default() };
        let expected = match (self.below(7), &there) {
            (0, _) => {
                let told = self.call(&Call::Create { place, how: CreateHow::Guarded(attributes) });
                let expected = if there.is_some() { Nfsstat3::EXIST } else { Nfsstat3::OK };
                self.model.entry(name).or_insert(Some(Vec::new()));
                (told, expected)
            }
            (1, _) => {
                let told = self.call(&Call::Mkdir { place, attributes });
                let expected = if there.is_some() { Nfsstat3::EXIST } else { Nfsstat3::OK };
                self.model.entry(name).or_insert(None);
                (told, expected)
            }
            (2, Some(Some(_)) | None) => {
                let told = self.call(&Call::Remove { object: place });
                let expected = if self.model.remove(&name).is_some() { Nfsstat3::OK } else { Nfsstat3::NOENT };
                (told, expected)
            }
            (2, Some(None)) => {
                let told = self.call(&Call::Rmdir { object: place });
                self.model.remove(&name);
                (told, Nfsstat3::OK)
            }
            // A file over a file or nothing, a directory over nothing: what is refused is not interesting.
            (3, Some(from)) if name != to && (from.is_some() || !self.model.contains_key(&to)) => {
                if matches!(self.model.get(&to), Some(None)) {
                    return;
                }
                let told = self.call(&Call::Rename { from: place, to: place_to });
                let moved = self.model.remove(&name);
                self.model.extend(moved.map(|moved| (to, moved)));
                (told, Nfsstat3::OK)
            }
            (4, Some(Some(_))) => {
                let size = self.below(4096);
                let file = self.handle_of(place);
                let new_attributes = Sattr3 { size: Some(size), ..Sattr3::default() };
                let told = self.call(&Call::Setattr { object: handle(&file), new_attributes, guard: None });
                if let Some(Some(bytes)) = self.model.get_mut(&name) {
                    bytes.resize(size as usize, 0);
                }
                (told, Nfsstat3::OK)
            }
            (5 | 6, Some(Some(_))) => {
                let (offset, byte) = (self.below(4096), self.below(256) as u8);
                let data = vec![byte; 1 + self.below(512) as usize];
                let file = self.handle_of(place);
                let (count, stable) = (data.len() as u32, StableHow::FileSync);
                let told = self.call(&Call::Write { file: handle(&file), offset, count, stable, data: &data });
                if let Some(Some(bytes)) = self.model.get_mut(&name) {
                    let (from, to) = (offset as usize, offset as usize + data.len());
                    bytes.resize(bytes.len().max(to), 0);
                    bytes[from..to].copy_from_slice(&data);
                }
                (told, Nfsstat3::OK)
            }
            _ => return,
        };
        self.otherwise += u64::from(expected.0 != expected.1);
    }

    fn call(&mut self, call: &Call<'_>) -> Nfsstat3 {
        self.calls += 1;
        self.client.nfs(call).unwrap().status()
    }

    fn handle_of(&mut self, what: DirOp<'_>) -> Vec<u8> {
        match self.client.nfs(&Call::Lookup { what }).unwrap() {
            Reply::Lookup(Ok(found)) => found.object.bytes().to_vec(),
            failed => panic!("the model has it: {failed:?}"),
        }
    }

    /// What is there now.
    fn seen(&mut self) -> Model {
        let mut seen = Model::new();
        for name in (0..6).map(|name| format!("n{name}")) {
            let dir = self.dir.clone();
            let what = DirOp { dir: handle(&dir), name: name.as_bytes() };
            let object = match self.client.nfs(&Call::Lookup { what }).unwrap() {
                Reply::Lookup(Ok(found)) => found.object.bytes().to_vec(),
                _ => continue,
            };
            // A directory cannot be read so.
            let bytes = match self.client.nfs(&Call::Read { file: handle(&object), offset: 0, count: 8192 }).unwrap() {
                Reply::Read(Ok(read)) => Some(read.data.to_vec()),
                _ => None,
            };
            seen.insert(name, bytes);
        }
        seen
    }
}

/// Servers execute and die, hang and run late, lose their connections and come back, for times from
/// shorter to longer than every timer. Clients that know what each call does find names and bytes
/// as they should be. `MIDAS_DOUBT_CALLS` makes it long.
#[test]
fn names_and_bytes_are_the_models_whatever_the_servers_did() {
    let least: u64 = std::env::var("MIDAS_DOUBT_CALLS").map_or(1000, |calls| calls.parse().unwrap());
    let mut nfsd = Nfsd::start(&["--servers", "3", "--truth"]);
    let pool = "failover_after = \"1s\"\nprobe_interval = \"100ms\"\nprobe_timeout = \"300ms\"\n".to_owned();
    // A hang ends before what it held back is taken for over.
    let export = "mode = \"lease\"\nwriters = \"midas-only\"\nserver_hold_max = \"3s\"\n";
    let proxy = Site { pool, export, ..Site::of(&nfsd.endpoints()) }.start();
    let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let clerk = |number: u64| {
        let (mut client, root) = proxy.client();
        client.patience(PATIENCE).unwrap();
        let dir = mkdir(&mut client, &root, format!("client{number}").as_bytes());
        Clerk { client, dir, model: Model::new(), random: 7 + number, calls: 0, otherwise: 0 }
    };
    let mut clerks: Vec<Clerk> = (0..8).map(clerk).collect();
    // A client that fails drops its end: then no fault lasts any longer.
    let (failed, fails) = channel::<()>();
    thread::scope(|scope| {
        for clerk in &mut clerks {
            let (done, over, failed) = (&done, &over, failed.clone());
            scope.spawn(move || {
                let _until_it_fails = failed;
                while !over.load(Ordering::Relaxed) {
                    let before = clerk.calls;
                    clerk.step();
                    done.fetch_add(clerk.calls - before, Ordering::Relaxed);
                    if clerk.calls % 500 == 499 {
                        assert_eq!(clerk.seen(), clerk.model);
                    }
                }
            });
        }
        drop(failed);
        // Each with how long it lasts; the first two parts of a fault follow each other at once.
        let faults = [
            (["mute", "down"], 300),
            (["hang", "none"], 2500),
            (["mute", "down"], 2500),
            (["hang", "drop"], 200),
            (["mute", "down"], 1800),
            (["down", "none"], 100),
        ];
        let mut turn = 0;
        while turn < faults.len() || done.load(Ordering::Relaxed) < least {
            let (server, (steps, lasts)) = (turn % 3, faults[turn % faults.len()]);
            let before = done.load(Ordering::Relaxed);
            until("calls go on", || done.load(Ordering::Relaxed) > before + 50);
            nfsd.tell(&format!("fault {server} {}", steps[0]));
            lasts_for(&fails, lasts / 2);
            match steps[1] {
                "drop" => nfsd.tell(&format!("drop {server}")),
                fault => nfsd.tell(&format!("fault {server} {fault}")),
            }
            lasts_for(&fails, lasts / 2);
            nfsd.tell(&format!("fault {server} none"));
            turn += 1;
        }
        over.store(true, Ordering::Relaxed);
    });
    let (calls, otherwise) = clerks.iter().fold((0, 0), |sum, it| (sum.0 + it.calls, sum.1 + it.otherwise));
    println!("{calls} calls, {otherwise} told otherwise than the model, with the same names and bytes");
    for clerk in &mut clerks {
        assert_eq!(clerk.seen(), clerk.model);
    }
    assert!(otherwise * 100 <= calls, "{otherwise} of {calls}");
}

/// A fault lasts so many milliseconds, unless no client is left.
fn lasts_for(fails: &Receiver<()>, milliseconds: u64) {
    let ended = fails.recv_timeout(Duration::from_millis(milliseconds));
    assert_eq!(ended, Err(RecvTimeoutError::Timeout), "every client has failed");
}
