//! The fuzzer's corpus, replayed without the fuzzer: what was found once is looked at on every run.

#[path = "../../../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "a library of its own where the fuzzer builds it")]
mod targets;

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_input_of_the_corpus_passes_its_check() {
    for (target, check) in targets::TARGETS {
        let inputs = corpus(target);
        assert!(!inputs.is_empty(), "the corpus of `{target}` is empty");
        for path in inputs {
            let bytes = fs::read(&path).expect("an input can be read");
            eprintln!("{}", path.display());
            check(&bytes);
        }
    }
}

#[test]
fn the_seeds_are_in_the_corpus_as_they_are_made() {
    for seed in targets::seeds::all() {
        let committed = fs::read(directory(seed.target).join(&seed.name)).ok();
        assert_eq!(committed.as_deref(), Some(&seed.bytes[..]), "{}/{}: write the seeds anew", seed.target, seed.name);
    }
}

#[test]
fn the_corpus_stays_small() {
    let bytes: u64 = targets::TARGETS
        .iter()
        .flat_map(|(target, _)| corpus(target))
        .map(|path| path.metadata().map_or(0, |data| data.len()))
        .sum();
    assert!(bytes <= MOST_BYTES, "{bytes} bytes of corpus, at most {MOST_BYTES} are kept");
}

fn corpus(target: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory(target)).expect("every target has a corpus");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an input has a name").path()).collect();
    paths.sort();
    paths
}

fn directory(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

const MOST_BYTES: u64 = 300_000;
