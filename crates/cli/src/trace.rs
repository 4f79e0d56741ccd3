//! `midas trace`: calls as they pass, in columns or as lines of JSON that `trace:FILE` reads back.

use crate::control::{Daemon, absent, refused, send, strange};
use crate::failure::Failure;
use clap::Args;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Method, Response, StatusCode};
use midas_proxy::api::watch::{TRACE, Traced};
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Show calls as they pass through a running `midas serve`, until Ctrl-C
///
/// One line a call, when it is answered: seconds since the daemon's start, client, user, procedure, path (or the digest of its directory
/// or object), the server that answered or `cache`, why it was that one, how it ended, milliseconds. What is given must all hold. While
/// somebody listens every call costs the daemon a little more; at most 4 may. Whoever reads too slowly misses calls, and is told how many.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// Calls of this client: its address
    #[arg(long, value_name = "ADDRESS")]
    client: Option<String>,
    /// Calls on what lies at this path or below it, as far as paths are known
    #[arg(long)]
    path: Option<String>,
    /// Calls of this procedure, such as lookup
    #[arg(long, visible_alias = "op", value_name = "NAME")]
    procedure: Option<String>,
    /// Calls that this server answered
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Calls with this reason: hit, absent, joined, here, home, steered, pinned, split, overflow, capped, rerouted, panic, turn, observed
    #[arg(long, value_name = "WHY")]
    reason: Option<String>,
    /// Stop after so many calls
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Stop after so many seconds
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    #[command(flatten)]
    daemon: Daemon,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let stop = crate::signal::stop()?;
        let (socket, json) = self.daemon.parts();
        // So many seconds that no clock shows their end have none.
        let until = self.seconds.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
        let mut shown = Shown { json, limit: self.limit.unwrap_or(u64::MAX), lines: 0, missed: 0 };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::Broken(error.to_string()))?;
        let address = format!("{TRACE}{}", self.query());
        let ended = runtime.block_on(listen(socket, &address, &End { stop: &stop, until }, &mut shown));
        if ended.is_ok() || shown.lines > 0 {
            eprintln!("{} calls, {} missed", shown.lines, shown.missed);
        }
        ended
    }

    /// What is wanted, as an address says it.
    fn query(&self) -> String {
        let fields = [
            ("client", &self.client),
            ("path", &self.path),
            ("procedure", &self.procedure),
            ("server", &self.server),
            ("reason", &self.reason),
        ];
        let given = fields.iter().filter_map(|(name, value)| Some(format!("{name}={}", written(value.as_deref()?))));
        let given: Vec<String> = given.collect();
        if given.is_empty() { String::new() } else { format!("?{}", given.join("&")) }
    }
}

/// As it is written in an address.
fn written(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b':' => out.push(byte.into()),
            other => write!(out, "%{other:02X}").expect("a string takes everything"),
        }
    }
    out
}

/// When to stop although more comes.
struct End<'s> {
    stop: &'s AtomicBool,
    until: Option<Instant>,
}

