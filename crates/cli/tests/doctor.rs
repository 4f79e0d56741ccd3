//! `midas doctor` and `midas init`, over embedded and real servers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::handle;
use midas_lab::{Endpoint, Ganesha, Part, Scratch, require, until};
use midas_nfs::nfs3::{Call, Reply};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};
use support::{impossible, midas};

/// A proxy that answers MOUNT where it answers NFS.
const NFS_ALONE: &str = "nfs = \"127.0.0.1:0\"";

/// A configuration over these servers, in a directory of its own.
struct File {
    _scratch: Scratch,
    path: PathBuf,
}

impl File {
    fn new(text: &str) -> Self {
        let scratch = Scratch::new();
        let path = scratch.path().join("midas.toml");
        fs::write(&path, text).unwrap();
        Self { _scratch: scratch, path }
    }

    /// Over these servers.
    fn over(servers: &[Endpoint], staleness: &'static str) -> Self {
        Self::new(&Site { staleness, ..Site::of(servers) }.config())
    }

    fn check(&self) -> Output {
        midas(&format!("check --config {}", self.path.display()))
    }

    fn doctor(&self, more: &str) -> Examined {
        let output = midas(&format!("doctor --json --config {} {more}", self.path.display()));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
        let report = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        Examined { code: output.status.code(), report }
    }
}

struct Examined {
    code: Option<i32>,
    report: Value,
}

impl Examined {
    /// What was found of a topic, as `level: text`.
    fn found(&self, topic: &str) -> Vec<String> {
        let findings = self.report["pools"][0]["findings"].as_array().unwrap();
        let of = findings.iter().filter(|finding| finding["topic"] == topic);
        of.map(|finding| format!("{}: {}", finding["level"].as_str().unwrap(), finding["text"].as_str().unwrap()))
            .collect()
    }

    /// Asserts that something was found of a topic that has all of these words.
    fn tells(&self, topic: &str, words: &[&str]) {
        let found = self.found(topic);
        assert!(found.iter().any(|line| words.iter().all(|word| line.contains(word))), "{topic} {words:?}: {found:?}");
    }

    fn export(&self) -> &Value {
        &self.report["pools"][0]["exports"][0]
    }
}

/// The names in the root of a server.
fn names(server: &Endpoint) -> Vec<String> {
    let (mut client, root) = server.client();
    let call = Call::Readdir { dir: handle(&root), cookie: 0, cookieverf: [0; 8], count: 8192 };
    let Reply::Readdir(Ok(page)) = client.nfs(&call).unwrap() else { panic!("READDIR failed") };
    let all = page.entries().map(|entry| String::from_utf8(entry.unwrap().name.to_vec()).unwrap());
    all.filter(|name| name != "." && name != "..").collect()
}

#[test]
fn good_servers_are_well_and_nothing_is_left_behind() {
    let nfsd = Nfsd::start(&["--servers", "3"]);
    let servers = nfsd.endpoints();
    let file = File::over(&servers, "60s");
    let looked = file.doctor("");
    assert_eq!(looked.code, Some(0));
    looked.tells("staleness", &["note", "not measured", "--write"]);
    looked.tells("cookies", &["note", "not judged"]);
    assert_eq!(looked.report["pools"][0]["toml"]["staleness"], Value::Null);
    let written = file.doctor("--write");
    assert_eq!(written.code, Some(0));
    assert_eq!(written.found("reachable").len(), 6);
    written.tells("reachable", &["ok", "NFS version 3;", "round trip"]);
    written.tells("handles", &["ok", "3 servers agree"]);
    written.tells("cookies", &["ok", "portable", "302 names"]);
    written.tells("staleness", &["ok", "at once"]);
    written.tells("clock", &["ok"]);
    assert_eq!(written.report["pools"][0]["toml"]["staleness"], "0s");
    assert_eq!(written.export()["staleness"].as_array().unwrap().len(), 6);
    assert_eq!(names(&servers[0]), Vec::<String>::new());
    let words = midas(&format!("doctor --config {} --write", file.path.display()));
    let words = String::from_utf8(words.stdout).unwrap();
    assert!(words.contains("staleness = \"0s\"") && !words.contains("CHANGE"), "{words}");
}

#[test]
fn a_server_with_other_handles_is_named_and_told_what_to_change() {
    let nfsd = Nfsd::start(&["--servers", "3", "--fault", "1=other-handles"]);
    let examined = File::over(&nfsd.endpoints(), "0s").doctor("--write");
    assert_eq!(examined.code, Some(1));
    let stranger = nfsd.addresses[1].to_string();
    examined.tells("handles", &["change", &stranger, "root is another", "Export_Id", "fsid="]);
    examined.tells("handles", &["ok", "2 servers agree"]);
    assert_eq!(examined.export()["strangers"], serde_json::json!([stranger]));
    assert_eq!(names(&nfsd.endpoint(0)), Vec::<String>::new());
}

