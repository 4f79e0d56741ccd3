//! A daemon's own clocks, which a test moves: `lab/clock.c`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use midas_lab::{PATIENCE, Scratch, bounded, succeeded};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) struct Clocks {
    moved: File,
    scratch: Scratch,
}

impl Clocks {
    /// Clocks that are right until they are moved.
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        let moved = File::create(scratch.path().join("moved")).unwrap();
        moved.write_all_at(&[0; 16], 0).unwrap();
        let clocks = Self { moved, scratch };
        let source = super::root().join("lab/clock.c");
        let compiled =
            bounded("gcc", PATIENCE).args(["-shared", "-fPIC", "-O2", "-o"]).arg(clocks.library()).arg(source).output();
        succeeded(&compiled.unwrap());
        clocks
    }

    /// What a daemon with these clocks has in its environment.
    pub(crate) fn env(&self) -> Vec<(&'static str, String)> {
        let moved = self.scratch.path().join("moved").display().to_string();
        vec![("LD_PRELOAD", self.library().display().to_string()), ("MIDAS_LAB_CLOCK", moved)]
    }

    /// The time of day is wrong by so many seconds.
    pub(crate) fn wrong_by(&self, seconds: i64) {
        self.moved.write_all_at(&(seconds * 1_000_000_000).to_ne_bytes(), 0).unwrap();
    }

    /// No clock has counted this time.
    pub(crate) fn stood_still(&self, time: Duration) {
        let by = -i64::try_from(time.as_nanos()).unwrap();
        self.moved.write_all_at(&[by.to_ne_bytes(), by.to_ne_bytes()].concat(), 0).unwrap();
    }

    fn library(&self) -> PathBuf {
        self.scratch.path().join("clock.so")
    }
}
