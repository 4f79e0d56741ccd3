//! The control socket's file. Whoever may write to it controls the daemon: its mode is set before anyone can connect. The file of a
//! daemon that died is replaced, that of one that lives never.

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A control socket that listens; its file goes with it.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) listener: UnixListener,
    pub(crate) file: File,
}

/// The file of a control socket; removed when dropped, if it is still ours.
#[derive(Debug)]
pub(crate) struct File {
    path: PathBuf,
    identity: Identity,
}

/// Which file it is. Numbers of inodes are used again at once, so when it was made belongs to it.
type Identity = (u64, u64, Option<SystemTime>);

fn identity(meta: &fs::Metadata) -> Identity {
    (meta.dev(), meta.ino(), meta.created().ok())
}

impl Socket {
    /// Listens there. The directory is made if it is missing, its parent is not.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        Self::try_bind(path)
            .map_err(|error| io::Error::new(error.kind(), format!("control socket {}: {error}", path.display())))
    }

    fn try_bind(path: &Path) -> io::Result<Self> {
        // A bare name lies in the current directory, which has no name.
        let named = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.exists();
        if let Some(directory) = path.parent().filter(named) {
            fs::DirBuilder::new().mode(DIRECTORY_MODE).create(directory)?;
        }
        make_room(path)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        // Nobody can connect before it listens.
        rustix::fs::chmod(path, Mode::from_raw_mode(SOCKET_MODE))?;
        let meta = fs::symlink_metadata(path)?;
        listen(&socket, BACKLOG)?;
        let file = File { path: path.to_owned(), identity: identity(&meta) };
        Ok(Self { listener: socket.into(), file })
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| identity(&meta) == self.identity) {
            let _gone = fs::remove_file(&self.path);
        }
    }
}

/// Removes the socket of a daemon that died; refuses to touch anything else.
fn make_room(path: &Path) -> io::Result<()> {
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !meta.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "something else is there"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(ErrorKind::AddrInUse, "another daemon answers there")),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

/// Owner and group: whoever is in the group may control the daemon.
const SOCKET_MODE: u32 = 0o660;
const DIRECTORY_MODE: u32 = 0o755;
const BACKLOG: i32 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A directory of this test's own; removed with it.
    struct Place(PathBuf);

    impl Place {
        fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("midas-socket-{}-{number}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn socket(&self) -> PathBuf {
            self.0.join("run").join("s")
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _gone = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn it_is_for_owner_and_group_and_goes_with_the_daemon() {
        let place = Place::new();
        let socket = Socket::bind(&place.socket()).unwrap();
        assert_eq!(fs::metadata(place.socket()).unwrap().permissions().mode() & 0o7777, 0o660);
        assert!(UnixStream::connect(place.socket()).is_ok());
        drop(socket);
        assert!(!place.socket().exists());
    }

    #[test]
    fn a_bare_name_is_a_file_of_the_current_directory() {
        let name = format!("midas-socket-{}", std::process::id());
        let socket = Socket::bind(Path::new(&name)).unwrap();
        assert!(std::env::current_dir().unwrap().join(&name).exists());
        drop(socket);
        assert!(!Path::new(&name).exists());
    }

    #[test]
    fn a_dead_ones_file_is_replaced_a_living_ones_and_any_other_is_not() {
        let place = Place::new();
        let Socket { listener, file } = Socket::bind(&place.socket()).unwrap();
        let refused = Socket::bind(&place.socket()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrInUse, "{refused}");
        drop(listener);
        let next = Socket::bind(&place.socket()).unwrap();
        drop(file);
        assert!(UnixStream::connect(place.socket()).is_ok(), "the dead one did not remove its successor's");
        drop(next);
        fs::write(place.socket(), "mine").unwrap();
        let refused = Socket::bind(&place.socket()).unwrap_err();
        assert!(refused.to_string().ends_with("something else is there"), "{refused}");
        assert_eq!(fs::read(place.socket()).unwrap(), b"mine");
    }
}
