//! An export with parts that are cached in different ways, through the real daemon over embedded servers that others write to as well.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::handle;
use midas_lab::{create, mkdir, mounted, until};
use midas_net::Client;
use midas_nfs::nfs3::{Call, DirOp, Nfsstat3, Reply, Sattr3};
use serde_json::{Value, json};
use support::midas;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

/// `software` may be out of date nearly always, so that files of a second ago are kept.
const EXPORT: &str = r#"mode = "strict"
[[export.subtree]]
path = "/scratch/software"
mode = "ttl"
stale_target = 0.99
[[export.subtree]]
path = "/scratch/runs"
mode = "lease"
writers = "midas-only"
lease_age_max = "1h"
"#;
const TREES: [&str; 3] = ["software", "runs", "home"];
const FILES: usize = 20;

struct World {
    nfsd: Nfsd,
    proxy: Serve,
    /// At a server, past MIDAS.
    direct: Client,
    client: Client,
    root: Vec<u8>,
}

impl World {
    /// A proxy over three servers with `software/gcc/f0`, .., and the same in `runs` and `home`.
    fn new() -> Self {
        let nfsd = Nfsd::start(&["--servers", "3", "--truth"]);
        let (mut direct, root) = nfsd.endpoint(0).client();
        for tree in TREES {
            let tree = mkdir(&mut direct, &root, tree.as_bytes());
            let gcc = mkdir(&mut direct, &tree, b"gcc");
            (0..FILES).for_each(|file| drop(create(&mut direct, &gcc, format!("f{file}").as_bytes())));
        }
        let proxy = Site { export: EXPORT, ..Site::of(&nfsd.endpoints()) }.start();
        let (client, root) = proxy.client();
        Self { nfsd, proxy, direct, client, root }
    }

    fn lookup(&mut self, dir: &[u8], name: &str) -> Vec<u8> {
        match self.client.nfs(&Call::Lookup { what: op(dir, name) }).unwrap() {
            Reply::Lookup(Ok(found)) => found.object.bytes().to_vec(),
            other => panic!("LOOKUP {name}: {other:?}"),
        }
    }

    fn mode_of(&mut self, object: &[u8]) -> u32 {
        match self.client.nfs(&Call::Getattr { object: handle(object) }).unwrap() {
            Reply::Getattr(Ok(attributes)) => attributes.mode,
            other => panic!("GETATTR: {other:?}"),
        }
    }

    /// Looks up everything in a tree and asks for its attributes: the calls that this took, and the handles.
    fn walk(&mut self, tree: &str) -> (u64, Vec<Vec<u8>>) {
        let root = self.root.clone();
        let tree = self.lookup(&root, tree);
        let gcc = self.lookup(&tree, "gcc");
        let mut objects = vec![tree, gcc.clone()];
        objects.extend((0..FILES).map(|file| self.lookup(&gcc, &format!("f{file}"))));
        for object in &objects {
            self.mode_of(object);
        }
        (2 * objects.len() as u64, objects)
    }

    /// LOOKUPs and GETATTRs that a walk of a tree made servers execute; those that check answers are among them.
    fn reached(&mut self, tree: &str) -> u64 {
        let before = self.executed();
        self.walk(tree);
        self.executed() - before
    }

    fn executed(&mut self) -> u64 {
        ["LOOKUP", "GETATTR"].iter().map(|procedure| self.nfsd.executed(procedure).iter().sum::<u64>()).sum()
    }

    /// Somebody changes a file past MIDAS; whether that is seen at once, every time.
    fn sees_every_change(&mut self, object: &[u8]) -> bool {
        let mut seen = |mode: u32| {
            let new_attributes = Sattr3 { mode: Some(mode), ..Sattr3::default() };
            let call = Call::Setattr { object: handle(object), new_attributes, guard: None };
            assert_eq!(self.direct.nfs(&call).unwrap().status(), Nfsstat3::OK);
            self.mode_of(object) == mode
        };
        (0..20).all(|round| seen(0o600 + round % 2))
    }

