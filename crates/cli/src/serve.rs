//! `midas serve`: the proxy.

use crate::failure::Failure;
use crate::nfsd::raise_file_limit;
use crate::notify::Notify;
use crate::signal;
use clap::Args;
use midas_proxy::config::{Config, ConfigError, Level, LogFormat};
use midas_proxy::{Proxy, Witness, log};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Run the proxy: clients mount it, the servers of the configuration stand behind it
///
/// Answers NFSv3 and MOUNT. Says `ready` once a server was admitted; until then mounts are refused and calls wait. SIGHUP reads the
/// configuration again; SIGTERM answers the calls under way and ends.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The configuration (see `midas check`)
    #[arg(long, value_name = "FILE", default_value = Config::PATH)]
    config: PathBuf,
    /// Serve nobody and only vote in the cluster of the configuration, as the member that is its witness
    #[arg(long)]
    witness: bool,
    /// The unix socket that `midas status` and the other live commands use, instead of the configuration's
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The form of log lines on stderr, instead of the configuration's
    #[arg(long, value_name = "text|json", value_parser = log_format)]
    log_format: Option<LogFormat>,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let config = self.read().map_err(|error| Failure::Broken(error.to_string()))?;
        let (stop, reload) = (signal::stop()?, signal::reload()?);
        log::set(config.log());
        raise_file_limit();
        let mut notify = Notify::new();
        if self.witness {
            return vote(&config, &stop, &mut notify);
        }
        let mut proxy = Proxy::start(&config).map_err(|error| Failure::Broken(error.to_string()))?;
        let (mut said, mut patience) = (false, Some(Instant::now() + PATIENCE));
        while !stop.load(Ordering::Relaxed) {
            if !said && proxy.ready(Duration::ZERO) {
                said = true;
                say_ready(&proxy, &notify)?;
            }
            if !said && patience.is_some_and(|end| Instant::now() >= end) {
                patience = None;
                say_waiting(&proxy);
            }
            if reload.swap(false, Ordering::Relaxed) {
                self.reload(&mut proxy, &notify, said);
            }
            notify.sign(|| proxy.alive());
            std::thread::sleep(LOOK);
        }
        notify.stopping();
        proxy.drain(Duration::from_nanos(config.limits().drain.as_nanos()));
        log::flush();
        Ok(())
    }

    /// The configuration, with what was typed instead of it.
    fn read(&self) -> Result<Config, ConfigError> {
        let mut config = Config::load(&self.config)?;
        if let Some(socket) = &self.socket {
            config = config.with_socket(socket.clone());
        }
        if let Some(format) = self.log_format {
            config = config.with_log_format(format);
        }
        Ok(config)
    }

    /// An invalid file changes nothing.
    fn reload(&self, proxy: &mut Proxy, notify: &Notify, serving: bool) {
        notify.reloading();
        match self.read() {
            Ok(config) => drop(proxy.reload(&config)),
            Err(error) => {
                for problem in error.to_string().lines() {
                    log::answer(Level::Error, "wrong in the configuration", &[("what", &problem)]);
                }
                log::answer(Level::Error, "not reloaded", &[("file", &self.config.display())]);
            }
        }
        // Who reloads before there is a server is not ready for it.
        if serving {
            notify.ready(SERVING);
        }
    }
}

/// Until told to stop.
fn vote(config: &Config, stop: &AtomicBool, notify: &mut Notify) -> Result<(), Failure> {
    let witness = Witness::start(config).map_err(|error| Failure::Broken(error.to_string()))?;
    say(&format!("ready: cluster {}", witness.listen()))?;
    notify.ready(VOTING);
    while !stop.load(Ordering::Relaxed) {
        notify.sign(|| true);
        std::thread::sleep(LOOK);
    }
    notify.stopping();
    witness.leave();
    log::flush();
    Ok(())
}

fn log_format(typed: &str) -> Result<LogFormat, String> {
    let found = LogFormat::NAMES.iter().find(|(name, _)| *name == typed);
    found.map(|(_, format)| *format).ok_or_else(|| "possible: text, json".to_owned())
}

fn say_ready(proxy: &Proxy, notify: &Notify) -> Result<(), Failure> {
    let admin = proxy.admin_tcp().map_or_else(String::new, |admin| format!(" admin {admin}"));
    let (nfs, mount) = (list(proxy.nfs()), list(proxy.mount()));
    say(&format!("ready: nfs {nfs} mount {mount}{admin}"))?;
    notify.ready(SERVING);
    log::info("serving", &[("nfs", &nfs), ("mount", &mount), ("version", &env!("CARGO_PKG_VERSION"))]);
    Ok(())
}

/// Nobody has to look at the status to see why nothing is said.
fn say_waiting(proxy: &Proxy) {
    let (unserved, servers) = (proxy.unserved().join(","), proxy.open());
    let help = "calls wait, mounts are refused; `midas doctor` asks the servers";
    log::warn("not ready", &[("exports_without_server", &unserved), ("servers_open", &servers), ("help", &help)]);
}

fn list(addresses: &[std::net::SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn say(line: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| Failure::Broken(error.to_string()))
}

/// What `systemctl status` shows.
const SERVING: &str = "clients are served";
const VOTING: &str = "a witness of its cluster";
/// How soon a signal is seen.
const LOOK: Duration = Duration::from_millis(20);
/// What usually takes less is said if it takes longer.
const PATIENCE: Duration = Duration::from_secs(3);
