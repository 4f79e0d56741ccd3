//! Values of every message, for the tests that hold for all of them.
//!
//! Messages borrow their bytes, and a strategy must own what it makes: the bytes are leaked, a few hundred for each case of a
//! process that ends soon. One seed is one run; `PROPTEST_RNG_SEED` and `PROPTEST_CASES` choose others.
#![allow(dead_code, reason = "each test takes what it needs")]

pub(crate) mod messages;

use midas_nfs::nfs3::{
    DirOp, Entry, EntryPlus, Fattr3, FileHandle, Ftype3, Nfsstat3, Nfstime3, PostOpAttr, Sattr3, SetTime, Specdata3,
    StableHow, Verifier, WccAttr, WccData,
};
use midas_nfs::rpc::{AuthSys, OpaqueAuth};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};
use std::env;
use std::fmt::Debug;

/// Tries `test` on many values; what fails is shrunk and shown.
pub(crate) fn check<S: Strategy>(strategy: S, test: impl Fn(S::Value))
where
    S::Value: Debug,
{
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    if matches!(config.rng_seed, RngSeed::Random) {
        config.rng_seed = RngSeed::Fixed(SEED);
    }
    let result = TestRunner::new(config).run(&strategy, |value| {
        test(value);
        Ok(())
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, value)) => panic!("{reason}\nfor {value:#?}"),
        Err(TestError::Abort(reason)) => panic!("no values: {reason}"),
    }
}

/// What an encoder appends.
pub(crate) fn bytes(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

pub(crate) fn opaque(longest: usize) -> impl Strategy<Value = &'static [u8]> + Clone {
    vec(any::<u8>(), 0..=longest).prop_map(leak)
}

/// A name as a file system takes it: any byte but NUL and the slash.
pub(crate) fn name() -> impl Strategy<Value = &'static [u8]> + Clone {
    let byte = any::<u8>().prop_filter("no name has it", |byte| ![0, b'/'].contains(byte));
    vec(byte, 1..40).prop_map(leak)
}

pub(crate) fn handle() -> impl Strategy<Value = FileHandle<'static>> + Clone {
    opaque(FileHandle::LONGEST).prop_map(|bytes| FileHandle::new(bytes).expect("not over the longest"))
}

pub(crate) fn place() -> impl Strategy<Value = DirOp<'static>> + Clone {
    (handle(), name()).prop_map(|(dir, name)| DirOp { dir, name })
}

pub(crate) fn verifier() -> impl Strategy<Value = Verifier> + Clone {
    any::<Verifier>()
}

pub(crate) fn time() -> impl Strategy<Value = Nfstime3> + Clone {
    any::<(u32, u32)>().prop_map(|(seconds, nseconds)| Nfstime3 { seconds, nseconds })
}

pub(crate) fn spec() -> impl Strategy<Value = Specdata3> + Clone {
    any::<(u32, u32)>().prop_map(|(specdata1, specdata2)| Specdata3 { specdata1, specdata2 })
}

pub(crate) fn stable() -> impl Strategy<Value = StableHow> + Clone {
    prop_oneof![Just(StableHow::Unstable), Just(StableHow::DataSync), Just(StableHow::FileSync)]
}

pub(crate) fn fattr() -> impl Strategy<Value = Fattr3> + Clone {
    let ftype = proptest::sample::select(&FTYPES[..]);
    (ftype, any::<[u32; 4]>(), any::<[u64; 4]>(), spec(), [time(), time(), time()]).prop_map(
        |(ftype, [mode, nlink, uid, gid], [size, used, fsid, fileid], rdev, [atime, mtime, ctime])| Fattr3 {
            ftype,
            mode,
            nlink,
            uid,
            gid,
            size,
            used,
            rdev,
            fsid,
            fileid,
            atime,
            mtime,
            ctime,
        },
    )
}

pub(crate) fn post_op() -> impl Strategy<Value = PostOpAttr> + Clone {
    option::of(fattr())
}

pub(crate) fn wcc() -> impl Strategy<Value = WccData> + Clone {
    let before = (any::<u64>(), time(), time()).prop_map(|(size, mtime, ctime)| WccAttr { size, mtime, ctime });
    (option::of(before), post_op()).prop_map(|(before, after)| WccData { before, after })
}

pub(crate) fn sattr() -> impl Strategy<Value = Sattr3> + Clone {
    let set_time = prop_oneof![Just(SetTime::Keep), Just(SetTime::Server), time().prop_map(SetTime::Client)];
    let word = || option::of(any::<u32>());
    (word(), word(), word(), option::of(any::<u64>()), set_time.clone(), set_time)
        .prop_map(|(mode, uid, gid, size, atime, mtime)| Sattr3 { mode, uid, gid, size, atime, mtime })
}

/// A status of the RFC that is not OK.
pub(crate) fn failure_status() -> impl Strategy<Value = Nfsstat3> + Clone {
    proptest::sample::select(&Nfsstat3::ALL[1..])
}

pub(crate) fn entry() -> impl Strategy<Value = Entry<'static>> + Clone {
    (any::<u64>(), name(), any::<u64>()).prop_map(|(fileid, name, cookie)| Entry { fileid, name, cookie })
}

pub(crate) fn entry_plus() -> impl Strategy<Value = EntryPlus<'static>> + Clone {
    (entry(), post_op(), option::of(handle())).prop_map(|(entry, attributes, handle)| EntryPlus {
        entry,
        attributes,
        handle,
    })
}

pub(crate) fn auth_sys() -> impl Strategy<Value = AuthSys<'static>> + Clone {
    (any::<[u32; 3]>(), opaque(AuthSys::NAME), vec(any::<u32>(), 0..=AuthSys::GIDS)).prop_map(
        |([stamp, uid, gid], name, gids)| {
            AuthSys::new(stamp, name, uid, gid, &gids).expect("neither is over its longest")
        },
    )
}

/// Any credential with one of these flavors.
pub(crate) fn opaque_auth(flavors: &'static [u32]) -> impl Strategy<Value = OpaqueAuth<'static>> + Clone {
    (proptest::sample::select(flavors), opaque(OpaqueAuth::LONGEST))
        .prop_map(|(flavor, body)| OpaqueAuth { flavor, body })
}

pub(crate) fn leak(bytes: Vec<u8>) -> &'static [u8] {
    bytes.leak()
}

/// Values a test and procedure: the whole file takes some seconds.
const CASES: u32 = 1024;
const SEED: u64 = 1813;
pub(crate) const FTYPES: [Ftype3; 7] =
    [Ftype3::Reg, Ftype3::Dir, Ftype3::Blk, Ftype3::Chr, Ftype3::Lnk, Ftype3::Sock, Ftype3::Fifo];
