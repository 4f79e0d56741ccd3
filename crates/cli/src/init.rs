//! `midas init`: asks servers what they export, looks whether they belong together, and prints a configuration to begin with.

use crate::doctor::{SAME_HANDLES, dearest, staleness_s};
use crate::failure::Failure;
use crate::signal;
use clap::Args;
use midas_core::route::moves::Moves;
use midas_proxy::config::{Network, Server, address_of};
use midas_proxy::survey::{self, Asking, Greeting, Survey};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Ask servers for their exports and print a commented configuration for `midas serve`
///
/// What it prints is careful: read-only, root squashed, every directory at one server, nothing cached. Exit status: 1 if a server was left
/// out because it does not belong to the others, 2 if one was left out because it did not answer.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[arg(
        required = true,
        value_name = "SERVER",
        help = "Servers of one namespace: HOST[:PORT][?mount=PORT]; ports that are not named are looked for"
    )]
    servers: Vec<String>,
    /// A network or an address that may mount; may be given several times
    #[arg(long, value_name = "NET")]
    clients: Vec<String>,
    /// Measure how soon servers see each other's changes: makes and removes a scratch directory in each export
    #[arg(long)]
    measure: bool,
}

/// A file in the making: what goes in, and why the rest does not.
#[derive(Debug, Default)]
struct Draft {
    servers: Vec<String>,
    left_out: Vec<(String, String)>,
    /// None if each answers MOUNT where it answers NFS.
    mount_port: Option<u16>,
    exports: Vec<String>,
    exports_left_out: Vec<(String, String)>,
    clients: Vec<String>,
    staleness_s: Option<u64>,
    moves: Option<Moves>,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let clients = self.clients.iter().map(|text| Network::parse(text).map(|network| network.to_string()));
        let clients = clients.collect::<Result<Vec<_>, _>>().map_err(Failure::Usage)?;
        let typed =
            self.servers.iter().map(|text| parse(text)).collect::<Result<Vec<_>, _>>().map_err(Failure::Usage)?;
        if let Some(twice) =
            typed.iter().enumerate().find(|(at, one)| typed[..*at].iter().any(|other| other.0.address == one.0.address))
        {
            return Err(Failure::Usage(format!("'{}' is there twice", twice.1.0.name)));
        }
        let stop = signal::stop()?;
        let asking = Asking { patience: PATIENCE, write: self.measure, stop: &stop };
        let mut draft = Draft { clients, ..Draft::default() };
        let silent = draft.ask(&typed, &asking)?;
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Broken("interrupted".to_owned()));
        }
        let text = draft.toml();
        write!(std::io::stdout().lock(), "{text}").map_err(|error| Failure::Broken(error.to_string()))?;
        for (server, why) in &draft.left_out {
            eprintln!("midas: {server} is left out: {why}");
        }
        match (draft.left_out.len(), silent) {
            (0, _) => Ok(()),
            (left, true) => Err(Failure::Unanswered(format!("{left} of {} servers were left out", self.servers.len()))),
            (left, false) => Err(Failure::Broken(format!("{left} of {} servers were left out", self.servers.len()))),
        }
    }
}

impl Draft {
    /// Fills itself in; whether a server was silent.
    fn ask(&mut self, typed: &[(Server, bool)], asking: &Asking<'_>) -> Result<bool, Failure> {
        let (mut servers, mut paths, mut silent) = (Vec::new(), Vec::new(), false);
        let found = survey::all(typed, |(server, named)| {
            let mut server = server.clone();
            if let (false, Some(port)) = (*named, survey::mount_port(server.address, asking)) {
                server.mount.set_port(port);
            }
            let greeting = survey::greet(&server, asking);
            (server, greeting)
        });
        for (server, greeting) in found {
            match exports(&greeting) {
                Ok(exports) => {
                    paths.push(exports);
                    servers.push(server);
                }
                Err((why, no_answer)) => {
                    silent |= no_answer;
                    self.left_out.push((server.name, why));
                }
            }
        }
        if servers.is_empty() {
            let why: Vec<String> = self.left_out.iter().map(|(server, why)| format!("{server}: {why}")).collect();
            return Err(Failure::Unanswered(format!("no server can be asked: {}", why.join("; "))));
        }
        self.mount_port = one_mount_port(&servers).map_err(Failure::Broken)?;
        let common = self.common(&servers, &paths);
        let surveys: Vec<Survey> = common.iter().map(|path| survey::survey(&servers, path, asking)).collect();
        self.choose(&servers, common, &surveys)?;
        Ok(silent)
    }

