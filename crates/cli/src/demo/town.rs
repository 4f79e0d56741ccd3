//! The namespace of the demo, and who lives there: directories with names that tell, clients with addresses and users of their own.

use crate::stage::names::{MAKER, create, directory};
use midas_nfs::nfs3::Nfsstat3;
use midas_nfsd::{Handle, Namespace};
use midas_workload::Request;
use std::net::Ipv4Addr;

/// The directories, by their numbers in calls, and those above them.
pub(super) struct Town {
    pub(super) directories: Vec<Handle>,
    pub(super) root: Handle,
    /// What lies between the root and the directories.
    pub(super) above: Vec<Handle>,
}

impl Town {
    /// Makes all of it in the servers' common namespace.
    pub(super) fn build(namespace: &Namespace) -> Result<Self, Nfsstat3> {
        let root = namespace.root(&MAKER);
        let mut directories = Vec::new();
        for name in OF_ROOT {
            directories.push(directory(namespace, &root, name)?);
        }
        let software = directory(namespace, &root, "software")?;
        for name in PACKAGES {
            directories.push(directory(namespace, &software, name)?);
        }
        let home = directory(namespace, &root, "home")?;
        for user in 0..HOMES {
            directories.push(directory(namespace, &home, &format!("u{user:02}"))?);
        }
        for (number, handle) in (0..).zip(&directories) {
            (0..files(number)).try_for_each(|file| create(namespace, handle, &called(number, file)))?;
        }
        Ok(Self { directories, root, above: vec![software, home] })
    }
}

/// What a call's name is.
pub(super) fn name(request: &Request) -> String {
    called(request.directory, request.file)
}

fn called(directory: u32, file: u32) -> String {
    match directory {
        PROJECT => format!("input-{file}.dat"),
        CHECKPOINTS => format!("rank-{file}.ckpt"),
        PACKAGES_FIRST..=LIBRARIES => format!("lib{file}.so"),
        _ => format!("notes-{file}.txt"),
    }
}

/// How many files a directory has from the start.
pub(super) const fn files(directory: u32) -> u32 {
    match directory {
        PROJECT => 64,
        LIBRARIES => LIBRARIES_FILES,
        CHECKPOINTS..LIBRARIES => 0,
        _ => 16,
    }
}

/// Where a client comes from, and who it is.
pub(super) const fn client(number: u32) -> (Ipv4Addr, u32) {
    match number {
        0..USERS => (Ipv4Addr::new(127, 0, 1, 10 + number as u8), 1000 + number),
        STORM_FIRST..JOB_FIRST => (STORM_ADDRESS, STORM_USER),
        _ => (Ipv4Addr::new(127, 0, 1, (100 + number - JOB_FIRST) as u8), JOB_USER),
    }
}

/// The hot directory of the storm.
pub(super) const PROJECT: u32 = 0;
/// Where checkpoints are written.
pub(super) const CHECKPOINTS: u32 = 1;
const OF_ROOT: [&str; 2] = ["project", "checkpoints"];
/// The search path of a job, in order; only the last holds what is looked for.
pub(super) const PACKAGES_FIRST: u32 = 2;
const PACKAGES: [&str; 8] = ["app", "mpi", "cuda", "hdf5", "blas", "fftw", "python", "lib"];
pub(super) const LIBRARIES: u32 = PACKAGES_FIRST + PACKAGES.len() as u32 - 1;
pub(super) const LIBRARIES_FILES: u32 = 256;
pub(super) const HOMES_FIRST: u32 = LIBRARIES + 1;
pub(super) const HOMES: u32 = 64;

/// Users at their desks, a machine each.
pub(super) const USERS: u32 = 8;
/// One machine that asks both proxies.
pub(super) const STORM_FIRST: u32 = USERS;
/// The machines of a parallel job, all of one user.
pub(super) const JOB_FIRST: u32 = STORM_FIRST + 2;
pub(super) const RANKS: u32 = 16;
pub(super) const CLIENTS: u32 = JOB_FIRST + RANKS;
/// Who makes the storm.
pub(super) const STORM_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 66);
pub(super) const STORM_USER: u32 = 1066;
const JOB_USER: u32 = 1200;

#[cfg(test)]
mod tests {
    use super::*;
    use midas_nfsd::Limits;

    #[test]
    fn every_directory_has_its_number_and_no_two_its_handle() {
        let town = Town::build(&Namespace::memory(Limits::default())).unwrap();
        assert_eq!(town.directories.len() as u32, HOMES_FIRST + HOMES);
        let mut handles: Vec<&[u8]> = town.directories.iter().map(Handle::bytes).collect();
        handles.sort_unstable();
        handles.dedup();
        assert_eq!(handles.len(), town.directories.len());
    }

    #[test]
    fn the_storm_has_one_address_and_one_user_that_nobody_else_has() {
        let storm = |number: &u32| client(*number) == (STORM_ADDRESS, STORM_USER);
        assert_eq!((0..CLIENTS).filter(storm).collect::<Vec<_>>(), [STORM_FIRST, STORM_FIRST + 1]);
        let others = (0..CLIENTS).filter(|number| !storm(number)).map(client);
        assert!(others.clone().all(|(address, user)| address != STORM_ADDRESS && user != STORM_USER));
        assert!((0..CLIENTS).all(|number| client(number).0.is_loopback()));
    }
}
