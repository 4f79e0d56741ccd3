//! Calls and replies of every procedure.

use super::*;
use midas_nfs::nfs3::{
    AccessOk, Call, CommitOk, CreateHow, CreateOk, Failed, FsinfoOk, FsstatOk, LinkDone, LookupOk, MknodData, Page,
    PathconfOk, Procedure, ReadOk, ReaddirOk, ReaddirplusOk, ReadlinkOk, RenameDone, Reply, WriteOk,
};

/// Calls of one procedure.
pub(crate) fn call(procedure: Procedure) -> BoxedStrategy<Call<'static>> {
    let range = || (handle(), any::<u64>(), any::<u32>());
    let listing = || (handle(), any::<u64>(), verifier(), any::<u32>());
    match procedure {
        Procedure::Null => Just(Call::Null).boxed(),
        Procedure::Getattr => handle().prop_map(|object| Call::Getattr { object }).boxed(),
        Procedure::Setattr => (handle(), sattr(), option::of(time()))
            .prop_map(|(object, new_attributes, guard)| Call::Setattr { object, new_attributes, guard })
            .boxed(),
        Procedure::Lookup => place().prop_map(|what| Call::Lookup { what }).boxed(),
        Procedure::Access => {
            (handle(), any::<u32>()).prop_map(|(object, access)| Call::Access { object, access }).boxed()
        }
        Procedure::Readlink => handle().prop_map(|symlink| Call::Readlink { symlink }).boxed(),
        Procedure::Read => range().prop_map(|(file, offset, count)| Call::Read { file, offset, count }).boxed(),
        Procedure::Write => (range(), stable(), opaque(100))
            .prop_map(|((file, offset, count), stable, data)| Call::Write { file, offset, count, stable, data })
            .boxed(),
        Procedure::Create => (place(), create_how()).prop_map(|(place, how)| Call::Create { place, how }).boxed(),
        Procedure::Mkdir => {
            (place(), sattr()).prop_map(|(place, attributes)| Call::Mkdir { place, attributes }).boxed()
        }
        Procedure::Symlink => (place(), sattr(), opaque(60))
            .prop_map(|(place, attributes, target)| Call::Symlink { place, attributes, target })
            .boxed(),
        Procedure::Mknod => (place(), mknod_data()).prop_map(|(place, what)| Call::Mknod { place, what }).boxed(),
        Procedure::Remove => place().prop_map(|object| Call::Remove { object }).boxed(),
        Procedure::Rmdir => place().prop_map(|object| Call::Rmdir { object }).boxed(),
        Procedure::Rename => (place(), place()).prop_map(|(from, to)| Call::Rename { from, to }).boxed(),
        Procedure::Link => (handle(), place()).prop_map(|(file, link)| Call::Link { file, link }).boxed(),
        Procedure::Readdir => listing()
            .prop_map(|(dir, cookie, cookieverf, count)| Call::Readdir { dir, cookie, cookieverf, count })
            .boxed(),
        Procedure::Readdirplus => (listing(), any::<u32>())
            .prop_map(|((dir, cookie, cookieverf, dircount), maxcount)| Call::Readdirplus {
                dir,
                cookie,
                cookieverf,
                dircount,
                maxcount,
            })
            .boxed(),
        Procedure::Fsstat => handle().prop_map(|fsroot| Call::Fsstat { fsroot }).boxed(),
        Procedure::Fsinfo => handle().prop_map(|fsroot| Call::Fsinfo { fsroot }).boxed(),
        Procedure::Pathconf => handle().prop_map(|object| Call::Pathconf { object }).boxed(),
        Procedure::Commit => range().prop_map(|(file, offset, count)| Call::Commit { file, offset, count }).boxed(),
    }
}

fn create_how() -> impl Strategy<Value = CreateHow> {
    prop_oneof![
        sattr().prop_map(CreateHow::Unchecked),
        sattr().prop_map(CreateHow::Guarded),
        verifier().prop_map(CreateHow::Exclusive),
    ]
}

fn mknod_data() -> impl Strategy<Value = MknodData> {
    prop_oneof![
        (sattr(), spec()).prop_map(|(attributes, spec)| MknodData::Blk(attributes, spec)),
        (sattr(), spec()).prop_map(|(attributes, spec)| MknodData::Chr(attributes, spec)),
        sattr().prop_map(MknodData::Sock),
        sattr().prop_map(MknodData::Fifo),
    ]
}

