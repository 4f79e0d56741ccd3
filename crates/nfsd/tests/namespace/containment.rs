//! Ways out of an exported directory, and that none of them leads anywhere.

use crate::listing::names;
use crate::script::tell;
use crate::world::{ROOT, SERVER, TempDir, World, user};
use midas_nfs::nfs3::{Call, CreateHow, DirOp, FileHandle, Nfsstat3, Procedure, Reply, Sattr3, StableHow};
use midas_nfsd::{DirectoryOptions, Handle, Handles, Namespace};
use std::fs;
use std::os::unix::fs::symlink;

/// Worlds with a secret beside the export, and links to it inside.
fn tempted() -> Vec<World> {
    let worlds = [World::directory(Handles::Best), World::directory(Handles::Seen)];
    for world in &worlds {
        let served = world.served().expect("a directory");
        let outside = served.parent().expect("it lies in one").join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "secret").unwrap();
        symlink(&outside, served.join("way-out")).unwrap();
        symlink("../outside/secret", served.join("file-out")).unwrap();
        fs::create_dir(served.join("inside")).unwrap();
    }
    worlds.into()
}

#[test]
fn symbolic_links_and_dots_lead_nowhere() {
    tell(
        tempted(),
        "
        same /.. / = true
        same /inside/../.. / = true
        lookup /way-out/secret = NOTDIR
        ls /way-out = NOTDIR
        create /way-out/new = NOTDIR
        mkdir /way-out/new = NOTDIR
        rm /way-out/secret = NOTDIR
        mv /way-out/secret /taken = NOTDIR
        mv /inside /way-out/inside = NOTDIR
        read /file-out 0 100 = INVAL
        write /file-out 0 overwritten = INVAL
        set /file-out size=0 = INVAL
        unchecked /file-out size=0 = EXIST
        exclusive /file-out verifier = EXIST
        set /file-out mtime=5
        ln /file-out /again
        lookup /inside/..%2f..%2foutside = ACCES
        lookup /%2fetc = ACCES
        rm /file-out
        mv /again /way-out
        ",
    );
}

#[test]
fn what_lies_outside_is_not_touched_through_a_link() {
    for world in tempted() {
        let (by, root) = (world.by(ROOT), world.root());
        let link = by.lookup(&root, b"file-out").unwrap();
        let new_attributes = Sattr3 { mode: Some(0o777), uid: Some(77), gid: Some(77), ..Sattr3::default() };
        by.status(&Call::Setattr { object: link.file_handle(), new_attributes, guard: None });
        let secret = world.served().unwrap().parent().unwrap().join("outside/secret");
        let found = fs::metadata(&secret).unwrap();
        assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
        assert_ne!(std::os::unix::fs::MetadataExt::uid(&found), 77, "{}", world.name);
        assert_ne!(std::os::unix::fs::MetadataExt::mode(&found) & 0o777, 0o777, "{}", world.name);
    }
}

#[test]
fn forged_and_truncated_handles_are_bad_for_every_procedure() {
    for world in World::all() {
        let by = world.by(ROOT);
        let good = by.file(&world.root(), "f", Sattr3::default());
        let cut = good.bytes().len() - 1;
        let longer = [good.bytes(), b"+"].concat();
        let bad = [&b""[..], b"x", &good.bytes()[..cut], &longer, &[0xff; 64]];
        for bytes in bad {
            let handle = Handle::new(bytes).expect("at most 64 bytes");
            for call in calls(handle.file_handle()) {
                let mut out = Vec::new();
                let status = world.namespace.execute(&by.server, &ROOT, &call, &mut out);
                assert_eq!(status, Nfsstat3::BADHANDLE, "{}: {call:?}", world.name);
                let told = Reply::decode(call.procedure(), &out);
                assert_eq!(told, Ok(Reply::failed(call.procedure(), status)), "{}", world.name);
            }
        }
    }
    for world in tempted() {
        let good = world.by(ROOT).lookup(&world.root(), b"inside").unwrap();
        for at in 0..good.bytes().len() * 8 {
            let mut bytes = good.bytes().to_vec();
            bytes[at / 8] ^= 1 << (at % 8);
            let call = Call::Getattr { object: FileHandle::new(&bytes).unwrap() };
            assert_eq!(world.by(ROOT).status(&call), Nfsstat3::BADHANDLE, "{}: bit {at}", world.name);
        }
    }
}

