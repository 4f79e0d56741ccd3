//! How commands talk with a running `midas serve`: HTTP and JSON on its control socket.

use crate::failure::Failure;
use clap::Args;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use midas_proxy::api;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;

/// Which daemon, and how its answer is shown.
#[derive(Debug, Args)]
pub(crate) struct Daemon {
    /// The control socket of the daemon
    #[arg(long, value_name = "PATH", default_value = api::SOCKET)]
    socket: PathBuf,
    /// Print the daemon's answer as JSON
    #[arg(long)]
    json: bool,
}

impl Daemon {
    /// Asks, and prints the answer: as it came, or as `show` puts it.
    pub(crate) fn ask<A: DeserializeOwned>(&self, path: &str, show: impl FnOnce(&A) -> String) -> Result<(), Failure> {
        self.exchange(Method::GET, path, Vec::new(), show)
    }

    /// Tells something, and prints the answer likewise.
    pub(crate) fn tell<A: DeserializeOwned>(
        &self,
        path: &str,
        what: &impl Serialize,
        show: impl FnOnce(&A) -> String,
    ) -> Result<(), Failure> {
        let body = serde_json::to_vec(what).map_err(|error| Failure::Broken(error.to_string()))?;
        self.exchange(Method::POST, path, body, show)
    }

    /// Tells something that takes its time, and shows each line of the answer as it comes: as it is, or as `show` does. The last one.
    pub(crate) fn follow<A: DeserializeOwned>(
        &self,
        path: &str,
        what: &impl Serialize,
        mut show: impl FnMut(&A),
    ) -> Result<Option<A>, Failure> {
        let body = serde_json::to_vec(what).map_err(|error| Failure::Broken(error.to_string()))?;
        let mut last = None;
        lines(&self.socket, path, body, |line| {
            if self.json {
                let mut out = io::stdout().lock();
                out.write_all(line).and_then(|()| out.flush()).map_err(|error| Failure::Broken(error.to_string()))?;
            }
            let read: A = serde_json::from_slice(line).map_err(|error| strange(&error))?;
            if !self.json {
                show(&read);
            }
            last = Some(read);
            Ok(())
        })?;
        Ok(last)
    }

    /// Where the daemon answers, and whether its answer is to be printed as it came.
    pub(crate) fn parts(&self) -> (&Path, bool) {
        (&self.socket, self.json)
    }

    fn exchange<A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        show: impl FnOnce(&A) -> String,
    ) -> Result<(), Failure> {
        let (status, answer) = exchange(&self.socket, method, path, body)?;
        if status != StatusCode::OK {
            return Err(refused(status, &answer));
        }
        let text = match self.json {
            true => String::from_utf8_lossy(&answer).into_owned(),
            false => show(&serde_json::from_slice(&answer).map_err(|error| strange(&error))?),
        };
        let mut out = io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| Failure::Broken(error.to_string()))
    }
}

/// Tells a daemon something; what it answers is not shown.
pub(crate) fn tell(socket: &Path, path: &str, what: &impl Serialize) -> Result<(), Failure> {
    let body = serde_json::to_vec(what).map_err(|error| Failure::Broken(error.to_string()))?;
    match exchange(socket, Method::POST, path, body)? {
        (StatusCode::OK, _) => Ok(()),
        (status, answer) => Err(refused(status, &answer)),
    }
}

/// Asks a daemon; its answer, whatever it is.
pub(crate) fn get(socket: &Path, path: &str) -> Result<(StatusCode, Vec<u8>), Failure> {
    exchange(socket, Method::GET, path, Vec::new())
}

/// What the daemon says no to was typed wrong, unless it says that it could not.
pub(crate) fn refused(status: StatusCode, answer: &[u8]) -> Failure {
    let said = match serde_json::from_slice::<api::Fault>(answer) {
        Ok(fault) => fault.error,
        Err(_) => format!("the daemon answered {status}"),
    };
    if status.is_client_error() { Failure::Usage(said) } else { Failure::Broken(said) }
}

fn exchange(socket: &Path, method: Method, path: &str, body: Vec<u8>) -> Result<(StatusCode, Vec<u8>), Failure> {
    let broken = |error: io::Error| Failure::Broken(format!("{}: {error}", socket.display()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(broken)?;
    let late = || broken(io::Error::new(ErrorKind::TimedOut, "the daemon does not answer"));
    runtime.block_on(async {
        let answer = async {
            let stream = UnixStream::connect(socket).await.map_err(|error| absent(socket, &error))?;
            call(stream, method, path, body).await.map_err(|error| broken(io::Error::other(error)))
        };
        tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| Err(late()))
    })
}

pub(crate) fn strange(error: &serde_json::Error) -> Failure {
    Failure::Broken(format!("an answer that is not understood: {error}"))
}

/// Every line of an answer that may take long: whoever is tired of it closes the connection.
fn lines(
    socket: &Path,
    path: &str,
    body: Vec<u8>,
    mut line: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let broken = |error: &dyn Display| Failure::Broken(format!("{}: {error}", socket.display()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| broken(&error))?;
    runtime.block_on(async {
        let stream = UnixStream::connect(socket).await.map_err(|error| absent(socket, &error))?;
        let mut response = send(stream, Method::POST, path, body).await.map_err(|error| broken(&error))?;
        if response.status() != StatusCode::OK {
            let status = response.status();
            let answer = response.into_body().collect().await.map_err(|error| broken(&error))?;
            return Err(refused(status, &answer.to_bytes()));
        }
        let mut begun = Vec::new();
        while let Some(frame) = response.frame().await {
            begun.extend(frame.map_err(|error| broken(&error))?.into_data().unwrap_or_default());
            while let Some(end) = begun.iter().position(|byte| *byte == b'\n') {
                let rest = begun.split_off(end + 1);
                line(&std::mem::replace(&mut begun, rest))?;
            }
        }
        Ok(())
    })
}

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

async fn call(stream: UnixStream, method: Method, path: &str, body: Vec<u8>) -> Result<(StatusCode, Vec<u8>), Error> {
    let response = send(stream, method, path, body).await?;
    let status = response.status();
    Ok((status, response.into_body().collect().await?.to_bytes().to_vec()))
}

pub(crate) async fn send(
    stream: UnixStream,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> Result<Response<Incoming>, Error> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "midas")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))?;
    Ok(sender.send_request(request).await?)
}

/// Why there is nobody to talk with.
pub(crate) fn absent(socket: &Path, error: &io::Error) -> Failure {
    let path = socket.display();
    Failure::Broken(match error.kind() {
        ErrorKind::NotFound => format!("no daemon at {path}: does `midas serve` run, and with this socket? (--socket)"),
        ErrorKind::ConnectionRefused => {
            format!(
                "no daemon at {path}: the one that made this socket is gone; start `midas serve`, or name another --socket"
            )
        }
        ErrorKind::PermissionDenied => {
            format!("{path}: permission denied: its owner and its group may control the daemon")
        }
        _ => format!("{path}: {error}"),
    })
}

/// Longer than a daemon needs to walk a path at a slow server.
const PATIENCE: Duration = Duration::from_secs(30);
