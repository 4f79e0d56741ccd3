//! The addresses of the control plane: what is asked, in HTTP's terms. What it means stands in the modules beside.

use super::status::Ready;
use super::{cache, change, explain, hot, live, metrics, page, query, status, trace, warm};
use crate::api::watch::{self, Event, Filter};
use crate::api::{
    self, Bypass, Done, Drain, Explain, Explanation, Fault, Held, Holdings, Invalidate, Set, Status, Warm,
};
use crate::event::Shared;
use crate::watch::Door;
use axum::body::Body;
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use std::sync::Arc;
use tokio::sync::mpsc::channel;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Everything: for the control socket, whose file says who may use it.
pub(super) fn all(shared: Arc<Shared>) -> Router {
    let full = Router::new()
        .route(api::EXPLAIN, post(explanation))
        .route(api::SET, post(set))
        .route(api::DRAIN, post(drain))
        .route(api::UNDRAIN, post(undrain))
        .route(api::BYPASS, post(bypass))
        .route(api::CACHE, post(held))
        .route(api::INVALIDATE, post(invalidate))
        .route(api::WARM, post(fill))
        .route(watch::TRACE, get(listen))
        .route(watch::HOT, get(hottest_with_handles))
        .route(watch::LIVE, get(live_on_socket))
        .route(watch::WHERE, get(whither));
    finish(full.merge(open()), shared)
}

/// What anyone may know: for TCP. Handles are not among it, since who has one can call on it.
pub(super) fn read_only(shared: Arc<Shared>) -> Router {
    let turns = Arc::new(Semaphore::new(WHITHER_MOST));
    let open = open()
        .route(watch::HOT, get(hottest))
        .route(watch::LIVE, get(live_on_tcp))
        .route(watch::WHERE, get(move |shared, address| whither_in_turn(turns, shared, address)));
    finish(open, shared).layer(from_fn(only_get))
}

fn open() -> Router<Arc<Shared>> {
    Router::new()
        .route(api::STATUS, get(show))
        .route(api::CLUSTER, get(cluster))
        .route("/", get(page::index))
        .route("/assets/{name}", get(page::asset))
        .route(watch::JOURNAL, get(journal))
        .route("/metrics", get(scrape))
        .route("/health", get(async || Json(Done { done: "alive".to_owned() })))
        .route(api::READY, get(ready))
}

