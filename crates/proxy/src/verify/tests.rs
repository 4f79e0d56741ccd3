//! What is made of what a server shows, by what is known of the time before; over a real server.

use super::*;
use midas_nfs::nfs3::StableHow;
use midas_nfsd::{Config, Limits, Namespace, Nfsd};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

const MINE: u32 = 1000;
const ALL: [Before; 4] = [Before::Unknown, Before::Known(None), Before::Known(Some(false)), Before::Known(Some(true))];

struct Site {
    _nfsd: Nfsd,
    nfs: Client,
    uid: u32,
    root: Vec<u8>,
}

impl Site {
    fn start() -> Self {
        let listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
        let nfsd =
            Nfsd::start(&Config { listen, ..Config::default() }, &Arc::new(Namespace::memory(Limits::default())))
                .unwrap();
        let caller = Caller { uid: MINE, gid: MINE, gids: Vec::new() };
        let connect = |caller: &Caller| Client::connect(nfsd.addresses()[0], caller, Duration::from_secs(10)).unwrap();
        let root = connect(&Caller::ROOT).mount(b"/").unwrap().root;
        let open = Sattr3 { mode: Some(0o777), ..Sattr3::default() };
        let call = Call::Setattr { object: FileHandle::new(&root).unwrap(), new_attributes: open, guard: None };
        assert_eq!(connect(&Caller::ROOT).nfs(&call).unwrap().status(), Nfsstat3::OK);
        Self { nfs: connect(&caller), uid: MINE, root, _nfsd: nfsd }
    }

    fn witness(&mut self, before: Before) -> Witness<'_> {
        Witness { nfs: &mut self.nfs, age: Duration::ZERO, uid: self.uid, before }
    }

    fn found(&mut self, what: &DirOp<'_>) -> Vec<u8> {
        self.witness(Before::Unknown).find(what).unwrap().unwrap().handle
    }

    fn done(&mut self, call: &Call<'_>) {
        assert_eq!(self.nfs.nfs(call).unwrap().status(), Nfsstat3::OK, "{call:?}");
    }

    /// What is made of it in each case: its status, `None` if it is sent; what only others' answers decide is in brackets.
    fn verdicts(&mut self, call: &Call<'_>) -> [(Option<u32>, Option<u32>); 4] {
        let status = |results: &[u8]| Reply::decode(call.procedure(), results).unwrap().status().0;
        ALL.map(|before| match self.witness(before).look(call).unwrap() {
            Verdict::Answer(results) => (Some(status(&results)), None),
            Verdict::Made { ours, otherwise } => (Some(status(&ours)), Some(status(&otherwise))),
            Verdict::Send(_) => (None, None),
            Verdict::Unknown => panic!("it answers"),
        })
    }
}

const OK: (Option<u32>, Option<u32>) = (Some(0), None);
const EXIST: (Option<u32>, Option<u32>) = (Some(Nfsstat3::EXIST.0), None);
const NOENT: (Option<u32>, Option<u32>) = (Some(Nfsstat3::NOENT.0), None);
const SENT: (Option<u32>, Option<u32>) = (None, None);
const GUESS: (Option<u32>, Option<u32>) = (Some(0), Some(Nfsstat3::EXIST.0));