/// Good results of one procedure.
pub(crate) fn success(procedure: Procedure) -> BoxedStrategy<Reply<'static>> {
    match procedure {
        Procedure::Null => Just(Reply::Null).boxed(),
        Procedure::Getattr => fattr().prop_map(|ok| Reply::Getattr(Ok(ok))).boxed(),
        Procedure::Setattr => wcc().prop_map(|ok| Reply::Setattr(Ok(ok))).boxed(),
        Procedure::Lookup => (handle(), post_op(), post_op())
            .prop_map(|(object, attributes, dir_attributes)| LookupOk { object, attributes, dir_attributes })
            .prop_map(|ok| Reply::Lookup(Ok(ok)))
            .boxed(),
        Procedure::Access => (post_op(), any::<u32>())
            .prop_map(|(attributes, access)| Reply::Access(Ok(AccessOk { attributes, access })))
            .boxed(),
        Procedure::Readlink => (post_op(), opaque(60))
            .prop_map(|(attributes, data)| Reply::Readlink(Ok(ReadlinkOk { attributes, data })))
            .boxed(),
        Procedure::Read => (post_op(), any::<u32>(), any::<bool>(), opaque(100))
            .prop_map(|(attributes, count, eof, data)| Reply::Read(Ok(ReadOk { attributes, count, eof, data })))
            .boxed(),
        Procedure::Write => (wcc(), any::<u32>(), stable(), verifier())
            .prop_map(|(file, count, committed, verf)| Reply::Write(Ok(WriteOk { file, count, committed, verf })))
            .boxed(),
        Procedure::Create => created().prop_map(|ok| Reply::Create(Ok(ok))).boxed(),
        Procedure::Mkdir => created().prop_map(|ok| Reply::Mkdir(Ok(ok))).boxed(),
        Procedure::Symlink => created().prop_map(|ok| Reply::Symlink(Ok(ok))).boxed(),
        Procedure::Mknod => created().prop_map(|ok| Reply::Mknod(Ok(ok))).boxed(),
        Procedure::Remove => wcc().prop_map(|ok| Reply::Remove(Ok(ok))).boxed(),
        Procedure::Rmdir => wcc().prop_map(|ok| Reply::Rmdir(Ok(ok))).boxed(),
        Procedure::Rename => renamed().prop_map(|ok| Reply::Rename(Ok(ok))).boxed(),
        Procedure::Link => linked().prop_map(|ok| Reply::Link(Ok(ok))).boxed(),
        Procedure::Readdir => (post_op(), verifier(), names())
            .prop_map(|(dir_attributes, cookieverf, list)| ReaddirOk { dir_attributes, cookieverf, list })
            .prop_map(|ok| Reply::Readdir(Ok(ok)))
            .boxed(),
        Procedure::Readdirplus => (post_op(), verifier(), names_plus())
            .prop_map(|(dir_attributes, cookieverf, list)| ReaddirplusOk { dir_attributes, cookieverf, list })
            .prop_map(|ok| Reply::Readdirplus(Ok(ok)))
            .boxed(),
        Procedure::Fsstat => fsstat().prop_map(|ok| Reply::Fsstat(Ok(ok))).boxed(),
        Procedure::Fsinfo => fsinfo().prop_map(|ok| Reply::Fsinfo(Ok(ok))).boxed(),
        Procedure::Pathconf => pathconf().prop_map(|ok| Reply::Pathconf(Ok(ok))).boxed(),
        Procedure::Commit => {
            (wcc(), verifier()).prop_map(|(file, verf)| Reply::Commit(Ok(CommitOk { file, verf }))).boxed()
        }
    }
}

