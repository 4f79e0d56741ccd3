//! What outlives the daemon: the targets that each export's warm-up found, so that `paper` need not warm up again.
//!
//! Versioned JSON, replaced as a whole. It is worth a warm-up and no more: what cannot be read is said and ignored, what cannot be
//! written is said once, and nothing ends for it.

use crate::log;
use midas_cluster::replace;
use midas_core::control::warmup::Targets;
use midas_core::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The file, and what it should hold.
pub(crate) struct State {
    /// None: nothing outlives this proxy.
    file: Option<PathBuf>,
    exports: BTreeMap<String, Kept>,
    changed: bool,
    /// Whether it was said that the file cannot be written.
    said: bool,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    /// By the path that clients mount.
    exports: BTreeMap<String, Kept>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Kept {
    imbalance: f64,
    latency_p99_ns: u64,
    rtt_ns: u64,
}

impl State {
    /// What the file holds; nothing, if there is none or it is of no use.
    pub(crate) fn load(file: &Path) -> Self {
        let exports = match fs::read(file) {
            Ok(bytes) => parse(&bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error.to_string()),
        };
        let exports = exports.unwrap_or_else(|why| {
            log::warn("state ignored", &[("file", &file.display()), ("why", &why)]);
            BTreeMap::new()
        });
        Self { file: Some(file.to_owned()), exports, changed: false, said: false }
    }

    /// For a proxy that reads and leaves nothing.
    pub(crate) fn nowhere() -> Self {
        Self { file: None, exports: BTreeMap::new(), changed: false, said: false }
    }

    /// The file beside it that the table of objects is kept in.
    pub(crate) fn objects(&self) -> Option<PathBuf> {
        self.file.as_ref().map(|file| file.with_extension("objects"))
    }

    /// Whether anything outlives this proxy.
    pub(crate) const fn lasts(&self) -> bool {
        self.file.is_some()
    }

    /// The targets of an export.
    pub(crate) fn targets(&self, export: &str) -> Option<Targets> {
        let Kept { imbalance, latency_p99_ns, rtt_ns } = *self.exports.get(export)?;
        let (latency_p99, rtt) = (Span::from_nanos(latency_p99_ns), Span::from_nanos(rtt_ns));
        log::info(
            "targets from before",
            &[("export", &export), ("imbalance", &imbalance), ("p99_ms", &latency_p99.as_millis_f64())],
        );
        Some(Targets { imbalance, latency_p99, rtt })
    }

    /// An export has these targets now.
    pub(crate) fn keep(&mut self, export: &str, targets: &Targets) {
        let kept = Kept {
            imbalance: targets.imbalance,
            latency_p99_ns: targets.latency_p99.as_nanos(),
            rtt_ns: targets.rtt.as_nanos(),
        };
        if self.exports.get(export) != Some(&kept) && self.exports.len() < EXPORTS_MAX {
            self.exports.insert(export.to_owned(), kept);
            self.changed = true;
        }
    }

    /// Writes what has changed. What cannot be written is lost until the next change.
    pub(crate) fn save_changed(&mut self) {
        let Some(file) = self.file.as_ref().filter(|_| self.changed) else { return };
        self.changed = false;
        let document = Document { version: VERSION, exports: self.exports.clone() };
        let bytes = serde_json::to_vec_pretty(&document).map_err(io::Error::from);
        match bytes.and_then(|bytes| replace(file, &bytes)) {
            Ok(()) => log::debug("state kept", &[("file", &file.display())]),
            Err(error) if !self.said => {
                self.said = true;
                log::warn("state cannot be kept", &[("file", &file.display()), ("why", &error)]);
            }
            Err(_) => {}
        }
    }
}

/// The targets in a document of a version that we know.
fn parse(bytes: &[u8]) -> Result<BTreeMap<String, Kept>, String> {
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if value["version"] != VERSION {
        return Err(format!("its version is {}, not {VERSION}", value["version"]));
    }
    let Document { exports, .. } = serde_json::from_value(value).map_err(|error| error.to_string())?;
    let sound = |kept: &Kept| kept.imbalance.is_finite() && kept.imbalance >= 0.0 && kept.latency_p99_ns > 0;
    match exports.iter().find(|(_, kept)| !sound(kept)) {
        Some((export, kept)) => Err(format!("no targets can be {kept:?} ({export})")),
        None => Ok(exports),
    }
}

const VERSION: u32 = 1;
/// Exports that no configuration names any more are kept too: it may name them again.
const EXPORTS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const TARGETS: Targets = Targets { imbalance: 0.2, latency_p99: Span::from_millis(5), rtt: Span::from_millis(1) };

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let directory = std::env::temp_dir().join(format!("midas-state-{name}-{}", std::process::id()));
            fs::create_dir_all(&directory).unwrap();
            Self(directory)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _left = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn targets_outlive_the_daemon() {
        let place = Place::new("kept");
        let file = place.0.join("state.json");
        let mut state = State::load(&file);
        assert_eq!(state.targets("/scratch"), None);
        state.keep("/scratch", &TARGETS);
        state.save_changed();
        assert_eq!(State::load(&file).targets("/scratch"), Some(TARGETS));
        assert_eq!(fs::read_dir(&place.0).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_file_that_is_of_no_use_is_ignored() {
        let place = Place::new("ignored");
        let file = place.0.join("state.json");
        let good = "{\"version\":1,\"exports\":{\"/a\":{\"imbalance\":0.2,\"latency_p99_ns\":5,\"rtt_ns\":1}}}";
        let cases = [
            (good.to_owned(), true),
            (good.replace("\"version\":1", "\"version\":2"), false),
            (good.replace("0.2", "-1"), false),
            (good.replace("\"latency_p99_ns\":5", "\"latency_p99_ns\":0"), false),
            (good[..20].to_owned(), false),
            (String::new(), false),
            ("[]".to_owned(), false),
        ];
        for (text, useful) in cases {
            fs::write(&file, &text).unwrap();
            assert_eq!(State::load(&file).targets("/a").is_some(), useful, "{text}");
        }
    }

    #[test]
    fn a_place_that_cannot_be_written_is_no_reason_to_end() {
        let mut state = State::load(Path::new("/nowhere-of-ours/state.json"));
        state.keep("/scratch", &TARGETS);
        state.save_changed();
        assert!(state.said && state.targets("/scratch").is_some());
    }
}
