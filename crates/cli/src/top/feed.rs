//! Frames from a daemon: over its control socket, or its admin address.

use super::sse::{Message, Parser};
use crate::control::{absent, refused};
use crate::failure::Failure;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use midas_proxy::api::watch::{Frame, LIVE, Point};
use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// Where the daemon is.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Its control socket.
    Socket(PathBuf),
    /// Its admin address.
    Address(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// What the daemon told, or that it is gone.
#[derive(Debug)]
pub(crate) enum News {
    /// How it was before.
    Past(Vec<Point>),
    /// How it is.
    Frame(Box<Frame>),
    /// Why nothing comes any more, and after which time it is asked again.
    Gone { why: String, again: Duration },
}

/// Follows a daemon on a thread of its own, also when it goes away and comes back, for as long as somebody listens.
pub(crate) fn follow(source: Source) -> Result<Receiver<News>, Failure> {
    let (tell, hear) = sync_channel(WAITING);
    let follow = move || while ask_again(&source, &tell) {};
    thread::Builder::new().name("feed".to_owned()).spawn(follow).map_err(|error| Failure::Broken(error.to_string()))?;
    Ok(hear)
}

/// Reads until the daemon is gone, and waits. Whether somebody still listens.
fn ask_again(source: &Source, tell: &SyncSender<News>) -> bool {
    let mut pause = PAUSE_FIRST;
    loop {
        let mut heard = false;
        let end = read(source, |_, news| {
            heard = true;
            Ok(if tell.send(news).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        });
        let Err(failure) = end else { return false };
        pause = if heard { PAUSE_FIRST } else { pause };
        if tell.send(News::Gone { why: failure.to_string(), again: pause }).is_err() {
            return false;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Everything that the daemon tells, as text and as what it means, until `each` has enough.
pub(crate) fn read(
    source: &Source,
    mut each: impl FnMut(&str, News) -> Result<ControlFlow<()>, Failure>,
) -> Result<(), Failure> {
    let broken = |error: &dyn fmt::Display| Failure::Broken(format!("{source}: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| broken(&error))?;
    runtime.block_on(async {
        let opening = timeout(SILENCE, open(source)).await;
        let mut response = opening.unwrap_or_else(|_| Err(broken(&"the daemon does not answer")))?;
        let mut parser = Parser::default();
        loop {
            let part = timeout(SILENCE, response.frame()).await;
            let part = part.map_err(|_| broken(&"the daemon is silent"))?;
            let part = part.ok_or_else(|| broken(&"the daemon has ended"))?.map_err(|error| broken(&error))?;
            let bytes = part.into_data().unwrap_or_default();
            for message in parser.take(&bytes).map_err(|_| broken(&"an event that does not end"))? {
                let Some(news) = meaning(&message).map_err(|error| broken(&error))? else { continue };
                if each(&message.data, news)?.is_break() {
                    return Ok(());
                }
            }
        }
    })
}

/// Events with other names are for later readers.
fn meaning(message: &Message) -> Result<Option<News>, String> {
    let strange = |error: serde_json::Error| format!("an answer that is not understood: {error}");
    match message.event.as_str() {
        "past" => serde_json::from_str(&message.data).map(|past| Some(News::Past(past))).map_err(strange),
        "frame" => serde_json::from_str(&message.data).map(|frame| Some(News::Frame(frame))).map_err(strange),
        _ => Ok(None),
    }
}

async fn open(source: &Source) -> Result<Response<Incoming>, Failure> {
    let response = match source {
        Source::Socket(path) => {
            let stream = UnixStream::connect(path).await.map_err(|error| absent(path, &error))?;
            ask(stream, "midas").await
        }
        Source::Address(address) => {
            let stream = TcpStream::connect(address).await.map_err(|error| unreached(address, &error))?;
            ask(stream, address).await
        }
    };
    let response = response.map_err(|error| Failure::Broken(format!("{source}: {error}")))?;
    match response.status() {
        StatusCode::OK => Ok(response),
        StatusCode::NOT_FOUND => {
            Err(Failure::Broken(format!("{source}: the daemon tells nothing live: is it older than this command?")))
        }
        status => {
            let answer =
                response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            Err(refused(status, &answer))
        }
    }
}

fn unreached(address: &str, error: &std::io::Error) -> Failure {
    Failure::Broken(format!(
        "no daemon answers at {address} ({error}): does `midas serve` run there, and does its [admin] tcp say so?"
    ))
}

type Error = Box<dyn std::error::Error + Send + Sync>;

async fn ask<S>(stream: S, host: &str) -> Result<Response<Incoming>, Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get(LIVE).header(header::HOST, host).header(header::ACCEPT, "text/event-stream");
    Ok(sender.send_request(request.body(Empty::<Bytes>::new())?).await?)
}

/// A frame comes every half a second, and where none does, a comment every ten.
const SILENCE: Duration = Duration::from_secs(15);
/// News that whoever draws has not taken yet; then the daemon waits, or leaves frames out.
const WAITING: usize = 8;
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use midas_lab::{PATIENCE, Scratch};
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    /// Takes a question, whatever it is asked over, and answers it; the question's lines.
    fn answer(stream: impl std::io::Read + Write, answer: &str) -> Vec<String> {
        let mut stream = BufReader::new(stream);
        let lines: Vec<String> =
            (&mut stream).lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
        stream.get_mut().write_all(answer.as_bytes()).unwrap();
        lines
    }

    fn frame(number: u64) -> String {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n\
             event: past\ndata: []\n\nevent: later\ndata: ?\n\nevent: frame\ndata: {{\"point\":{{\"number\":{number}}},\"new\":1}}\n\n"
        )
    }

    #[test]
    fn a_daemon_that_goes_away_is_asked_again() {
        let scratch = Scratch::new();
        let path = scratch.path().join("control");
        let listener = UnixListener::bind(&path).unwrap();
        let daemon =
            thread::spawn(move || [1, 2].map(|number| answer(listener.accept().unwrap().0, &frame(number))).concat());
        let news = follow(Source::Socket(path)).unwrap();
        let hear = || news.recv_timeout(PATIENCE).unwrap();
        for number in [1, 2] {
            assert!(matches!(hear(), News::Past(points) if points.is_empty()));
            assert!(matches!(hear(), News::Frame(frame) if frame.point.number == number));
            let gone = hear();
            assert!(
                matches!(&gone, News::Gone { why, again } if why.contains("ended") && *again == PAUSE_FIRST),
                "{gone:?}"
            );
        }
        let asked = daemon.join().unwrap();
        assert_eq!(asked.iter().filter(|line| *line == "GET /api/v1/live HTTP/1.1").count(), 2, "{asked:?}");
        // Nobody listens there any more: it is asked less and less often.
        let pauses: Vec<Duration> = std::iter::from_fn(|| match hear() {
            News::Gone { again, why } => {
                assert!(why.contains("no daemon at"), "{why}");
                Some(again)
            }
            News::Past(_) | News::Frame(_) => None,
        })
        .take(2)
        .collect();
        assert_eq!(pauses, [PAUSE_FIRST * 2, PAUSE_FIRST * 4]);
    }

    #[test]
    fn a_daemon_that_cannot_says_why() {
        let cases = [
            ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "older than this command"),
            ("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 17\r\n\r\n{\"error\": \"busy\"}", "busy"),
            ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nevent: frame\ndata: [\n\n", "not understood"),
            ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nevent: frame\ndata: {}\n", "has ended"),
        ];
        for (said, want) in cases {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let host = format!("host: {address}");
            let daemon = thread::spawn(move || answer(listener.accept().unwrap().0, said));
            let end = read(&Source::Address(address), |_, _| Ok(ControlFlow::Continue(()))).unwrap_err().to_string();
            assert!(end.contains(want), "{end}");
            assert!(daemon.join().unwrap().contains(&host), "whom it asks is said, as browsers do");
        }
    }
}
