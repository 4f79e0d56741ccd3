//! `/api/v1/trace`: calls as they pass, a line of JSON each, for whoever may control the daemon.

use super::routes::Refusal;
use crate::api::watch::{Filter, Traced};
use crate::config::nearest::suggestion;
use crate::event::Shared;
use crate::watch::{LISTENERS, Outcome, Passed, Wants, digest};
use axum::http::StatusCode;
use hyper::body::{Body, Bytes, Frame};
use midas_core::decision::{Route, Why};
use midas_core::id::ServerId;
use midas_nfs::nfs3::Procedure;
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::Receiver;

/// What someone hears of the calls, as the body of an answer; when it is dropped, nobody listens any more.
pub(super) struct Heard {
    shared: Arc<Shared>,
    number: u64,
    calls: Receiver<Passed>,
    /// A path that calls lie at or below.
    below: Option<String>,
    /// Lines that were missed before one that was not wanted.
    missed: u64,
}

/// Begins to listen, or says what cannot be.
pub(super) fn listen(shared: &Arc<Shared>, filter: Filter) -> Result<Heard, Refusal> {
    let wants = wants(shared, &filter)?;
    let below = filter.path.map(|path| path.trim_end_matches('/').to_owned());
    let full = || {
        let why = format!("{LISTENERS} listen already, and more are not served");
        Refusal(StatusCode::SERVICE_UNAVAILABLE, why)
    };
    let (number, calls) = shared.watch.tracer.listen(wants).ok_or_else(full)?;
    shared.watch.look();
    Ok(Heard { shared: Arc::clone(shared), number, calls, below, missed: 0 })
}

fn wants(shared: &Shared, filter: &Filter) -> Result<Wants, Refusal> {
    let client = filter.client.as_deref().map(client).transpose()?;
    let procedure = filter.procedure.as_deref().map(procedure).transpose()?;
    let server = filter.server.as_deref().map(|name| server(shared, name)).transpose()?;
    let reason = filter.reason.as_deref().map(reason).transpose()?;
    if filter.path.as_deref().is_some_and(|path| !path.starts_with('/')) {
        return Err(Refusal::wrong("a path begins with '/'"));
    }
    Ok(Wants { client, procedure, server, reason })
}

fn client(typed: &str) -> Result<IpAddr, Refusal> {
    let address: Result<IpAddr, _> = typed.parse();
    address.map(|it| it.to_canonical()).map_err(|_| Refusal::wrong(format!("'{typed}' is no client's address")))
}

fn procedure(typed: &str) -> Result<Procedure, Refusal> {
    let found = Procedure::ALL.into_iter().find(|procedure| procedure.name().eq_ignore_ascii_case(typed));
    found.ok_or_else(|| {
        let names = Procedure::ALL.map(|procedure| procedure.name().to_lowercase());
        Refusal::wrong(format!(
            "unknown procedure '{typed}'{}",
            suggestion(typed, &names.each_ref().map(String::as_str))
        ))
    })
}

/// Its number in every export's pool.
fn server(shared: &Shared, name: &str) -> Result<Vec<Option<ServerId>>, Refusal> {
    let of_export = |export: &crate::realm::Realm| {
        let pool = &export.pool;
        pool.servers.ids().find(|server| pool.server(*server).name == name)
    };
    let found: Vec<Option<ServerId>> = shared.exports.iter().map(of_export).collect();
    match found.iter().any(Option::is_some) {
        true => Ok(found),
        false => {
            let all = shared.pools.iter().flat_map(|pool| pool.servers.ids().map(|it| pool.server(it).name.as_str()));
            Err(Refusal::unknown(format!("unknown server '{name}'{}", suggestion(name, &all.collect::<Vec<_>>()))))
        }
    }
}

fn reason(typed: &str) -> Result<&'static str, Refusal> {
    let names: Vec<&str> = Outcome::NAMES.into_iter().filter(|name| *name != "forwarded").chain(Why::NAMES).collect();
    let found = names.iter().find(|name| **name == typed).copied();
    found.ok_or_else(|| Refusal::wrong(format!("unknown reason '{typed}'{}", suggestion(typed, &names))))
}

