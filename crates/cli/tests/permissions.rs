//! Who may see what (nfs3.md, E): a warm cache answers every user as the server itself does, for modes, owners, groups and access
//! lists, and at once after any of them has changed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::handle;
use midas_lab::{Ganesha, PATIENCE, Part, bounded, free_port, loopback, mounted, require, succeeded};
use midas_net::{Caller, Client};
use midas_nfs::nfs3::{Call, DirOp, Entry, Fattr3, Nfsstat3, Nfstime3, PostOpAttr, Procedure, Reply, Sattr3};
use midas_nfs::rpc::{self, Credential, OpaqueAuth, flavor};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use support::counted::Counted;
use support::serve::{Serve, Site};
use support::switch::Switch;

/// What a directory and the file in it are set to.
const MODES: [u32; 12] = [0o755, 0o700, 0o711, 0o744, 0o750, 0o710, 0o740, 0o070, 0o007, 0o000, 0o1777, 0o2770];
const OWNERS: [(u32, u32); 4] = [(0, 0), (OWNER, GROUP), (OTHER, GROUP), (OWNER, ELSE)];
const OWNER: u32 = 1001;
const MEMBER: u32 = 1002;
const OTHER: u32 = 1003;
const STRANGER: u32 = 1004;
const GROUP: u32 = 2001;
const ELSE: u32 = 2002;

/// Who asks. The superuser is first: what it was told must not be told to those who follow.
fn users() -> [Caller; 7] {
    let user = |uid, gid, gids: &[u32]| Caller { uid, gid, gids: gids.to_vec() };
    let sixteenth: Vec<u32> = (3001..3016).chain([GROUP]).collect();
    [
        Caller::ROOT,
        user(OWNER, ELSE, &[]),
        user(MEMBER, GROUP, &[]),
        user(MEMBER, ELSE, &[3001, GROUP]),
        user(OTHER, ELSE, &sixteenth),
        user(OTHER, ELSE, &sixteenth[..15]),
        user(STRANGER, 3001, &[]),
    ]
}

/// Access lists of directories on the server, and the mode that each directory has before.
const LISTS: [(&str, u32, &str); 6] = [
    ("user-in", 0o700, "u:1004:rx"),
    ("user-out", 0o755, "u:1004:---"),
    ("group-in", 0o700, "g:2001:rx"),
    ("group-out", 0o755, "g:2001:---"),
    ("masked", 0o755, "u:1004:rwx,m::--x"),
    ("search", 0o700, "u:1004:x,g:2001:r"),
];

/// Two ways to the same objects: through the proxy, and to a server.
struct Ways {
    proxy: Client,
    server: Client,
    /// Of the export.
    root: Vec<u8>,
    /// What the servers said, and how often.
    said: BTreeMap<(&'static str, u32), usize>,
}

/// A directory with a file and a link in it, as a test asks for them.
struct Tree {
    dir: Vec<u8>,
    file: Vec<u8>,
    link: Vec<u8>,
}

impl Ways {
    fn new((server, _): (Client, Vec<u8>), proxy: &Serve) -> Self {
        let (proxy, root) = proxy.client();
        Self { proxy, server, root, said: BTreeMap::new() }
    }

    fn tree(&mut self, name: &str) -> Tree {
        let mut walk = |name: &str| self.server.walk(&self.root, name.as_bytes()).unwrap();
        Tree { dir: walk(name), file: walk(&format!("{name}/present")), link: walk(&format!("{name}/link")) }
    }

    /// Every user asks everything, both ways, and hears the same.
    fn agree(&mut self, tree: &Tree, what: &str) {
        for user in users() {
            self.proxy.become_caller(&user);
            self.server.become_caller(&user);
            for (name, call) in questions(tree) {
                let cached = Answer::of(&self.proxy.nfs(&call).unwrap());
                let own = Answer::of(&self.server.nfs(&call).unwrap());
                assert!(cached.may_stand_for(&own), "{what}, {user:?}, {name}:\n{cached:?}\nbut the server\n{own:?}");
                *self.said.entry((name, own.status.0)).or_default() += 1;
            }
        }
        self.proxy.become_caller(&Caller::ROOT);
        self.server.become_caller(&Caller::ROOT);
    }

