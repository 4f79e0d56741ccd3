//! `midas top`: what a daemon sees and does, live in the terminal.
//!
//! The daemon tells everything in frames, as `midas status --json` and `midas hot --json` would; here they are only shown. `feed` reads them,
//! `world` keeps what was told, `app` what is looked at; `screen` and the views make lines of it, and know no terminal: so `--once` and the tests draw as
//! the terminal does.

mod app;
mod cluster;
mod events;
mod exports;
mod feed;
mod grid;
mod paint;
mod plain;
mod screen;
mod servers;
mod spots;
mod sse;
mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod world;

use crate::failure::Failure;
use app::{App, View};
use clap::{Args, ValueEnum};
use feed::{News, Source};
use midas_proxy::api;
use paint::Paint;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Watch a running daemon: servers and their queues, hot directories, clients, users, knobs, events, the cluster
///
/// Five views, by their number or by Tab: servers (with the hottest directories, clients and users below), hot, exports, events, cluster. Keys: c and t
/// sort by calls or by the servers' time, p pauses, arrows and Page Up / Down scroll, ? shows all keys, q, Esc or Ctrl-C ends.
///
/// Where the terminal is too narrow for all columns, whole columns are left out: of servers the
/// trend first, then weight, service, the bar, p50, calls/s, p99; of hot spots error, calls/s,
/// hits, job, server ms; of exports entries and bound, imbalance, bounds, mode, steered. Names are
/// shortened and say so by an ellipsis; figures never are. NO_COLOR is heeded.
///
/// If the daemon goes away, that is said and it is asked again, at first after half a second, later every five.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// The control socket of the daemon
    #[arg(long, value_name = "PATH", default_value = api::SOCKET)]
    socket: PathBuf,
    /// Read the daemon's admin address (`[admin] tcp`) instead: from afar too
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "socket")]
    address: Option<String>,
    /// Print one frame as text, and end
    #[arg(long)]
    once: bool,
    /// Print frames as they come, a line of JSON each; with --once, one
    #[arg(long)]
    json: bool,
    /// What to show first
    #[arg(long, value_enum, default_value_t = View::Servers)]
    view: View,
    /// Whether to use colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Colour::Auto)]
    color: Colour,
    /// With --once: how wide [default: the terminal's width, or 100]
    #[arg(long, value_name = "N", requires = "once", value_parser = clap::value_parser!(u16).range(40..=500))]
    width: Option<u16>,
    /// With --once: how high at most [default: the terminal's height, or 50]
    #[arg(long, value_name = "N", requires = "once", value_parser = clap::value_parser!(u16).range(10..=500))]
    height: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Colour {
    Auto,
    Always,
    Never,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let source = match &self.address {
            Some(address) => Source::Address(address.clone()),
            None => Source::Socket(self.socket.clone()),
        };
        match (self.json, self.once) {
            (true, once) => json(&source, once),
            (false, true) => self.print(&source),
            (false, false) if !io::stdout().is_terminal() => Err(Failure::Usage(
                "standard output is no terminal: `midas top --once` prints one frame, `midas top --json` all"
                    .to_owned(),
            )),
            (false, false) => terminal::watch(App::new(self.view, self.paint(), source.to_string()), source),
        }
    }

    fn paint(&self) -> Paint {
        let silenced = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Paint::new(match self.color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => io::stdout().is_terminal() && !silenced,
        })
    }

    /// One frame, and the past that its trends show.
    fn print(&self, source: &Source) -> Result<(), Failure> {
        let mut app = App::new(self.view, self.paint(), source.to_string());
        feed::read(source, |_, news| {
            let last = matches!(news, News::Frame(_));
            app.hear(news);
            Ok(if last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let (wide, high) =
            ratatui::crossterm::terminal::size().ok().filter(|_| io::stdout().is_terminal()).unwrap_or((WIDTH, HEIGHT));
        let area = Rect::new(0, 0, self.width.unwrap_or(wide).max(40), self.height.unwrap_or(high).max(10));
        let mut cells = Buffer::empty(area);
        screen::print(&mut app, area, &mut cells);
        say(&plain::text(&cells, self.paint()))
    }
}

/// Frames as they came, until nobody reads them.
fn json(source: &Source, once: bool) -> Result<(), Failure> {
    feed::read(source, |data, news| match news {
        News::Frame(_) => {
            let mut out = io::stdout().lock();
            match writeln!(out, "{data}").and_then(|()| out.flush()) {
                Ok(()) if once => Ok(ControlFlow::Break(())),
                Ok(()) => Ok(ControlFlow::Continue(())),
                Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
                Err(error) => Err(Failure::Broken(error.to_string())),
            }
        }
        News::Past(_) | News::Gone { .. } => Ok(ControlFlow::Continue(())),
    })
}

fn say(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| Failure::Broken(error.to_string()))
}

const WIDTH: u16 = 100;
const HEIGHT: u16 = 50;
const EXAMPLES: &str = "\
Examples:
  midas top                                    this host's daemon
  midas top --address proxy2:9049              another host's, if its [admin] tcp is reachable
  midas top --once --view hot --width 120      one picture, as text
  midas top --json | jq .status.held           every half a second";
