//! Our bytes against those of `nfs3_types`, which was written from the same RFCs by others.
//!
//! A value of ours is spelled in their types field by field. Then their bytes must be ours, their reading of our bytes must be
//! that value, and our reading of their bytes must be the value that we began with.

mod support;
#[path = "support/theirs.rs"]
mod theirs;

use midas_nfs::mount::{self, MountStat, Mounted};
use midas_nfs::nfs3::{
    AccessOk, Call, CommitOk, Failed, FsinfoOk, FsstatOk, LinkDone, LookupOk, MknodData, Nfsstat3, PathconfOk,
    PostOpAttr, Procedure, ReadOk, ReaddirOk, ReaddirplusOk, ReadlinkOk, RenameDone, Reply, WccData, WriteOk,
};
use midas_nfs::portmap::{self, Mapping};
use midas_nfs::record;
use midas_nfs::rpc::{self, AuthStat, AuthSys, Credential, OpaqueAuth, Refusal, flavor};
use nfs3_types::nfs3::*;
use nfs3_types::rpc::*;
use nfs3_types::xdr_codec::{Pack, Unpack, Void};
use nfs3_types::{mount as mnt, portmap as pmap};
use proptest::collection::vec;
use proptest::prelude::*;
use std::fmt::Debug;
use std::net::{Ipv4Addr, SocketAddr};
use support::messages::{call, failure, success};
use support::{auth_sys, bytes, check, failure_status, handle, opaque, opaque_auth, place};
use theirs::{created, fh, linked, maybe, names, names_plus, post_op, result, sattr, stable, time, wcc};

#[test]
fn arguments_of_every_procedure_are_the_same() {
    for procedure in Procedure::ALL {
        check(call(procedure), |call| {
            let args = bytes(|out| call.encode(out));
            assert_eq!(theirs::procedure(&call), procedure as u32);
            let packed = their_args(&args, &call);
            assert_eq!(Call::decode(procedure, &packed), Ok(call));
        });
    }
}

#[test]
fn results_of_every_procedure_are_the_same() {
    for procedure in Procedure::ALL {
        check(prop_oneof![success(procedure), failure(procedure, failure_status())], |reply| {
            let results = bytes(|out| reply.encode(out));
            let packed = their_results(&results, &reply);
            assert_eq!(Reply::decode(procedure, &packed), Ok(reply));
        });
    }
}

#[test]
fn a_failure_without_attributes_is_the_same() {
    for (procedure, status) in
        Procedure::ALL.iter().flat_map(|procedure| Nfsstat3::ALL[1..].iter().map(move |status| (*procedure, *status)))
    {
        let reply = Reply::failed(procedure, status);
        their_results(&bytes(|out| reply.encode(out)), &reply);
    }
}

#[test]
fn mknod_of_a_type_that_it_cannot_make_ends_after_the_type() {
    check((place(), prop_oneof![Just(1), Just(2), Just(5)]), |(place, number)| {
        let call = Call::Mknod { place, what: MknodData::Other(number) };
        let args = bytes(|out| call.encode(out));
        let (theirs, read) = MKNOD3args::unpack(&mut &args[..]).expect("they read it");
        assert_eq!(read, args.len());
        assert!(matches!(theirs.what, mknoddata3::default));
    });
}

#[test]
fn headers_of_calls_are_the_same() {
    let auth = || opaque_auth(&[flavor::NONE, flavor::SYS, 2, 3]);
    check((any::<[u32; 4]>(), auth(), auth()), |([xid, program, version, procedure], credential, verifier)| {
        let call = rpc::Call { xid, program, version, procedure, credential, verifier, args: b"" };
        let body = call_body {
            rpcvers: RPC_VERSION_2,
            prog: program,
            vers: version,
            proc: procedure,
            cred: their_auth(&credential),
            verf: their_auth(&verifier),
        };
        let packed = agree(&bytes(|out| call.encode(out)), &rpc_msg { xid, body: msg_body::CALL(body) });
        assert_eq!(rpc::Call::decode(&packed), Ok(call));
    });
}

