//! Whole files: what they mean, and what is wrong with them.

mod caching;
mod cluster;
mod document;
mod reload;

use super::*;
use midas_core::route::policy::Gap;
use midas_workload::units::parse_span;
use std::collections::BTreeSet;

/// The complete file of the document.
const EXAMPLE: &str = r#"[listen]
nfs = "127.0.0.1:2049"
mount = "127.0.0.1:20048"
[[pool]]
name = "heads"
servers = ["127.0.0.2:12049", "127.0.0.3:12049", "127.0.0.4:12049"]
mount_port = 12050
staleness = "0s"           # how long another server may answer with old attributes; 65s if not given
[[export]]
path = "/scratch"          # what clients mount
source = "/srv/scratch"    # what the servers export; the same as path if not given
pool = "heads"
clients = ["127.0.0.0/8"]
access = "rw"
squash = "none"
insecure = true            # client ports >= 1024 are accepted
policy = "first-fit"
mode = "strict"            # nothing is cached; or lease, ttl, immutable
"#;

/// The shortest file.
const SHORT: &str = r#"[[pool]]
name = "heads"
servers = "10.0.0.1:2049"
[[export]]
path = "/scratch"
pool = "heads"
clients = "10.0.0.0/8"
"#;

/// Every key, each with a value that is not its default where there is another.
const OTHERWISE: &str = r#"
threads = 3
[listen]
nfs = ["10.0.0.9:2049", "[fd00::9]:2049"]
mount = "[::]:20048"
portmap = ["10.0.0.9:111"]
[[pool]]
name = "heads"
servers = ["nas1:2049", "[fd00::2]:2050"]
mount_port = 635
staleness = "1.5s"
moves = "none"
on_down = "fence --now"
failover_after = "2m"
connections = 2
in_flight_max = 65_536
call_timeout = "500ms"
probe_interval = "100ms"
probe_timeout = "200ms"
rate_peak = 50000
[[export]]
path = "/"
source = "/srv"
pool = "heads"
clients = ["10.0.0.0/8", "fd00::/8", "192.0.2.1"]
access = "ro"
squash = "all"
anon_uid = 99
anon_gid = 0x64
insecure = false
policy = "first-fit:gap=2"
preset = "scratch"
mode = "ttl"
writers = "midas-only"
lease_age_max = "5s"
server_hold_max = "90s"
immutable_age_max = "24h"
stale_target = 1e-2
ttl_max = "500ms"
absent_max = "0s"
[[export.subtree]]
path = "/tree"
preset = "dataset"
mode = "ttl"
writers = "midas-only"
lease_age_max = "7s"
immutable_age_max = "7h"
stale_target = 0.5
ttl_max = "7s"
absent_max = "7s"
[cache]
memory = "1GiB"
[cluster]
name = "site"
listen = "10.0.0.9:7050"
members = ["a=nas1:7049", "b=10.0.0.9:7050", "w=[fd00::3]:7049 witness"]
key_file = "/etc/m.key"
me = "b"
lease = "500ms"
suspect_after = "10s"
shares = false
[limits]
connections = 100
strangers = 7
record = "1MiB"
calls_per_client = 16
memory = 67108864
drain = "5s"
answers_kept = "60s"
[log]
format = "json"
level = "debug"
[admin]
socket = "/run/m.sock"
tcp = "127.0.0.1:9049"
[watch]
jobs_file = "/run/jobs"
jobs_command = "jobs --all"
jobs_every = "5s"
[state]
file = "/var/lib/m.json"
journal = true
"#;

const DOCUMENT: &str = include_str!("../../../../docs/operating.md");

/// Names that only the tests know: no test asks a name server.
fn hosts(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    match host {
        "nas1" => Ok(vec![SocketAddr::from(([10, 0, 0, 1], port))]),
        _ => Err(io::Error::other("no such host")),
    }
}

