//! Names: how they are made, taken away, moved, and what is said of those that cannot be.

use crate::script::tell;
use crate::world::{ROOT, SERVER, World, user};
use midas_nfs::nfs3::{Call, DirOp, Nfsstat3, Nfstime3, Procedure, Reply, Sattr3, SetTime};
use midas_nfsd::{Identity, Limits, User};

#[test]
fn objects_of_every_kind_are_made_and_looked_up() {
    tell(
        World::with_users(),
        "
        mkdir /d mode=750
        1000> create /d/f mode=640 = ACCES
        create /d/f mode=640 uid=1000 gid=100
        symlink /d/l ../somewhere
        mknod /d/p fifo mode=600
        mknod /d/s sock mode=644
        mknod /d/c chr mode=666
        mknod /d/b blk mode=660
        mknod /d/r reg = BADTYPE
        stat /d = dir 750 2 0:0
        stat /d/f = reg 640 1 1000:100 0
        stat /d/l = lnk 777 1 0:0 12
        stat /d/p = fifo 600 1 0:0 0
        stat /d/s = sock 644 1 0:0 0
        stat /d/c = chr 666 1 0:0 0
        stat /d/b = blk 660 1 0:0 0
        readlink /d/l = ../somewhere
        readlink /d/f = INVAL
        ls /d = b c f l p s
        ls / = d
        stat / = dir 755 3 0:0
        lookup /d/none = NOENT
        lookup /d/f/x = NOTDIR
        ls /d/f = NOTDIR
        same /d/./f /d/f = true
        same /d/.. / = true
        same /.. / = true
        same /d /d/f = false
        ",
    );
}

