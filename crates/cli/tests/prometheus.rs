//! What MIDAS brings for Prometheus and Grafana, held against a real Prometheus; and docs/metrics.md, held against a daemon.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::{Raw, getattr, handle, nfs, status};
use midas_lab::{PATIENCE, Part, Scratch, bounded, free_port, loopback, mkdir, require, until};
use midas_nfs::nfs3::{Call, DirOp, Nfsstat3, Sattr3};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;
use support::coherent::LEASED;
use support::demo::Demo;
use support::load::Load;
use support::members::Members;
use support::nfsd::Nfsd;
use support::root;
use support::serve::{Serve, Site};

/// Three members in lease mode over three servers, each with metrics over TCP, for clients of one address.
struct World {
    nfsd: Nfsd,
    members: Members,
}

impl World {
    fn new() -> Self {
        let nfsd = Nfsd::start(&["--servers", "3", "--service", "const:1ms"]);
        let servers = nfsd.endpoints();
        let more = "[admin]\ntcp = \"127.0.0.1:0\"\n";
        let site = || Site { clients: "\"127.0.0.1/32\"", export: LEASED, more: more.to_owned(), ..Site::of(&servers) };
        Self { members: Members::start(site), nfsd }
    }

    fn first(&self) -> &Serve {
        &self.members.daemons[0]
    }

    /// Gives the first one targets from before that nobody can meet: it has a pressure, and turns knobs.
    fn aim(&mut self) {
        let daemon = &mut self.members.daemons[0];
        daemon.signal(Signal::TERM);
        daemon.ended();
        fs::write(daemon.state(), UNREACHABLE).unwrap();
        daemon.again();
        self.members.whole();
    }

    /// Everything that is counted happens once at least: but for `forwarded`, which the load sees to.
    fn live(&self, prometheus: &Prometheus) {
        for (number, daemon) in self.members.daemons.iter().enumerate() {
            let (mut client, root) = daemon.client();
            for made in 0..20 {
                mkdir(&mut client, &root, format!("{number} {made}").as_bytes());
            }
            let missing = Call::Lookup { what: DirOp { dir: handle(&root), name: b"missing" } };
            for _ in 0..4 {
                assert_eq!(client.nfs(&missing).unwrap().status(), Nfsstat3::NOENT);
            }
        }
        self.repeat();
        self.intrude();
        self.join();
        let server = self.nfsd.addresses[2].to_string();
        self.first().command(&format!("drain {server}"));
        until("Prometheus sees the drain", || prometheus.some("midas_server_health{state=\"drained\"}"));
        self.first().command(&format!("undrain {server}"));
    }

    /// A call that comes again.
    fn repeat(&self) {
        let (_, root) = self.first().client();
        let mut client = Raw::connect(self.first().nfs[0]);
        let place = DirOp { dir: handle(&root), name: b"once" };
        let call = nfs(7, &Call::Mkdir { place, attributes: Sattr3::default() });
        for _ in 0..2 {
            client.send(&call);
            assert_eq!(status(&client.receive()), Nfsstat3::OK);
        }
    }

    /// A call of a client that is not on the list.
    fn intrude(&self) {
        let (_, root) = self.first().client();
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::from(([127, 0, 0, 2], 0))).unwrap();
        connect(&socket, &self.first().nfs[0]).unwrap();
        let mut stranger = Raw(TcpStream::from(socket));
        stranger.0.set_read_timeout(Some(PATIENCE)).unwrap();
        stranger.send(&getattr(1, &root));
        assert_eq!(status(&stranger.receive()), Nfsstat3::ACCES);
    }

    /// The same read several times at once, until one waited for another.
    fn join(&self) {
        let (_, root) = self.first().client();
        let mut client = Raw::connect(self.first().nfs[0]);
        until("a read waited for another one's answer", || {
            self.members.daemons.iter().for_each(|daemon| drop(daemon.command("invalidate --all")));
            let reads = 0..8;
            reads.clone().for_each(|xid| client.send(&getattr(xid, &root)));
            reads.for_each(|_| assert_eq!(status(&client.receive()), Nfsstat3::OK));
            let text = metrics(self.first());
            text.lines().any(|line| line.contains("GETATTR\",outcome=\"joined\"}") && !line.ends_with(" 0"))
        });
    }
}

/// A Prometheus that scrapes every second, and goes by our rules.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    _scratch: Scratch,
}

