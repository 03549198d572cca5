//! The layer that every request passes before any handler: origin, then token or cookie.

use std::time::{Instant, SystemTime};

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use himalia_engine::Principal;

use super::cookie;
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
    let access = pattern.and_then(|path| routes::access(request.method(), path));
    let origin = judge(request.headers(), &app.config().allow_origin);
    if origin == Origin::Refused && access != Some(Access::Anywhere) {
        let is_websocket = request.headers().contains_key(header::SEC_WEBSOCKET_KEY);
        let error = if is_websocket || pattern == Some("/mcp") {
            ApiError::forbidden("this origin is not allowed")
        } else {
            ApiError::not_found("Not Found")
        };
        return error.into_response();
    }
    if access.is_none_or(|access| access == Access::Token) {
        match check(&app, &request, &origin) {
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

fn check(app: &App, request: &Request, origin: &Origin) -> Result<Caller, ApiError> {
    let path_token = request.extensions().get::<PathToken>();
    let peer = request.extensions().get::<Peer>();
    let Some(token) = presented(request.uri(), request.headers(), path_token) else {
        return by_cookie(app, request, origin, peer);
    };
    let Some(principal) = app.config().tokens.principal(&token) else {
        return Err(wrong_token(app, peer));
    };
    if let Some(peer) = peer {
        peer.admit();
    }
    Ok(Caller(principal.clone()))
}

/// A browser that signed in is who its token is. A cookie that nobody knows is no guess: it is of a sign-in that
/// is over, or of a token that is none any more.
fn by_cookie(app: &App, request: &Request, origin: &Origin, peer: Option<&Peer>) -> Result<Caller, ApiError> {
    let (headers, now) = (request.headers(), SystemTime::now());
    let known = cookie::presented(headers).into_iter().find_map(|secret| {
        let mark = app.sign_ins().knows(secret, now)?;
        app.config().tokens.marked(&mark)
    });
    let Some(principal) = known else {
        return Err(ApiError::unauthenticated());
    };
    if !cookie::counts(request.method(), headers, *origin == Origin::Own) {
        return Err(ApiError::forbidden(
            "a browser's sign-in counts for pages of this gateway only",
        ));
    }
    if let Some(peer) = peer {
        peer.admit();
    }
    Ok(Caller(principal.clone()))
}

/// What a wrong token, or a wrong code, is answered with, and noted for.
pub(crate) fn wrong_token(app: &App, peer: Option<&Peer>) -> ApiError {
    let Some(address) = peer.map(Peer::address) else {
        return ApiError::unauthenticated();
    };
    if let Some(wait) = app.backoff().wrong(address.ip(), Instant::now()) {
        return ApiError::too_many_wrong_tokens(wait);
    }
    tracing::warn!(peer = %address, "wrong token");
    ApiError::unauthenticated()
}