#[test]
fn headers_of_replies_are_the_same() {
    check(any::<u32>(), |xid| {
        let packed = agree(&bytes(|out| rpc::Reply::accept(out, xid)), &accepted(xid, accept_stat_data::SUCCESS));
        assert_eq!(rpc::Reply::decode(&packed), Ok(rpc::Reply { xid, results: Ok(b"") }));
    });
    check((any::<[u32; 3]>(), 0..8_u32), |([xid, low, high], stat)| {
        let denied = |body| rpc_msg { xid, body: msg_body::REPLY(reply_body::MSG_DENIED(body)) };
        let (auth, _) = auth_stat::unpack(&mut &stat.to_be_bytes()[..]).expect("they know it");
        for (why, theirs) in [
            (Refusal::ProgUnavail, accepted(xid, accept_stat_data::PROG_UNAVAIL)),
            (Refusal::ProgMismatch { low, high }, accepted(xid, accept_stat_data::PROG_MISMATCH { low, high })),
            (Refusal::ProcUnavail, accepted(xid, accept_stat_data::PROC_UNAVAIL)),
            (Refusal::GarbageArgs, accepted(xid, accept_stat_data::GARBAGE_ARGS)),
            (Refusal::SystemErr, accepted(xid, accept_stat_data::SYSTEM_ERR)),
            (Refusal::RpcMismatch { low, high }, denied(rejected_reply::RPC_MISMATCH { low, high })),
            (Refusal::Auth(AuthStat(stat)), denied(rejected_reply::AUTH_ERROR(auth))),
        ] {
            let packed = agree(&bytes(|out| rpc::Reply::refuse(out, xid, why)), &theirs);
            assert_eq!(rpc::Reply::decode(&packed), Ok(rpc::Reply { xid, results: Err(why) }));
        }
    });
    let named = [AuthStat::BADCRED, AuthStat::REJECTEDCRED, AuthStat::BADVERF, AuthStat::TOOWEAK];
    let theirs =
        [auth_stat::AUTH_BADCRED, auth_stat::AUTH_REJECTEDCRED, auth_stat::AUTH_BADVERF, auth_stat::AUTH_TOOWEAK];
    assert_eq!(named.map(|stat| stat.0), theirs.map(|stat| stat as u32));
}

#[test]
fn auth_sys_is_the_same() {
    check(auth_sys(), |ours| {
        let body = bytes(|out| ours.encode(out));
        let theirs = auth_unix {
            stamp: ours.stamp,
            machinename: theirs::opaque(ours.machinename),
            uid: ours.uid,
            gid: ours.gid,
            gids: ours.gids().to_vec(),
        };
        let packed = agree(&body, &theirs);
        assert_eq!(AuthSys::decode(&packed), Ok(ours));
        let auth = opaque_auth::auth_unix(&theirs);
        let credential = OpaqueAuth { flavor: auth.flavor as u32, body: &auth.body };
        assert_eq!(Credential::decode(&credential), Ok(Credential::Sys(ours)));
    });
}

#[test]
fn record_marks_are_the_same() {
    check(0..=i32::MAX as u32, |length| {
        assert_eq!(record::mark(length as usize), fragment_header::new(length, true).into_xdr_buf());
    });
}

