//! Who calls, and what the mode bits let them do. Only mode bits decide; no access control lists.

use midas_nfs::nfs3::{Fattr3, Ftype3, access};
use midas_nfs::rpc::{AuthSys, Credential};

/// A user with their groups, as AUTH_SYS states them. User 0 may do everything: squashing is the caller's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// User.
    pub uid: u32,
    /// Group: what new objects get.
    pub gid: u32,
    gids: [u32; AuthSys::GIDS],
    count: u8,
}

impl User {
    /// Who calls without a credential.
    pub const NOBODY: Self = Self { uid: NOBODY, gid: NOBODY, gids: [0; AuthSys::GIDS], count: 0 };

    /// Who may do everything.
    pub const ROOT: Self = Self { uid: 0, gid: 0, gids: [0; AuthSys::GIDS], count: 0 };

    /// A user; groups past the sixteen that AUTH_SYS carries are left out.
    pub fn new(uid: u32, gid: u32, gids: &[u32]) -> Self {
        let count = gids.len().min(AuthSys::GIDS);
        let mut fixed = [0; AuthSys::GIDS];
        fixed[..count].copy_from_slice(&gids[..count]);
        Self { uid, gid, gids: fixed, count: count as u8 }
    }

    /// The user of a credential; AUTH_NONE is nobody.
    pub fn of(credential: &Credential<'_>) -> Self {
        match credential {
            Credential::None => Self::NOBODY,
            // The number that chown takes for "leave it" is nobody's.
            Credential::Sys(sys) => {
                let known = |id: u32| if id == u32::MAX { NOBODY } else { id };
                Self::new(known(sys.uid), known(sys.gid), sys.gids())
            }
        }
    }

    pub(crate) const fn is_root(&self) -> bool {
        self.uid == 0
    }

    pub(crate) fn owns(&self, object: &Fattr3) -> bool {
        self.is_root() || self.uid == object.uid
    }

    pub(crate) fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.gids[..self.count.into()].contains(&gid)
    }

    /// Whether the mode bits give all of `need`. Root lacks only execute of a file that nobody may execute.
    pub(crate) fn may(&self, object: &Fattr3, need: u32) -> bool {
        if self.is_root() {
            return need & EXECUTE == 0 || object.ftype == Ftype3::Dir || object.mode & 0o111 != 0;
        }
        let shift = match () {
            () if self.uid == object.uid => 6,
            () if self.in_group(object.gid) => 3,
            () => 0,
        };
        (object.mode >> shift) & need == need
    }

    /// READ: an owner reads their file whatever its mode says (the client checked at open), and whoever may execute a file
    /// may read it (the client must load it).
    pub(crate) fn may_read_data(&self, file: &Fattr3) -> bool {
        self.owns(file) || self.may(file, READ) || self.may(file, EXECUTE)
    }

    /// WRITE, and SETATTR of the size: an owner writes their file whatever its mode says.
    pub(crate) fn may_write_data(&self, file: &Fattr3) -> bool {
        self.owns(file) || self.may(file, WRITE)
    }

    /// In a sticky directory only the owner of the directory or of the object takes a name away.
    pub(crate) fn may_take_away(&self, dir: &Fattr3, object: &Fattr3) -> bool {
        dir.mode & STICKY == 0 || self.owns(dir) || self.owns(object)
    }

    /// ACCESS's bits: the mode bits alone, without the exceptions of READ and WRITE, as Linux answers it.
    pub(crate) fn access(&self, object: &Fattr3) -> u32 {
        let rights: &[(u32, u32)] = match object.ftype {
            Ftype3::Dir => &[
                (access::READ, READ),
                (access::LOOKUP, EXECUTE),
                (access::MODIFY, WRITE | EXECUTE),
                (access::EXTEND, WRITE | EXECUTE),
                (access::DELETE, WRITE | EXECUTE),
            ],
            Ftype3::Reg | Ftype3::Blk | Ftype3::Chr | Ftype3::Lnk | Ftype3::Sock | Ftype3::Fifo => {
                &[(access::READ, READ), (access::MODIFY, WRITE), (access::EXTEND, WRITE), (access::EXECUTE, EXECUTE)]
            }
        };
        rights.iter().filter(|(_, need)| self.may(object, *need)).fold(0, |granted, (bit, _)| granted | bit)
    }
}

pub(crate) const READ: u32 = 4;
pub(crate) const WRITE: u32 = 2;
pub(crate) const EXECUTE: u32 = 1;
pub(crate) const SET_UID: u32 = 0o4000;
pub(crate) const SET_GID: u32 = 0o2000;
pub(crate) const STICKY: u32 = 0o1000;
pub(crate) const GROUP_EXECUTE: u32 = 0o010;
/// All bits that a mode may have.
pub(crate) const MODE: u32 = 0o7777;
const NOBODY: u32 = 65_534;
