//! Connections of the control plane: HTTP/1, bounded in number and in patience, on one thread that no call ever waits for.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutWriter;

/// Answers on the control socket, for ever. Whoever may use it may also let an answer wait, as a pager does.
pub(super) async fn unix(listener: UnixListener, router: Router) {
    serve(router, None, |task| listener.poll_accept(task).map_ok(|(stream, _)| stream)).await;
}

/// Answers on the TCP address, for ever. A reader that stalls is let go.
pub(super) async fn tcp(listener: TcpListener, router: Router) {
    serve(router, Some(STALLED), |task| listener.poll_accept(task).map_ok(|(stream, _)| stream)).await;
}

/// At the bound no more are accepted: who comes waits.
async fn serve<S>(
    router: Router,
    stalled: Option<Duration>,
    mut accept: impl FnMut(&mut Context<'_>) -> Poll<io::Result<S>>,
) where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Ok(stream) = poll_fn(&mut accept).await else {
            // Out of file descriptors, most likely: it would fail again at once.
            tokio::time::sleep(AFTER_ERROR).await;
            continue;
        };
        let router = router.clone();
        tokio::spawn(async move {
            converse(stream, router, stalled).await;
            drop(place);
        });
    }
}

/// One connection, to its end. After a write that could not go on for as long as `stalled` it ends.
async fn converse<S: AsyncRead + AsyncWrite + Send>(stream: S, router: Router, stalled: Option<Duration>) {
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(stalled);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    // How a connection ends is its client's affair.
    let _ended = http.serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(router)).await;
}

/// Connections at once.
const CONNECTIONS: usize = 64;
/// A request whose head is not there after so long will not come.
const PATIENCE: Duration = Duration::from_secs(10);
/// A reader that takes nothing for so long has gone, or wants the place and not the answer.
const STALLED: Duration = Duration::from_secs(30);
const AFTER_ERROR: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{Instant, sleep};

    const ANSWER: usize = 10_000;

    /// How long the connection lasts whose reader takes 100 bytes every `pause`, `reads` times, and then none.
    fn lasts(stalled: Option<Duration>, pause: Duration, reads: usize) -> Duration {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async move {
            let (mut reader, stream) = duplex(64);
            let router = Router::new().route("/", get(|| async { "x".repeat(ANSWER) }));
            let start = Instant::now();
            let served = tokio::spawn(converse(stream, router, stalled));
            reader.write_all(b"GET / HTTP/1.1\r\nHost: m\r\nConnection: close\r\n\r\n").await.unwrap();
            for _ in 0..reads {
                sleep(pause).await;
                reader.read_exact(&mut [0; 100]).await.unwrap();
            }
            // The other end stays open until the connection has ended, or for a day.
            let _late = tokio::time::timeout(Duration::from_secs(86_400), served).await;
            start.elapsed()
        })
    }

    #[test]
    fn who_takes_nothing_is_let_go_and_who_is_slow_is_not() {
        let nothing = lasts(Some(STALLED), Duration::ZERO, 0);
        assert!(nothing >= STALLED && nothing < 2 * STALLED, "{nothing:?}");
        let slow = lasts(Some(STALLED), STALLED / 2, ANSWER / 100);
        assert!(slow >= STALLED / 2 * (ANSWER as u32 / 100), "{slow:?}: it was cut off in the middle");
        assert!(
            lasts(None, Duration::ZERO, 0) >= Duration::from_secs(86_400),
            "a pager may wait for as long as it likes"
        );
    }
}
