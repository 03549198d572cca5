//! Request headers as types.

use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::request::Parts;
use himalia_engine::{MAX_CLIENT_CHARS, MAX_KEY_BYTES};
use serde_json::json;

use crate::error::ApiError;
use crate::openapi::{Operation, Part};

/// `Last-Event-ID`, which browsers send by themselves when they reconnect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastEventId(pub(in crate::v1) Option<u64>);

impl<S: Sync> FromRequestParts<S> for LastEventId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        match parts.headers.get("last-event-id").map(HeaderValue::as_bytes) {
            None => Ok(Self(None)),
            Some(id) => match std::str::from_utf8(id).ok().and_then(|id| id.parse().ok()) {
                Some(seq) => Ok(Self(Some(seq))),
                None => Err(ApiError::bad_request("Last-Event-ID: expected a whole number")),
            },
        }
    }
}

impl Part for LastEventId {
    fn describe(operation: &mut Operation<'_>) {
        let schema = json!({
            "type": "integer", "minimum": 0, "description": "Continue after this number; takes precedence over `after`.",
        });
        operation.parameter("header", "Last-Event-ID", false, schema);
    }
}

/// `X-Himalia-Caller`: what the client calls itself.
#[derive(Clone, Debug)]
pub(crate) struct Client(pub(in crate::v1) Option<String>);

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Some(value) = parts.headers.get("x-himalia-caller") else {
            return Ok(Self(None));
        };
        match std::str::from_utf8(value.as_bytes()) {
            Ok(name) if name.chars().count() <= MAX_CLIENT_CHARS => Ok(Self(Some(name.to_owned()))),
            _ => Err(ApiError::bad_request(format!(
                "X-Himalia-Caller: expected at most {MAX_CLIENT_CHARS} characters of UTF-8"
            ))),
        }
    }
}

impl Part for Client {
    fn describe(operation: &mut Operation<'_>) {
        let schema = json!({
            "type": "string", "maxLength": MAX_CLIENT_CHARS,
            "description": "The name that the client gives itself: shown as `client`, and not verified.",
        });
        operation.parameter("header", "X-Himalia-Caller", false, schema);
    }
}

/// `Idempotency-Key`.
#[derive(Clone, Debug)]
pub(crate) struct Key(pub(in crate::v1) Option<String>);

impl<S: Sync> FromRequestParts<S> for Key {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Some(value) = parts.headers.get("idempotency-key") else {
            return Ok(Self(None));
        };
        match value.to_str() {
            Ok(key) => Ok(Self(Some(key.to_owned()))),
            Err(_) => Err(ApiError::bad_request("Idempotency-Key: expected ASCII")),
        }
    }
}

impl Part for Key {
    fn describe(operation: &mut Operation<'_>) {
        let schema = json!({
            "type": "string", "minLength": 1, "maxLength": MAX_KEY_BYTES,
            "description": "A repeated request with this key has what the first one made. The same as the member `idempotency_key`, where there is one.",
        });
        operation.parameter("header", "Idempotency-Key", false, schema);
    }
}

/// The idempotency key of a request: that of its body, or of its header.
pub(crate) fn key_of(told: Option<String>, header: Option<String>) -> Result<Option<String>, ApiError> {
    match (told, header) {
        (Some(told), Some(header)) if told != header => {
            Err(ApiError::bad_field("idempotency_key", "differs from the header"))
        }
        (told, header) => Ok(told.or(header)),
    }
}