#[test]
fn mount_is_the_same() {
    check(opaque(mount::MNTPATHLEN), |path| {
        for call in [mount::Call::Mnt(path), mount::Call::Umnt(path)] {
            let packed = agree(&bytes(|out| call.encode(out)), &mnt::dirpath(theirs::opaque(path)));
            assert_eq!(mount::Call::decode(mount::VERSION, call.procedure(), &packed), Some(Ok(call)));
        }
    });
    check((handle(), vec(any::<u32>(), 0..=32)), |(handle, flavors)| {
        let ours = Mounted { handle, flavors: flavors.clone() };
        let fhandle = mnt::fhandle3(theirs::opaque(handle.bytes()));
        let theirs = mnt::mountres3::Ok(mnt::mountres3_ok { fhandle, auth_flavors: flavors });
        let packed = agree(&bytes(|out| Mounted::encode(Ok(&ours), out)), &theirs);
        assert_eq!(Mounted::decode(&packed), Ok(Ok(ours)));
    });
    for (ours, theirs) in [
        (MountStat::NOENT, mnt::mountstat3::MNT3ERR_NOENT),
        (MountStat::ACCES, mnt::mountstat3::MNT3ERR_ACCES),
        (MountStat::NOTDIR, mnt::mountstat3::MNT3ERR_NOTDIR),
        (MountStat::NAMETOOLONG, mnt::mountstat3::MNT3ERR_NAMETOOLONG),
        (MountStat::SERVERFAULT, mnt::mountstat3::MNT3ERR_SERVERFAULT),
    ] {
        let packed = agree(&bytes(|out| Mounted::encode(Err(ours), out)), &mnt::mountres3::Err(theirs));
        assert_eq!(Mounted::decode(&packed), Ok(Err(ours)));
    }
}

#[test]
fn lists_of_mounts_and_exports_are_the_same() {
    check(vec((opaque(20), opaque(40)), 0..5), |mounts| {
        let theirs = mounts.iter().map(|(client, path)| mnt::mountbody {
            ml_hostname: mnt::name(theirs::opaque(client)),
            ml_directory: mnt::dirpath(theirs::opaque(path)),
        });
        let theirs: mnt::mountlist<'_, '_> = nfs3_types::xdr_codec::List(theirs.collect());
        agree(&bytes(|out| mount::put_dump(out, mounts)), &theirs);
    });
    check(vec((opaque(40), vec(opaque(20), 0..4)), 0..5), |exports| {
        let theirs = exports.iter().map(|(path, groups)| mnt::export_node {
            ex_dir: mnt::dirpath(theirs::opaque(path)),
            ex_groups: nfs3_types::xdr_codec::List(groups.iter().map(|g| mnt::name(theirs::opaque(g))).collect()),
        });
        let theirs: mnt::exports<'_, '_> = nfs3_types::xdr_codec::List(theirs.collect());
        let given = exports.iter().map(|(path, groups)| (*path, &groups[..]));
        let packed = agree(&bytes(|out| mount::put_exports(out, given)), &theirs);
        let paths: Vec<&[u8]> = exports.iter().map(|(path, _)| *path).collect();
        assert_eq!(mount::exports(&packed, paths.len()), Ok(paths));
    });
}

#[test]
fn portmap_version_2_is_the_same() {
    let known = vec(any::<(u32, u32, u16)>(), 0..5);
    check((known, any::<[u32; 3]>()), |(known, [program, version, protocol])| {
        let known: Vec<Mapping> =
            known.into_iter().map(|(program, version, port)| Mapping { program, version, address: at(port) }).collect();
        let asked = pack(&pmap::mapping { prog: program, vers: version, prot: protocol, port: 0 });
        let call = portmap::Call::decode(pmap::VERSION, pmap::PMAP_PROG::PMAPPROC_GETPORT as u32, &asked);
        assert_eq!(call, Some(Ok(portmap::Call::Getport { program, version, protocol })));
        let dump = known.iter().map(|mapping| pmap::mapping {
            prog: mapping.program,
            vers: mapping.version,
            prot: pmap::IPPROTO_TCP,
            port: mapping.address.port().into(),
        });
        let dump: pmap::pmaplist = nfs3_types::xdr_codec::List(dump.collect());
        let call = portmap::Call::decode(pmap::VERSION, pmap::PMAP_PROG::PMAPPROC_DUMP as u32, &[]);
        let call = call.expect("DUMP is answered").expect("it has no arguments");
        agree(&bytes(|out| call.answer(out, pmap::VERSION, &known, Ipv4Addr::LOCALHOST.into(), 0)), &dump);
        for mapping in &known {
            let call = portmap::Call::Getport {
                program: mapping.program,
                version: mapping.version,
                protocol: pmap::IPPROTO_TCP,
            };
            let first = known.iter().find(|of| (of.program, of.version) == (mapping.program, mapping.version));
            let port = first.map_or(0, |of| u32::from(of.address.port()));
            agree(&bytes(|out| call.answer(out, pmap::VERSION, &known, Ipv4Addr::LOCALHOST.into(), 0)), &port);
        }
    });
}