    fn json(&self, command: &str) -> Value {
        serde_json::from_str(&self.proxy.command(&format!("{command} --json"))).unwrap()
    }

    /// What became of the reads of the export's own part, of `software`, and of `runs`.
    fn reads(&self) -> [Value; 3] {
        let export = &self.json("status")["exports"][0];
        let of = |it: &Value| it["cache"]["reads"].clone();
        [of(export), of(&export["subtrees"][0]), of(&export["subtrees"][1])]
    }

    fn refused(&self, command: &str) -> String {
        let output = midas(&format!("{command} --socket {}", self.proxy.socket().display()));
        assert_eq!(output.status.code(), Some(2), "midas {command}");
        String::from_utf8(output.stderr).unwrap()
    }
}

fn op<'a>(dir: &'a [u8], name: &'a str) -> DirOp<'a> {
    DirOp { dir: handle(dir), name: name.as_bytes() }
}

fn answered(reads: &Value) -> u64 {
    reads["answered"].as_u64().unwrap()
}

#[test]
fn each_subtree_is_answered_as_its_mode_says_and_the_rest_by_the_servers() {
    let mut world = World::new();
    let calls = world.walk("runs").0;
    // The subtree's own name lies in the export, which is strict.
    let (before, _) = (world.reads(), world.walk("runs"));
    assert_eq!(answered(&world.reads()[2]) - answered(&before[2]), calls - 1);
    until("software is old enough to be kept", || {
        let before = answered(&world.reads()[1]);
        world.walk("software");
        answered(&world.reads()[1]) - before == calls - 1
    });
    world.walk("home");
    for _ in 0..3 {
        let reached = world.reached("home");
        assert!(reached >= calls, "{reached} of {calls} calls on what lies in no subtree");
    }
    let none = json!({ "answered": 0, "absent": 0, "joined": 0, "fetched": 0 });
    assert_eq!(world.reads()[0], none, "the export's own cache is not even asked");
    let (_, home) = world.walk("home");
    assert!(world.sees_every_change(&home[5]));
    let (_, software) = world.walk("software");
    assert!(!world.sees_every_change(&software[5]), "ttl is not that exact: or else the others prove nothing");
}

#[test]
fn what_leaves_a_looser_subtree_is_strict_at_once_with_all_that_lies_in_it() {
    let mut world = World::new();
    let (root, (calls, software)) = (world.root.clone(), world.walk("software"));
    until("software is old enough to be kept", || {
        let before = answered(&world.reads()[1]);
        world.walk("software");
        answered(&world.reads()[1]) - before == calls - 1
    });
    let home = world.lookup(&root, "home");
    let moves = Call::Rename { from: op(&software[0], "gcc"), to: op(&home, "gcc-13") };
    assert_eq!(world.client.nfs(&moves).unwrap().status(), Nfsstat3::OK);
    // By handles from before: nobody has looked anything up since.
    assert!(world.sees_every_change(&software[1]), "the directory");
    assert!(world.sees_every_change(&software[5]), "a file in it");
    let gcc = world.lookup(&home, "gcc-13");
    assert_eq!(gcc, software[1]);
    assert_eq!(world.lookup(&gcc, "f3"), software[5]);
    assert!(world.sees_every_change(&software[5]), "and by its new name");
    assert_eq!(world.json("explain /scratch/home/gcc-13")["mode"], "strict");
}

#[test]
fn a_file_with_a_name_outside_of_a_looser_subtree_is_strict() {
    let mut world = World::new();
    let (root, (_, software)) = (world.root.clone(), world.walk("software"));
    until("software is old enough to be kept", || {
        let before = answered(&world.reads()[1]);
        world.walk("software");
        answered(&world.reads()[1]) > before
    });
    let home = world.lookup(&root, "home");
    let links = Call::Link { file: handle(&software[5]), link: op(&home, "linked") };
    assert_eq!(world.client.nfs(&links).unwrap().status(), Nfsstat3::OK);
    assert!(world.sees_every_change(&software[5]));
    world.walk("software");
    assert!(world.sees_every_change(&software[5]), "also when it was found by its first name again");
    assert_eq!(world.lookup(&home, "linked"), software[5]);
    assert!(world.sees_every_change(&software[5]));
}