    /// The paths that all have; the others are remembered with who lacks them.
    fn common(&mut self, servers: &[Server], paths: &[Vec<Vec<u8>>]) -> Vec<String> {
        let all: BTreeSet<&[u8]> = paths.iter().flatten().map(Vec::as_slice).collect();
        let mut common = Vec::new();
        for path in all {
            let lacking = servers.iter().zip(paths).filter(|(_, paths)| !paths.iter().any(|other| other == path));
            let lacking: Vec<&str> = lacking.map(|(server, _)| server.name.as_str()).collect();
            match (writable_name(path), lacking.is_empty()) {
                (Some(path), true) => common.push(path),
                (Some(path), false) => {
                    self.exports_left_out.push((path, format!("not exported by {}", lacking.join(", "))));
                }
                (None, _) => {
                    self.exports_left_out
                        .push((path.escape_ascii().to_string(), "its name cannot be written here".to_owned()));
                }
            }
        }
        common
    }

    /// Decides who goes in.
    fn choose(&mut self, servers: &[Server], common: Vec<String>, surveys: &[Survey]) -> Result<(), Failure> {
        for (number, server) in servers.iter().enumerate() {
            let stranger = surveys.iter().zip(&common).find_map(|(survey, path)| {
                let (_, why) = survey.parity.strangers.iter().find(|(stranger, _)| *stranger == number)?;
                Some(format!("{path}: {why}. {SAME_HANDLES}"))
            });
            match stranger {
                Some(why) => self.left_out.push((server.name.clone(), why)),
                None => self.servers.push(server.name.clone()),
            }
        }
        for (path, survey) in common.into_iter().zip(surveys) {
            match servers.iter().zip(&survey.seen).find_map(|(server, seen)| Some((server, seen.as_ref().err()?))) {
                Some((server, trouble)) => self.exports_left_out.push((path, format!("{}: {trouble}", server.name))),
                None => self.exports.push(path),
            }
        }
        if let Some(left) = surveys.iter().find_map(|survey| survey.left_behind.as_ref()) {
            return Err(Failure::Broken(format!("could not be removed, remove it by hand: {left}")));
        }
        if self.exports.is_empty() {
            let why: Vec<String> = self.exports_left_out.iter().map(|(path, why)| format!("{path} ({why})")).collect();
            return Err(Failure::Broken(format!("no export can be used on all servers: {}", why.join("; "))));
        }
        let measured = surveys.iter().map(staleness_s).collect::<Option<Vec<u64>>>();
        self.staleness_s = measured.and_then(|all| all.into_iter().max());
        self.moves = dearest(surveys.iter());
        Ok(())
    }