#[test]
fn programs_versions_and_limits_are_the_same() {
    use midas_nfs::nfs3::{FileHandle, access, fsinfo};

    let ours = [midas_nfs::nfs3::PROGRAM, mount::PROGRAM, portmap::PROGRAM, midas_nfs::nfs3::VERSION, mount::VERSION];
    assert_eq!(ours, [PROGRAM, mnt::PROGRAM, pmap::PROGRAM, VERSION, mnt::VERSION]);
    assert_eq!([FileHandle::LONGEST, mount::MNTPATHLEN], [NFS3_FHSIZE, mnt::MNTPATHLEN]);
    assert_eq!((mount::MNTNAMLEN, portmap::PORT), (mnt::MNTNAMLEN, pmap::PMAP_PORT));
    let bits = [access::READ, access::LOOKUP, access::MODIFY, access::EXTEND, access::DELETE, access::EXECUTE];
    let theirs = [ACCESS3_READ, ACCESS3_LOOKUP, ACCESS3_MODIFY, ACCESS3_EXTEND, ACCESS3_DELETE, ACCESS3_EXECUTE];
    assert_eq!(bits, theirs);
    assert_eq!(access::ALL, theirs.iter().sum::<u32>());
    let properties = [fsinfo::LINK, fsinfo::SYMLINK, fsinfo::HOMOGENEOUS, fsinfo::CANSETTIME];
    assert_eq!(properties, [FSF3_LINK, FSF3_SYMLINK, FSF3_HOMOGENEOUS, FSF3_CANSETTIME]);
}

/// Asserts that both codecs make the same of a value, and gives their bytes.
fn agree<T: Pack + Unpack + Debug>(ours: &[u8], theirs: &T) -> Vec<u8> {
    let packed = pack(theirs);
    assert_eq!(ours, packed, "{theirs:?}");
    assert_eq!(theirs.packed_size(), ours.len());
    let (read, length) = T::unpack(&mut &ours[..]).expect("they read what we write");
    assert_eq!(length, ours.len(), "they read all of it");
    assert_eq!(format!("{read:?}"), format!("{theirs:?}"), "they read what was written");
    assert_eq!(pack(&read), packed);
    packed
}

fn pack(theirs: &impl Pack) -> Vec<u8> {
    bytes(|out| {
        theirs.pack(out).expect("a vector takes everything");
    })
}