#[test]
fn a_server_that_is_down_could_not_be_asked_and_the_others_were() {
    let nfsd = Nfsd::start(&["--servers", "3", "--fault", "2=down"]);
    let examined = File::over(&nfsd.endpoints(), "0s").doctor("--write");
    assert_eq!(examined.code, Some(2));
    examined.tells("reachable", &["unasked", &nfsd.addresses[2].to_string(), "refused"]);
    examined.tells("staleness", &["ok", "at once"]);
    assert_eq!(examined.export()["members"].as_array().unwrap().len(), 2);
}

#[test]
fn a_server_that_does_not_let_write_is_named() {
    let nfsd = Nfsd::start(&["--servers", "2", "--export", "/scratch"]);
    let mut servers = nfsd.endpoints();
    // A proxy is a server too, and this one is read-only.
    let site = Site { listen: NFS_ALONE.to_owned(), ..Site::of(&servers) };
    let read_only = Serve::of(&site.config().replace("access = \"rw\"", "access = \"ro\""));
    let Endpoint { address, nfs_port, mount_port, .. } = read_only.endpoint();
    assert_eq!(nfs_port, mount_port, "it answers MOUNT where it answers NFS");
    servers.push(Endpoint { address, nfs_port, mount_port, path: "/scratch".to_owned() });
    let examined = File::over(&servers, "0s").doctor("--write");
    assert_eq!(examined.code, Some(1));
    examined.tells("access", &["change", &format!("{address}:{nfs_port}"), "the others do"]);
    examined.tells("handles", &["ok", "3 servers agree"]);
    // Two servers were changed, and the two others asked each time.
    assert_eq!(examined.export()["staleness"].as_array().unwrap().len(), 4);
    assert_eq!(names(&servers[0]), Vec::<String>::new());
}

#[test]
fn a_server_that_wants_reserved_ports_is_told_so() {
    let nfsd = Nfsd::start(&["--export", "/scratch"]);
    // A proxy is one by default.
    let site = Site { listen: NFS_ALONE.to_owned(), insecure: false, ..Site::of(&nfsd.endpoints()) };
    let proxy = site.start();
    let examined = File::over(&[proxy.endpoint()], "0s").doctor("");
    match rustix::process::geteuid().is_root() {
        true => {
            assert_eq!(examined.code, Some(0));
            examined.tells("port", &["note", "1024 and above are refused", "CAP_NET_BIND_SERVICE"]);
        }
        false => {
            assert_eq!(examined.code, Some(1));
            examined.tells("export", &["change", "plain user"]);
        }
    }
}

#[test]
fn an_export_that_is_not_there_and_a_file_that_is_wrong_are_told() {
    let nfsd = Nfsd::start(&["--servers", "1", "--export", "/other"]);
    let servers = [Endpoint { path: "/scratch".to_owned(), ..nfsd.endpoint(0) }];
    let examined = File::over(&servers, "0s").doctor("");
    assert_eq!(examined.code, Some(1));
    examined.tells("export", &["change", "MNT of /scratch", "NOENT"]);
    let file = File::new("[[pol]]\n");
    let output = midas(&format!("doctor --config {}", file.path.display()));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean"), "{output:?}");
}

#[test]
fn interrupted_it_takes_back_what_it_made() {
    let mut nfsd = Nfsd::start(&["--servers", "2", "--truth", "--service", "const:20ms"]);
    let servers = nfsd.endpoints();
    let file = File::over(&servers, "0s");
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_midas"));
    let doctor = doctor.args(["doctor", "--write", "--config"]).arg(&file.path);
    let child = doctor.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("it makes something", || nfsd.executed("CREATE")[0] > 5);
    let told = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(told.success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.as_ref()), (Some(1), "midas: interrupted; nothing was left behind\n"));
    assert_eq!(names(&servers[0]), Vec::<String>::new());
}

#[test]
fn three_real_servers_without_caches_are_fresh_and_their_cookies_portable() {
    if !require(Part::Ganesha) {
        return;
    }
    let ganesha = Ganesha::start(3, 0);
    for number in 0..50 {
        fs::create_dir_all(ganesha.export().join(format!("dir/with-a-name-{number}"))).unwrap();
    }
    let file = File::over(ganesha.heads(), "60s");
    let looked = file.doctor("");
    assert_eq!(looked.code, Some(0));
    looked.tells("cookies", &["ok", "52 names"]);
    looked.tells("handles", &["ok", "names"]);
    let written = file.doctor("--write");
    assert_eq!(written.code, Some(0));
    written.tells("reachable", &["NFS versions 3 to 4"]);
    written.tells("staleness", &["ok", "at once"]);
    written.tells("squash", &["ok", "root stays root"]);
    assert_eq!(written.report["pools"][0]["toml"]["staleness"], "0s");
    assert_eq!(fs::read_dir(ganesha.export()).unwrap().count(), 1, "the scratch directory is gone");
}

