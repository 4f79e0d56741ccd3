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

/// Answers on the control socket, for ever.
pub(super) async fn unix(listener: UnixListener, router: Router) {
    serve(router, |task| listener.poll_accept(task).map_ok(|(stream, _)| stream)).await;
}

/// Answers on the TCP address, for ever.
pub(super) async fn tcp(listener: TcpListener, router: Router) {
    serve(router, |task| listener.poll_accept(task).map_ok(|(stream, _)| stream)).await;
}

/// At the bound no more are accepted: who comes waits.
async fn serve<S>(router: Router, mut accept: impl FnMut(&mut Context<'_>) -> Poll<io::Result<S>>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Ok(stream) = poll_fn(&mut accept).await else {
            // Out of file descriptors, most likely: it would fail again at once.
            tokio::time::sleep(AFTER_ERROR).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
            // How a connection ends is its client's affair.
            let _ended = http.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}

/// Connections at once.
const CONNECTIONS: usize = 64;
/// A request whose head is not there after so long will not come.
const PATIENCE: Duration = Duration::from_secs(10);
const AFTER_ERROR: Duration = Duration::from_millis(100);