#[test]
fn commands_show_and_change_the_mode_of_a_subtree() {
    let mut world = World::new();
    world.walk("runs");
    for (path, mode, because) in [
        ("/scratch/runs/gcc", "lease", "of the subtree /scratch/runs"),
        ("/scratch/home/gcc", "strict", "the export's own"),
        ("/scratch", "strict", "the export's own"),
        (
            "/scratch/software",
            "ttl",
            "of the subtree /scratch/software, once it was looked up through MIDAS by its only name; strict until then",
        ),
    ] {
        let said = world.json(&format!("explain {path}"));
        assert_eq!((&said["mode"], &said["mode_because"]), (&json!(mode), &json!(because)), "{path}");
    }
    let status = world.proxy.command("status");
    for line in
        ["  subtree /scratch/software: mode ttl; cache ttl: ", "  subtree /scratch/runs: mode lease; cache lease: "]
    {
        assert!(status.contains(line), "{status}");
    }
    let held = world.json("cache")["exports"].clone();
    let part = |it: &Value| (it["path"].clone(), it["subtree"].clone(), it["cache"]["mode"].clone());
    let want = [("/scratch", false, "strict"), ("/scratch/software", true, "ttl"), ("/scratch/runs", true, "lease")];
    assert_eq!(
        held.as_array().unwrap().iter().map(part).collect::<Vec<_>>(),
        want.map(|(path, subtree, mode)| (json!(path), json!(subtree), json!(mode)))
    );
    let below: Vec<&Value> = held[2]["subtrees"].as_array().unwrap().iter().map(|it| &it["what"]).collect();
    assert!(below.contains(&&json!("/scratch/runs/gcc")), "what is held lies below the subtree: {held}");

    assert!(world.refused("set /scratch/software mode=lease").contains("needs writers"));
    assert!(world.refused("set /scratch/runs policy=rr").contains("routed as its export's"));
    assert!(world.refused("set /scratch/other mode=ttl").contains("unknown export"));
    world.proxy.command("set /scratch/runs mode=strict");
    let (calls, before) = (world.walk("runs").0, world.executed());
    world.walk("runs");
    assert!(world.executed() - before >= calls, "nothing is answered any more");
    let subtree = world.json("status")["exports"][0]["subtrees"][1].clone();
    assert_eq!(subtree["mode"], json!({ "now": "strict", "file": "lease" }));
    world.proxy.command("set /scratch/runs mode=lease");
    let (_, before) = (world.walk("runs"), answered(&world.reads()[2]));
    world.walk("runs");
    assert_eq!(answered(&world.reads()[2]) - before, calls - 1);
}

#[test]
fn a_subtree_that_is_mounted_by_itself_is_known_by_its_path() {
    let world = World::new();
    let (nfs, mount) = (world.proxy.nfs[0], world.proxy.mount[0]);
    let (mut client, root) = mounted(nfs, mount, "/scratch/runs");
    let mut ask = || assert_eq!(client.nfs(&Call::Lookup { what: op(&root, "gcc") }).unwrap().status(), Nfsstat3::OK);
    ask();
    ask();
    assert_eq!(answered(&world.reads()[2]), 1);
}

#[test]
fn a_warm_subtree_is_answered_here() {
    let mut world = World::new();
    assert!(world.refused("warm /scratch/home").contains("the mode of /scratch is strict"));
    let said = world.proxy.command("warm /scratch/runs");
    assert!(said.starts_with("complete: 2 directories, 21 names"), "{said}");
    let (calls, _) = world.walk("runs");
    assert_eq!(answered(&world.reads()[2]), calls - 1);
}