/// Every procedure but NULL, on a handle.
fn calls(handle: FileHandle<'_>) -> Vec<Call<'_>> {
    let place = DirOp { dir: handle, name: b"x" };
    let attributes = Sattr3::default();
    let calls = vec![
        Call::Getattr { object: handle },
        Call::Setattr { object: handle, new_attributes: attributes, guard: None },
        Call::Lookup { what: place },
        Call::Access { object: handle, access: 0x3f },
        Call::Readlink { symlink: handle },
        Call::Read { file: handle, offset: 0, count: 1 },
        Call::Write { file: handle, offset: 0, count: 1, stable: StableHow::FileSync, data: b"x" },
        Call::Create { place, how: CreateHow::Guarded(attributes) },
        Call::Mkdir { place, attributes },
        Call::Symlink { place, attributes, target: b"x" },
        Call::Mknod { place, what: midas_nfs::nfs3::MknodData::Fifo(attributes) },
        Call::Remove { object: place },
        Call::Rmdir { object: place },
        Call::Rename { from: place, to: place },
        Call::Link { file: handle, link: place },
        Call::Readdir { dir: handle, cookie: 0, cookieverf: [0; 8], count: 4096 },
        Call::Readdirplus { dir: handle, cookie: 0, cookieverf: [0; 8], dircount: 4096, maxcount: 4096 },
        Call::Fsstat { fsroot: handle },
        Call::Fsinfo { fsroot: handle },
        Call::Pathconf { object: handle },
        Call::Commit { file: handle, offset: 0, count: 0 },
    ];
    let mut covered: Vec<Procedure> = calls.iter().map(Call::procedure).collect();
    covered.dedup();
    assert_eq!(covered.len(), 21);
    calls
}

/// The machine's root, of which nothing is read but names, has a mount point that every Linux has.
#[test]
fn a_mount_point_is_named_but_not_entered() {
    for handles in [Handles::Best, Handles::Seen] {
        let options = DirectoryOptions { key: Some([1; 16]), handles };
        let namespace = Namespace::directory_with("/".as_ref(), &options).unwrap();
        let (server, root) = (SERVER, namespace.root(&SERVER));
        let mut out = Vec::new();
        let call = Call::Lookup { what: DirOp { dir: root.file_handle(), name: b"proc" } };
        assert_eq!(namespace.execute(&server, &ROOT, &call, &mut out), Nfsstat3::ACCES);
        out.clear();
        let dir = root.file_handle();
        let call = Call::Readdirplus { dir, cookie: 0, cookieverf: [0; 8], dircount: 1 << 16, maxcount: 1 << 18 };
        assert_eq!(namespace.execute(&server, &ROOT, &call, &mut out), Nfsstat3::OK);
        let Ok(Reply::Readdirplus(Ok(page))) = Reply::decode(Procedure::Readdirplus, &out) else { panic!("no page") };
        let mut entries = page.entries().map(Result::unwrap);
        let plus = entries.find(|plus| plus.entry.name == b"proc").unwrap();
        assert_eq!((plus.handle, plus.attributes), (None, None));
    }
}

#[test]
fn a_directory_moved_out_by_somebody_else_has_no_parent_here() {
    for world in tempted() {
        let (by, root) = (world.by(ROOT), world.root());
        let inside = by.lookup(&root, b"inside").unwrap();
        let served = world.served().unwrap();
        fs::rename(served.join("inside"), served.parent().unwrap().join("outside/inside")).unwrap();
        assert_eq!(by.lookup(&root, b"inside"), Err(Nfsstat3::NOENT));
        let call = Call::Lookup { what: DirOp { dir: inside.file_handle(), name: b".." } };
        assert_eq!(by.status(&call), Nfsstat3::STALE, "{}", world.name);
    }
}

#[test]
fn handles_outlive_the_server_where_the_file_system_has_handles() {
    let world = World::directory(Handles::Best);
    let served = world.served().unwrap();
    fs::create_dir(served.join("d")).unwrap();
    fs::write(served.join("d/f"), "text").unwrap();
    let by = world.by(ROOT);
    let file = by.lookup(&by.lookup(&world.root(), b"d").unwrap(), b"f").unwrap();
    let (root, attributes) = (world.root(), by.attributes(&file).unwrap());
    fs::rename(served.join("d"), served.join("moved")).unwrap();
    let again = Namespace::directory(&served).unwrap();
    let mut out = Vec::new();
    let status = again.execute(&by.server, &ROOT, &Call::Getattr { object: file.file_handle() }, &mut out);
    if again.root(&by.server) != root || status != Nfsstat3::OK {
        // Only root may keep the key with the directory and open by the kernel's handles.
        use std::os::unix::fs::MetadataExt;
        assert_ne!(fs::metadata(&served).unwrap().uid(), 0, "root's handles must survive, but {status}");
        return eprintln!("not root: handles do not survive");
    }
    assert_eq!(Reply::decode(Procedure::Getattr, &out), Ok(Reply::Getattr(Ok(attributes))));
}

#[test]
fn a_key_of_the_callers_choice_seals_the_handles() {
    let dir = TempDir::new();
    let serve = |key, handles| {
        let options = DirectoryOptions { key: Some([key; 16]), handles };
        Namespace::directory_with(dir.path(), &options).unwrap().root(&SERVER)
    };
    for handles in [Handles::Best, Handles::Seen] {
        assert_eq!(serve(1, handles), serve(1, handles));
        assert_ne!(serve(1, handles), serve(2, handles));
    }
    assert!(Namespace::directory(&dir.path().join("none")).is_err());
}

#[test]
fn what_somebody_else_changes_in_the_directory_is_seen() {
    for world in tempted() {
        let (by, root) = (world.by(user(0)), world.root());
        let served = world.served().unwrap();
        let inside = by.lookup(&root, b"inside").unwrap();
        fs::write(served.join("inside/new"), "new").unwrap();
        assert_eq!(names(by, &inside).unwrap(), ["new"]);
        let new = by.lookup(&inside, b"new").unwrap();
        assert_eq!(by.attributes(&new).unwrap().size, 3);
        fs::remove_file(served.join("inside/new")).unwrap();
        assert_eq!(by.attributes(&new), Err(Nfsstat3::STALE), "{}", world.name);
        assert_eq!(by.lookup(&inside, b"new"), Err(Nfsstat3::NOENT), "{}", world.name);
    }
}