fn their_auth(auth: &OpaqueAuth<'static>) -> opaque_auth<'static> {
    let (flavor, _) = auth_flavor::unpack(&mut &auth.flavor.to_be_bytes()[..]).expect("they know it");
    opaque_auth { flavor, body: theirs::opaque(auth.body) }
}

fn accepted(xid: u32, reply_data: accept_stat_data) -> rpc_msg<'static, 'static> {
    let reply = accepted_reply { verf: opaque_auth::default(), reply_data };
    rpc_msg { xid, body: msg_body::REPLY(reply_body::MSG_ACCEPTED(reply)) }
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn their_args(ours: &[u8], call: &Call<'static>) -> Vec<u8> {
    match *call {
        Call::Null => agree(ours, &Void),
        Call::Getattr { object } => agree(ours, &GETATTR3args { object: fh(object) }),
        Call::Setattr { object, new_attributes, guard } => {
            let guard = maybe(guard, time);
            agree(ours, &SETATTR3args { object: fh(object), new_attributes: sattr(&new_attributes), guard })
        }
        Call::Lookup { what } => agree(ours, &LOOKUP3args { what: theirs::place(&what) }),
        Call::Access { object, access } => agree(ours, &ACCESS3args { object: fh(object), access }),
        Call::Readlink { symlink } => agree(ours, &READLINK3args { symlink: fh(symlink) }),
        Call::Read { file, offset, count } => agree(ours, &READ3args { file: fh(file), offset, count }),
        Call::Write { file, offset, count, stable: how, data } => {
            let (stable, data) = (stable(how), theirs::opaque(data));
            agree(ours, &WRITE3args { file: fh(file), offset, count, stable, data })
        }
        Call::Create { place, how } => {
            agree(ours, &CREATE3args { where_: theirs::place(&place), how: theirs::create_how(&how) })
        }
        Call::Mkdir { place, attributes } => {
            agree(ours, &MKDIR3args { where_: theirs::place(&place), attributes: sattr(&attributes) })
        }
        Call::Symlink { place, attributes, target } => {
            let symlink_data = nfspath3(theirs::opaque(target));
            let symlink = symlinkdata3 { symlink_attributes: sattr(&attributes), symlink_data };
            agree(ours, &SYMLINK3args { where_: theirs::place(&place), symlink })
        }
        Call::Mknod { place, what } => {
            agree(ours, &MKNOD3args { where_: theirs::place(&place), what: theirs::mknod_data(&what) })
        }
        Call::Remove { object } => agree(ours, &REMOVE3args { object: theirs::place(&object) }),
        Call::Rmdir { object } => agree(ours, &RMDIR3args { object: theirs::place(&object) }),
        Call::Rename { from, to } => agree(ours, &RENAME3args { from: theirs::place(&from), to: theirs::place(&to) }),
        Call::Link { file, link } => agree(ours, &LINK3args { file: fh(file), link: theirs::place(&link) }),
        Call::Readdir { dir, cookie, cookieverf, count } => {
            agree(ours, &READDIR3args { dir: fh(dir), cookie, cookieverf: cookieverf3(cookieverf), count })
        }
        Call::Readdirplus { dir, cookie, cookieverf, dircount, maxcount } => {
            let cookieverf = cookieverf3(cookieverf);
            agree(ours, &READDIRPLUS3args { dir: fh(dir), cookie, cookieverf, dircount, maxcount })
        }
        Call::Fsstat { fsroot } => agree(ours, &FSSTAT3args { fsroot: fh(fsroot) }),
        Call::Fsinfo { fsroot } => agree(ours, &FSINFO3args { fsroot: fh(fsroot) }),
        Call::Pathconf { object } => agree(ours, &PATHCONF3args { object: fh(object) }),
        Call::Commit { file, offset, count } => agree(ours, &COMMIT3args { file: fh(file), offset, count }),
    }
}

/// A procedure's results, where a failure tells the attributes of one object, and where it tells wcc_data.
type PostOp<T> = Result<T, Failed<PostOpAttr>>;
type Wcc<T> = Result<T, Failed<WccData>>;

fn their_results(ours: &[u8], reply: &Reply<'static>) -> Vec<u8> {
    macro_rules! change {
        ($result:expr, $ok:ident, $failed:ident, $wcc:ident) => {
            agree(ours, &result($result, |ok| $ok { $wcc: wcc(ok) }, |told| $failed { $wcc: wcc(told) }))
        };
    }
    macro_rules! creation {
        ($result:expr, $ok:ident, $failed:ident) => {{
            let ok = |ok: &_| {
                let (obj, obj_attributes, dir_wcc) = created(ok);
                $ok { obj, obj_attributes, dir_wcc }
            };
            agree(ours, &result($result, ok, |told| $failed { dir_wcc: wcc(told) }))
        }};
    }
    match reply {
        Reply::Null => agree(ours, &Void),
        Reply::Getattr(r) => {
            agree(ours, &result(r, |ok| GETATTR3resok { obj_attributes: theirs::fattr(*ok) }, |()| Void))
        }
        Reply::Setattr(r) => change!(r, SETATTR3resok, SETATTR3resfail, obj_wcc),
        Reply::Remove(r) => change!(r, REMOVE3resok, REMOVE3resfail, dir_wcc),
        Reply::Rmdir(r) => change!(r, RMDIR3resok, RMDIR3resfail, dir_wcc),
        Reply::Create(r) => creation!(r, CREATE3resok, CREATE3resfail),
        Reply::Mkdir(r) => creation!(r, MKDIR3resok, MKDIR3resfail),
        Reply::Symlink(r) => creation!(r, SYMLINK3resok, SYMLINK3resfail),
        Reply::Mknod(r) => creation!(r, MKNOD3resok, MKNOD3resfail),
        Reply::Lookup(r) => lookup(ours, r),
        Reply::Access(r) => access(ours, r),
        Reply::Readlink(r) => readlink(ours, r),
        Reply::Read(r) => read(ours, r),
        Reply::Write(r) => write(ours, r),
        Reply::Rename(r) => rename(ours, r),
        Reply::Link(r) => link(ours, r),
        Reply::Readdir(r) => readdir(ours, r),
        Reply::Readdirplus(r) => readdirplus(ours, r),
        Reply::Fsstat(r) => fsstat(ours, r),
        Reply::Fsinfo(r) => fsinfo(ours, r),
        Reply::Pathconf(r) => pathconf(ours, r),
        Reply::Commit(r) => commit(ours, r),
    }
}

fn lookup(ours: &[u8], r: &PostOp<LookupOk<'static>>) -> Vec<u8> {
    let ok = |ok: &LookupOk<'static>| LOOKUP3resok {
        object: fh(ok.object),
        obj_attributes: post_op(ok.attributes),
        dir_attributes: post_op(ok.dir_attributes),
    };
    agree(ours, &result(r, ok, |told| LOOKUP3resfail { dir_attributes: post_op(*told) }))
}

fn access(ours: &[u8], r: &PostOp<AccessOk>) -> Vec<u8> {
    let ok = |ok: &AccessOk| ACCESS3resok { obj_attributes: post_op(ok.attributes), access: ok.access };
    agree(ours, &result(r, ok, |told| ACCESS3resfail { obj_attributes: post_op(*told) }))
}

fn readlink(ours: &[u8], r: &PostOp<ReadlinkOk<'static>>) -> Vec<u8> {
    let ok = |ok: &ReadlinkOk<'static>| READLINK3resok {
        symlink_attributes: post_op(ok.attributes),
        data: nfspath3(theirs::opaque(ok.data)),
    };
    agree(ours, &result(r, ok, |told| READLINK3resfail { symlink_attributes: post_op(*told) }))
}

