//! `midas serve`: the proxy.

use crate::failure::Failure;
use crate::signal;
use clap::Args;
use midas_proxy::Proxy;
use midas_proxy::config::Config;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Run the proxy: clients mount it, the servers of the configuration stand behind it
///
/// Answers NFSv3 and MOUNT. Says `ready` once a server was admitted; until then mounts are refused and calls wait.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The configuration (see `midas check`)
    #[arg(long, value_name = "FILE", default_value = Config::PATH)]
    config: PathBuf,
    /// The unix socket that `midas status` and the other live commands use, instead of the configuration's
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let config = Config::load(&self.config).map_err(|error| Failure::Broken(error.to_string()))?;
        let config = match self.socket {
            Some(socket) => config.with_socket(socket),
            None => config,
        };
        let stop = signal::stop()?;
        let proxy = Proxy::start(&config).map_err(|error| Failure::Broken(error.to_string()))?;
        let mut said = false;
        while !stop.load(Ordering::Relaxed) {
            if !said && proxy.ready(Duration::ZERO) {
                said = true;
                let admin = proxy.admin_tcp().map_or_else(String::new, |admin| format!(" admin {admin}"));
                say(&format!("ready: nfs {} mount {}{admin}", list(proxy.nfs()), list(proxy.mount())))?;
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

fn list(addresses: &[std::net::SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn say(line: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| Failure::Broken(error.to_string()))
}

/// How soon a signal is seen.
const LOOK: Duration = Duration::from_millis(20);
