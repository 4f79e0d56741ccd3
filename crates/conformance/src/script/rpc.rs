//! RPC itself (RFC 5531): what is refused, and that a refusal costs nobody the connection.

use crate::step::{Args, Cut, Login, NOTHING, Port, Raw, Step, getattr, lookup, rpc, setattr};
use midas_nfs::nfs3::{self, Procedure};
use midas_nfs::{mount, rpc::RPC_VERSION};

pub(super) const STEPS: &[Step] = &[
    rpc("NULL with AUTH_SYS", NULL),
    rpc("NULL with AUTH_NONE", Raw { login: Login::None, ..NULL }),
    rpc("NULL of MOUNT with AUTH_NONE", Raw { login: Login::None, ..MOUNT_NULL }),
    rpc("GETATTR with AUTH_SYS", GETATTR),
    rpc("GETATTR with AUTH_NONE", Raw { login: Login::None, ..GETATTR }),
    rpc("GETATTR with RPCSEC_GSS", Raw { login: Login::Gss, ..GETATTR }),
    rpc("NULL with RPCSEC_GSS", Raw { login: Login::Gss, ..NULL }),
    rpc("GETATTR with an unknown flavour", Raw { login: Login::Unknown, ..GETATTR }),
    rpc("GETATTR with AUTH_SYS cut short", Raw { login: Login::SysCutShort, ..GETATTR }),
    rpc("GETATTR with AUTH_SYS of 17 groups", Raw { login: Login::SysGroups17, ..GETATTR }),
    rpc("an unknown program", Raw { program: 200_003, ..NULL }),
    rpc("version 2 of NFS", Raw { version: 2, ..NULL }),
    rpc("version 9 of NFS", Raw { version: 9, ..NULL }),
    rpc("version 9 of MOUNT", Raw { version: 9, ..MOUNT_NULL }),
    rpc("version 1 of MOUNT", Raw { version: 1, ..MOUNT_NULL }),
    rpc("procedure 22 of NFS", Raw { procedure: 22, ..NULL }),
    rpc("procedure 4294967295 of NFS", Raw { procedure: u32::MAX, ..NULL }),
    rpc("procedure 6 of MOUNT", Raw { procedure: 6, ..MOUNT_NULL }),
    rpc("version 3 of RPC", Raw { rpc: 3, ..NULL }),
    rpc("GETATTR without arguments", Raw { args: Args::Bytes(&[]), ..GETATTR }),
    rpc("GETATTR with a handle that ends too early", Raw { args: Args::AllBut(4, getattr("work")), ..GETATTR }),
    rpc("GETATTR with a handle of 65 bytes", Raw { args: Args::Bytes(&HANDLE_65), ..GETATTR }),
    rpc("GETATTR with a handle that claims 4 GiB", Raw { args: Args::Bytes(&[0xff; 16]), ..GETATTR }),
    rpc("GETATTR with bytes behind its arguments", Raw { args: Args::AndMore(getattr("work")), ..GETATTR }),
    rpc("LOOKUP without a name", Raw { args: Args::Of(getattr("work")), ..LOOKUP }),
    rpc("LOOKUP whose name claims 4 GiB", Raw { args: Args::AndMore(getattr("work")), ..LOOKUP }),
    rpc("SETATTR without its last arguments", Raw { args: Args::AllBut(8, setattr("work", NOTHING)), ..SETATTR }),
    rpc("NULL with arguments", Raw { args: Args::Bytes(&[7; 8]), ..NULL }),
    rpc("GETATTR in fragments of four bytes", Raw { cut: Cut::Words, ..GETATTR }),
    rpc("GETATTR in fragments, some of them empty", Raw { cut: Cut::WithEmpty, ..GETATTR }),
    rpc(
        "LOOKUP in fragments of four bytes",
        Raw { args: Args::Of(lookup("work", b"absent")), cut: Cut::Words, ..LOOKUP },
    ),
];

const NULL: Raw = Raw {
    port: Port::Nfs,
    rpc: RPC_VERSION,
    program: nfs3::PROGRAM,
    version: nfs3::VERSION,
    procedure: 0,
    login: Login::Sys,
    args: Args::Bytes(&[]),
    cut: Cut::Whole,
};
const MOUNT_NULL: Raw = Raw { port: Port::Mount, program: mount::PROGRAM, version: mount::VERSION, ..NULL };
const GETATTR: Raw = Raw { procedure: Procedure::Getattr as u32, args: Args::Of(getattr("work")), ..NULL };
const SETATTR: Raw = Raw { procedure: Procedure::Setattr as u32, ..NULL };
const LOOKUP: Raw = Raw { procedure: Procedure::Lookup as u32, ..NULL };
/// A length word of 65, the bytes and their padding.
const HANDLE_65: [u8; 72] = {
    let mut bytes = [0; 72];
    bytes[3] = 65;
    bytes
};