    fn toml(&self) -> String {
        let mut lines = vec![HEAD.to_owned(), "[[pool]]\nname = \"heads\"\nservers = [".to_owned()];
        lines.extend(self.servers.iter().map(|server| format!("    {},", quoted(server))));
        lines.push("]".to_owned());
        lines.extend(self.left_out.iter().map(|(server, why)| format!("# Left out: {server}: {why}")));
        lines.extend(self.mount_port.map(|port| format!("mount_port = {port}")));
        lines.push(match self.staleness_s {
            Some(seconds) => format!("staleness = \"{seconds}s\"            # measured: {STALENESS}"),
            None => format!("staleness = \"65s\"           # not measured: {STALENESS} (see `midas doctor --write`)"),
        });
        lines.extend(self.moves.map(|moves| match moves {
            Moves::Free => "moves = \"free\"              # measured: CREATE and GETATTR cost the same at two servers".to_owned(),
            Moves::None => "moves = \"none\"              # measured: a call that moves costs much (see `midas doctor --write`)".to_owned(),
        }));
        lines.extend(self.exports_left_out.iter().map(|(path, why)| format!("\n# Left out: {path}: {why}")));
        lines.extend(
            self.exports.iter().map(|path| {
                format!("\n[[export]]\npath = {}\npool = \"heads\"\n{}\n{RULES}", quoted(path), self.who())
            }),
        );
        lines.join("\n") + "\n"
    }

    fn who(&self) -> String {
        let list: Vec<String> = self.clients.iter().map(|client| quoted(client)).collect();
        match list.is_empty() {
            true => "clients = [\"127.0.0.1\"]     # FILL IN who may mount, such as [\"10.1.0.0/16\"]; now only this machine may".to_owned(),
            false => format!("clients = [{}]", list.join(", ")),
        }
    }
}

/// A server, and whether its MOUNT port was named.
fn parse(text: &str) -> Result<(Server, bool), String> {
    let (host, mount) = match text.split_once('?') {
        None => (text, None),
        Some((host, option)) => {
            let port =
                option.strip_prefix("mount=").and_then(|port| port.parse::<u16>().ok()).filter(|port| *port != 0);
            (host, Some(port.ok_or_else(|| format!("'{text}' is not a server: write HOST[:PORT][?mount=PORT]"))?))
        }
    };
    // An IPv6 address has colons of its own: bare, it is one without a port.
    let bare = host.parse::<std::net::IpAddr>();
    let name = match (bare, host.ends_with(']') || !host.contains(':')) {
        (Ok(address), _) => SocketAddr::new(address, NFS_PORT).to_string(),
        (Err(_), true) => format!("{host}:{NFS_PORT}"),
        (Err(_), false) => host.to_owned(),
    };
    let address = address_of(&name)?;
    let port = mount.unwrap_or(address.port());
    Ok((Server { name, address, mount: SocketAddr::new(address.ip(), port) }, mount.is_some()))
}

/// What a server exports, or why it cannot be used and whether it was silent.
fn exports(greeting: &Greeting) -> Result<Vec<Vec<u8>>, (String, bool)> {
    let silent = |trouble: &survey::Trouble| (trouble.to_string(), matches!(trouble, survey::Trouble::Silent(_)));
    greeting.nfs.as_ref().map_err(silent)?;
    greeting.mount.as_ref().map_err(|trouble| {
        let (why, no_answer) = silent(trouble);
        (format!("{why} (name the port of MOUNT: ?mount=PORT; `rpcinfo -p` lists it)"), no_answer)
    })?;
    greeting.exports.clone().map_err(|trouble| silent(&trouble))
}

/// A pool has one port for MOUNT, or each of its servers its own for both.
fn one_mount_port(servers: &[Server]) -> Result<Option<u16>, String> {
    let port = servers[0].mount.port();
    let (same, own) = (
        servers.iter().all(|server| server.mount.port() == port),
        servers.iter().all(|server| server.mount == server.address),
    );
    match (own, same) {
        (true, _) => Ok(None),
        (false, true) => Ok(Some(port)),
        (false, false) => {
            let ports = servers.iter().map(|server| format!("{} at {}", server.name, server.mount.port()));
            let ports = ports.collect::<Vec<_>>().join(", ");
            Err(format!("the servers answer MOUNT at different ports ({ports}): a pool has one; give them the same"))
        }
    }
}

/// The path as text, if midas.toml can hold it.
fn writable_name(path: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(path).ok()?;
    (text.starts_with('/') && !text.chars().any(char::is_control)).then(|| text.to_owned())
}

