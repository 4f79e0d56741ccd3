//! Two servers behind gates and a proxy of them: what each server does with a call, and when, is the test's to say.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use super::gate::Gate;
use super::nfsd::Nfsd;
use super::serve::{Serve, Site};
use midas_lab::raw::handle;
use midas_lab::{PATIENCE, create};
use midas_net::{Client, ClientError};
use midas_nfs::nfs3::{Call, DirOp, Nfsstat3, Reply, StableHow};

/// Two servers behind gates, and a proxy of them.
pub(crate) struct Stage {
    pub(crate) nfsd: Nfsd,
    pub(crate) gates: Vec<Gate>,
    pub(crate) proxy: Serve,
    pub(crate) root: Vec<u8>,
    /// The server that changes of the root directory's names go to, and the other one.
    pub(crate) home: usize,
    pub(crate) other: usize,
}

impl Stage {
    /// With so long a `server_hold_max`.
    pub(crate) fn start(hold: &'static str) -> Self {
        Self::with(hold, "")
    }

    /// The same with more lines of the pool.
    pub(crate) fn with(hold: &'static str, more: &str) -> Self {
        Self::over(Nfsd::start(&["--servers", "2", "--truth"]), hold, (more, "0s"))
    }

    /// The same over these servers, which believe what they once knew for so long.
    pub(crate) fn over(mut nfsd: Nfsd, hold: &'static str, (more, staleness): (&str, &'static str)) -> Self {
        let gates: Vec<Gate> = nfsd.addresses.iter().map(|server| Gate::before(*server)).collect();
        let servers = gates.iter().map(|gate| gate.address).collect();
        let pool = format!("failover_after = \"1s\"\nprobe_interval = \"100ms\"\nprobe_timeout = \"1500ms\"\n{more}");
        let proxy = Site { pool, export: hold, staleness, ..Site::over(servers, None, "/") }.start();
        let (mut client, root) = proxy.client();
        create(&mut client, &root, b"probe");
        let home = nfsd.executed("CREATE").iter().position(|calls| *calls == 1).unwrap();
        Self { nfsd, gates, proxy, root, home, other: 1 - home }
    }

    pub(crate) fn client(&self) -> Client {
        let (mut client, _) = self.proxy.client();
        client.patience(PATIENCE).unwrap();
        client
    }

    pub(crate) fn place<'s>(&'s self, name: &'s [u8]) -> DirOp<'s> {
        DirOp { dir: handle(&self.root), name }
    }

    /// What the home does from now on.
    pub(crate) fn home_is(&mut self, fault: &str) {
        self.nfsd.tell(&format!("fault {} {fault}", self.home));
        // What was told before this answer is done before a later call arrives.
        self.nfsd.truth();
    }

    pub(crate) fn executed(&mut self, procedure: &str) -> u64 {
        self.nfsd.executed(procedure).iter().sum()
    }

    /// Calls that wait at the proxy.
    pub(crate) fn held(&self) -> u64 {
        self.proxy.held()
    }
}

pub(crate) const SHORT: &str = "server_hold_max = \"1s\"\n";
pub(crate) const LONG: &str = "server_hold_max = \"60s\"\n";

/// Whether an object is there, and its number.
pub(crate) fn found(client: &mut Client, what: DirOp<'_>) -> Option<u64> {
    let object = match client.nfs(&Call::Lookup { what }).unwrap() {
        Reply::Lookup(Ok(found)) => found.object.bytes().to_vec(),
        failed => {
            assert_eq!(failed.status(), Nfsstat3::NOENT);
            return None;
        }
    };
    // A server that may know old ones tells none with the name.
    match client.nfs(&Call::Getattr { object: handle(&object) }).unwrap() {
        Reply::Getattr(Ok(attributes)) => Some(attributes.fileid),
        failed => panic!("GETATTR: {failed:?}"),
    }
}

pub(crate) fn status(reply: Result<Reply<'_>, ClientError>) -> Nfsstat3 {
    reply.unwrap().status()
}

/// A file whose own calls go to the home of the root's names.
pub(crate) fn file_at_home(stage: &mut Stage, client: &mut Client, dir: &[u8]) -> Vec<u8> {
    for number in 0..64 {
        let file = create(client, dir, format!("f{number}").as_bytes());
        let before = stage.nfsd.executed("COMMIT")[stage.home];
        let call = Call::Commit { file: handle(&file), offset: 0, count: 0 };
        assert_eq!(status(client.nfs(&call)), Nfsstat3::OK);
        if stage.nfsd.executed("COMMIT")[stage.home] > before {
            return file;
        }
    }
    panic!("no file of 64 has its home there");
}

pub(crate) fn write(client: &mut Client, file: &[u8], data: &[u8]) -> Nfsstat3 {
    let (file, count) = (handle(file), data.len() as u32);
    status(client.nfs(&Call::Write { file, offset: 0, count, stable: StableHow::FileSync, data }))
}

pub(crate) fn read(client: &mut Client, file: &[u8]) -> Vec<u8> {
    match client.nfs(&Call::Read { file: handle(file), offset: 0, count: 4096 }).unwrap() {
        Reply::Read(Ok(read)) => read.data.to_vec(),
        failed => panic!("READ: {failed:?}"),
    }
}