/// Failures of one procedure; NULL has none.
pub(crate) fn failure(
    procedure: Procedure,
    status: impl Strategy<Value = Nfsstat3> + 'static,
) -> BoxedStrategy<Reply<'static>> {
    let told = (status, post_op(), wcc(), wcc());
    told.prop_map(move |(status, post_op, wcc, to)| {
        let bare = Err(Failed { status, attributes: () });
        let (with_post_op, with_wcc) = (Failed { status, attributes: post_op }, Failed { status, attributes: wcc });
        match procedure {
            Procedure::Null => Reply::Null,
            Procedure::Getattr => Reply::Getattr(bare),
            Procedure::Setattr => Reply::Setattr(Err(with_wcc)),
            Procedure::Lookup => Reply::Lookup(Err(with_post_op)),
            Procedure::Access => Reply::Access(Err(with_post_op)),
            Procedure::Readlink => Reply::Readlink(Err(with_post_op)),
            Procedure::Read => Reply::Read(Err(with_post_op)),
            Procedure::Write => Reply::Write(Err(with_wcc)),
            Procedure::Create => Reply::Create(Err(with_wcc)),
            Procedure::Mkdir => Reply::Mkdir(Err(with_wcc)),
            Procedure::Symlink => Reply::Symlink(Err(with_wcc)),
            Procedure::Mknod => Reply::Mknod(Err(with_wcc)),
            Procedure::Remove => Reply::Remove(Err(with_wcc)),
            Procedure::Rmdir => Reply::Rmdir(Err(with_wcc)),
            Procedure::Rename => Reply::Rename(Err(Failed { status, attributes: RenameDone { from: wcc, to } })),
            Procedure::Link => {
                Reply::Link(Err(Failed { status, attributes: LinkDone { attributes: post_op, dir: wcc } }))
            }
            Procedure::Readdir => Reply::Readdir(Err(with_post_op)),
            Procedure::Readdirplus => Reply::Readdirplus(Err(with_post_op)),
            Procedure::Fsstat => Reply::Fsstat(Err(with_post_op)),
            Procedure::Fsinfo => Reply::Fsinfo(Err(with_post_op)),
            Procedure::Pathconf => Reply::Pathconf(Err(with_post_op)),
            Procedure::Commit => Reply::Commit(Err(with_wcc)),
        }
    })
    .boxed()
}

fn created() -> impl Strategy<Value = CreateOk<'static>> {
    (option::of(handle()), post_op(), wcc()).prop_map(|(object, attributes, dir)| CreateOk { object, attributes, dir })
}

fn renamed() -> impl Strategy<Value = RenameDone> {
    (wcc(), wcc()).prop_map(|(from, to)| RenameDone { from, to })
}

fn linked() -> impl Strategy<Value = LinkDone> {
    (post_op(), wcc()).prop_map(|(attributes, dir)| LinkDone { attributes, dir })
}

fn names() -> impl Strategy<Value = &'static [u8]> {
    (vec(entry(), 0..6), any::<bool>()).prop_map(|(entries, eof)| {
        let mut page = Page::readdir(u32::MAX, &None);
        assert!(entries.iter().all(|entry| page.push(entry)), "a page of 4 GB has room");
        leak(page.finish(eof))
    })
}

fn names_plus() -> impl Strategy<Value = &'static [u8]> {
    (vec(entry_plus(), 0..6), any::<bool>()).prop_map(|(entries, eof)| {
        let mut page = Page::readdirplus(u32::MAX, u32::MAX, &None);
        assert!(entries.iter().all(|entry| page.push_plus(entry)), "a page of 4 GB has room");
        leak(page.finish(eof))
    })
}

fn fsstat() -> impl Strategy<Value = FsstatOk> {
    (post_op(), any::<[u64; 6]>(), any::<u32>()).prop_map(
        |(attributes, [tbytes, fbytes, abytes, tfiles, ffiles, afiles], invarsec)| FsstatOk {
            attributes,
            tbytes,
            fbytes,
            abytes,
            tfiles,
            ffiles,
            afiles,
            invarsec,
        },
    )
}

fn fsinfo() -> impl Strategy<Value = FsinfoOk> {
    (post_op(), any::<[u32; 8]>(), any::<u64>(), time()).prop_map(
        |(attributes, [rtmax, rtpref, rtmult, wtmax, wtpref, wtmult, dtpref, properties], maxfilesize, time_delta)| {
            FsinfoOk {
                attributes,
                rtmax,
                rtpref,
                rtmult,
                wtmax,
                wtpref,
                wtmult,
                dtpref,
                maxfilesize,
                time_delta,
                properties,
            }
        },
    )
}

fn pathconf() -> impl Strategy<Value = PathconfOk> {
    (post_op(), any::<[u32; 2]>(), any::<[bool; 4]>()).prop_map(
        |(attributes, [linkmax, name_max], [no_trunc, chown_restricted, case_insensitive, case_preserving])| {
            PathconfOk { attributes, linkmax, name_max, no_trunc, chown_restricted, case_insensitive, case_preserving }
        },
    )
}