/// A string of TOML. Without control characters it is written as in JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// For each answer.
const PATIENCE: Duration = Duration::from_secs(5);
const NFS_PORT: u16 = 2049;
const HEAD: &str = "\
# Made by `midas init` from what the servers say. Look it through, fill in `clients`, and ask `midas check` and `midas doctor`.
# docs/operating.md has every key, and how to put MIDAS in and take it out again.

[listen]
nfs = \"0.0.0.0:2049\"         # \"[::]:2049\" takes IPv6 and IPv4
mount = \"0.0.0.0:20048\"
#portmap = \"0.0.0.0:111\"     # for clients that name no ports, if no rpcbind runs here
";
const STALENESS: &str = "so long may another server answer with old attributes";
const RULES: &str = "\
access = \"ro\"               # \"rw\" once clients may change things
squash = \"root\"             # \"none\" if clients' root must be root
policy = \"hash-directory\"   # at first; then \"observe\", then \"first-fit\"
mode = \"strict\"             # nothing is cached; 'The cache' in docs/operating.md says what else there is";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_understood_with_and_without_ports() {
        let cases = [
            ("10.0.0.1", Ok(("10.0.0.1:2049", 2049, false))),
            ("10.0.0.1:12049", Ok(("10.0.0.1:12049", 12049, false))),
            ("10.0.0.1?mount=635", Ok(("10.0.0.1:2049", 635, true))),
            ("[fd00::1]:1?mount=2", Ok(("[fd00::1]:1", 2, true))),
            ("fd00::1", Ok(("[fd00::1]:2049", 2049, false))),
            ("[fd00::1]", Ok(("[fd00::1]:2049", 2049, false))),
            ("10.0.0.1?mount=0", Err("HOST[:PORT][?mount=PORT]")),
            ("10.0.0.1?port=1", Err("HOST[:PORT][?mount=PORT]")),
            ("10.0.0.1:x", Err("not an address")),
            ("", Err("not an address")),
        ];
        for (text, want) in cases {
            match (parse(text), want) {
                (Ok((server, named)), Ok(want)) => {
                    assert_eq!((server.name.as_str(), server.mount.port(), named), want, "{text}");
                }
                (Err(error), Err(want)) => assert!(error.contains(want), "{text}: {error}"),
                (found, want) => panic!("{text}: {found:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn what_is_printed_is_a_configuration_whatever_names_and_reasons_say() {
        let some = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let draft = Draft {
            servers: some(&["10.0.0.1:2049", "[fd00::1]:2049"]),
            left_out: vec![("10.0.0.3:2049".to_owned(), "its root is another".to_owned())],
            mount_port: Some(635),
            exports: some(&["/", "/a \"b\"\\c", "/\u{e9}"]),
            exports_left_out: vec![("/odd".to_owned(), "not exported by 10.0.0.1:2049".to_owned())],
            clients: Vec::new(),
            staleness_s: None,
            moves: None,
        };
        let config = midas_proxy::config::Config::parse(&draft.toml()).unwrap();
        let paths: Vec<&str> = config.exports().iter().map(|export| export.path.as_str()).collect();
        assert_eq!(paths, ["/", "/a \"b\"\\c", "/\u{e9}"]);
        assert!(
            config
                .exports()
                .iter()
                .all(|export| export.access == midas_proxy::config::Access::ReadOnly && !export.insecure)
        );
        assert_eq!(config.pools()[0].servers.len(), 2);
        let moves = Some(Moves::None);
        let measured = Draft { staleness_s: Some(4), moves, clients: some(&["10.0.0.0/8"]), ..draft };
        let config = midas_proxy::config::Config::parse(&measured.toml()).unwrap();
        assert_eq!(config.pools()[0].staleness.as_nanos(), 4_000_000_000);
        assert_eq!(config.pools()[0].moves, Moves::None);
        assert_eq!(config.exports()[0].clients[0].to_string(), "10.0.0.0/8");
    }
}
