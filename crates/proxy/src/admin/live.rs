//! `/api/v1/live`: the daemon as it runs, as server-sent events. First the past, so that charts begin full; then a frame every half second.

use super::routes::Refusal;
use super::{hot, status, warm};
use crate::api::watch::{Frame, Point};
use crate::event::Shared;
use crate::watch::{Door, Watcher};
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::timeout;

/// Puts a frame together whenever there is a new point and somebody watches, until the daemon is about to end. Looks after those who
/// listen to calls, too.
pub(super) async fn make(shared: Arc<Shared>) {
    let (frames, mut told) = (&shared.watch.frames, shared.watch.past.told());
    let mut since = 0;
    while told.changed().await.is_ok() && !shared.draining.load(Ordering::Relaxed) {
        shared.watch.tracer.drop_stalled(Instant::now());
        if frames.watched() {
            since = frames.put(frame(&shared, since), since);
        }
    }
    frames.end();
}

fn frame(shared: &Shared, since: u64) -> Frame {
    Frame {
        point: shared.watch.past.last().map_or_else(Point::default, |point| (*point).clone()),
        status: status::of(shared),
        hot: hot::of(shared, false),
        events: shared.watch.journal.since(since),
        cluster: shared.peers().zip(shared.accord()).map(|(peers, accord)| peers.status(accord)),
    }
}

/// One more watcher, or why not.
pub(super) fn watch(shared: &Arc<Shared>, door: Door) -> Result<Response, Refusal> {
    let refused = |why: String| Refusal(StatusCode::SERVICE_UNAVAILABLE, why);
    if shared.watch.frames.ended() {
        return Err(refused("the daemon is about to end".to_owned()));
    }
    let full = || refused(format!("{} watch already, and more are not served", door.places()));
    let watcher = shared.watch.frames.watcher(door).ok_or_else(full)?;
    let (say, lines) = channel(1);
    tokio::spawn(follow(Arc::clone(shared), watcher, say));
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::new(warm::Lines(lines))).into_response())
}

/// Until one of the two is gone. Who reads nothing for too long is taken for gone: a place is for someone who watches.
async fn follow(shared: Arc<Shared>, mut watcher: Watcher, say: Sender<Vec<u8>>) {
    let past = shared.watch.past.all();
    watcher.knows(past.last().map_or(0, |point| point.number));
    let mut next = Some(event("past", &json(&past.iter().map(|point| &**point).collect::<Vec<_>>())));
    while let Some(text) = next {
        match timeout(STALLED, say.send(text.into_bytes())).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return,
        }
        next = match timeout(KEEP, watcher.next(&shared.watch.journal)).await {
            Ok(frame) => frame.map(|frame| event("frame", &frame)),
            // A comment: nobody between the two takes the connection for dead.
            Err(_) => Some(":\n\n".to_owned()),
        };
    }
}

fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("numbers and text")
}

/// The longest silence.
const KEEP: Duration = Duration::from_secs(10);
/// The longest that a watcher may read nothing while there is something to read.
const STALLED: Duration = Duration::from_secs(30);
