//! MOUNT (RFC 1813, 5).

use crate::step::{Step, mounting};
use midas_nfs::mount::Call;

pub(super) const STEPS: &[Step] = &[
    mounting("MOUNT does nothing", Call::Null),
    mounting("mount the export", Call::Mnt(b"@")),
    mounting("mount the export with a slash at its end", Call::Mnt(b"@/")),
    mounting("mount a directory of the export", Call::Mnt(b"@/conformance/work")),
    mounting("mount a file of the export", Call::Mnt(b"@/conformance/probe")),
    mounting("mount what the export does not have", Call::Mnt(b"@/conformance/absent")),
    mounting("mount a path with dots in it", Call::Mnt(b"@/conformance/./work")),
    mounting("mount a path that goes up and down", Call::Mnt(b"@/conformance/../conformance/work")),
    mounting("mount a path above the export", Call::Mnt(b"@/..")),
    mounting("mount an unknown path", Call::Mnt(b"/no/such/export")),
    mounting("mount a path that only begins as the export", Call::Mnt(b"@x")),
    mounting("mount an empty path", Call::Mnt(b"")),
    mounting("mount a relative path", Call::Mnt(b"conformance")),
    mounting("mount a path of 1024 bytes", Call::Mnt(&[b'p'; 1024])),
    mounting("mount a path of 1025 bytes", Call::Mnt(&[b'p'; 1025])),
    mounting("exports", Call::Export),
    mounting("mounts", Call::Dump),
    mounting("unmount the export", Call::Umnt(b"@")),
    mounting("unmount what was never mounted", Call::Umnt(b"/no/such/export")),
    mounting("unmount all", Call::Umntall),
];
