//! libFuzzer's way into `midas_fuzz::rpc`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| midas_fuzz::rpc::check(data));
