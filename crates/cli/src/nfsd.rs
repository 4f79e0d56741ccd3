//! `midas nfsd`: the embedded metadata servers, with faults on command.

use crate::failure::Failure;
use clap::Args;
use midas_nfsd::{Bounds, Command, Config, Fault, Limits, Namespace, Nfsd, Seen, ServiceTimes};
use midas_workload::units::parse_span;
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;
use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Run embedded NFSv3 servers over one namespace, for tests and demos
///
/// Every server listens on its own port for NFS, MOUNT and portmap alike, gives the same handles as the others, and can be
/// made slow or broken while it runs. Nothing here is meant for production: data in memory is gone with the process, and
/// everyone who reaches the port may mount.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub(crate) struct Options {
    /// Servers over the one namespace; server I listens on PORT + I
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    servers: u16,
    /// Serve this directory instead of an empty namespace in memory
    #[arg(long, value_name = "DIR", conflicts_with = "memory")]
    dir: Option<PathBuf>,
    /// Serve an empty namespace in memory (the default)
    #[arg(long)]
    memory: bool,
    /// Where the first server listens; port 0 is any free one
    #[arg(long, default_value = "127.0.0.1:12049", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Also answer portmap and rpcbind here, over TCP and UDP (clients that name no port ask at 111)
    #[arg(long, value_name = "ADDRESS:PORT")]
    portmap: Option<SocketAddr>,
    /// The path that clients mount
    #[arg(long, default_value = "/", value_name = "PATH")]
    export: String,
    /// How long calls take: none; const:100us, exp:2ms, lognormal:, bimodal:; by procedure: create=exp:2ms,const:100us
    #[arg(long, default_value = "none", value_name = "TIMES")]
    service: String,
    /// Calls that a server works on at once, where they take time
    #[arg(long, default_value = "1")]
    workers: NonZeroUsize,
    /// Seed of random service times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What is wrong with a server from the start, such as 0=hang; may be given several times
    #[arg(long, value_name = "SERVER=FAULT")]
    fault: Vec<String>,
    /// Keep the truth about every executed call, for the command `truth`
    #[arg(long)]
    truth: bool,
    /// Let every READ move its file's atime, and nothing else, in memory
    #[arg(long, conflicts_with = "dir")]
    atime: bool,
    /// Let every server answer for so long with attributes and names that it once knew, as stock Ganesha does for 60s
    #[arg(long, default_value = "0s", value_name = "TIME")]
    attribute_cache: String,
    /// Connections that one server takes; further ones are closed at once
    #[arg(long, default_value_t = 16_384)]
    connections: usize,
    /// Megabytes of file data that the namespace in memory takes
    #[arg(long, default_value_t = 1024, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    data: u64,
    /// End when standard input ends, so that servers do not outlive the script that started them
    #[arg(long)]
    until_eof: bool,
    /// Say where the servers listen as one line of JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  midas nfsd --servers 4 --memory
  midas nfsd --dir DIR --export /data --listen 127.0.0.1:20490
  midas nfsd --servers 4 --service const:100ms --workers 1 --truth
  mount -t nfs -o vers=3,port=12049,mountport=12049,nolock 127.0.0.1:/ /mnt