#[test]
fn names_are_bytes_and_bad_ones_are_refused() {
    tell(
        World::all(),
        "
        create /%ff%fe
        lookup /%ff%fe
        create /...
        create /*255
        lookup /*255
        lookup /*256 = NAMETOOLONG
        create /*256 = NAMETOOLONG
        mkdir /*256 = NAMETOOLONG
        rm /*256 = NAMETOOLONG
        mv /... /*256 = NAMETOOLONG
        lookup / = ACCES
        create / = ACCES
        rm / = ACCES
        lookup /a%2fb = ACCES
        create /a%2fb = ACCES
        mkdir /%2f = ACCES
        mv /... /x%2fy = ACCES
        lookup /a%00 = ACCES
        create /a%00b = ACCES
        ls /... = NOTDIR
        ",
    );
}

#[test]
fn dots_are_no_names_to_make_or_take_away() {
    tell(
        World::all(),
        "
        mkdir /d mode=755
        mkdir /d/e mode=755
        create /d/. = EXIST
        create /d/.. = EXIST
        unchecked /d/. = EXIST
        mkdir /d/.. = EXIST
        symlink /d/. x = EXIST
        mknod /d/.. fifo = EXIST
        create /f
        ln /f /d/. = EXIST
        rm /d/. = INVAL
        rm /d/.. = INVAL
        rmdir /d/. = INVAL
        rmdir /d/e/.. = EXIST
        mv /d/. /x = INVAL
        mv /d/e/.. /x = INVAL
        mv /d /d/e/.. = INVAL
        mv /f /d/. = INVAL
        symlink /l %00 = INVAL
        symlink /l *4096 = NAMETOOLONG
        symlink /l *4095
        ",
    );
}

#[test]
fn creation_is_unchecked_guarded_or_exclusive() {
    tell(
        World::all(),
        "
        create /f mode=644 size=0
        write /f 0 hello
        create /f = EXIST
        unchecked /f mode=600
        stat /f = reg 644 1 0:0 5
        unchecked /f size=0
        stat /f = reg 644 1 0:0 0
        unchecked /g mode=600 size=7
        read /g 0 100 = 0000000$
        mkdir /d
        unchecked /d = ISDIR
        create /d = EXIST
        symlink /l /d
        unchecked /l = EXIST
        mkdir /l = EXIST
        mkdir /f = EXIST
        symlink /f x = EXIST
        mknod /f fifo = EXIST
        exclusive /x verifier
        stat /x = reg 0 1 0:0 0
        exclusive /x verifier
        exclusive /x another. = EXIST
        create /x = EXIST
        set /x mode=600 atime=server mtime=server
        exclusive /x verifier = EXIST
        exclusive /f verifier = EXIST
        exclusive /d verifier = EXIST
        stat /x = reg 600 1 0:0 0
        ",
    );
}

#[test]
fn removal_takes_names_and_empty_directories() {
    tell(
        World::all(),
        "
        mkdir /d mode=755
        mkdir /d/e mode=755
        create /d/f mode=644
        hold f /d/f
        hold e /d/e
        rm /d/none = NOENT
        rmdir /d/none = NOENT
        rm /d/e = ISDIR
        rmdir /d/f = NOTDIR
        rmdir /d = NOTEMPTY
        rm /d/f/x = NOTDIR
        rm /d/f
        stat @f = STALE
        stat /d = dir 755 3 0:0
        rmdir /d/e
        stat /d = dir 755 2 0:0
        ls @e = STALE
        create @e/x = STALE
        mv @e/x /x = STALE
        mv /d @e/x = STALE
        ln /d @e/x = STALE
        set @f mode=600 = STALE
        read @f 0 1 = STALE
        write @f 0 x = STALE
        commit @f = STALE
        access @f r = STALE
        readlink @f = STALE
        rmdir /d
        ls / =
        ",
    );
}

#[test]
fn an_object_made_again_has_another_handle() {
    tell(
        World::all(),
        "
        create /f
        hold old /f
        rm /f
        create /f
        stat @old = STALE
        same /f /f = true
        mkdir /d mode=700
        hold old /d
        rmdir /d
        mkdir /d mode=711
        lookup @old/x = STALE
        ",
    );
}

#[test]
fn hard_links_are_names_of_one_object() {
    tell(
        World::all(),
        "
        create /a mode=644
        mkdir /d mode=755
        hold a /a
        ln /a /d/b
        same /a /d/b = true
        stat /a = reg 644 2 0:0 0
        ln /a /d/b = EXIST
        ln /d /e = ISDIR
        ln /a /d/b/x = NOTDIR
        write /d/b 0 text
        read /a 0 9 = text$
        mv /a /d/b
        ls / = a d
        ls /d = b
        rm /a
        stat @a = reg 644 1 0:0 4
        stat /d/b = reg 644 1 0:0 4
        ln @a /again
        read /again 0 9 = text$
        rm /d/b
        stat @a = reg 644 1 0:0 4
        rm /again
        stat @a = STALE
        symlink /l x
        ln /l /m
        readlink /m = x
        ",
    );
}

#[test]
fn renames_replace_what_may_be_replaced() {
    tell(
        World::all(),
        "
        mkdir /a mode=755
        mkdir /b mode=755
        mkdir /a/sub mode=755
        create /a/sub/f
        create /a/f
        write /a/f 0 one
        create /b/g
        hold g /b/g
        hold f /a/f
        mv /a/none /b/x = NOENT
        mv /a/f /b/g
        stat @g = STALE
        read /b/g 0 9 = one$
        same /b/g @f = true
        stat /a = dir 755 3 0:0
        mv /a/sub /b/sub
        stat /a = dir 755 2 0:0
        stat /b = dir 755 3 0:0
        same /b/sub/.. /b = true
        mv /b /b/sub/x = INVAL
        mv /b /b/x = INVAL
        mv /b/g /b/sub = ISDIR
        mv /b/sub /b/g = NOTDIR
        mkdir /a/full mode=755
        create /a/full/x
        mv /b/sub /a/full = NOTEMPTY
        mv /b/sub/f /b/sub = ISDIR
        rm /a/full/x
        mv /b/sub /a/full
        ls /a = full
        ls /a/full = f
        stat /a = dir 755 3 0:0
        stat /b = dir 755 2 0:0
        mv /a /a
        mv /b/g /b/g
        ls /b = g
        mv /a/full/f /f
        ls / = a b f
        ",
    );
}

#[test]
fn every_change_shows_in_ctime() {
    for world in World::all() {
        let by = world.by(ROOT);
        let file = by.file(&world.root(), "f", Sattr3::default());
        let mut last = by.attributes(&file).unwrap().ctime;
        for mode in 0..100 {
            let new_attributes = Sattr3 { mode: Some(mode), ..Sattr3::default() };
            let call = Call::Setattr { object: file.file_handle(), new_attributes, guard: Some(last) };
            assert_eq!(by.status(&call), Nfsstat3::OK, "{}", world.name);
            let ctime = by.attributes(&file).unwrap().ctime;
            // The kernel's clock has coarse ticks; memory is strict.
            assert!(if world.name == "memory" { ctime > last } else { ctime >= last }, "{}", world.name);
            last = ctime;
        }
        let guard = Some(Nfstime3 { seconds: 1, nseconds: 2 });
        let new_attributes = Sattr3 { mode: Some(0o777), ..Sattr3::default() };
        let call = Call::Setattr { object: file.file_handle(), new_attributes, guard };
        assert_eq!(by.status(&call), Nfsstat3::NOT_SYNC, "{}", world.name);
        assert_eq!(by.attributes(&file).unwrap().mode, 99);
    }
}

#[test]
fn times_are_set_as_told() {
    for world in World::all() {
        let by = world.by(ROOT);
        let time = |seconds| Nfstime3 { seconds, nseconds: 7 };
        let (atime, mtime) = (SetTime::Client(time(1_000)), SetTime::Client(time(2_000_000_000)));
        let wanted = Sattr3 { atime, mtime, ..Sattr3::default() };
        let file = by.file(&world.root(), "f", wanted);
        let found = by.attributes(&file).unwrap();
        assert_eq!((found.atime, found.mtime), (time(1_000), time(2_000_000_000)), "{}", world.name);
        let new_attributes = Sattr3 { mtime: SetTime::Server, ..Sattr3::default() };
        let call = Call::Setattr { object: file.file_handle(), new_attributes, guard: None };
        assert_eq!(by.status(&call), Nfsstat3::OK);
        let later = by.attributes(&file).unwrap();
        assert_eq!(later.atime, time(1_000), "{}", world.name);
        assert!(later.mtime > time(1_500_000_000) && later.mtime <= later.ctime, "{}", world.name);
    }
}

#[test]
fn limits_are_nospc_and_mlink_and_what_goes_makes_room() {
    let limits = Limits { bytes: 2048, names: 4, links: 3 };
    tell(
        [World::memory(limits)],
        "
        create /a mode=644
        ln /a /b
        ln /a /c
        ln /a /d = MLINK
        create /d
        create /e = NOSPC
        mkdir /e = NOSPC
        rm /c
        ln /a /e
        mv /d /e
        mkdir /d
        rm /b
        mkdir /d/x
        mkdir /y = MLINK
        rmdir /d/x
        write /a 0 text
        write /a 2000 text
        write /a 100000 text = NOSPC
        read /a 100000 9 = $
        write /a 512 text
        symlink /l *3000 = NOSPC
        set /a size=0
        write /a 100000 text
        rm /a
        symlink /l *2000
        ",
    );
}

#[test]
fn full_and_empty_are_told_by_fsstat_and_limits_by_fsinfo_and_pathconf() {
    for world in World::all() {
        let by = world.by(user(1000));
        let root = world.root();
        let fsroot = root.file_handle();
        by.call(&Call::Fsstat { fsroot }, |reply| {
            let Reply::Fsstat(Ok(stat)) = reply else { panic!("{reply:?}") };
            assert!(stat.tbytes >= stat.fbytes && stat.fbytes >= stat.abytes && stat.abytes > 0, "{stat:?}");
            assert!(stat.tfiles >= stat.ffiles, "{stat:?}");
        });
        by.call(&Call::Fsinfo { fsroot }, |reply| {
            let Reply::Fsinfo(Ok(info)) = reply else { panic!("{reply:?}") };
            assert_eq!((info.rtmax, info.wtmax, info.properties), (1 << 20, 1 << 20, 0x1b));
            assert!(info.maxfilesize > u64::from(u32::MAX) && info.time_delta > Nfstime3::default());
        });
        by.call(&Call::Pathconf { object: fsroot }, |reply| {
            let Reply::Pathconf(Ok(conf)) = reply else { panic!("{reply:?}") };
            assert_eq!((conf.name_max, conf.no_trunc, conf.chown_restricted), (255, true, true));
        });
        assert_eq!(by.status(&Call::Null), Nfsstat3::OK);
    }
}

#[test]
fn servers_over_one_namespace_give_the_same_and_other_salts_give_stale_handles() {
    for world in World::all() {
        let by = world.by(ROOT);
        let root = world.root();
        let place = DirOp { dir: root.file_handle(), name: b"f" };
        let file = by.file(&root, "f", Sattr3::default());
        let second = Identity { server: 1, write_verifier: *b"another.", salt: 0 };
        let salted = Identity { salt: 9, ..second };
        assert_eq!(world.namespace.root(&second), root);
        for call in [Call::Lookup { what: place }, Call::Getattr { object: file.file_handle() }] {
            let replies = [SERVER, second].map(|server| {
                let mut out = Vec::new();
                world.namespace.execute(&server, &ROOT, &call, &mut out);
                out
            });
            assert_eq!(replies[0], replies[1], "{}", world.name);
            let mut out = Vec::new();
            let status = world.namespace.execute(&salted, &ROOT, &call, &mut out);
            assert_eq!(status, Nfsstat3::STALE, "{}", world.name);
            assert_eq!(Reply::decode(call.procedure(), &out), Ok(Reply::failed(call.procedure(), status)));
        }
        let other = world.namespace.root(&salted);
        assert_ne!(other, root);
        let mut out = Vec::new();
        let call = Call::Lookup { what: DirOp { dir: other.file_handle(), name: b"f" } };
        assert_eq!(world.namespace.execute(&salted, &ROOT, &call, &mut out), Nfsstat3::OK, "{}", world.name);
        let Ok(Reply::Lookup(Ok(found))) = Reply::decode(Procedure::Lookup, &out) else { panic!("no reply") };
        assert_ne!(found.object, file.file_handle());
    }
}

#[test]
fn a_namespace_in_memory_starts_anew_but_for_the_handle_of_its_root() {
    let [old, new] = [0, 1].map(|_| World::memory(Limits::default()));
    let [file, other] = [&old, &new].map(|world| world.by(ROOT).file(&world.root(), "f", Sattr3::default()));
    assert_eq!(old.root(), new.root());
    assert_eq!(new.by(ROOT).attributes(&file), Err(Nfsstat3::STALE));
    assert!(new.by(ROOT).attributes(&other).is_ok());
}

#[test]
fn nobody_is_who_calls_without_a_credential() {
    use midas_nfs::rpc::{AuthSys, Credential};
    assert_eq!(User::of(&Credential::None), user(65_534));
    let sys = AuthSys::new(1, b"client", 5, 6, &[7, 8]).expect("it fits");
    assert_eq!(User::of(&Credential::Sys(sys)), User::new(5, 6, &[7, 8]));
}
