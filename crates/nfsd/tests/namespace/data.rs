//! Data: offsets of 64 bits, holes, ends of files, and what a crash loses.

use crate::script::tell;
use crate::world::{Client, ROOT, World};
use midas_nfs::nfs3::{Call, CreateHow, DirOp, Nfsstat3, Reply, Sattr3, StableHow, Verifier};
use midas_nfsd::{Handle, Identity, Limits};

#[test]
fn reads_end_where_the_file_ends() {
    tell(
        World::all(),
        "
        create /f mode=644
        read /f 0 10 = $
        read /f 5 10 = $
        write /f 0 hello
        read /f 0 5 = hello$
        read /f 0 4 = hell
        read /f 0 100 = hello$
        read /f 4 1 = o$
        read /f 3 0 =
        read /f 5 0 = $
        read /f 18446744073709551615 10 = $
        write /f 8 x
        read /f 3 100 = lo000x$
        set /f size=4
        read /f 0 9 = hell$
        set /f size=6
        read /f 0 9 = hell00$
        write /f 3 pful
        stat /f = reg 644 1 0:0 7
        mkdir /d
        symlink /l x
        mknod /p fifo
        read /d 0 1 = ISDIR
        read /l 0 1 = INVAL
        read /p 0 1 = INVAL
        write /d 0 x = ISDIR
        write /p 0 x = INVAL
        commit /d = ISDIR
        commit /f
        ",
    );
}

#[test]
fn offsets_have_64_bits_and_holes_take_no_room() {
    tell(
        World::all(),
        "
        create /f mode=644
        write /f 8796093022208 far
        stat /f = reg 644 1 0:0 8796093022211
        read /f 8796093022206 9 = 00far$
        read /f 4294967296 3 = 000
        write /f 18446744073709551610 toofar = FBIG
        write /f 9223372036854775800 too-far-too = FBIG
        set /f size=18446744073709551615 = INVAL
        create /g size=18446744073709551615 = INVAL
        lookup /g = NOENT
        stat /f = reg 644 1 0:0 8796093022211
        ",
    );
    for world in World::all() {
        let (by, file) = new_file(&world);
        write(by, &file, 1 << 40, b"x", StableHow::FileSync);
        let found = by.attributes(&file).unwrap();
        assert!(found.used < 1 << 20, "{}: {} bytes", world.name, found.used);
    }
    let far = "
        create /f mode=644
        write /f 9223372036854775803 end!
        read /f 9223372036854775800 9 = 000end!$
        set /f size=9223372036854775807
        set /f size=0
        stat /f = reg 644 1 0:0 0
        ";
    tell([World::memory(Limits { bytes: 16_384, ..Limits::default() })], far);
}

/// The largest file differs between file systems; that a creation happens whole or not at all does not.
#[test]
fn a_creation_that_fails_leaves_nothing_behind() {
    for world in World::all() {
        let (by, root) = (world.by(ROOT), world.root());
        let place = DirOp { dir: root.file_handle(), name: b"f" };
        let wanted = Sattr3 { mode: Some(0o644), size: Some(i64::MAX as u64), ..Sattr3::default() };
        match by.make(&Call::Create { place, how: CreateHow::Guarded(wanted) }) {
            Ok(file) => assert_eq!(by.attributes(&file).unwrap().size, i64::MAX as u64, "{}", world.name),
            Err(status) => {
                assert_eq!((status, by.lookup(&root, b"f")), (Nfsstat3::FBIG, Err(Nfsstat3::NOENT)), "{}", world.name);
            }
        }
    }
}

#[test]
fn reads_and_writes_are_capped_and_counts_must_match() {
    for world in World::all() {
        let (by, file) = new_file(&world);
        let data: Vec<u8> = (0..(1 << 20) + 5).map(|i| (i % 253) as u8).collect();
        assert_eq!(write(by, &file, 0, &data, StableHow::Unstable).0, 1 << 20, "{}", world.name);
        assert_eq!(write(by, &file, 1 << 20, &data[1 << 20..], StableHow::FileSync), (5, StableHow::FileSync));
        let call = Call::Read { file: file.file_handle(), offset: 0, count: u32::MAX };
        by.call(&call, |reply| {
            let Reply::Read(Ok(read)) = reply else { panic!("{reply:?}") };
            assert_eq!((read.count, read.eof), (1 << 20, false));
            assert!(read.data == &data[..1 << 20], "{}", world.name);
        });
        let wrong =
            Call::Write { file: file.file_handle(), offset: 0, count: 4, stable: StableHow::FileSync, data: b"five!" };
        assert_eq!(by.status(&wrong), Nfsstat3::INVAL, "{}", world.name);
        let before = by.attributes(&file).unwrap();
        assert_eq!(write(by, &file, 1 << 40, b"", StableHow::FileSync).0, 0);
        assert_eq!(by.attributes(&file).unwrap(), before, "{}", world.name);
    }
}

