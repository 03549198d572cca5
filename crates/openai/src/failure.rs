//! Errors in the form that `OpenAI`'s clients read: `{"error": {"message", "type", "param", "code"}}`.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use himalia_engine::{EngineError, FileError};
use serde_json::json;

/// Why something was not done.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    code: String,
    message: String,
    param: Option<String>,
    retry_after: Option<u64>,
    is_limit: bool,
}

/// Marks a response that a limit is the reason of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IsLimit;

impl Failure {
    pub(crate) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            code: code.to_owned(),
            message: message.into(),
            param: None,
            retry_after: None,
            is_limit: false,
        }
    }

    /// A field of the request that cannot be used.
    pub(crate) fn field(name: &str, reason: impl std::fmt::Display) -> Self {
        let name: String = name.chars().take(100).flat_map(char::escape_debug).collect();
        Self {
            param: Some(name.clone()),
            ..Self::new(
                StatusCode::BAD_REQUEST,
                "bad_request",
                format!("{name}: {reason}"),
            )
        }
    }

    /// A container or a file that is not there.
    pub(crate) fn absent(what: &str, id: &str) -> Self {
        let id: String = id.chars().take(100).flat_map(char::escape_debug).collect();
        Self::new(
            StatusCode::NOT_FOUND,
            "not_found",
            format!("{what} {id} was not found"),
        )
    }

    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let (status, retry_after) = status(&error);
        Self {
            status,
            code: error.code().to_owned(),
            message: error.to_string(),
            param: None,
            retry_after,
            is_limit: error.is_limit(),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = Json(
            json!({ "error": { "message": self.message, "type": self.kind(), "param": self.param, "code": self.code } }),
        );
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.is_limit {
            response.extensions_mut().insert(IsLimit);
        }
        response
    }
}

fn status(error: &EngineError) -> (StatusCode, Option<u64>) {
    let status = match error {
        EngineError::NotFound { .. }
        | EngineError::NameEnded { .. }
        | EngineError::SessionEnded(_)
        | EngineError::Removed { .. }
        | EngineError::NoSuchKernelspec { .. }
        | EngineError::NoSuchTemplate { .. } => StatusCode::NOT_FOUND,
        EngineError::BadRequest { .. }
        | EngineError::LanguageNotSupported { .. }
        | EngineError::NotOffered { .. } => StatusCode::BAD_REQUEST,
        EngineError::Forbidden { .. } => StatusCode::FORBIDDEN,
        EngineError::Conflict { .. } | EngineError::KernelDead { .. } => StatusCode::CONFLICT,
        EngineError::KernelLimit { .. } | EngineError::QueueFull { .. } => {
            return (StatusCode::TOO_MANY_REQUESTS, Some(1));
        }
        EngineError::OverBudget { retry_after, .. } | EngineError::QuotaExceeded { retry_after, .. } => {
            return (StatusCode::TOO_MANY_REQUESTS, Some(*retry_after));
        }
        EngineError::Unavailable { .. } | EngineError::Busy { .. } => {
            return (StatusCode::SERVICE_UNAVAILABLE, Some(1));
        }
        EngineError::DiskFull { .. } => StatusCode::INSUFFICIENT_STORAGE,
        EngineError::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
        EngineError::Unsupported { .. } => StatusCode::NOT_IMPLEMENTED,
        EngineError::Files { code, .. } => of_files(*code),
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, None)
}

fn of_files(code: FileError) -> StatusCode {
    match code {
        FileError::NotFound => StatusCode::NOT_FOUND,
        FileError::Permission => StatusCode::FORBIDDEN,
        FileError::TooMany => StatusCode::TOO_MANY_REQUESTS,
        FileError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        FileError::NoSpace | FileError::Quota => StatusCode::INSUFFICIENT_STORAGE,
        FileError::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}