#[test]
fn what_makes_a_file_is_told_by_whether_the_name_was_free_whatever_became_of_the_file() {
    let mut site = Site::start();
    let root = site.root.clone();
    let place = DirOp { dir: FileHandle::new(&root).unwrap(), name: b"f" };
    let empty = Sattr3 { size: Some(0), ..Sattr3::default() };
    let hows = [CreateHow::Guarded(Sattr3::default()), CreateHow::Unchecked(empty), CreateHow::Exclusive([7; 8])];
    for how in hows {
        assert_eq!(site.verdicts(&Call::Create { place, how }), [SENT; 4], "nothing is there");
    }
    site.done(&Call::Create { place, how: hows[0] });
    let seen = hows.map(|how| site.verdicts(&Call::Create { place, how }));
    assert_eq!(seen, [[GUESS, GUESS, GUESS, EXIST], [OK; 4], [SENT, SENT, OK, SENT]]);
    // It was empty, and nobody has cut it to nothing since.
    let found = site.found(&place);
    let file = FileHandle::new(&found).unwrap();
    let old = SetTime::Client(Nfstime3 { seconds: 1_000_000_000, nseconds: 0 });
    let new_attributes = Sattr3 { mtime: old, ..Sattr3::default() };
    site.done(&Call::Setattr { object: file, new_attributes, guard: None });
    assert_eq!(site.verdicts(&Call::Create { place, how: hows[1] }), [SENT, SENT, OK, SENT]);
    // Somebody else writes to it before the call is looked for.
    site.done(&Call::Write { file, offset: 0, stable: StableHow::FileSync, count: 1, data: b"x" });
    let new_attributes = Sattr3 { mtime: old, mode: Some(0o600), ..Sattr3::default() };
    site.done(&Call::Setattr { object: file, new_attributes, guard: None });
    let seen = hows.map(|how| site.verdicts(&Call::Create { place, how }));
    assert_eq!(seen, [[EXIST, GUESS, GUESS, EXIST], [SENT, SENT, OK, SENT], [SENT, SENT, OK, SENT]]);
    let mkdir = Call::Mkdir { place, attributes: Sattr3::default() };
    assert_eq!(site.verdicts(&mkdir), [EXIST, EXIST, GUESS, EXIST], "a file is no directory");
    site.uid = MINE + 1;
    assert_eq!(site.verdicts(&Call::Create { place, how: hows[0] }), [EXIST, EXIST, GUESS, EXIST], "of somebody else");
}

#[test]
fn what_takes_a_name_away_is_told_by_whether_it_was_there() {
    let mut site = Site::start();
    let root = site.root.clone();
    let dir = FileHandle::new(&root).unwrap();
    let [from, to] = [b"a", b"b"].map(|name| DirOp { dir, name });
    let (remove, rename) = (Call::Remove { object: from }, Call::Rename { from, to });
    assert_eq!(site.verdicts(&remove), [OK, NOENT, NOENT, OK]);
    assert_eq!(site.verdicts(&rename), [NOENT, NOENT, NOENT, OK], "nobody else took the second name away");
    let how = CreateHow::Guarded(Sattr3::default());
    site.done(&Call::Create { place: to, how });
    assert_eq!(site.verdicts(&rename), [OK, NOENT, NOENT, OK]);
    site.done(&Call::Create { place: from, how });
    assert_eq!([site.verdicts(&remove), site.verdicts(&rename)], [[SENT; 4]; 2], "it is still there");
}

#[test]
fn a_link_is_ours_if_the_name_was_free_or_the_file_has_changed_since() {
    let mut site = Site::start();
    let root = site.root.clone();
    let dir = FileHandle::new(&root).unwrap();
    let [place, link] = [b"f", b"l"].map(|name| DirOp { dir, name });
    site.done(&Call::Create { place, how: CreateHow::Guarded(Sattr3::default()) });
    let found = site.found(&place);
    let call = Call::Link { file: FileHandle::new(&found).unwrap(), link };
    assert_eq!(site.verdicts(&call), [SENT; 4]);
    site.done(&call);
    assert_eq!(site.verdicts(&call), [OK, OK, OK, EXIST]);
}

#[test]
fn only_what_its_caller_may_not_ask_for_is_sent_unseen() {
    assert!([Nfsstat3::ACCES, Nfsstat3::NOTDIR].into_iter().all(is_refused));
    assert!(![Nfsstat3::IO, Nfsstat3::JUKEBOX, Nfsstat3::SERVERFAULT].into_iter().any(is_refused));
}