impl Heard {
    /// The line of a call; none if it is not wanted.
    fn line(&mut self, passed: &Passed) -> Option<Vec<u8>> {
        self.missed += passed.missed;
        let traced = Traced { missed: self.missed, ..traced(&self.shared, passed) };
        if !self.below.as_deref().is_none_or(|below| lies(traced.path.as_deref(), below)) {
            return None;
        }
        self.missed = 0;
        let mut line = serde_json::to_vec(&traced).expect("numbers and text");
        line.push(b'\n');
        Some(line)
    }
}

/// Whether a path is another one or below it.
fn lies(path: Option<&str>, below: &str) -> bool {
    path.and_then(|path| path.strip_prefix(below)).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn traced(shared: &Shared, passed: &Passed) -> Traced {
    let (server, home) = match passed.outcome {
        Outcome::Forwarded(Route { to, home, .. }) => {
            (named(shared, passed.realm, to), named(shared, passed.realm, home))
        }
        Outcome::Hit | Outcome::Absent | Outcome::Joined | Outcome::Here => (None, None),
    };
    let name = passed.name.as_deref().map(readable);
    let directory = shared.watch.names.path_of(passed.place);
    let path = match (&directory, &name) {
        (Some(directory), Some(name)) => Some(format!("{}/{name}", directory.trim_end_matches('/'))),
        (directory, _) => directory.clone(),
    };
    Traced {
        at_us: passed.at_us,
        client: passed.client.to_string(),
        uid: passed.uid,
        procedure: passed.procedure.name().to_owned(),
        place: digest(passed.place),
        name,
        found: passed.found.map(digest),
        to: passed.to.as_ref().map(|(place, name)| (digest(*place), readable(name))),
        path,
        server,
        home,
        why: passed.outcome.why().to_owned(),
        status: passed.status.map_or_else(|| "REFUSED".to_owned(), |status| status.to_string().to_uppercase()),
        took_us: passed.took.as_nanos() / 1_000,
        missed: 0,
    }
}

fn named(shared: &Shared, realm: usize, server: ServerId) -> Option<String> {
    Some(shared.exports.get(realm)?.pool.server(server).name.clone())
}

/// A name as it is, if it is text.
fn readable(name: &[u8]) -> String {
    std::str::from_utf8(name).map_or_else(|_| name.escape_ascii().to_string(), str::to_owned)
}

impl Body for Heard {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        loop {
            let mut batch = Vec::new();
            if ready!(self.calls.poll_recv_many(task, &mut batch, BATCH)) == 0 {
                return Poll::Ready(None);
            }
            let lines: Vec<u8> = batch.iter().filter_map(|passed| self.line(passed)).flatten().collect();
            if !lines.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(lines.into()))));
            }
        }
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.shared.watch.tracer.leave(self.number);
    }
}

/// Calls that are written down at once.
const BATCH: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use midas_core::key::Key;

    #[test]
    fn a_path_holds_what_lies_at_it_or_below() {
        let cases = [
            (Some("/scratch"), "/scratch", true),
            (Some("/scratch/a/b"), "/scratch/a", true),
            (Some("/scratch/ab"), "/scratch/a", false),
            (Some("/scratch"), "/scratch/a", false),
            (Some("/scratch"), "", true),
            (None, "", false),
        ];
        for (path, below, holds) in cases {
            assert_eq!(lies(path, below), holds, "{path:?} below {below:?}");
        }
    }

    #[test]
    fn what_is_typed_is_understood_or_the_nearest_is_named() {
        assert_eq!(procedure("ReadDirPlus").unwrap(), Procedure::Readdirplus);
        assert_eq!(reason("steered").unwrap(), "steered");
        assert_eq!(client("::ffff:10.0.0.1").unwrap(), IpAddr::from([10, 0, 0, 1]));
        let said = |Refusal(_, why): Refusal| why;
        assert_eq!(said(procedure("getatr").unwrap_err()), "unknown procedure 'getatr'; did you mean 'getattr'?");
        assert!(said(reason("forwarded").unwrap_err()).contains("possible: hit, absent, joined, here, home"));
        assert!(said(client("node7").unwrap_err()).contains("'node7' is no client's address"));
    }

    #[test]
    fn names_that_are_no_text_are_escaped() {
        assert_eq!((readable("ü".as_bytes()), readable(b"a\xff")), ("ü".to_owned(), "a\\xff".to_owned()));
        assert_eq!(digest(Key(0xab)), "00000000000000ab");
    }
}
