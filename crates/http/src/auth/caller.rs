//! The caller of a request, and the answer to one that guesses.

use std::time::Instant;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use himalia_engine::Principal;

use super::backoff::Check;
use crate::app::App;
use crate::error::ApiError;
use crate::listen::Peer;

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

/// A place for the check of a message that a peer has signed; refused while the peer has to stay away and others like it are checked.
pub(crate) fn signature_check<'a>(app: &'a App, peer: Option<&Peer>) -> Result<Option<Check<'a>>, ApiError> {
    let Some(address) = peer.map(Peer::address) else {
        return Ok(None);
    };
    let checked = app.backoff().check(address.ip(), Instant::now());
    checked.map(Some).map_err(ApiError::too_many_wrong_tokens)
}

/// The answer to a wrong token, or a wrong code, which is noted.
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