impl Prometheus {
    fn start(pages: &[SocketAddr]) -> Self {
        let (scratch, here) = (Scratch::new(), loopback(1, &[]));
        let address = SocketAddr::from((here, free_port(here)));
        let targets: Vec<String> = pages.iter().map(|page| format!("'{page}'")).collect();
        let rules = root().join(RULES).canonicalize().unwrap();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\n\
             scrape_configs: [{{job_name: midas, static_configs: [{{targets: [{}]}}]}}]\n",
            rules.display(),
            targets.join(", ")
        );
        let file = scratch.path().join("prometheus.yml");
        fs::write(&file, config).unwrap();
        let mut command = bounded("prometheus", LIFE);
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", scratch.path().join("data").display()));
        command.args([format!("--web.listen-address={address}"), "--log.level=error".to_owned()]);
        let child = command.stdout(Stdio::null()).spawn().unwrap();
        let prometheus = Self { child, address, _scratch: scratch };
        until("Prometheus is ready", || get(address, "/-/ready").is_ok_and(|(status, _)| status == 200));
        until("every daemon is scraped", || prometheus.values("sum(up)") == [pages.len() as f64]);
        prometheus
    }

    /// The values of an expression now.
    fn values(&self, expression: &str) -> Vec<f64> {
        let answer = self.ask(&format!("/api/v1/query?query={}", escaped(expression)));
        let samples = answer["result"].as_array().unwrap();
        samples.iter().map(|sample| sample["value"][1].as_str().unwrap().parse().unwrap()).collect()
    }

    /// Whether an expression has a value above 0.
    fn some(&self, expression: &str) -> bool {
        self.values(expression).iter().any(|value| *value > 0.0)
    }

    /// Every query of the dashboard has data, each at some moment.
    fn answers_all(&self) {
        let mut empty = queries();
        assert!(empty.len() > 60, "{empty:?}");
        until("every query of the dashboard has data", || {
            let before = empty.len();
            empty.retain(|query| !self.values(query).iter().any(|value| value.is_finite()));
            if empty.len() < before {
                println!("{} queries have no data yet: {empty:#?}", empty.len());
            }
            empty.is_empty()
        });
    }

    fn ask(&self, what: &str) -> Value {
        let (_, body) = get(self.address, what).unwrap();
        let mut answer: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{what}: {body}"));
        assert_eq!(answer["status"], "success", "{what}: {body}");
        answer["data"].take()
    }

    /// Every rule by its name, and whether it was evaluated without an error.
    fn rules(&self) -> Vec<(String, String)> {
        let data = self.ask("/api/v1/rules");
        let rules = data["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        rules.map(|rule| (word(&rule["name"]), word(&rule["health"]))).collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // What bounds its life hands the signal on.
        let _ended = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _status = self.child.wait();
    }
}

#[test]
fn a_real_prometheus_has_data_for_every_panel_and_evaluates_every_rule() {
    if !require(Part::Prometheus) {
        return;
    }
    let mut world = World::new();
    world.aim();
    accepted(&metrics(world.first()));
    let pages: Vec<SocketAddr> = world.members.daemons.iter().map(|daemon| daemon.admin.unwrap()).collect();
    let prometheus = Prometheus::start(&pages);
    let loads = [0, 1].map(|member| Load::start(&world.members.daemons[member], LOAD));
    world.live(&prometheus);
    prometheus.answers_all();
    for happened in HAPPENED {
        until(happened, || prometheus.some(happened));
    }
    until("every rule was evaluated", || prometheus.rules().iter().all(|(_, health)| health != "unknown"));
    let rules = prometheus.rules();
    assert!(rules.len() > 20, "{rules:?}");
    assert!(rules.iter().all(|(_, health)| health == "ok"), "{rules:?}");
    for load in loads {
        load.end();
    }
}

/// In a round of the demo: all policies, the cache among them.
#[test]
fn every_panel_has_data_during_the_demo() {
    if !require(Part::Prometheus) {
        return;
    }
    let demo = Demo::start(ROUND);
    let prometheus = Prometheus::start(&demo.pages);
    prometheus.answers_all();
}

#[test]
fn promtool_takes_rules_and_configuration_and_the_rules_pass_their_tests() {
    if !require(Part::Prometheus) {
        return;
    }
    for words in [["check", "rules", RULES], ["check", "config", CONFIG], ["test", "rules", TESTS]] {
        let output = bounded("promtool", PATIENCE).args(words).current_dir(root()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
}

#[test]
fn every_metric_stands_in_its_page_with_its_type_and_labels_and_nothing_else_does() {
    let world = World::new();
    let mut told = families(&metrics(world.first()));
    told.extend(families(&metrics(&alone_with_journal(&world.nfsd))));
    let page = fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let written: BTreeMap<String, Family> = page.lines().filter_map(row).collect();
    let names = |families: &BTreeMap<String, Family>| families.keys().cloned().collect::<BTreeSet<String>>();
    assert_eq!(names(&told), names(&written));
    for (name, family) in &told {
        let (kind, labels) = &written[name];
        assert_eq!(&family.0, kind, "{name}");
        // One without samples shows no labels.
        assert!(family.1.is_empty() || &family.1 == labels, "{name}: {:?}, written: {labels:?}", family.1);
    }
}

/// A daemon without a cluster that writes down what it must not forget.
fn alone_with_journal(servers: &Nfsd) -> Serve {
    let more = "[admin]\ntcp = \"127.0.0.1:0\"\n".to_owned();
    let mut daemon = Serve::of(&Site { more, ..Site::of(&servers.endpoints()) }.config());
    daemon.rewrite("[state]\n", "[state]\njournal = true\n");
    daemon.signal(Signal::TERM);
    daemon.ended();
    daemon.again();
    daemon
}

/// A type, and labels.
type Family = (String, BTreeSet<String>);

/// What a page in the classic format has.
fn families(text: &str) -> BTreeMap<String, Family> {
    let mut found: BTreeMap<String, Family> = BTreeMap::new();
    let mut last = String::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            name.clone_into(&mut last);
            found.insert(last.clone(), (kind.to_owned(), BTreeSet::new()));
        } else if let Some((_, labels)) = line.split_once('{').filter(|_| !line.starts_with('#')) {
            let keys = labels.split("=\"").filter_map(|before| before.rsplit([',', '"']).next());
            let keys = keys.filter(|key| key.bytes().all(|letter| letter.is_ascii_lowercase()) && *key != "le");
            let labels = &mut found.get_mut(&last).unwrap().1;
            labels.extend(keys.filter(|key| !key.is_empty()).map(str::to_owned));
        }
    }
    found
}

