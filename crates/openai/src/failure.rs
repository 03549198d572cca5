//! Errors in the form that `OpenAI`'s clients read: `{"error": {"message", "type", "param", "code"}}`.

use axum::http::StatusCode;
use himalia_facade::{Shape, shown};
use serde_json::{Value, json};

/// Errors of this facade.
pub(crate) type Failure = himalia_facade::Failure<OpenAi>;

/// The form of `OpenAI`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenAi;

impl Shape for OpenAi {
    fn body(failure: &Failure) -> Value {
        let kind = match failure.answer.status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        json!({ "error": {
            "message": failure.message, "type": kind, "param": failure.field, "code": failure.code
        }})
    }
}

/// A container or a file that is not there.
pub(crate) fn absent(what: &str, id: &str) -> Failure {
    let message = format!("{what} {} was not found", shown(id, 100));
    Failure::new(StatusCode::NOT_FOUND, "not_found", message)
}
