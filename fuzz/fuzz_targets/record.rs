//! libFuzzer's way into `midas_fuzz::record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| midas_fuzz::record::check(data));