fn rename(ours: &[u8], r: &Result<RenameDone, Failed<RenameDone>>) -> Vec<u8> {
    let ok = |ok: &RenameDone| RENAME3resok { fromdir_wcc: wcc(&ok.from), todir_wcc: wcc(&ok.to) };
    let failed = |told: &RenameDone| RENAME3resfail { fromdir_wcc: wcc(&told.from), todir_wcc: wcc(&told.to) };
    agree(ours, &result(r, ok, failed))
}

fn link(ours: &[u8], r: &Result<LinkDone, Failed<LinkDone>>) -> Vec<u8> {
    let ok = |ok: &_| {
        let (file_attributes, linkdir_wcc) = linked(ok);
        LINK3resok { file_attributes, linkdir_wcc }
    };
    let failed = |told: &_| {
        let (file_attributes, linkdir_wcc) = linked(told);
        LINK3resfail { file_attributes, linkdir_wcc }
    };
    agree(ours, &result(r, ok, failed))
}

fn read(ours: &[u8], r: &PostOp<ReadOk<'static>>) -> Vec<u8> {
    let ok = |ok: &ReadOk<'static>| READ3resok {
        file_attributes: post_op(ok.attributes),
        count: ok.count,
        eof: ok.eof,
        data: theirs::opaque(ok.data),
    };
    agree(ours, &result(r, ok, |told| READ3resfail { file_attributes: post_op(*told) }))
}

