//! The lab itself: real clients and real servers work with each other before they are used to judge ours.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use midas_lab::raw::handle;
use midas_lab::{Ganesha, Guest, Part, Scratch, create, mkdir, nfs_cat, nfs_cp, nfs_ls, null_call, require, succeeded};
use midas_net::Client;
use midas_nfs::nfs3::{Call, DirOp, Nfsstat3, Reply, StableHow};
use std::fs;
use std::path::Path;
use std::time::Duration;

const NFS_PROGRAM: u32 = 100_003;
const MOUNT_PROGRAM: u32 = 100_005;
/// The coherent setting: heads believe nothing that they know of a file.
const NO_EXPIRATION: u32 = 0;

#[test]
fn the_kernel_client_does_everything_with_a_real_server() {
    if !(require(Part::Ganesha) && require(Part::KernelClient)) {
        return;
    }
    let ganesha = Ganesha::start(1, NO_EXPIRATION);
    let transcript = Guest::of(&ganesha.heads()[0]).scenario("basic").scenario("nfs4").run();
    println!("{} in {:?}", transcript.text, transcript.took);
    transcript.expect_all_ok();
    assert_eq!(fs::read_dir(ganesha.export()).unwrap().count(), 0, "the scenario removes what it made");
}

#[test]
fn a_guest_that_fails_or_hangs_says_at_which_step() {
    if !(require(Part::Ganesha) && require(Part::KernelClient)) {
        return;
    }
    let ganesha = Ganesha::start(1, NO_EXPIRATION);
    fs::write(ganesha.export().join("file"), "content").unwrap();
    let scratch = Scratch::new();
    let cases = [
        ("false", "FAIL: case-0.sh: the step"),
        ("same \"$(cat /mnt/file)\" other", "found 'content', wanted 'other'"),
        ("refused cat /mnt/file", "succeeded, and must not: cat /mnt/file"),
        ("umount /mnt; NFS_PORT=1 mount_nfs", "Connection refused"),
    ];
    let case = |index: usize, line: &str| {
        let script = scratch.path().join(format!("case-{index}.sh"));
        fs::write(&script, format!("step mount\nmount_nfs\nstep 'the step'\n{line}\nstep behind\n")).unwrap();
        script.display().to_string()
    };
    let guest = Guest::of(&ganesha.heads()[0]);
    let guest = cases.iter().enumerate().fold(guest, |guest, (index, (line, _))| guest.scenario(&case(index, line)));
    let transcript = guest.run();
    assert!(!transcript.all_ok && !transcript.text.contains("behind"), "{}", transcript.text);
    assert_eq!(transcript.text.matches(".sh: the step").count(), 4, "{}", transcript.text);
    for (line, expected) in cases {
        assert!(transcript.text.contains(expected), "{line}: {}", transcript.text);
    }
    // However long the guest takes to start, it hangs for longer.
    let guest = Guest::of(&ganesha.heads()[0]).limit(Duration::from_secs(40)).scenario(&case(4, "sleep 1000"));
    let transcript = guest.run();
    assert!(!transcript.all_ok && !transcript.text.contains("behind"), "{}", transcript.text);
    assert!(transcript.text.contains("not within 40 s"), "{}", transcript.text);
}

#[test]
fn libnfs_copies_lists_and_reads_through_every_head() {
    if !(require(Part::Ganesha) && require(Part::Libnfs)) {
        return;
    }
    let ganesha = Ganesha::start(3, NO_EXPIRATION);
    let scratch = Scratch::new();
    let local = scratch.path().join("local");
    let content: Vec<u8> = (0..300_000_u32).map(|i| (i * 7 / 3) as u8).collect();
    fs::write(&local, &content).unwrap();
    for (index, head) in ganesha.heads().iter().enumerate() {
        let name = format!("/copy-{index}");
        succeeded(&nfs_cp(&local.display().to_string(), &head.url(&name)));
        assert_eq!(fs::read(ganesha.export().join(&name[1..])).unwrap(), content);
    }
    for head in ganesha.heads() {
        let listing = succeeded(&nfs_ls(head, ""));
        assert!((0..3).all(|index| listing.contains(&format!("copy-{index}"))), "{listing}");
        let read = nfs_cat(head, "/copy-0");
        assert!(read.status.success() && read.stdout == content, "{} bytes", read.stdout.len());
        assert!(!nfs_cat(head, "/absent").status.success());
    }
}

