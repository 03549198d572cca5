//! The routes of E2B's API: the control plane below `/e2b`, and the sandboxes, which its clients reach by headers.
//!
//! Files are at `/files` too: the address of a file that a client signs is made from host and port alone.

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::Response;

use crate::app::App;
use crate::auth::{Caller, SANDBOX_ID, SandboxTokens};
use crate::error::ApiError;
use crate::mounted::{Mounted, forward};

/// What the paths begin with.
const PREFIX: &str = "/e2b";

/// The facade for E2B's clients.
#[derive(Clone, Debug)]
pub struct E2b {
    /// Serves what is below the prefix. It reads bodies itself, within its own bounds.
    pub service: Mounted,
    /// The tokens of its sandboxes.
    pub tokens: SandboxTokens,
}

/// Any route; 404 where nothing is mounted.
pub(crate) async fn answer(
    State(app): State<App>,
    Caller(principal): Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let Some(E2b { service, .. }) = app.config().e2b.clone() else {
        return Err(ApiError::not_found("Not Found"));
    };
    forward(&app, service, PREFIX, principal, request).await
}

/// The sandbox that a request names: in its path, or in its header.
pub(crate) fn sandbox(path: &str, headers: &HeaderMap) -> Option<String> {
    let rest = path.strip_prefix(PREFIX)?;
    let rest = rest.strip_prefix("/v2").unwrap_or(rest);
    let named = match rest.strip_prefix("/sandboxes/") {
        Some(named) => named.split('/').next(),
        None => headers.get(SANDBOX_ID)?.to_str().ok(),
    };
    named.filter(|named| !named.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_its_sandbox() {
        let header: HeaderMap = [(SANDBOX_ID, "h".parse().unwrap())].into_iter().collect();
        let of = |path: &str| sandbox(path, &header);
        assert_eq!(of("/e2b/sandboxes/a/timeout").as_deref(), Some("a"));
        assert_eq!(of("/e2b/v2/sandboxes/a/connect").as_deref(), Some("a"));
        assert_eq!(of("/e2b/files").as_deref(), Some("h"));
        assert_eq!(sandbox("/e2b/sandboxes", &HeaderMap::new()), None);
    }
}