Commands, one a line on standard input (SERVER is a number from 0, or `all`):
  fault SERVER FAULT   none, hang, stall:1s/10s, slow:10ms, fail:IO, down, other-handles, wrong-xid, half-reply, mute
  drop SERVER          close its connections
  restart SERVER       crash and start again: queued calls and uncommitted data are lost, the write verifier is new
  sync                 print a line of JSON when every command before this one is carried out
  truth                print one line of JSON: executed calls by server and procedure, doubles, queues
  quit                 end";

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let config = self.config()?;
        let namespace = self.namespace()?;
        raise_file_limit();
        let nfsd = Nfsd::start(&config, &Arc::new(namespace)).map_err(|error| Failure::Broken(error.to_string()))?;
        for typed in &self.fault {
            let (server, fault) = typed
                .split_once('=')
                .ok_or_else(|| Failure::Usage(format!("'{typed}' is not SERVER=FAULT, such as 0=hang")))?;
            obey(&nfsd, &format!("fault {server} {fault}")).map_err(Failure::Usage)?;
        }
        self.say_ready(&nfsd)?;
        let nfsd = Arc::new(nfsd);
        watch(&nfsd);
        let stdin = std::io::stdin();
        for line in stdin.lock().split(b'\n').map_while(Result::ok) {
            match obey(&nfsd, String::from_utf8_lossy(&line).trim()) {
                Ok(Next::Go) => {}
                Ok(Next::Quit) => return Ok(()),
                Err(why) => eprintln!("midas: {why}"),
            }
        }
        match self.until_eof {
            true => Ok(()),
            false => loop {
                // Commands can come no more; `watch` ends the process when a server is dead.
                std::thread::park();
            },
        }
    }

    fn config(&self) -> Result<Config, Failure> {
        let last = usize::from(self.listen.port()) + usize::from(self.servers) - 1;
        if self.listen.port() != 0 && last > usize::from(u16::MAX) {
            return Err(Failure::Usage(format!(
                "{} servers from port {} need port {last}",
                self.servers,
                self.listen.port()
            )));
        }
        if !self.export.starts_with('/') {
            return Err(Failure::Usage(format!("'{}' is not a path to mount: it must begin with /", self.export)));
        }
        let port = |number: u16| if self.listen.port() == 0 { 0 } else { self.listen.port() + number };
        Ok(Config {
            listen: (0..self.servers).map(|number| SocketAddr::new(self.listen.ip(), port(number))).collect(),
            portmap: self.portmap,
            export: self.export.clone(),
            service: ServiceTimes::parse(&self.service, self.seed).map_err(Failure::Usage)?,
            workers: self.workers,
            bounds: Bounds { connections: self.connections, ..Bounds::default() },
            truth: self.truth,
            atime: self.atime,
            attribute_cache: self.attribute_cache()?,
        })
    }

    fn attribute_cache(&self) -> Result<Duration, Failure> {
        let span =
            parse_span(&self.attribute_cache).map_err(|error| Failure::Usage(format!("--attribute-cache: {error}")))?;
        Ok(Duration::from_nanos(span.as_nanos()))
    }

    fn namespace(&self) -> Result<Namespace, Failure> {
        match &self.dir {
            Some(dir) => Namespace::directory(dir).map_err(|error| Failure::io(dir, &error)),
            None => Ok(Namespace::memory(Limits { bytes: self.data << 20, ..Limits::default() })),
        }
    }

    fn say_ready(&self, nfsd: &Nfsd) -> Result<(), Failure> {
        let addresses: Vec<String> = nfsd.addresses().iter().map(ToString::to_string).collect();
        let line = match self.json {
            true => json!({ "ready": true, "servers": addresses, "export": self.export }).to_string(),
            false => format!("ready: {} serve {}", addresses.join(" "), self.export),
        };
        say(&line).map_err(|error| Failure::Broken(error.to_string()))
    }
}

/// A server that died must not go unnoticed: its port would refuse and the process would live on.
fn watch(nfsd: &Arc<Nfsd>) {
    let nfsd = Arc::downgrade(nfsd);
    std::thread::spawn(move || {
        while let Some(nfsd) = nfsd.upgrade() {
            if let Some(server) = nfsd.dead() {
                eprintln!("midas: server {server} has died");
                std::process::exit(1);
            }
            drop(nfsd);
            std::thread::sleep(WATCH);
        }
    });
}

enum Next {
    Go,
    Quit,
}

/// Carries one line of standard input out; the error is one line.
fn obey(nfsd: &Nfsd, line: &str) -> Result<Next, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        [] => {}
        ["quit"] => return Ok(Next::Quit),
        ["truth"] => {
            let seen = nfsd.truth().ok_or("the truth is not kept: start with --truth")?.look(Instant::now());
            say(&truth(&seen).to_string()).map_err(|error| error.to_string())?;
        }
        ["sync"] => say(&json!({ "obeyed": true }).to_string()).map_err(|error| error.to_string())?,
        ["drop", server] => tell(nfsd, server, Command::Drop)?,
        ["restart", server] => tell(nfsd, server, Command::Restart)?,
        ["fault", server, fault] => tell(nfsd, server, Command::Fault(Fault::parse(fault)?))?,
        _ => {
            return Err(format!(
                "unknown command '{line}'; possible: fault, drop, restart, sync, truth, quit (see --help)"
            ));
        }
    }
    Ok(Next::Go)
}

fn tell(nfsd: &Nfsd, server: &str, command: Command) -> Result<(), String> {
    let servers = match server {
        "all" => 0..nfsd.addresses().len(),
        number => {
            let number: usize = number
                .parse::<u16>()
                .map(usize::from)
                .map_err(|_| format!("'{number}' is no server: a number from 0, or all"))?;
            number..number + 1
        }
    };
    for number in servers {
        nfsd.command(number, command).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The truth without the single calls, of which there may be a million.
fn truth(seen: &Seen) -> serde_json::Value {
    let servers: Vec<_> = seen.calls.iter().zip(&seen.queues).map(|(calls, queue)| {
        let named: serde_json::Map<String, serde_json::Value> = midas_nfs::nfs3::Procedure::ALL
            .into_iter()
            .zip(calls)
            .filter(|(_, count)| **count > 0)
            .map(|(procedure, count)| (procedure.name().to_owned(), json!(count)))
            .collect();
        json!({ "calls": named, "queue": queue.length(), "queue_longest": queue.longest, "queue_area_s": queue.area })
    }).collect();
    json!({ "at_s": seen.at.as_secs_f64(), "servers": servers, "doubles": seen.doubles, "uncompared": seen.uncompared })
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// How often the servers are looked at.
const WATCH: Duration = Duration::from_millis(200);

/// Ten thousand connections need as many descriptors; what the system allows at most is taken.
pub(crate) fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Refused: the old limit holds.
    let _refused = setrlimit(Resource::Nofile, limit);
}