    fn set(&mut self, object: &[u8], new_attributes: Sattr3) {
        let call = Call::Setattr { object: handle(object), new_attributes, guard: None };
        assert_eq!(self.proxy.nfs(&call).unwrap().status(), Nfsstat3::OK);
    }
}

fn questions(tree: &Tree) -> Vec<(&'static str, Call<'_>)> {
    let [dir, file, symlink] = [&tree.dir, &tree.file, &tree.link].map(|object| handle(object));
    let lookup = |name| Call::Lookup { what: DirOp { dir, name } };
    vec![
        ("LOOKUP of a name that exists", lookup(b"present")),
        ("LOOKUP of a name that does not", lookup(b"absent")),
        ("READDIR", Call::Readdir { dir, cookie: 0, cookieverf: [0; 8], count: 4096 }),
        ("READDIRPLUS", Call::Readdirplus { dir, cookie: 0, cookieverf: [0; 8], dircount: 4096, maxcount: 16384 }),
        ("ACCESS of the directory", Call::Access { object: dir, access: 0x3f }),
        ("ACCESS of the directory, one bit", Call::Access { object: dir, access: 1 }),
        ("ACCESS of the file", Call::Access { object: file, access: 0x3f }),
        ("GETATTR of the directory", Call::Getattr { object: dir }),
        ("GETATTR of the file", Call::Getattr { object: file }),
        ("READLINK", Call::Readlink { symlink }),
    ]
}

/// What a reply says.
#[derive(Debug)]
struct Answer {
    status: Nfsstat3,
    /// Handle, rights, target or names.
    told: String,
    /// In their order; some may be left out.
    attributes: Vec<PostOpAttr>,
}

impl Answer {
    fn of(reply: &Reply<'_>) -> Self {
        let entry = |entry: &Entry<'_>| format!("{} {} {}\n", entry.name.escape_ascii(), entry.fileid, entry.cookie);
        let (told, attributes) = match reply {
            Reply::Getattr(Ok(ok)) => (String::new(), vec![Some(*ok)]),
            Reply::Lookup(Ok(ok)) => (format!("{:?}", ok.object), vec![ok.attributes, ok.dir_attributes]),
            Reply::Access(Ok(ok)) => (format!("{:#x}", ok.access), vec![ok.attributes]),
            Reply::Readlink(Ok(ok)) => (ok.data.escape_ascii().to_string(), vec![ok.attributes]),
            Reply::Readdir(Ok(ok)) => {
                (ok.entries().map(|next| entry(&next.unwrap())).collect(), vec![ok.dir_attributes])
            }
            Reply::Readdirplus(Ok(ok)) => {
                let all: Vec<_> = ok.entries().map(Result::unwrap).collect();
                let told: Vec<_> = all.iter().map(|plus| format!("{:?} {}", plus.handle, entry(&plus.entry))).collect();
                (told.concat(), [ok.dir_attributes].into_iter().chain(all.iter().map(|plus| plus.attributes)).collect())
            }
            Reply::Lookup(Err(failed))
            | Reply::Access(Err(failed))
            | Reply::Readlink(Err(failed))
            | Reply::Readdir(Err(failed))
            | Reply::Readdirplus(Err(failed)) => (String::new(), vec![failed.attributes]),
            other => panic!("{other:?}"),
        };
        // A read moves the atime at any time.
        let still = |known: Fattr3| Fattr3 { atime: Nfstime3::default(), ..known };
        let attributes = attributes.into_iter().map(|known| known.map(still)).collect();
        Self { status: reply.status(), told, attributes }
    }

