//! Who calls, and with what.

use axum::body::{Body, to_bytes};
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use himalia_engine::Principal;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::failure::Failure;
use crate::limits::{MESSAGE_BYTES, MESSAGE_TIME};

/// Who sent the request: the mount says it. A mount that forgets to authenticate fails closed.
#[derive(Clone, Debug)]
pub(crate) struct Caller(pub(crate) Principal);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        let principal = parts.extensions.get::<Principal>().cloned();
        principal.map(Self).ok_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// Reads a message.
pub(crate) async fn message<T: DeserializeOwned>(body: Body) -> Result<T, Failure> {
    let bytes = match timeout(MESSAGE_TIME, to_bytes(body, MESSAGE_BYTES)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => {
            let reason = format!("the body is larger than {MESSAGE_BYTES} bytes, or broke off");
            return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", reason));
        }
        Err(_) => {
            let reason = "the body took too long";
            return Err(Failure::new(StatusCode::REQUEST_TIMEOUT, "timeout", reason));
        }
    };
    serde_json::from_slice(&bytes).map_err(|error| Failure::field("body", error))
}