/// A row of docs/metrics.md.
fn row(line: &str) -> Option<(String, Family)> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let ["", name, kind, labels, ..] = cells.as_slice() else { return None };
    let name = name.strip_prefix('`')?.strip_suffix('`').filter(|name| name.starts_with("midas_"))?;
    let labels = labels.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    Some((name.to_owned(), ((*kind).to_owned(), labels)))
}

/// Every query of the dashboard, as Grafana asks it for everything.
fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(root().join(DASHBOARD)).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row");
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let asked = |target: &Value| {
        let written = target["expr"].as_str().unwrap();
        let query = VARIABLES.iter().fold(written.to_owned(), |query, (name, value)| query.replace(name, value));
        assert!(!query.contains('$'), "{query}");
        query
    };
    targets.map(asked).collect()
}

/// promtool finds nothing wrong with this page of metrics.
fn accepted(text: &str) {
    let scratch = Scratch::new();
    let file = scratch.path().join("metrics");
    fs::write(&file, text).unwrap();
    let mut command = bounded("promtool", PATIENCE);
    let output = command.args(["check", "metrics"]).stdin(File::open(file).unwrap()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// As whoever does not ask for OpenMetrics reads it.
fn metrics(daemon: &Serve) -> String {
    let (status, text) = get(daemon.admin.unwrap(), "/metrics").unwrap();
    assert_eq!(status, 200, "{text}");
    text
}

/// Over a version of HTTP that sends a body in one piece.
fn get(address: SocketAddr, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    Ok((status.ok_or(io::ErrorKind::InvalidData)?, body.to_owned()))
}

fn escaped(text: &str) -> String {
    let codes: Vec<String> = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
    codes.concat()
}

const RULES: &str = "dist/prometheus/midas.rules.yml";
const TESTS: &str = "dist/prometheus/midas.rules.test.yml";
const CONFIG: &str = "dist/prometheus/prometheus.yml";
const DASHBOARD: &str = "dist/grafana/midas.json";
/// The dashboard's variables, and Grafana's own.
const VARIABLES: [(&str, &str); 5] =
    [("$__rate_interval", "30s"), ("$job", "midas"), ("$instance", ".+"), ("$pool", ".+"), ("$export", ".+")];
/// What must have been counted when all is over.
const HAPPENED: [&str; 16] = [
    "sum(midas_answers_total{outcome=\"hit\"})",
    "sum(midas_answers_total{outcome=\"absent\"})",
    "sum(midas_answers_total{outcome=\"joined\"})",
    "sum(midas_answers_total{outcome=\"forwarded\"})",
    "sum(midas_answers_total{outcome=\"here\"})",
    "sum(midas_refusals_total{reason=\"client\"})",
    "sum(midas_duplicates_total)",
    "sum(midas_actuations_total{direction=\"up\"})",
    "sum(midas_cluster_announced_total)",
    "sum(midas_cluster_shares_total{way=\"heard\"})",
    "sum(midas_server_duration_seconds_count)",
    "sum(midas_call_duration_seconds_count{outcome=\"miss\"})",
    "sum(midas_call_duration_seconds_count{outcome=\"joined\"})",
    "sum(midas_call_duration_seconds_count{outcome=\"forwarded\"})",
    "sum(midas_hit_duration_seconds_count)",
    "sum(instance:midas_calls:rate5m)",
];
const UNREACHABLE: &str =
    "{\"version\": 1, \"exports\": {\"/scratch\": {\"imbalance\": 0.0, \"latency_p99_ns\": 1, \"rtt_ns\": 1000}}}";
const LOAD: &str = "--op lookup --depth 4 --connections 4 --duration 15s --timeout 60s";
/// Seconds of a round of the demo: within the patience.
const ROUND: u32 = 30;
/// Longer than the test.
const LIFE: Duration = Duration::from_secs(300);