    /// The same, less attributes that a reply may leave out: nothing is told that the server keeps to itself.
    fn may_stand_for(&self, own: &Self) -> bool {
        let silent_or_same = |(told, own): (&PostOpAttr, &PostOpAttr)| told.is_none() || told == own;
        self.status == own.status
            && self.told == own.told
            && self.attributes.len() == own.attributes.len()
            && self.attributes.iter().zip(&own.attributes).all(silent_or_same)
    }
}

/// A directory with a file and a link in it.
fn plant(export: &Path, name: impl AsRef<Path>, mode: u32) -> PathBuf {
    let dir = export.join(name);
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("present"), "content").unwrap();
    symlink("present", dir.join("link")).unwrap();
    fs::set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
    dir
}

/// With the cache on. On a slow machine too a test is over before anything is too old.
const EXPORT: &str = "mode = \"lease\"\nwriters = \"midas-only\"\nlease_age_max = \"10m\"\n";

/// Everything that root asks is told from the cache. The proxy compares some of its answers with the servers', and asks for its own
/// sake: so not every time, but a question that is not cached reaches them every time.
fn is_warm(asked: impl Fn() -> u64, ways: &mut Ways, tree: &Tree) {
    for (name, call) in questions(tree) {
        let told_from_the_cache = |_| {
            let before = asked();
            ways.proxy.nfs(&call).unwrap();
            asked() == before
        };
        assert!((0..TIMES).any(told_from_the_cache), "the servers are asked every time: {name}");
    }
}

/// Enough to see one that is not compared.
const TIMES: usize = 20;
const READS: [Procedure; 6] = [
    Procedure::Getattr,
    Procedure::Lookup,
    Procedure::Access,
    Procedure::Readlink,
    Procedure::Readdir,
    Procedure::Readdirplus,
];

#[test]
fn every_user_gets_the_servers_own_answer_from_a_warm_cache_whatever_mode_owner_and_group_were_set() {
    if !require(Part::Ganesha) {
        return;
    }
    // A directory for each: what is changed all the time is not cached.
    let wanted: Vec<((u32, u32), u32)> = OWNERS.iter().flat_map(|owner| MODES.map(|mode| (*owner, mode))).collect();
    let names: Vec<String> = wanted.iter().map(|((uid, gid), mode)| format!("{uid}-{gid}-{mode:o}")).collect();
    let heads = Counted::start(3);
    for name in &names {
        plant(heads.ganesha.export(), name, 0o755);
    }
    let proxy = Site { export: EXPORT, ..heads.site() }.start();
    let mut ways = Ways::new(heads.ganesha.heads()[0].client(), &proxy);
    for (((uid, gid), mode), name) in wanted.into_iter().zip(&names) {
        let tree = ways.tree(name);
        ways.agree(&tree, "at first");
        is_warm(|| heads.calls(&READS), &mut ways, &tree);
        for (step, new) in [
            ("after chown", Sattr3 { uid: Some(uid), gid: Some(gid), ..Sattr3::default() }),
            ("after chmod", Sattr3 { mode: Some(mode), ..Sattr3::default() }),
        ] {
            ways.set(&tree.dir, new);
            ways.set(&tree.file, new);
            ways.agree(&tree, &format!("{name} {step}"));
            is_warm(|| heads.calls(&READS), &mut ways, &tree);
            ways.agree(&tree, &format!("{name} {step}, warm"));
        }
    }
    println!("{:?}", ways.said);
    refuses_and_grants(&ways.said);
}

#[test]
fn what_has_an_access_list_is_answered_from_a_warm_cache_as_by_the_server() {
    if !(require(Part::Ganesha) && require(Part::Setfacl)) {
        return;
    }
    let heads = Counted::start(3);
    for (name, mode, list) in LISTS {
        let dir = plant(heads.ganesha.export(), name, mode);
        succeeded(
            &bounded("setfacl", PATIENCE).args(["-m", list]).args([&dir.join("present"), &dir]).output().unwrap(),
        );
    }
    let proxy = Site { export: EXPORT, ..heads.site() }.start();
    let mut ways = Ways::new(heads.ganesha.heads()[0].client(), &proxy);
    for (name, _, list) in LISTS {
        let tree = ways.tree(name);
        ways.agree(&tree, list);
        is_warm(|| heads.calls(&READS), &mut ways, &tree);
        ways.agree(&tree, &format!("{list}, warm"));
        // The group's bits are the list's mask now.
        for mode in [0o750, 0o700, 0o770] {
            ways.set(&tree.dir, Sattr3 { mode: Some(mode), ..Sattr3::default() });
            ways.agree(&tree, &format!("{list}, then chmod {mode:o}"));
        }
    }
    println!("{:?}", ways.said);
    refuses_and_grants(&ways.said);
}