fn finish(router: Router<Arc<Shared>>, shared: Arc<Shared>) -> Router {
    let nothing = async || Refusal(StatusCode::NOT_FOUND, "nothing is here; the API is in docs/api.md".to_owned());
    let method = async |method: Method| {
        Refusal(StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not what this address answers to"))
    };
    router
        .fallback(nothing)
        .method_not_allowed_fallback(method)
        .layer(DefaultBodyLimit::max(BODY_MOST))
        .with_state(shared)
}

async fn only_get(request: Request, next: Next) -> Response {
    match *request.method() {
        Method::GET | Method::HEAD => next.run(request).await,
        _ => Refusal(StatusCode::METHOD_NOT_ALLOWED, "TCP is read-only: use the control socket".to_owned())
            .into_response(),
    }
}

async fn show(State(shared): State<Arc<Shared>>) -> Json<Status> {
    Json(status::of(&shared))
}

async fn hottest(State(shared): State<Arc<Shared>>) -> Json<watch::Hot> {
    Json(hot::of(&shared, false))
}

async fn hottest_with_handles(State(shared): State<Arc<Shared>>) -> Json<watch::Hot> {
    Json(hot::of(&shared, true))
}

async fn cluster(State(shared): State<Arc<Shared>>) -> Result<Json<api::Cluster>, Refusal> {
    let member = shared.peers().zip(shared.accord());
    let (peers, accord) =
        member.ok_or_else(|| Refusal::unknown("this daemon has no [cluster] in its configuration"))?;
    Ok(Json(peers.status(accord)))
}

async fn live_on_tcp(State(shared): State<Arc<Shared>>) -> Result<Response, Refusal> {
    live::watch(&shared, Door::Tcp)
}

async fn live_on_socket(State(shared): State<Arc<Shared>>) -> Result<Response, Refusal> {
    live::watch(&shared, Door::Socket)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Since {
    since: Option<String>,
}

async fn journal(State(shared): State<Arc<Shared>>, address: Uri) -> Result<Json<Vec<Event>>, Refusal> {
    let Since { since } = query::read(address.query())?;
    let since = since.map_or(Ok(0), |typed| query::number("since", &typed))?;
    Ok(Json(shared.watch.journal.since(since)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whither {
    path: String,
    op: Option<String>,
}

/// As `explanation`, for whoever may only read: without the handle, since who has one can call on it.
async fn whither(State(shared): State<Arc<Shared>>, address: Uri) -> Whithered {
    explained(shared, query::read(address.query())?, None).await
}

/// The same for anyone, within bounds: servers are asked for it.
async fn whither_in_turn(turns: Arc<Semaphore>, shared: State<Arc<Shared>>, address: Uri) -> Whithered {
    let asked: Whither = query::read(address.query())?;
    if asked.path.split('/').filter(|name| !name.is_empty()).count() > NAMES_MOST {
        return Err(Refusal::wrong(format!("a path has at most {NAMES_MOST} names here: use the control socket")));
    }
    let busy = "another path is being explained: ask again, or use the control socket";
    let turn = turns.try_acquire_owned().map_err(|_| Refusal(StatusCode::SERVICE_UNAVAILABLE, busy.to_owned()))?;
    explained(shared.0, asked, Some(turn)).await
}

/// A turn lasts until the servers have answered, even if whoever asked is gone.
async fn explained(shared: Arc<Shared>, asked: Whither, turn: Option<OwnedSemaphorePermit>) -> Whithered {
    let asked = Explain { path: Some(asked.path), handle: None, op: asked.op };
    let explained = aside(move || {
        let explained = explain::explain(&shared, &asked);
        drop(turn);
        explained
    });
    Ok(Json(Explanation { handle: String::new(), ..explained.await? }))
}

type Whithered = Result<Json<Explanation>, Refusal>;

/// Lines until the reader is gone.
async fn listen(State(shared): State<Arc<Shared>>, address: Uri) -> Result<Response, Refusal> {
    let filter: Filter = query::read(address.query())?;
    let heard = trace::listen(&shared, filter)?;
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::new(heard)).into_response())
}

async fn scrape(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> impl IntoResponse {
    let accepts = headers.get(header::ACCEPT).and_then(|accepts| accepts.to_str().ok()).unwrap_or_default();
    let (kind, text) = metrics::text(&shared, accepts);
    ([(header::CONTENT_TYPE, kind)], text)
}

/// Whether this daemon serves reads and changes; with `?reads`, whether it serves reads; with `?writes`, whether
/// changes are served, also where they wait for a slow server, which another daemon would wait for as well.
async fn ready(State(shared): State<Arc<Shared>>, address: Uri) -> Response {
    let what = match address.query() {
        None | Some("") => Ready::All,
        Some("writes") => Ready::Writes,
        Some("reads") => Ready::Reads,
        Some(_) => return Refusal::wrong("/ready takes `reads` or `writes`, or nothing").into_response(),
    };
    let reasons = status::not_ready(&shared, what);
    match reasons.is_empty() {
        true => Json(Done { done: "ready".to_owned() }).into_response(),
        false => Refusal(StatusCode::SERVICE_UNAVAILABLE, reasons.join("; ")).into_response(),
    }
}

/// May ask a server, and so wait: not on this thread.
async fn explanation(State(shared): State<Arc<Shared>>, told: Told<Explain>) -> Result<Json<Explanation>, Refusal> {
    let asked = body(told)?;
    aside(move || explain::explain(&shared, &asked)).await.map(Json)
}

async fn held(State(shared): State<Arc<Shared>>, told: Told<Held>) -> Result<Json<Holdings>, Refusal> {
    let asked = body(told)?;
    aside(move || cache::held(&shared, &asked)).await.map(Json)
}

async fn invalidate(State(shared): State<Arc<Shared>>, told: Told<Invalidate>) -> Result<Json<Done>, Refusal> {
    let told = body(told)?;
    aside(move || cache::invalidate(&shared, &told)).await.map(done)
}

/// Refused at once, or a line now and then until the walk has ended.
async fn fill(State(shared): State<Arc<Shared>>, told: Told<Warm>) -> Result<Response, Refusal> {
    let asked = body(told)?;
    let walk = aside(move || warm::begin(&shared, &asked)).await?;
    let (say, lines) = channel(warm::LINES);
    tokio::task::spawn_blocking(move || walk.run(&say));
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::new(warm::Lines(lines))).into_response())
}

/// Does something that waits, on another thread.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> Result<T, Refusal> + Send + 'static) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?
}

async fn set(State(shared): State<Arc<Shared>>, told: Told<Set>) -> Result<Json<Done>, Refusal> {
    change::set(&shared, &body(told)?).map(done)
}

async fn drain(State(shared): State<Arc<Shared>>, told: Told<Drain>) -> Result<Json<Done>, Refusal> {
    change::drain(&shared, &body(told)?).map(done)
}

async fn undrain(State(shared): State<Arc<Shared>>, told: Told<Drain>) -> Result<Json<Done>, Refusal> {
    change::undrain(&shared, &body(told)?).map(done)
}

async fn bypass(State(shared): State<Arc<Shared>>, told: Told<Bypass>) -> Result<Json<Done>, Refusal> {
    Ok(done(change::bypass(&shared, body(told)?)))
}

type Told<T> = Result<Json<T>, JsonRejection>;

fn body<T>(told: Told<T>) -> Result<T, Refusal> {
    told.map(|Json(body)| body).map_err(|error| Refusal(error.status(), error.body_text()))
}

fn done(done: String) -> Json<Done> {
    Json(Done { done })
}

/// Why a request was not answered.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) StatusCode, pub(super) String);

impl Refusal {
    /// What was asked for cannot be.
    pub(super) fn wrong(text: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, text.into())
    }

    /// What was asked for is not there.
    pub(super) fn unknown(text: impl Into<String>) -> Self {
        Self(StatusCode::NOT_FOUND, text.into())
    }

    /// The same, when a part of what was asked for is done.
    pub(super) fn after(self, done: &[String]) -> Self {
        match done {
            [] => self,
            done => Self(self.0, format!("{}; done before that: {}", self.1, done.join(", "))),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(Fault { error: self.1 })).into_response()
    }
}

/// Paths that are explained over TCP at once.
const WHITHER_MOST: usize = 1;
/// Names of such a path: each is a call.
const NAMES_MOST: usize = 64;
/// Bytes of a request's body.
const BODY_MOST: usize = 64 << 10;
