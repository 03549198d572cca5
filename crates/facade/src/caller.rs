//! Caller of a request.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use himalia_engine::Principal;

/// Caller of a request, set by the mount. A mount that forgets to authenticate fails closed.
#[derive(Clone, Debug)]
pub struct Caller(pub Principal);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        let principal = parts.extensions.get::<Principal>().cloned();
        principal.map(Self).ok_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}