/// Two servers, one file: what is written where, what is committed where, and what is left when a server crashes.
#[test]
fn a_crash_loses_exactly_what_was_not_committed() {
    let world = World::memory(Limits::default());
    let (by, file) = new_file(&world);
    let server = |number, verifier: &Verifier| {
        let server = Identity { server: number, write_verifier: *verifier, salt: 0 };
        Client { server, ..by }
    };
    let (one, two) = (server(1, b"server-1"), server(2, b"server-2"));
    write(one, &file, 0, b"aaaaaaaaaa", StableHow::FileSync);
    assert_eq!(write(one, &file, 0, b"bbbb", StableHow::Unstable), (4, StableHow::Unstable));
    commit(one, &file, 0, 2);
    write(one, &file, 4, b"cc", StableHow::DataSync);
    write(two, &file, 3, b"dd", StableHow::Unstable);
    write(one, &file, 8, b"eeee", StableHow::Unstable);
    commit(two, &file, 8, 0);
    assert_eq!(read(by, &file), b"bbbddcaaeeee");
    world.namespace.crash(1);
    assert_eq!(read(by, &file), b"bb\0ddcaa\0\0\0\0");
    world.namespace.crash(1);
    world.namespace.crash(2);
    assert_eq!(read(by, &file), b"bb\0\0\0caa\0\0\0\0");
    write(one, &file, 0, b"fffff", StableHow::Unstable);
    commit(one, &file, 0, 0);
    world.namespace.crash(1);
    assert_eq!(read(by, &file), b"fffffcaa\0\0\0\0");
}

#[test]
fn a_crash_of_a_server_over_a_directory_loses_nothing() {
    for world in World::all().into_iter().skip(1) {
        let (by, file) = new_file(&world);
        assert_eq!(write(by, &file, 0, b"data", StableHow::Unstable), (4, StableHow::Unstable));
        world.namespace.crash(by.server.server);
        assert_eq!(read(by, &file), b"data", "{}", world.name);
    }
}

#[test]
fn a_truncated_or_removed_file_forgets_what_was_not_durable() {
    let world = World::memory(Limits::default());
    let (by, file) = new_file(&world);
    write(by, &file, 0, b"abcdef", StableHow::Unstable);
    let new_attributes = Sattr3 { size: Some(3), ..Sattr3::default() };
    let call = Call::Setattr { object: file.file_handle(), new_attributes, guard: None };
    assert_eq!(by.status(&call), Nfsstat3::OK);
    write(by, &file, 3, b"xyz", StableHow::FileSync);
    world.namespace.crash(by.server.server);
    assert_eq!(read(by, &file), b"\0\0\0xyz");
    write(by, &file, 0, b"abc", StableHow::Unstable);
    let root = world.root();
    let object = DirOp { dir: root.file_handle(), name: b"f" };
    assert_eq!(by.status(&Call::Remove { object }), Nfsstat3::OK);
    let (by, again) = new_file(&world);
    write(by, &again, 0, b"new", StableHow::FileSync);
    world.namespace.crash(by.server.server);
    assert_eq!(read(by, &again), b"new");
}

fn new_file(world: &World) -> (Client<'_>, Handle) {
    let by = world.by(ROOT);
    (by, by.file(&world.root(), "f", Sattr3::default()))
}

fn write(by: Client<'_>, file: &Handle, offset: u64, data: &[u8], stable: StableHow) -> (u32, StableHow) {
    let call = Call::Write { file: file.file_handle(), offset, count: data.len() as u32, stable, data };
    by.call(&call, |reply| {
        let Reply::Write(Ok(ok)) = reply else { panic!("{reply:?}") };
        assert_eq!(ok.verf, by.server.write_verifier);
        assert!(ok.committed >= stable);
        (ok.count, ok.committed)
    })
}

fn commit(by: Client<'_>, file: &Handle, offset: u64, count: u32) {
    by.call(&Call::Commit { file: file.file_handle(), offset, count }, |reply| {
        let Reply::Commit(Ok(ok)) = reply else { panic!("{reply:?}") };
        assert_eq!(ok.verf, by.server.write_verifier);
    });
}

fn read(by: Client<'_>, file: &Handle) -> Vec<u8> {
    by.call(&Call::Read { file: file.file_handle(), offset: 0, count: 100 }, |reply| {
        let Reply::Read(Ok(ok)) = reply else { panic!("{reply:?}") };
        ok.data.to_vec()
    })
}