impl End<'_> {
    fn is_now(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

async fn listen(socket: &Path, address: &str, end: &End<'_>, shown: &mut Shown) -> Result<(), Failure> {
    let broken = |error: &dyn std::fmt::Display| Failure::Broken(format!("{}: {error}", socket.display()));
    let stream = UnixStream::connect(socket).await.map_err(|error| absent(socket, &error))?;
    let mut response: Response<Incoming> =
        send(stream, Method::GET, address, Vec::new()).await.map_err(|error| broken(&error))?;
    if response.status() != StatusCode::OK {
        let status = response.status();
        let answer = response.into_body().collect().await.map_err(|error| broken(&error))?;
        return Err(refused(status, &answer.to_bytes()));
    }
    let mut begun = Vec::new();
    while !end.is_now() {
        let frame = match timeout(LOOK, response.frame()).await {
            Err(_) => continue,
            Ok(None) => return Err(Failure::Broken("the daemon ended".to_owned())),
            Ok(Some(frame)) => frame.map_err(|_| Failure::Broken("the daemon ended".to_owned()))?,
        };
        begun.extend(frame.into_data().unwrap_or_default());
        let whole = begun.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let rest = begun.split_off(whole);
        if !shown.show(&std::mem::replace(&mut begun, rest))? {
            return Ok(());
        }
    }
    Ok(())
}

/// What was shown so far.
struct Shown {
    json: bool,
    limit: u64,
    lines: u64,
    missed: u64,
}

impl Shown {
    /// Prints whole lines; whether more are wanted.
    fn show(&mut self, lines: &[u8]) -> Result<bool, Failure> {
        let mut text = Vec::new();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            if self.lines == self.limit {
                break;
            }
            let traced: Traced = serde_json::from_slice(line).map_err(|error| strange(&error))?;
            self.lines += 1;
            self.missed += traced.missed;
            match self.json {
                true => text.extend_from_slice(line),
                false => text.extend_from_slice(columns(&traced).as_bytes()),
            }
        }
        let mut out = io::stdout().lock();
        match out.write_all(&text).and_then(|()| out.flush()) {
            Ok(()) => Ok(self.lines < self.limit),
            // Whoever read has had enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Failure::Broken(error.to_string())),
        }
    }
}

fn columns(call: &Traced) -> String {
    let what = match (&call.path, &call.name) {
        (Some(path), _) => path.escape_debug().to_string(),
        (None, Some(name)) => format!("#{}/{}", call.place, name.escape_debug()),
        (None, None) => format!("#{}", call.place),
    };
    let server = match (&call.server, call.why.as_str()) {
        (Some(server), _) => server.as_str(),
        (None, "hit" | "absent") => "cache",
        (None, _) => "-",
    };
    let missed = if call.missed > 0 { format!("  ({} missed before)", call.missed) } else { String::new() };
    format!(
        "{:>12.6}  {:15}  {:>6}  {:11}  {:40}  {:21}  {:9}  {:8}  {:>9.3}{missed}\n",
        call.at_us as f64 / 1e6,
        call.client,
        call.uid.map_or_else(|| "-".to_owned(), |uid| uid.to_string()),
        call.procedure,
        what,
        server,
        call.why,
        call.status,
        call.took_us as f64 / 1e3,
    )
}

/// How often it is looked whether to stop.
const LOOK: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  midas trace --reason steered                          what leaves its home, and for where
  midas trace --client 10.0.0.7 --procedure create      what one node creates
  midas trace --json --seconds 60 > storm.trace         a minute, to be played again:
  midas sim compare --workload trace:storm.trace --policy all --service const:1ms
  midas bench 10.0.0.5:2049/export --workload trace:storm.trace";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_what_is_known_and_names_are_escaped() {
        let call = Traced {
            at_us: 12_345_678,
            client: "10.0.0.7".to_owned(),
            procedure: "LOOKUP".to_owned(),
            place: "00000000000000ab".to_owned(),
            name: Some("a\u{1b}[2Jb".to_owned()),
            why: "hit".to_owned(),
            status: "OK".to_owned(),
            took_us: 1_500,
            ..Traced::default()
        };
        let words = |call: &Traced| columns(call).split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(words(&call), "12.345678 10.0.0.7 - LOOKUP #00000000000000ab/a\\u{1b}[2Jb cache hit OK 1.500");
        let path = Some("/scratch/a".to_owned());
        let sent =
            Traced { path, uid: Some(7), server: Some("s1".to_owned()), missed: 3, why: "home".to_owned(), ..call };
        assert_eq!(words(&sent), "12.345678 10.0.0.7 7 LOOKUP /scratch/a s1 home OK 1.500 (3 missed before)");
    }

    #[test]
    fn what_is_wanted_is_written_as_in_an_address() {
        assert_eq!(written("/scratch/a b&ü=1"), "/scratch/a%20b%26%C3%BC%3D1");
    }
}