#[test]
fn the_staleness_of_real_servers_that_cache_is_measured() {
    if !require(Part::Ganesha) {
        return;
    }
    let ganesha = Ganesha::start(3, 3);
    let examined = File::over(ganesha.heads(), "1s").doctor("--write");
    assert_eq!(examined.code, Some(1));
    examined.tells("staleness", &["change", "midas.toml says staleness 1s", "Attr_Expiration_Time = 0"]);
    let pairs = examined.export()["staleness"].as_array().unwrap();
    let worst = pairs.iter().map(|pair| pair["after_s"].as_f64().unwrap()).fold(0.0, f64::max);
    // Ganesha counts in whole seconds, from when it was first asked; the change comes later.
    assert!((1.0..30.0).contains(&worst), "{pairs:?}");
    let told = examined.report["pools"][0]["toml"]["staleness"].as_str().unwrap();
    assert!(told.trim_end_matches('s').parse::<f64>().unwrap() >= worst, "{told}");
    assert_eq!(fs::read_dir(ganesha.export()).unwrap().count(), 0, "the scratch directory is gone");
}

fn init(arguments: &str) -> (Output, String) {
    let output = midas(&format!("init {arguments}"));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    println!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
    (output, text)
}

/// The configuration's listeners on free ports, and open to this test.
fn on_free_ports(text: &str) -> String {
    let free = text.replace("0.0.0.0:2049\"", "127.0.0.1:0\"").replace("0.0.0.0:20048\"", "127.0.0.1:0\"");
    free.replace("mode = \"strict\"", "mode = \"strict\"\ninsecure = true")
}

#[test]
fn what_init_prints_is_checked_and_served() {
    let nfsd = Nfsd::start(&["--servers", "3", "--export", "/scratch"]);
    let servers: Vec<String> = nfsd.addresses.iter().map(ToString::to_string).collect();
    let (output, text) = init(&format!("{} --clients 127.0.0.0/8 --measure", servers.join(" ")));
    assert!(output.status.success());
    assert!(!text.contains("mount_port"), "each answers MOUNT where it answers NFS: {text}");
    let other = nfsd.addresses[0].port();
    let (refused, _) = init(&format!("{} {}?mount={other} {}?mount={other}", servers[1], servers[0], servers[2]));
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("different ports"), "{refused:?}");
    for line in ["access = \"ro\"", "squash = \"root\"", "policy = \"hash-directory\"", "clients = [\"127.0.0.0/8\"]"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let checked = File::new(&text).check();
    assert!(checked.status.success(), "{checked:?}");
    let proxy = Serve::of(&on_free_ports(&text));
    assert_eq!(names(&proxy.endpoint()), Vec::<String>::new());
}

#[test]
fn init_leaves_out_who_does_not_belong() {
    let nfsd = Nfsd::start(&["--servers", "3", "--fault", "1=other-handles"]);
    let servers: Vec<String> = nfsd.addresses.iter().map(ToString::to_string).collect();
    let (output, text) = init(&servers.join(" "));
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains(&format!("# Left out: {}: /: its root is another", servers[1])), "{text}");
    assert!(text.contains("staleness = \"65s\"           # not measured"), "{text}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("{} is left out", servers[1])) && said.contains("fsid="), "{said}");
    assert!(File::new(&text).check().status.success());
}

#[test]
fn init_over_real_servers_leaves_out_who_does_not_answer() {
    if !require(Part::Ganesha) {
        return;
    }
    let ganesha = Ganesha::start(3, 0);
    fs::write(ganesha.export().join("here"), "x").unwrap();
    let heads = ganesha.heads();
    let typed: Vec<String> =
        heads.iter().map(|head| format!("{}:{}?mount={}", head.address, head.nfs_port, head.mount_port)).collect();
    let (output, text) = init(&format!("{} --clients 127.0.0.0/8 --measure", typed.join(" ")));
    assert!(output.status.success());
    assert!(
        text.contains("staleness = \"0s\"") && text.contains(&format!("mount_port = {}", heads[0].mount_port)),
        "{text}"
    );
    let proxy = Serve::of(&on_free_ports(&text));
    let endpoint = Endpoint { path: heads[0].path.clone(), ..proxy.endpoint() };
    assert_eq!(names(&endpoint), ["here"]);
    let nobody = format!("{}:{}", heads[0].address, midas_lab::free_port(heads[0].address));
    let (output, text) = init(&format!("{} {nobody}", typed.join(" ")));
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains(&format!("# Left out: {nobody}")) && text.contains("clients = [\"127.0.0.1\"]"), "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("{nobody} is left out")), "{output:?}");
    assert!(File::new(&text).check().status.success());
}

#[test]
fn impossible_servers_are_refused_in_one_line() {
    impossible(&[
        ("init", "SERVER"),
        ("init 10.0.0.1?port=3", "HOST[:PORT][?mount=PORT]"),
        ("init 10.0.0.1:x", "host:port"),
        ("init 10.0.0.1 10.0.0.1:2049", "twice"),
        ("init 10.0.0.1 --clients node7", "such as 10.0.0.7"),
        ("doctor --bogus", "--bogus"),
    ]);
}
