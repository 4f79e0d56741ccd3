//! Many callers at once: whatever the order was, names and link counts agree in the end.

use crate::world::{ROOT, SERVER, World};
use midas_nfs::nfs3::{Call, CreateHow, DirOp, Ftype3, Procedure, Reply, Sattr3, SetTime};
use midas_nfsd::{Handle, Handles, Identity, Limits};
use std::collections::HashMap;
use std::thread;

#[test]
fn threads_that_change_one_namespace_leave_it_consistent() {
    for world in [World::memory(Limits::default()), World::directory(Handles::Best)] {
        let calls = if world.name == "memory" { 20_000 } else { 1_000 };
        let root = world.root();
        let dirs = ["a", "b", "c"].map(|name| {
            let place = DirOp { dir: root.file_handle(), name: name.as_bytes() };
            world.by(ROOT).make(&Call::Mkdir { place, attributes: ATTRIBUTES }).unwrap()
        });
        thread::scope(|scope| {
            for number in 0..4 {
                let (world, dirs) = (&world, &dirs);
                scope.spawn(move || churn(world, dirs, number, calls));
            }
        });
        check(&world, &root);
    }
}

/// Makes, links, moves and removes names in three directories, as chance has it.
fn churn(world: &World, dirs: &[Handle; 3], number: u16, calls: u32) {
    let server = Identity { server: number, ..SERVER };
    let mut chance = u64::from(number) + 1;
    let mut draw = |below: u64| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) % below
    };
    let mut out = Vec::new();
    for _ in 0..calls {
        let names = [draw(12), draw(12)].map(|name| format!("n{name}"));
        let place =
            |dir: u64, name: usize| DirOp { dir: dirs[dir as usize].file_handle(), name: names[name].as_bytes() };
        let (one, two) = (place(draw(3), 0), place(draw(3), 1));
        let file = found(world, &server, one);
        let call = match draw(7) {
            0 => Call::Create { place: one, how: CreateHow::Unchecked(ATTRIBUTES) },
            1 => Call::Mkdir { place: one, attributes: ATTRIBUTES },
            2 => Call::Remove { object: one },
            3 => Call::Rmdir { object: one },
            4 => match &file {
                Some(file) => Call::Link { file: file.file_handle(), link: two },
                None => Call::Lookup { what: one },
            },
            _ => Call::Rename { from: one, to: two },
        };
        out.clear();
        let status = world.namespace.execute(&server, &ROOT, &call, &mut out);
        let reply = Reply::decode(call.procedure(), &out).expect("a reply can be decoded");
        assert_eq!(reply.status(), status);
    }
}

/// Without the client's checks: others change what it would look at.
fn found(world: &World, server: &Identity, what: DirOp<'_>) -> Option<Handle> {
    let mut out = Vec::new();
    world.namespace.execute(server, &ROOT, &Call::Lookup { what }, &mut out);
    match Reply::decode(Procedure::Lookup, &out) {
        Ok(Reply::Lookup(Ok(found))) => Handle::new(found.object.bytes()),
        _ => None,
    }
}

/// Link counts are the number of names, a directory's two and one for each directory in it; `..` leads back.
fn check(world: &World, root: &Handle) {
    let by = world.by(ROOT);
    let mut links: HashMap<u64, (u32, u32)> = HashMap::new();
    let mut dirs = vec![*root];
    while let Some(dir) = dirs.pop() {
        let own = by.attributes(&dir).unwrap();
        let mut subdirs = 0;
        for name in crate::listing::names(by, &dir).unwrap() {
            let object = by.lookup(&dir, name.as_bytes()).unwrap();
            let found = by.attributes(&object).unwrap();
            if found.ftype == Ftype3::Dir {
                subdirs += 1;
                assert_eq!(by.lookup(&object, b".."), Ok(dir));
                dirs.push(object);
            } else {
                links.entry(found.fileid).or_insert((0, found.nlink)).0 += 1;
            }
        }
        assert_eq!(own.nlink, 2 + subdirs, "{}", world.name);
    }
    assert!(!links.is_empty(), "something is left to be counted");
    for (names, nlink) in links.values() {
        assert_eq!(names, nlink, "{}", world.name);
    }
}

#[test]
fn readers_see_whole_states_while_a_name_moves() {
    const MOVES: u32 = 20_000;
    let world = World::memory(Limits::default());
    let root = world.root();
    let place = |name: &'static [u8]| DirOp { dir: root.file_handle(), name };
    let call = Call::Create { place: place(b"a"), how: CreateHow::Guarded(Sattr3::default()) };
    let file = world.by(ROOT).make(&call).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..MOVES {
                let names: [&[u8]; 2] = if i % 2 == 0 { [b"a", b"b"] } else { [b"b", b"a"] };
                let call = Call::Rename { from: place(names[0]), to: place(names[1]) };
                world.namespace.execute(&SERVER, &ROOT, &call, &mut Vec::new());
            }
        });
        let mut out = Vec::new();
        for _ in 0..MOVES {
            out.clear();
            let dir = root.file_handle();
            let call = Call::Readdirplus { dir, cookie: 0, cookieverf: [0; 8], dircount: 4096, maxcount: 4096 };
            world.namespace.execute(&SERVER, &ROOT, &call, &mut out);
            let Ok(Reply::Readdirplus(Ok(page))) = Reply::decode(Procedure::Readdirplus, &out) else { panic!() };
            let named: Vec<_> = page.entries().map(|entry| entry.unwrap()).skip(2).collect();
            assert_eq!(named.len(), 1, "one name, never none or two");
            assert_eq!(named[0].handle, Some(file.file_handle()));
        }
    });
}

const ATTRIBUTES: Sattr3 =
    Sattr3 { mode: Some(0o755), uid: None, gid: None, size: None, atime: SetTime::Keep, mtime: SetTime::Keep };
