//! Directories and files, made in the servers' common namespace directly: no call of a set-up reaches the proxy.

use midas_nfs::nfs3::{Call, CreateHow, DirOp, Nfsstat3, Procedure, Reply, Sattr3};
use midas_nfsd::{Handle, Identity, Namespace, User};

/// Makes directories with files in each; the directories' handles, in order.
pub(super) fn make(namespace: &Namespace, directories: u32, files: u32) -> Result<Vec<Handle>, Nfsstat3> {
    let root = namespace.root(&MAKER);
    (0..directories)
        .map(|number| {
            let directory = directory(namespace, &root, &format!("d{number}"))?;
            (0..files).try_for_each(|file| create(namespace, &directory, &name(file)))?;
            Ok(directory)
        })
        .collect()
}

/// What file number `file` of a directory is called.
pub(super) fn name(file: u32) -> String {
    format!("f{file}")
}

/// A directory that everybody may change.
pub(crate) fn directory(namespace: &Namespace, root: &Handle, name: &str) -> Result<Handle, Nfsstat3> {
    let place = DirOp { dir: root.file_handle(), name: name.as_bytes() };
    let mut reply = Vec::new();
    let attributes = Sattr3 { mode: Some(0o777), ..Sattr3::default() };
    done(namespace.execute(&MAKER, &User::new(0, 0, &[]), &Call::Mkdir { place, attributes }, &mut reply))?;
    match Reply::decode(Procedure::Mkdir, &reply) {
        Ok(Reply::Mkdir(Ok(made))) => {
            let handle = made.object.and_then(|object| Handle::new(object.bytes()));
            handle.ok_or(Nfsstat3::SERVERFAULT)
        }
        _ => Err(Nfsstat3::SERVERFAULT),
    }
}

/// A file that everybody may change.
pub(crate) fn create(namespace: &Namespace, directory: &Handle, name: &str) -> Result<(), Nfsstat3> {
    let place = DirOp { dir: directory.file_handle(), name: name.as_bytes() };
    let how = CreateHow::Unchecked(Sattr3 { mode: Some(0o666), ..Sattr3::default() });
    done(namespace.execute(&MAKER, &User::new(0, 0, &[]), &Call::Create { place, how }, &mut Vec::new()))
}

fn done(status: Nfsstat3) -> Result<(), Nfsstat3> {
    if status == Nfsstat3::OK { Ok(()) } else { Err(status) }
}

/// Whoever makes the names: handles are the same on every server.
pub(crate) const MAKER: Identity = Identity { server: 0, write_verifier: [0; 8], salt: 0 };