/// Of such lists Debian's Ganesha 4.3 sees no more than the mask, in the mode, and our own servers too. So a real head stands behind somebody who
/// has a list: for a directory's stranger it calls as somebody else, whatever the mode bits say of the stranger.
#[test]
fn a_server_that_decides_otherwise_than_by_mode_bits_is_believed() {
    if !require(Part::Ganesha) {
        return;
    }
    let ganesha = Ganesha::start(1, 0);
    let head = &ganesha.heads()[0];
    plant(ganesha.export(), "in", 0o700);
    plant(ganesha.export(), "out", 0o705);
    let (mut client, root) = head.client();
    let [lets_in, keeps_out] = ["in", "out"].map(|name| client.walk(&root, name.as_bytes()).unwrap());
    let list = move |call: &rpc::Call<'_>| {
        let Ok(Credential::Sys(sys)) = Credential::decode(&call.credential) else { return None };
        let object = call.args.get(4..4 + usize::from(*call.args.get(3)?))?;
        let (uid, gid) = match object {
            dir if dir == lets_in && sys.uid == STRANGER => (0, 0),
            dir if dir == keeps_out && sys.uid == STRANGER => (STRANGER, 0),
            _ => return None,
        };
        let body = Caller { uid, gid, gids: Vec::new() }.encode(0, b"list");
        let mut out = Vec::new();
        rpc::Call { credential: OpaqueAuth { flavor: flavor::SYS, body: &body }, ..*call }.encode(&mut out);
        Some(out)
    };
    let address = loopback(1, &[]);
    let [nfs, mount] = [free_port(address), free_port(address)];
    let gate = Switch::changing((address, nfs).into(), (head.address, head.nfs_port).into(), Box::new(list));
    let _mount = Switch::start((address, mount).into(), (head.address, head.mount_port).into());
    let site = Site::over(vec![gate.address], Some(mount), &head.path);
    let proxy = Site { export: EXPORT, ..site }.start();
    let mut ways = Ways::new(mounted(gate.address, (address, mount).into(), &head.path), &proxy);
    let reads = || READS.iter().filter_map(|read| gate.calls().get(&(*read as u32)).copied()).sum();
    let [.., stranger] = users();
    for (name, expected) in [("in", Nfsstat3::OK), ("out", Nfsstat3::ACCES)] {
        let tree = ways.tree(name);
        ways.agree(&tree, name);
        is_warm(reads, &mut ways, &tree);
        ways.agree(&tree, &format!("{name}, warm"));
        ways.proxy.become_caller(&stranger);
        let (_, lookup) = questions(&tree)[0];
        assert_eq!(ways.proxy.nfs(&lookup).unwrap().status(), expected, "{name}");
        ways.proxy.become_caller(&Caller::ROOT);
    }
}

/// Names were shown to some and kept from others, or nothing was compared.
fn refuses_and_grants(said: &BTreeMap<(&'static str, u32), usize>) {
    for (name, status) in [
        ("LOOKUP of a name that exists", Nfsstat3::OK),
        ("LOOKUP of a name that exists", Nfsstat3::ACCES),
        ("LOOKUP of a name that does not", Nfsstat3::NOENT),
        ("LOOKUP of a name that does not", Nfsstat3::ACCES),
        ("READDIR", Nfsstat3::OK),
        ("READDIR", Nfsstat3::ACCES),
        ("READDIRPLUS", Nfsstat3::OK),
        ("READDIRPLUS", Nfsstat3::ACCES),
    ] {
        assert!(said.contains_key(&(name, status.0)), "{name} was never answered {status}: {said:?}");
    }
}
