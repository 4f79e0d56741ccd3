//! `midas check`, run as administrators and scripts run it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use midas_lab::Scratch;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Output;
use support::{midas, root};

/// A file in a directory that goes away with it.
struct File {
    _scratch: Scratch,
    path: PathBuf,
}

impl File {
    fn new(text: &str) -> Self {
        let scratch = Scratch::new();
        let path = scratch.path().join("midas.toml");
        std::fs::write(&path, text).unwrap();
        Self { _scratch: scratch, path }
    }

    fn check(&self, more: &str) -> Output {
        midas(&format!("check --config {} {more}", self.path.display()))
    }

    /// What was printed, with the file's path as `FILE`.
    fn shown(&self, bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).replace(&self.path.display().to_string(), "FILE")
    }
}

/// The complete file in docs/operating.md.
fn example() -> String {
    let document = std::fs::read_to_string(root().join("docs/operating.md")).unwrap();
    document.split("```toml\n").nth(1).unwrap().split("```").next().unwrap().to_owned()
}

#[test]
fn a_good_file_is_told_what_it_means() {
    let file = File::new(&(example() + "[[pool]]\nname = \"spare\"\nservers = \"127.0.0.9:2049\"\n"));
    let output = file.check("");
    assert!(output.status.success() && output.stderr.is_empty());
    let want = "\
ok: FILE
  listen: nfs 127.0.0.1:2049, mount 127.0.0.1:20048, portmap off
  pool heads: 3 servers (127.0.0.2:12049 127.0.0.3:12049 127.0.0.4:12049), staleness 0s
  pool spare: 1 server (127.0.0.9:2049), staleness 65s
  export /scratch: /srv/scratch of heads, rw for 127.0.0.0/8, squash none, insecure, first-fit, strict
warning: pool 'spare' has no export
";
    assert_eq!(file.shown(&output.stdout), want);
}

#[test]
fn a_good_file_in_json_has_every_key() {
    let file = File::new(&example());
    let output = file.check("--json");
    assert!(output.status.success() && output.stderr.is_empty());
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&shown["schema"], &shown["ok"]), (&json!("midas-check/1"), &json!(true)));
    assert_eq!(shown["warnings"], json!([]));
    let config = &shown["config"];
    assert_eq!(config["listen"], json!({ "nfs": "127.0.0.1:2049", "mount": "127.0.0.1:20048", "portmap": "off" }));
    assert_eq!(config["pool"][0]["mount_port"], "12050");
    assert_eq!(config["export"][0]["anon_uid"], "65534");
    assert_eq!((&config["export"][0]["writers"], &config["export"][0]["preset"]), (&json!("anyone"), &json!("none")));
    assert_eq!((&config["limits"]["record"], &config["cache"]["memory"]), (&json!("2MiB"), &json!("256MiB")));
    assert!(config["threads"].is_string());
}

/// The document shows this very output.
#[test]
fn a_bad_file_is_told_every_mistake() {
    let bad = example().replace("policy =", "polisy =").replace("squash = \"none\"", "squash = \"rot\"");
    let file = File::new(&bad);
    let output = file.check("");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let want = "\
FILE:15:10: squash: unknown value 'rot'; did you mean 'root'?
FILE:17:1: unknown key 'polisy' in [[export]]; did you mean 'policy'?
midas: FILE has 2 errors
";
    assert_eq!(file.shown(&output.stderr), want);
    let document = std::fs::read_to_string(root().join("docs/operating.md")).unwrap();
    assert!(document.contains(&want.replace("FILE", "midas.toml")), "docs/operating.md shows another output");

    let output = file.check("--json");
    assert_eq!(output.status.code(), Some(1));
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&shown["ok"], &shown["count"]), (&json!(false), &json!(2)));
    let first = json!({ "line": 15, "column": 10, "text": "squash: unknown value 'rot'; did you mean 'root'?" });
    assert_eq!(shown["errors"][0], first);
}

/// The document shows this line too.
#[test]
fn a_mode_that_others_writers_would_break_is_refused() {
    let file = File::new(&example().replace("mode = \"strict\"", "mode = \"lease\""));
    let output = file.check("");
    assert_eq!(output.status.code(), Some(1));
    let said = file.shown(&output.stderr);
    let line = said.strip_suffix("midas: FILE has 1 error\n").unwrap();
    assert!(line.starts_with("FILE:18:8: mode: 'lease' needs writers = \"midas-only\""), "{said}");
    let document = std::fs::read_to_string(root().join("docs/operating.md")).unwrap();
    assert!(document.contains(&line.replace("FILE", "midas.toml")), "docs/operating.md shows another line than {line}");
}

#[test]
fn a_file_that_is_not_there_fails_and_bad_usage_is_told_apart() {
    let output = midas("check --config no/such.toml");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.starts_with("no/such.toml: No such file") && said.ends_with("midas: no/such.toml has 1 error\n"),
        "{said}"
    );
    assert_eq!(midas("check --bogus").status.code(), Some(2));
    assert_eq!(midas("check --config").status.code(), Some(2));
}