fn parsed(text: &str) -> Config {
    Config::parse_with(text, &hosts).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn wrong(text: &str) -> String {
    match Config::parse_with(text, &hosts) {
        Ok(config) => panic!("nothing is wrong with\n{text}\n{config:?}"),
        Err(error) => error.to_string(),
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn cores() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

#[test]
fn the_example_means_what_it_says() {
    let server = |ip: &str| Server {
        name: format!("{ip}:12049"),
        address: address(&format!("{ip}:12049")),
        mount: address(&format!("{ip}:12050")),
    };
    let want = Config {
        threads: cores(),
        listen: Listen {
            nfs: vec![address("127.0.0.1:2049")],
            mount: vec![address("127.0.0.1:20048")],
            portmap: Vec::new(),
        },
        pools: vec![Pool {
            name: "heads".to_owned(),
            servers: ["127.0.0.2", "127.0.0.3", "127.0.0.4"].map(server).to_vec(),
            staleness: Span::ZERO,
            moves: Moves::Free,
            failover_after: Span::from_secs(30),
            connections: 1,
            in_flight_max: 4096,
            call_timeout: Span::from_secs(10),
            probe_interval: Span::from_secs(1),
            probe_timeout: Span::from_secs(5),
            rate_peak: None,
            on_down: None,
        }],
        exports: vec![Export {
            path: "/scratch".to_owned(),
            source: "/srv/scratch".to_owned(),
            pool: 0,
            clients: vec![Network::parse("127.0.0.0/8").unwrap()],
            access: Access::ReadWrite,
            squash: Squash::None,
            anonymous: Anonymous { uid: 65_534, gid: 65_534 },
            insecure: true,
            policy: Policy::FirstFit(Gap::Auto),
            preset: None,
            mode: Mode::Strict,
            caching: caching::DEFAULT,
            subtrees: Vec::new(),
        }],
        cache: Cache { memory: 256 << 20 },
        cluster: None,
        limits: Limits {
            connections: 16_384,
            strangers: 64,
            record: 2 << 20,
            calls_per_client: 4096,
            memory: 1 << 30,
            drain: Span::from_secs(30),
            answers_kept: Span::from_secs(120),
        },
        log: Log { format: LogFormat::Text, level: Level::Info },
        admin: Admin { socket: "/run/midas/midas.sock".into(), tcp: None },
        watch: Watch { jobs_file: None, jobs_command: None, jobs_every: Span::from_secs(30) },
        state: State { file: "/var/lib/midas/state.json".into(), journal: false },
    };
    assert_eq!(parsed(EXAMPLE), want);
    assert_eq!(want.warnings(), Vec::<String>::new());
}

#[test]
fn what_is_not_given_is_safe() {
    let config = parsed(SHORT);
    let (pool, export) = (&config.pools()[0], &config.exports()[0]);
    assert_eq!(config.listen().nfs, [address("0.0.0.0:2049")]);
    assert_eq!((config.listen().mount.len(), config.listen().portmap.len()), (0, 0));
    assert_eq!((pool.staleness, pool.servers[0].mount), (Span::from_secs(65), address("10.0.0.1:2049")));
    assert_eq!((&export.source, export.access, export.squash), (&export.path, Access::ReadOnly, Squash::Root));
    assert_eq!((export.insecure, export.mode), (false, Mode::Strict));
}

/// What `OTHERWISE` says, key by key.
const GIVEN: [&str; 70] = [
    "3",
    "10.0.0.9:2049 [fd00::9]:2049",
    "[::]:20048",
    "10.0.0.9:111",
    "heads",
    "nas1:2049=10.0.0.1:2049 [fd00::2]:2050",
    "635",
    "1500ms",
    "none",
    "120s",
    "2",
    "65536",
    "500ms",
    "100ms",
    "200ms",
    "50000",
    "fence --now",
    "/",
    "/srv",
    "heads",
    "10.0.0.0/8 fd00::/8 192.0.2.1",
    "ro",
    "all",
    "99",
    "100",
    "false",
    "first-fit:gap=2",
    "scratch",
    "ttl",
    "midas-only",
    "5s",
    "90s",
    "86400s",
    "0.01",
    "500ms",
    "0s",
    "/tree",
    "dataset",
    "ttl",
    "midas-only",
    "7s",
    "25200s",
    "0.5",
    "7s",
    "7s",
    "1GiB",
    "site",
    "10.0.0.9:7050",
    "a=10.0.0.1:7049, b=10.0.0.9:7050, w=[fd00::3]:7049 witness",
    "/etc/m.key",
    "b",
    "500ms",
    "10s",
    "false",
    "100",
    "7",
    "1MiB",
    "16",
    "64MiB",
    "5s",
    "60s",
    "json",
    "debug",
    "/run/m.sock",
    "127.0.0.1:9049",
    "/run/jobs",
    "jobs --all",
    "5s",
    "/var/lib/m.json",
    "true",
];

#[test]
fn every_key_may_be_given_otherwise() {
    let values: Vec<String> = parsed(OTHERWISE).entries().into_iter().map(|entry| entry.value).collect();
    assert_eq!(values, GIVEN);
    let given: BTreeSet<&str> = OTHERWISE.lines().filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
    assert!(KEYS.iter().all(|key| given.contains(key.name)), "a key is missing in this test");
}

#[test]
fn writers_through_another_pool_of_the_same_servers_are_not_midas_only() {
    // the other export's server, source and access, and whether it is in the way of `writers = "midas-only"` for /a
    let cases = [
        ("10.0.0.1:2049", "/a", "rw", true),
        ("10.0.0.1:2049", "/", "rw", true),
        ("10.0.0.1:2049", "/a/b", "rw", true),
        ("10.0.0.1:2049", "/ab", "rw", false),
        ("10.0.0.1:2049", "/a", "ro", false),
        ("10.0.0.2:2049", "/a", "rw", false),
    ];
    for (server, source, access, clash) in cases {
        let text = format!(
            "[listen]\nnfs = \"127.0.0.1:2049\"\n[[pool]]\nname = \"p\"\nservers = [\"10.0.0.1:2049\"]\n\
             [[pool]]\nname = \"q\"\nservers = [\"10.0.0.9:2049\", \"{server}\"]\n\
             [[export]]\npath = \"/a\"\npool = \"p\"\nclients = [\"10.0.0.0/8\"]\nwriters = \"midas-only\"\n\
             [[export]]\npath = \"/other\"\nsource = \"{source}\"\npool = \"q\"\nclients = [\"10.0.0.0/8\"]\naccess = \"{access}\"\n"
        );
        let said = Config::parse(&text).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(said.contains("'/other' writes to the same files at 10.0.0.1:2049"), clash, "{source}: {said}");
        assert_eq!(said.is_empty(), !clash, "{said}");
    }
}

#[test]
fn every_policy_can_be_chosen() {
    for policy in ["first-fit", "first-fit:gap=3", "paper:pin=free", "hash-directory", "rr-directory", "rr", "observe"]
    {
        let config = parsed(&format!("{SHORT}policy = \"{policy}\"\n"));
        assert_eq!(config.exports()[0].policy.to_string(), policy);
    }
}

/// What is replaced in the shortest file, by what, and the one message that follows.
const WRONG_LINES: &[(&str, &str, &str)] = &[
    (
        "clients = \"10.0.0.0/8\"",
        "clients = \"10.0.0.0/8\"\n  polisy = \"rr\"",
        "8:3: unknown key 'polisy' in [[export]]; did you mean 'policy'?",
    ),
    ("pool = \"heads\"", "pool = \"haeds\"", "6:8: unknown pool 'haeds'; did you mean 'heads'?"),
    ("pool = \"heads\"", "pool = \"tails\"", "6:8: unknown pool 'tails'; possible: heads"),
    ("pool = \"heads\"", "pool = 1", "6:8: pool takes a name in quotes, got 1"),
    ("pool = \"heads\"", "", "4:1: missing key 'pool' in [[export]]"),
    ("name = \"heads\"", "", "1:1: missing key 'name' in [[pool]]"),
    (
        "name = \"heads\"",
        "name = \"a b\"",
        "2:8: name takes 1..64 letters, digits, '-', '_' or '.' in quotes, got 'a b'",
    ),
    ("servers = \"10.0.0.1:2049\"", "", "1:1: missing key 'servers' in [[pool]]"),
    ("\"10.0.0.1:2049\"", "[]", "3:11: servers: the list must have 1..1024 members, got 0"),
    ("\"10.0.0.1:2049\"", "[\"nas1:1\", \"10.0.0.2:1\", \"10.0.0.2:1\"]", "3:36: servers: '10.0.0.2:1' is there twice"),
    (
        "\"10.0.0.1:2049\"",
        "[\"nas1:1\",\n  \"10.0.0.1:1\"]",
        "4:3: servers: '10.0.0.1:1' is 'nas1:1': both are 10.0.0.1:1",
    ),
    ("\"10.0.0.1:2049\"", "\"nas2:2049\"", "3:11: servers: cannot find the address of 'nas2': no such host"),
    ("\"10.0.0.1:2049\"", "\"10.0.0.1\"", "3:11: servers: '10.0.0.1' has no port; write 10.0.0.1:2049"),
    ("\"10.0.0.1:2049\"", "\"10.0.0.1:0\"", "3:11: servers: 10.0.0.1:0 is not where a server can be"),
    ("\"10.0.0.1:2049\"", "\"0.0.0.0:2049\"", "3:11: servers: 0.0.0.0:2049 is not where a server can be"),
    ("\"10.0.0.1:2049\"", "[5]", "3:12: servers takes an address in quotes, such as \"10.0.0.1:2049\", got 5"),
    ("clients = \"10.0.0.0/8\"", "", "4:1: missing key 'clients' in [[export]]"),
    ("\"10.0.0.0/8\"", "[]", "7:11: clients: the list must have 1..1024 members, got 0"),
    (
        "\"10.0.0.0/8\"",
        "[\"10.0.0.1/8\"]",
        "7:12: clients: '10.0.0.1/8' has bits set beyond its prefix; write 10.0.0.0/8",
    ),
    ("\"10.0.0.0/8\"", "\"*\"", "7:11: clients: '*' is not a network; everyone is 0.0.0.0/0 and ::/0"),
    ("\"10.0.0.0/8\"", "true", "7:11: clients takes a network in quotes, such as \"10.0.0.0/8\", got true"),
    ("path = \"/scratch\"", "", "4:1: missing key 'path' in [[export]]"),
    ("\"/scratch\"", "\"scratch\"", "5:8: path takes an absolute path in quotes, got 'scratch'"),
    ("\"/scratch\"", "\"/scratch/\"", "5:8: path: '/scratch/' is not written plainly; write '/scratch'"),
    ("\"/scratch\"", "\"//a/./b\"", "5:8: path: '//a/./b' is not written plainly; write '/a/b'"),
    ("\"/scratch\"", "\"/a/../b\"", "5:8: path: '/a/../b' must not contain '..'"),
    ("\"/scratch\"", "\"/a\\nb\\u0000\"", "5:8: path takes an absolute path in quotes, got '/a\\nb\\u{0}'"),
    ("\"/scratch\"", "\"/scratch\"\nsource = \"srv\"", "6:10: source takes an absolute path in quotes, got 'srv'"),
];

#[test]
fn a_wrong_value_is_told_with_its_place_and_the_nearest_name() {
    for (line, instead, want) in WRONG_LINES {
        assert!(SHORT.contains(line), "{line}");
        assert_eq!(wrong(&SHORT.replacen(line, instead, 1)), *want, "{instead}");
    }
}

/// A table, keys that are added to it, and the one message that follows, without its line.
const WRONG_SETTINGS: &[(&str, &str, &str)] = &[
    ("[[pool]]", "staleness = 60", "13: staleness takes a time in quotes, such as \"60s\", got 60"),
    (
        "[[pool]]",
        "staleness = \"60\"",
        "13: staleness: '60' is not a time; write a number and one of ns, us, ms, s, m, h, such as 100ms",
    ),
    ("[[pool]]", "staleness = \"25h\"", "13: staleness takes a time in 0s..86400s, got '25h'"),
    ("[[pool]]", "failover_after = \"0s\"", "18: failover_after takes a time in 1s..86400s, got '0s'"),
    ("[[pool]]", "connections = 0", "15: connections takes a whole number in 1..64, got 0"),
    ("[[pool]]", "connections = -1", "15: connections takes a whole number in 1..64, got -1"),
    ("[[pool]]", "connections = 1.5", "15: connections takes a whole number in 1..64, got 1.5"),
    ("[[pool]]", "connections = \"2\"", "15: connections takes a whole number in 1..64, got '2'"),
    ("[[pool]]", "in_flight_max = 65537", "17: in_flight_max takes a whole number in 1..65536, got 65537"),
    ("[[pool]]", "mount_port = 70000", "14: mount_port takes a whole number in 1..65535, got 70000"),
    ("[[pool]]", "mount_port = {}", "14: mount_port takes a whole number in 1..65535, got a table"),
    ("[[pool]]", "call_timeout = 1979-05-27", "16: call_timeout takes a time in quotes, such as \"60s\", got a date"),
    ("[[pool]]", "probe_interval = \"1ms\"", "18: probe_interval takes a time in 50ms..600s, got '1ms'"),
    ("[[pool]]", "policy = \"rr\"", "1: unknown key 'policy' in [[pool]]; 'policy' belongs to [[export]]"),
    (
        "[[pool]]",
        "colour = \"red\"",
        "1: unknown key 'colour' in [[pool]]; possible: name, servers, mount_port, staleness, moves, failover_after, connections, in_flight_max, call_timeout, probe_interval, probe_timeout, rate_peak, on_down",
    ),
    ("[[export]]", "access = \"rx\"", "10: access: unknown value 'rx'; did you mean 'ro'?"),
    ("[[export]]", "access = \"both\"", "10: access: unknown value 'both'; possible: ro, rw"),
    ("[[export]]", "access = true", "10: access takes one of ro, rw in quotes, got true"),
    ("[[export]]", "squash = \"nome\"", "10: squash: unknown value 'nome'; did you mean 'none'?"),
    ("[[export]]", "anon_uid = 4294967296", "12: anon_uid takes a whole number in 0..4294967295, got 4294967296"),
    ("[[export]]", "insecure = \"yes\"", "12: insecure takes true or false, without quotes, got 'yes'"),
    ("[[export]]", "policy = \"frist-fit\"", "10: policy: unknown policy 'frist-fit'; did you mean 'first-fit'?"),
    ("[[export]]", "policy = \"first-fit:gap=9\"", "10: policy: first-fit:gap takes 1..8 or auto, got '9'"),
    ("[[export]]", "policy = 1", "10: policy takes a name in quotes, such as \"first-fit\", got 1"),
    ("[[export]]", "mode = \"strickt\"", "8: mode: unknown value 'strickt'; did you mean 'strict'?"),
    (
        "[listen]",
        "nfs = \"here\"",
        "7: nfs: 'here' is not an address; write host:port, such as 10.0.0.1:2049, [fd00::1]:2049 or nas1:2049",
    ),
    ("[listen]", "mount = []", "9: mount: the list must have 1..64 members, got 0"),
    (
        "[listen]",
        "mount = \"10.0.0.9:2049\"",
        "9: mount: the port of 10.0.0.9:2049 is taken by nfs at 0.0.0.0:2049; leave mount out to answer it there",
    ),
    ("[listen]", "portmap = \"[::]:2049\"", "11: portmap: the port of [::]:2049 is taken by nfs at 0.0.0.0:2049"),
    (
        "[listen]",
        "nfs = [\"10.0.0.9:1\", \"10.0.0.9:1\"]",
        "22: nfs: the port of 10.0.0.9:1 is taken by nfs at 10.0.0.9:1",
    ),
    ("[admin]", "tcp = \"127.0.0.1:2049\"", "7: tcp: the port of 127.0.0.1:2049 is taken by nfs at 0.0.0.0:2049"),
    ("[admin]", "socket = \"midas.sock\"", "10: socket takes an absolute path in quotes, got 'midas.sock'"),
    ("[admin]", "token = 1", "1: unknown key 'token' in [admin]; possible: socket, tcp"),
    ("[limits]", "record = \"1KiB\"", "10: record takes a size in 64KiB..64MiB, got '1KiB'"),
    ("[limits]", "record = \"2MB\"", "10: record takes a size in 64KiB..64MiB, got '2MB'"),
    ("[limits]", "record = \"64MiB\"\nmemory = \"255MiB\"", "10: memory must hold 4 records of 64MiB: at least 256MiB"),
    ("[log]", "level = \"wran\"", "9: level: unknown value 'wran'; did you mean 'warn'?"),
    ("[log]", "format = \"xml\"", "10: format: unknown value 'xml'; possible: text, json"),
    ("[watch]", "jobs_file = \"jobs\"", "13: jobs_file takes an absolute path in quotes, got 'jobs'"),
    ("[watch]", "jobs_command = \" \"", "16: jobs_command takes a command of the shell in quotes, got ' '"),
    ("[watch]", "jobs_every = \"10ms\"", "14: jobs_every takes a time in 1s..86400s, got '10ms'"),
    (
        "[watch]",
        "jobs = \"/run/jobs\"",
        "1: unknown key 'jobs' in [watch]; possible: jobs_file, jobs_command, jobs_every",
    ),
    ("[state]", "file = 7", "8: file takes an absolute path in quotes, got 7"),
];

#[test]
fn a_wrong_setting_is_told_with_what_is_possible() {
    told_where_they_stand(WRONG_SETTINGS);
}

fn told_where_they_stand(settings: &[(&str, &str, &str)]) {
    for (table, setting, want) in settings {
        let text = match SHORT.contains(table) {
            true => SHORT.replacen(table, &format!("{table}\n{setting}"), 1),
            false => format!("{SHORT}{table}\n{setting}\n"),
        };
        let last = setting.lines().last().unwrap();
        let line = text.lines().position(|line| line == last).unwrap() + 1;
        assert_eq!(wrong(&text), format!("{line}:{want}"), "{setting}");
    }
}

#[test]
fn a_wrong_table_is_told() {
    let one = |more: &str| format!("{SHORT}{more}");
    let cases = [
        (one("[lisen]\n"), "8:2: unknown table [lisen]; did you mean [listen]?"),
        (one("[[exprot]]\n"), "8:3: unknown table [[exprot]]; did you mean [[export]]?"),
        (
            one("[leases]\n"),
            "8:2: unknown table [leases]; possible: [listen], [[pool]], [[export]], [cache], [cluster], [limits], [log], [admin], [watch], [state]",
        ),
        (one("[[log]]\n"), "8:3: 'log' is a table; write [log]"),
        (SHORT.replacen("[[pool]]", "[pool]", 1), "1:2: 'pool' is a table; write [[pool]]"),
        (format!("log = 3\n{SHORT}"), "1:1: 'log' is a table; write [log]"),
        (format!("thread = 3\n{SHORT}"), "1:1: unknown key 'thread' in the top level; did you mean 'threads'?"),
        (format!("threads = 0\n{SHORT}"), "1:11: threads takes a whole number in 1..256, got 0"),
        (format!("listen.nfs = 5\n{SHORT}"), "1:14: nfs takes an address in quotes, such as \"10.0.0.1:2049\", got 5"),
        (one("threads = 2\n"), "8:1: unknown key 'threads' in [[export]]; 'threads' belongs to the top level"),
        (one("[[pool]]\nname = \"heads\"\nservers = \"10.0.0.9:1\"\n"), "9:8: there are two pools called 'heads'"),
        (
            one("[[export]]\npath = \"/scratch\"\npool = \"heads\"\nclients = \"::1\"\n"),
            "9:8: there are two exports with the path '/scratch'",
        ),
        (
            "pool = []\nexport = []\n".to_owned(),
            "1:8: there must be 1..64 of [[pool]], got 0\n2:10: there must be 1..1024 of [[export]], got 0",
        ),
        (
            String::new(),
            "1:1: missing [[pool]]: at least one is needed\n1:1: missing [[export]]: at least one is needed",
        ),
    ];
    for (text, want) in cases {
        assert_eq!(wrong(&text), want, "{text}");
    }
}

#[test]
fn what_is_not_toml_is_told_alone() {
    let cases = [
        (SHORT.replacen("name =", "name", 1), "2:6: this is not TOML: key with no value, expected `=`"),
        (format!("{SHORT}clients = \"::1\"\n"), "8:1: this is not TOML: duplicate key"),
        (SHORT.replacen("\"heads\"", "\"heads", 1), "2:14: this is not TOML: invalid basic string, expected `\"`"),
    ];
    for (text, want) in cases {
        assert_eq!(wrong(&text), want, "{text}");
    }
}

#[test]
fn all_mistakes_are_told_in_the_order_of_the_file() {
    let text = r#"threads = "all"
[[pool]]
nmae = "heads"
servers = ["nas2:1", "10.0.0.1:2049", "x"]
[listen]
nfs = ["0.0.0.0:2049", "127.0.0.1:2049"]
[[export]]
path = "scratch"
pool = "heads"
squash = "rot"
"#;
    let want = "\
1:11: threads takes a whole number in 1..256, got 'all'
2:1: missing key 'name' in [[pool]]
3:1: unknown key 'nmae' in [[pool]]; did you mean 'name'?
4:12: servers: cannot find the address of 'nas2': no such host
4:39: servers: 'x' is not an address; write host:port, such as 10.0.0.1:2049, [fd00::1]:2049 or nas1:2049
6:24: nfs: the port of 127.0.0.1:2049 is taken by nfs at 0.0.0.0:2049
7:1: missing key 'clients' in [[export]]
8:8: path takes an absolute path in quotes, got 'scratch'
10:10: squash: unknown value 'rot'; did you mean 'root'?";
    assert_eq!(wrong(text), want);
}

#[test]
fn the_bounds_hold_and_are_told() {
    let many = |count: usize| (0..count).map(|i| format!("\"10.0.{}.{}:1\"", i / 250, i % 250 + 1)).collect::<Vec<_>>();
    let with = |count| SHORT.replacen("\"10.0.0.1:2049\"", &format!("[{}]", many(count).join(", ")), 1);
    assert_eq!(parsed(&with(1024)).pools()[0].servers.len(), 1024);
    assert_eq!(wrong(&with(1025)), "3:11: servers: the list must have 1..1024 members, got 1025");
    let pools = (0..64).map(|i| format!("[[pool]]\nname = \"p{i}\"\nservers = \"10.0.0.1:1\"\n")).collect::<Vec<_>>();
    assert!(wrong(&format!("{SHORT}{}", pools.concat())).ends_with("there must be 1..64 of [[pool]], got 65"));
    let long = format!("/{}", "x".repeat(1024));
    let said = wrong(&SHORT.replacen("/scratch", &long, 1));
    assert_eq!(said, "5:8: path: a path has at most 1024 bytes, got 1025");
    let said = wrong(&format!("{SHORT}[admin]\nsocket = \"{}\"\n", &long[..108]));
    assert_eq!(said, "9:10: socket: the path of a socket has at most 107 bytes, got 108");
}

#[test]
fn a_file_is_named_with_its_mistakes() {
    let dir = std::env::temp_dir().join(format!("midas-config-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("midas.toml");
    let load = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Config::load(&path).map_err(|error| error.to_string().replace(&dir.display().to_string(), "DIR"))
    };
    let said = [
        load(SHORT.replacen("path", "paht", 1).as_bytes()).unwrap_err(),
        load(b"threads = 1\n# \xff").unwrap_err(),
        load(&vec![b'\n'; (1 << 20) + 1]).unwrap_err(),
    ];
    let good = load(SHORT.as_bytes());
    std::fs::remove_dir_all(&dir).unwrap();
    let want = [
        "DIR/midas.toml:4:1: missing key 'path' in [[export]]\nDIR/midas.toml:5:1: unknown key 'paht' in [[export]]; did you mean 'path'?",
        "DIR/midas.toml:2:3: this is not UTF-8 text",
        "DIR/midas.toml: the file is longer than 1048576 bytes",
    ];
    assert_eq!(said, want);
    assert_eq!(good, Ok(parsed(SHORT)));
    let gone = Config::load(&path).unwrap_err().to_string();
    assert!(gone.starts_with(&path.display().to_string()) && gone.contains("No such file"), "{gone}");
}

#[test]
fn warnings_name_what_is_allowed_and_probably_not_meant() {
    let cases = [
        (format!("{SHORT}[[pool]]\nname = \"spare\"\nservers = \"10.0.0.9:1\"\n"), "pool 'spare' has no export"),
        (
            format!("{SHORT}insecure = true\nsquash = \"none\"\n"),
            "export '/scratch': insecure lets every user of a client in 10.0.0.0/8 speak as any other, root included",
        ),
        (
            format!("{SHORT}insecure = true\n"),
            "export '/scratch': insecure lets every user of a client in 10.0.0.0/8 speak as any other but root",
        ),
        (
            format!("{SHORT}[[export]]\npath = \"/b\"\nsource = \"/scratch\"\npool = \"heads\"\nclients = \"::1\"\n"),
            "exports '/scratch' and '/b' are the same files of pool 'heads': whoever may use one can use its handles in the other",
        ),
    ];
    for (text, want) in cases {
        assert_eq!(parsed(&text).warnings(), [want], "{text}");
    }
    assert_eq!(parsed(&format!("{SHORT}insecure = true\nsquash = \"all\"\n")).warnings(), Vec::<String>::new());
}

#[test]
fn a_reload_tells_what_it_changes_and_what_needs_a_restart() {
    let cases = [
        (SHORT.to_owned(), vec![]),
        (format!("{SHORT}policy = \"rr\"\n"), vec!["export '/scratch': policy changed from first-fit to rr"]),
        (
            SHORT.replacen("\"10.0.0.0/8\"", "[\"10.0.0.0/8\", \"::1\"]", 1),
            vec!["export '/scratch': clients changed from 10.0.0.0/8 to 10.0.0.0/8 ::1"],
        ),
        (
            format!("{SHORT}access = \"rw\"\nsquash = \"none\"\nanon_uid = 5\nanon_gid = 6\ninsecure = true\n"),
            vec![
                "export '/scratch': access changed from ro to rw",
                "export '/scratch': squash changed from root to none",
                "export '/scratch': anon_uid changed from 65534 to 5",
                "export '/scratch': anon_gid changed from 65534 to 6",
                "export '/scratch': insecure changed from false to true",
            ],
        ),
        (
            SHORT.replacen("[[export]]", "staleness = \"0s\"\n[[export]]", 1),
            vec!["pool 'heads': staleness changed from 65s to 0s"],
        ),
        (
            SHORT.replacen("\"10.0.0.1:2049\"", "[\"10.0.0.1:2049\", \"nas1:1\"]", 1),
            vec![
                "pool 'heads': servers changed from 10.0.0.1:2049 to 10.0.0.1:2049 nas1:1=10.0.0.1:1 (at the next restart)",
            ],
        ),
        (
            SHORT.replacen("\"/scratch\"", "\"/home\"", 1),
            vec!["export '/scratch' is gone (at the next restart)", "export '/home' is new (at the next restart)"],
        ),
        (
            format!("threads = {}\n{SHORT}[log]\nlevel = \"debug\"\n", 1 + cores()),
            vec!["THREADS", "[log]: level changed from info to debug"],
        ),
    ];
    let old = parsed(SHORT);
    for (text, want) in cases {
        let new = parsed(&text);
        let threads =
            format!("the top level: threads changed from {} to {} (at the next restart)", cores(), 1 + cores());
        let want: Vec<String> = want.into_iter().map(|line| line.replace("THREADS", &threads)).collect();
        let changes = old.differences(&new);
        assert_eq!(changes.iter().map(ToString::to_string).collect::<Vec<_>>(), want, "{text}");
        assert_eq!(changes.is_empty(), old == new, "{text}");
        let mut running = old.clone();
        running.take_live(&new);
        let waiting: Vec<Change> = changes.into_iter().filter(|change| change.applies == Applies::Restart).collect();
        assert_eq!(running.differences(&new), waiting, "{text}");
    }
}

#[test]
fn an_export_admits_whoever_is_on_its_list() {
    let config = parsed(&SHORT.replacen("\"10.0.0.0/8\"", "[\"10.0.0.0/8\", \"fd00::/8\"]", 1));
    for (client, want) in [("10.9.9.9", true), ("::ffff:10.9.9.9", true), ("fd00::1", true), ("192.0.2.1", false)] {
        assert_eq!(config.exports()[0].admits(client.parse().unwrap()), want, "{client}");
    }
}
