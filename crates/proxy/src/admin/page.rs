//! The dashboard: files that were built before the daemon was, and lie in it. Without them the address says how to get them.
//!
//! The page may load what this address gives and nothing else, so that no name of a file or user, whatever it holds, can become code.

use super::routes::Refusal;
use axum::extract::Path;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use midas_page::File;

/// The page, or how to get it.
pub(super) async fn index() -> Response {
    match find("index.html") {
        // A daemon of another version has another page.
        Some(file) => answer(file, "no-cache"),
        None => (guarded("text/plain; charset=utf-8", "no-cache"), WITHOUT).into_response(),
    }
}

/// What the page is made of. The names hold a hash of what is in the files: what has the same name is the same.
pub(super) async fn asset(Path(name): Path<String>) -> Result<Response, Refusal> {
    let file = find(&format!("assets/{name}"));
    let file =
        file.ok_or_else(|| Refusal(StatusCode::NOT_FOUND, "the page has no such part: load it again".to_owned()))?;
    Ok(answer(file, "public, max-age=31536000, immutable"))
}

fn find(path: &str) -> Option<&'static File> {
    midas_page::files().iter().find(|file| file.path == path)
}

fn answer(file: &File, keep: &'static str) -> Response {
    (guarded(file.content_type, keep), file.bytes).into_response()
}

fn guarded(content_type: &'static str, keep: &'static str) -> [(HeaderName, &'static str); 5] {
    [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, keep),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ]
}

/// Code, styles, pictures and answers from here alone; shown in nobody else's page.
const POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

const WITHOUT: &str = "\
MIDAS runs. This binary was built without its dashboard.

To get it, with node and npm installed, in the source:

    make web      builds the page
    make build    builds the binary with the page in it

Without it there are:

    /api/v1/status    how the daemon, its exports and its servers are
    /metrics          for Prometheus
    midas top         the same as the dashboard, in a terminal
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_without_a_page_names_what_to_do() {
        for command in ["make web", "make build", "/metrics", "/api/v1/status"] {
            assert!(WITHOUT.contains(command), "{command}");
        }
    }

    #[test]
    fn a_part_that_is_not_there_is_none() {
        assert!(find("assets/../index.html").is_none() && find("").is_none());
    }
}
