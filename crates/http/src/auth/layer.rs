//! The layer that every request passes before any handler: origin, then token.

use std::time::Instant;

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use himalia_engine::Principal;

use super::credential::{PathToken, presented};
use super::origin::{Origin, judge};
use crate::app::App;
use crate::error::ApiError;
use crate::listen::Peer;
use crate::routes::{self, Access};

/// The authenticated principal of a request. A handler that takes it cannot run for a stranger.
#[derive(Clone, Debug)]
pub(crate) struct Caller(pub(crate) Principal);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts
            .extensions
            .get::<Self>()
            .cloned()
            .ok_or_else(ApiError::unauthenticated)
    }
}

/// Refuses pages of foreign origins (404 as `jupyter_server` does, 403 for a WebSocket, and for MCP, which demands it) and requests without the token
/// (401), unless the route is public. Unknown paths need the token as well.
pub(crate) async fn authenticate(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let pattern = route.as_ref().map(MatchedPath::as_str);
    if judge(request.headers(), &app.config().allow_origin) == Origin::Refused {
        let is_websocket = request.headers().contains_key(header::SEC_WEBSOCKET_KEY);
        let error = if is_websocket || pattern == Some("/mcp") {
            ApiError::forbidden("this origin is not allowed")
        } else {
            ApiError::not_found("Not Found")
        };
        return error.into_response();
    }
    let public = pattern.is_some_and(|path| routes::access(request.method(), path) == Some(Access::Public));
    if !public {
        match check(&app, &request) {
            Ok(caller) => request.extensions_mut().insert(caller),
            Err(error) => return error.into_response(),
        };
    }
    let method = request.method().clone();
    let response = next.run(request).await;
    // The route's pattern: neither ids nor a query with a token.
    tracing::debug!(%method, route = pattern, status = response.status().as_u16());
    response
}

fn check(app: &App, request: &Request) -> Result<Caller, ApiError> {
    let path_token = request.extensions().get::<PathToken>();
    let Some(token) = presented(request.uri(), request.headers(), path_token) else {
        return Err(ApiError::unauthenticated());
    };
    let peer = request.extensions().get::<Peer>();
    if app.config().token.matches(&token) {
        if let Some(peer) = peer {
            peer.admit();
        }
        return Ok(Caller(Principal::operator()));
    }
    let Some(address) = peer.map(Peer::address) else {
        return Err(ApiError::unauthenticated());
    };
    if let Some(wait) = app.backoff().wrong(address.ip(), Instant::now()) {
        return Err(ApiError::too_many_wrong_tokens(wait));
    }
    tracing::warn!(peer = %address, "wrong token");
    Err(ApiError::unauthenticated())
}
