//! An export as one server shows it: its root, its limits, from which ports and as whom it may be used.

use super::{Asking, Trouble};
use crate::config::Server;
use midas_net::{Caller, Client, ClientError, Source};
use midas_nfs::nfs3::{Call, DirOp, Fattr3, FileHandle, FsinfoOk, Nfsstat3, Reply, access};
use std::fmt;

/// What one server shows.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The export's root.
    pub root: Object,
    /// The root's attributes.
    pub attributes: Fattr3,
    /// FSINFO; none if the server has none.
    pub limits: Option<FsinfoOk>,
    /// From which ports it may be used.
    pub ports: Ports,
    /// What becomes of root.
    pub root_user: RootUser,
    /// On whose behalf the root may be changed; none if nobody that we know of may.
    pub writer: Option<Caller>,
}

/// A file system object, as servers must agree on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// The handle.
    pub handle: Vec<u8>,
    /// The file system.
    pub fsid: u64,
    /// The number in it.
    pub fileid: u64,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("handle ")?;
        self.handle.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, ", fsid {:#x}, fileid {}", self.fsid, self.fileid)
    }
}

/// From which ports an export may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    /// From any.
    Any,
    /// Only from below 1024; with what was said to others.
    ReservedOnly(String),
    /// From above 1023 at least: below, we may not.
    HighAtLeast,
}

/// What becomes of a client's root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootUser {
    /// It stays root.
    Kept,
    /// It becomes someone without root's rights.
    Squashed,
    /// Not to be told without writing, or with an export that is read-only.
    Unknown,
}

/// Looks at one server.
pub(super) fn look(server: &Server, source: &str, asking: &Asking<'_>) -> Result<Seen, Trouble> {
    let below = enter(server, source, Source::Reserved, asking);
    let above = enter(server, source, Source::Any, asking);
    let (mut client, root, ports) = match (below, above) {
        (Ok((client, root, true)), Ok(_)) => (client, root, Ports::Any),
        (Ok((client, root, true)), Err(why)) => (client, root, Ports::ReservedOnly(why.to_string())),
        (Ok((client, root, false)), _) => (client, root, Ports::HighAtLeast),
        (Err(trouble), _) => return Err(trouble),
    };
    let trouble = |what: &str, error: ClientError| Trouble::of(&format!("{what} of {source}"), &error);
    let attributes = getattr(&mut client, &root).map_err(|error| trouble("GETATTR", error))?;
    let limits = fsinfo(&mut client, &root).map_err(|error| trouble("FSINFO", error))?;
    let (root_user, writer) = rights(&mut client, &root, &attributes).map_err(|error| trouble("ACCESS", error))?;
    let root = Object { handle: root, fsid: attributes.fsid, fileid: attributes.fileid };
    Ok(Seen { root, attributes, limits, ports, root_user, writer })
}

/// A connection, the root's handle, and whether both were got from a reserved port.
fn enter(server: &Server, source: &str, port: Source, asking: &Asking<'_>) -> Result<(Client, Vec<u8>, bool), Trouble> {
    let connect = |address| Client::connect_from(port, address, &Caller::ROOT, asking.patience);
    let mount = || connect(server.mount)?.mount(source.as_bytes());
    let root = mount().map_err(|error| Trouble::of(&format!("MNT of {source} at {}", server.mount), &error))?.root;
    let used = || {
        let mut client = connect(server.address)?;
        getattr(&mut client, &root)?;
        let reserved = client.port()? < RESERVED_END;
        Ok((client, reserved))
    };
    let (client, reserved) =
        used().map_err(|error| Trouble::of(&format!("GETATTR of {source} at {}", server.address), &error))?;
    Ok((client, root, reserved))
}

/// What becomes of root, and who may change the directory. Root, or its owner: a server that does not believe our root believes that.
fn rights(client: &mut Client, root: &[u8], attributes: &Fattr3) -> Result<(RootUser, Option<Caller>), ClientError> {
    let owner = Caller { uid: attributes.uid, gid: attributes.gid, gids: Vec::new() };
    let anyone_may = attributes.mode & OTHERS_WRITE != 0;
    if may_change(client, root, &Caller::ROOT)? {
        let root_user = if anyone_may { RootUser::Unknown } else { RootUser::Kept };
        return Ok((root_user, Some(Caller::ROOT)));
    }
    match owner.uid != 0 && may_change(client, root, &owner)? {
        true => Ok((RootUser::Squashed, Some(owner))),
        false => Ok((RootUser::Unknown, None)),
    }
}

fn may_change(client: &mut Client, root: &[u8], caller: &Caller) -> Result<bool, ClientError> {
    client.become_caller(caller);
    let wanted = access::MODIFY | access::EXTEND;
    match client.nfs(&Call::Access { object: handle(root)?, access: wanted })? {
        Reply::Access(Ok(granted)) => Ok(granted.access & wanted == wanted),
        failed => Err(ClientError::Status(failed.status())),
    }
}

pub(super) fn getattr(client: &mut Client, object: &[u8]) -> Result<Fattr3, ClientError> {
    match client.nfs(&Call::Getattr { object: handle(object)? })? {
        Reply::Getattr(Ok(attributes)) => Ok(attributes),
        failed => Err(ClientError::Status(failed.status())),
    }
}

/// The object of a name; none if there is no such name.
pub(super) fn lookup(client: &mut Client, dir: &[u8], name: &[u8]) -> Result<Option<(Object, Fattr3)>, ClientError> {
    let (found, attributes) = match client.nfs(&Call::Lookup { what: DirOp { dir: handle(dir)?, name } })? {
        Reply::Lookup(Ok(found)) => (found.object.bytes().to_vec(), found.attributes),
        failed if failed.status() == Nfsstat3::NOENT => return Ok(None),
        failed => return Err(ClientError::Status(failed.status())),
    };
    let attributes = match attributes {
        Some(attributes) => attributes,
        None => getattr(client, &found)?,
    };
    Ok(Some((Object { handle: found, fsid: attributes.fsid, fileid: attributes.fileid }, attributes)))
}

fn fsinfo(client: &mut Client, root: &[u8]) -> Result<Option<FsinfoOk>, ClientError> {
    match client.nfs(&Call::Fsinfo { fsroot: handle(root)? })? {
        Reply::Fsinfo(limits) => Ok(limits.ok()),
        other => Err(ClientError::Status(other.status())),
    }
}

pub(super) fn handle(bytes: &[u8]) -> Result<FileHandle<'_>, ClientError> {
    FileHandle::new(bytes).ok_or(ClientError::Status(Nfsstat3::BADHANDLE))
}

/// Ports below are root's on the client.
const RESERVED_END: u16 = 1024;
const OTHERS_WRITE: u32 = 0o002;