fn write(ours: &[u8], r: &Wcc<WriteOk>) -> Vec<u8> {
    let ok = |ok: &WriteOk| WRITE3resok {
        file_wcc: wcc(&ok.file),
        count: ok.count,
        committed: stable(ok.committed),
        verf: writeverf3(ok.verf),
    };
    agree(ours, &result(r, ok, |told| WRITE3resfail { file_wcc: wcc(told) }))
}

fn commit(ours: &[u8], r: &Wcc<CommitOk>) -> Vec<u8> {
    let ok = |ok: &CommitOk| COMMIT3resok { file_wcc: wcc(&ok.file), verf: writeverf3(ok.verf) };
    agree(ours, &result(r, ok, |told| COMMIT3resfail { file_wcc: wcc(told) }))
}

fn readdir(ours: &[u8], r: &PostOp<ReaddirOk<'static>>) -> Vec<u8> {
    let ok = |ok: &ReaddirOk<'static>| {
        let mut walk = ok.entries();
        let entries = names(walk.by_ref().map(|entry| entry.expect("our own list")));
        READDIR3resok {
            dir_attributes: post_op(ok.dir_attributes),
            cookieverf: cookieverf3(ok.cookieverf),
            reply: dirlist3 { entries, eof: walk.eof().expect("the walk is over") },
        }
    };
    agree(ours, &result(r, ok, |told| READDIR3resfail { dir_attributes: post_op(*told) }))
}

fn readdirplus(ours: &[u8], r: &PostOp<ReaddirplusOk<'static>>) -> Vec<u8> {
    let ok = |ok: &ReaddirplusOk<'static>| {
        let mut walk = ok.entries();
        let entries = names_plus(walk.by_ref().map(|entry| entry.expect("our own list")));
        READDIRPLUS3resok {
            dir_attributes: post_op(ok.dir_attributes),
            cookieverf: cookieverf3(ok.cookieverf),
            reply: dirlistplus3 { entries, eof: walk.eof().expect("the walk is over") },
        }
    };
    agree(ours, &result(r, ok, |told| READDIRPLUS3resfail { dir_attributes: post_op(*told) }))
}

fn fsstat(ours: &[u8], r: &PostOp<FsstatOk>) -> Vec<u8> {
    let ok = |ok: &FsstatOk| FSSTAT3resok {
        obj_attributes: post_op(ok.attributes),
        tbytes: ok.tbytes,
        fbytes: ok.fbytes,
        abytes: ok.abytes,
        tfiles: ok.tfiles,
        ffiles: ok.ffiles,
        afiles: ok.afiles,
        invarsec: ok.invarsec,
    };
    agree(ours, &result(r, ok, |told| FSSTAT3resfail { obj_attributes: post_op(*told) }))
}

fn fsinfo(ours: &[u8], r: &PostOp<FsinfoOk>) -> Vec<u8> {
    let ok = |ok: &FsinfoOk| FSINFO3resok {
        obj_attributes: post_op(ok.attributes),
        rtmax: ok.rtmax,
        rtpref: ok.rtpref,
        rtmult: ok.rtmult,
        wtmax: ok.wtmax,
        wtpref: ok.wtpref,
        wtmult: ok.wtmult,
        dtpref: ok.dtpref,
        maxfilesize: ok.maxfilesize,
        time_delta: time(ok.time_delta),
        properties: ok.properties,
    };
    agree(ours, &result(r, ok, |told| FSINFO3resfail { obj_attributes: post_op(*told) }))
}

fn pathconf(ours: &[u8], r: &PostOp<PathconfOk>) -> Vec<u8> {
    let ok = |ok: &PathconfOk| PATHCONF3resok {
        obj_attributes: post_op(ok.attributes),
        linkmax: ok.linkmax,
        name_max: ok.name_max,
        no_trunc: ok.no_trunc,
        chown_restricted: ok.chown_restricted,
        case_insensitive: ok.case_insensitive,
        case_preserving: ok.case_preserving,
    };
    agree(ours, &result(r, ok, |told| PATHCONF3resfail { obj_attributes: post_op(*told) }))
}
