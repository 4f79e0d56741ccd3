//! What must hold for any bytes that reach `midas-nfs`: each module's `check` takes one input and panics where it does not.
//!
//! Plain functions, so that the stable toolchain replays the corpus (`crates/nfs/tests/replay.rs` includes this file) and
//! libFuzzer (`fuzz_targets/`) finds new inputs for the same code.

pub mod nfs3;
pub mod record;
pub mod rpc;
pub mod seeds;

/// Takes one input.
pub type Check = fn(&[u8]);

/// The checks, by the names of their targets and corpora.
pub const TARGETS: [(&str, Check); 3] = [("record", record::check), ("rpc", rpc::check), ("nfs3", nfs3::check)];

/// Asserts that `made` is the front of what `came`, but for the padding of opaques: it is zero when made, may be anything
/// when it came, and is never a word's first byte.
fn assert_same_but_padding(came: &[u8], made: &[u8]) {
    assert!(made.len() <= came.len(), "{} bytes were read, {} are written", came.len(), made.len());
    for (at, (came, made)) in came.iter().zip(made).enumerate() {
        assert!(came == made || *made == 0 && at % 4 != 0, "byte {at} came as {came} and is written as {made}");
    }
}

/// What an encoder appends.
fn bytes(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}