#[test]
fn a_head_that_knew_a_directorys_parent_does_not_see_that_another_moved_it() {
    if !require(Part::Ganesha) {
        return;
    }
    let ganesha = Ganesha::start(2, NO_EXPIRATION);
    let ((mut one, root), (mut other, _)) = (ganesha.heads()[0].client(), ganesha.heads()[1].client());
    let (from, to) = (mkdir(&mut one, &root, b"from"), mkdir(&mut one, &root, b"to"));
    let moved = mkdir(&mut one, &from, b"moved");
    let parent = |head: &mut Client| {
        let what = DirOp { dir: handle(&moved), name: b".." };
        let Reply::Lookup(Ok(found)) = head.nfs(&Call::Lookup { what }).unwrap() else { panic!("it has one") };
        found.object.bytes().to_vec()
    };
    assert_eq!(parent(&mut other), from);
    let [from_dir, to_dir] = [&from, &to].map(|dir| DirOp { dir: handle(dir), name: b"moved" });
    assert_eq!(one.nfs(&Call::Rename { from: from_dir, to: to_dir }).unwrap().status(), Nfsstat3::OK);
    assert_eq!((parent(&mut one), parent(&mut other)), (to, from));
}

#[test]
fn a_removed_file_is_not_stale_at_any_head_while_one_has_it_open() {
    if !require(Part::Ganesha) {
        return;
    }
    let ganesha = Ganesha::start(2, NO_EXPIRATION);
    let ((mut one, root), (mut other, _)) = (ganesha.heads()[0].client(), ganesha.heads()[1].client());
    for (writes, expected) in [(false, Nfsstat3::STALE), (true, Nfsstat3::OK)] {
        let made = create(&mut one, &root, b"file");
        let file = handle(&made);
        if writes {
            // It opens the file for that, and leaves it open.
            let call = Call::Write { file, offset: 0, count: 4, stable: StableHow::Unstable, data: b"data" };
            assert_eq!(other.nfs(&call).unwrap().status(), Nfsstat3::OK);
        }
        assert_eq!(
            one.nfs(&Call::Remove { object: DirOp { dir: handle(&root), name: b"file" } }).unwrap().status(),
            Nfsstat3::OK
        );
        assert_eq!(
            one.nfs(&Call::Getattr { object: file }).unwrap().status(),
            expected,
            "the other head writes: {writes}"
        );
    }
}

#[test]
fn every_head_answers_null_calls_and_ends_with_its_value() {
    if !(require(Part::Ganesha) && require(Part::Rpcinfo)) {
        return;
    }
    let ganesha = Ganesha::start(3, NO_EXPIRATION);
    let heads = ganesha.heads().to_vec();
    let pids: Vec<u32> = (0..heads.len()).map(|head| ganesha.pid(head)).collect();
    for head in &heads {
        succeeded(&null_call(head.address, head.nfs_port, NFS_PROGRAM, 3));
        succeeded(&null_call(head.address, head.mount_port, MOUNT_PROGRAM, 3));
        assert!(!null_call(head.address, head.nfs_port, NFS_PROGRAM, 2).status.success());
    }
    assert!(fs::read_to_string(ganesha.log(2)).unwrap().contains("NFS SERVER INITIALIZED"));
    let export = ganesha.export().to_owned();
    drop(ganesha);
    assert!(pids.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()), "{pids:?}");
    assert!(heads.iter().all(|head| !null_call(head.address, head.nfs_port, NFS_PROGRAM, 3).status.success()));
    assert!(!export.exists());
}
