//! Which real parts are here, and what a test does about one that is not: outside CI it says so, is counted and returns;
//! in CI it fails, because there a test that did not run proves nothing.

use crate::address::loopback;
use crate::bounded::find;
use crate::place::root;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::{env, fmt};

/// A real part. `scripts/setup test` installs all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// NFS-Ganesha with its local file system, and the right to open files by handle.
    Ganesha,
    /// The emulator and the image with the Linux kernel's NFS client.
    KernelClient,
    /// nfs-ls, nfs-cp, nfs-cat.
    Libnfs,
    /// showmount.
    Showmount,
    /// rpcinfo, and the port at which it asks: no other program may hold that on every address.
    Rpcinfo,
    /// systemd-analyze, which judges units without running them.
    SystemdAnalyze,
    /// setfacl, which gives a file an access list.
    Setfacl,
    /// Prometheus, and promtool, which judges what it is given.
    Prometheus,
    /// A real browser.
    Chromium,
    /// node, with what `make web` installed and built.
    Node,
    /// unshare and mount, and the right to mount in a namespace of one's own.
    MountNamespace,
}

/// Whether a test that needs this part can run. Where it cannot, says why and counts it; in CI panics.
pub fn require(part: Part) -> bool {
    let Some(reason) = part.lacking() else { return true };
    let line = format!("{part}: {reason}; what needs it is not tested");
    assert!(!in_ci(|name| env::var(name).ok()), "in CI a skip is a failure: {line}");
    println!("skipped: {line}");
    if let Err(error) = record(&root().join("target/tools/skipped"), part, &line) {
        println!("and it could not be counted: {error}");
    }
    false
}

impl Part {
    /// Why the part cannot be used here.
    fn lacking(self) -> Option<String> {
        match self {
            Self::Ganesha => no_command(&["ganesha.nfsd", "gcc"]).or_else(no_file_system).or_else(not_root),
            Self::KernelClient => no_command(&["qemu-system-x86_64", "cpio", "python3"]).or_else(no_image),
            Self::Libnfs => no_command(&["nfs-ls", "nfs-cp", "nfs-cat"]),
            Self::Showmount => no_command(&["showmount"]),
            Self::Rpcinfo => no_command(&["rpcinfo"]).or_else(no_portmap_port),
            Self::SystemdAnalyze => no_command(&["systemd-analyze"]),
            Self::Setfacl => no_command(&["setfacl"]),
            Self::Prometheus => no_command(&["prometheus", "promtool"]),
            Self::Chromium => no_command(&["chromium"]),
            Self::Node => no_command(&["node"]).or_else(no_page),
            Self::MountNamespace => no_command(&["unshare", "mount"]).or_else(no_own_mounts),
        }
    }
}

/// Where clients ask for ports. No client can be told another: the one port that tests cannot choose.
pub const PORTMAP: u16 = 111;
/// Where a client that names no version looks for version 4. A test may listen there if nobody else does, and must do
/// without otherwise.
pub const USUAL_NFS: u16 = 2049;

/// The names that scripts/setup uses.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ganesha => "ganesha",
            Self::KernelClient => "kernel-client",
            Self::Libnfs => "libnfs",
            Self::Showmount => "showmount",
            Self::Rpcinfo => "rpcinfo",
            Self::SystemdAnalyze => "systemd-analyze",
            Self::Setfacl => "setfacl",
            Self::Prometheus => "prometheus",
            Self::Chromium => "chromium",
            Self::Node => "node",
            Self::MountNamespace => "mount-namespace",
        })
    }
}

fn no_command(names: &[&str]) -> Option<String> {
    let missing = names.iter().find(|name| find(name).is_none())?;
    Some(format!("no {missing}"))
}

fn no_portmap_port() -> Option<String> {
    let taken = TcpListener::bind((loopback(1, &[]), PORTMAP)).err()?;
    Some(format!("port {PORTMAP} cannot be had ({taken}); does rpcbind run here?"))
}

fn no_file_system() -> Option<String> {
    let debian = format!("/usr/lib/{}-linux-gnu/ganesha", env::consts::ARCH);
    let directories = [debian.as_str(), "/usr/lib64/ganesha", "/usr/lib/ganesha"];
    let found = directories.iter().any(|directory| Path::new(directory).join("libfsalvfs.so").exists());
    (!found).then(|| "no libfsalvfs.so".to_owned())
}

fn not_root() -> Option<String> {
    let uid = fs::metadata("/proc/self").map(|own| own.uid());
    (uid.ok() != Some(0)).then(|| "not root, and it opens files by handle".to_owned())
}

fn no_own_mounts() -> Option<String> {
    let mounts = Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
    (!mounts.is_ok_and(|output| output.status.success())).then(|| "nothing may be mounted here".to_owned())
}

fn no_image() -> Option<String> {
    let image = root().join("target/lab/kernel-client/current/base.cpio");
    (!image.exists()).then(|| "no image (lab/kernel-client/build makes it)".to_owned())
}

fn no_page() -> Option<String> {
    let here = |name: &str| root().join("web").join(name).exists();
    let missing = ["node_modules/playwright-core", "dist/index.html"].into_iter().find(|name| !here(name))?;
    Some(format!("no web/{missing} (make web makes it)"))
}

/// As scripts/setup sees it.
fn in_ci(variable: impl Fn(&str) -> Option<String>) -> bool {
    variable("CI").as_deref() == Some("true") || variable("MIDAS_CI").as_deref() == Some("1")
}

/// One line a part: setup may have written it already, and so may another test.
fn record(file: &Path, part: Part, line: &str) -> io::Result<()> {
    let prefix = format!("{part}:");
    if fs::read_to_string(file).unwrap_or_default().lines().any(|known| known.starts_with(&prefix)) {
        return Ok(());
    }
    fs::create_dir_all(file.parent().expect("a file lies in a directory"))?;
    writeln!(OpenOptions::new().create(true).append(true).open(file)?, "{line}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Scratch;

    #[test]
    fn ci_is_what_setup_takes_for_it() {
        let cases =
            [(None, None, false), (Some("true"), None, true), (None, Some("1"), true), (Some("1"), None, false)];
        for (ci, midas, expected) in cases {
            let variable = |name: &str| if name == "CI" { ci } else { midas }.map(str::to_owned);
            assert_eq!(in_ci(variable), expected, "CI={ci:?} MIDAS_CI={midas:?}");
        }
    }

    #[test]
    fn a_missing_part_is_counted_once() {
        let scratch = Scratch::new();
        let file = scratch.path().join("tools/skipped");
        for (part, line) in [(Part::Libnfs, "libnfs: a"), (Part::Libnfs, "libnfs: b"), (Part::Rpcinfo, "rpcinfo: c")] {
            record(&file, part, line).unwrap();
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "libnfs: a\nrpcinfo: c\n");
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(no_command(&["sh", "no-such-command-of-ours"]).as_deref(), Some("no no-such-command-of-ours"));
        assert_eq!(no_command(&["sh"]), None);
    }

    #[test]
    fn setup_knows_every_part_by_its_name() {
        let setup = fs::read_to_string(root().join("scripts/setup")).unwrap();
        let parts = [
            Part::Ganesha,
            Part::KernelClient,
            Part::Libnfs,
            Part::Showmount,
            Part::Rpcinfo,
            Part::SystemdAnalyze,
            Part::Setfacl,
            Part::Prometheus,
            Part::Chromium,
            Part::Node,
            Part::MountNamespace,
        ];
        for part in parts {
            assert!(setup.lines().any(|line| line.starts_with(&format!("{part} "))), "{part}");
        }
    }
}
