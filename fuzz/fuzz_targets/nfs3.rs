//! libFuzzer's way into `midas_fuzz::nfs3`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| midas_fuzz::nfs3::check(data));
