//! Errors, in the forms that clients read: `{"code": 404, "message"}` of the control plane, and plain text of the code
//! interpreter.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use himalia_engine::EngineError;
use serde_json::json;

/// Why something was not done.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    /// One line for people.
    pub(crate) message: String,
    /// Seconds after which to try again.
    pub(crate) retry_after: Option<u64>,
    pub(crate) is_limit: bool,
}

/// Marks a response that a limit is the reason of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IsLimit;

impl Failure {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            retry_after: None,
            is_limit: false,
        }
    }

    /// A field of the request that cannot be used.
    pub(crate) fn field(name: &str, reason: impl std::fmt::Display) -> Self {
        let name: String = name.chars().take(100).flat_map(char::escape_debug).collect();
        Self::new(StatusCode::BAD_REQUEST, format!("{name}: {reason}"))
    }

    /// Something that this gateway does not have.
    pub(crate) fn not_offered(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, message)
    }

    /// A sandbox that is not there, as the control plane says it.
    pub(crate) fn no_sandbox(id: &str) -> Self {
        let id: String = id.chars().take(64).flat_map(char::escape_debug).collect();
        Self::new(StatusCode::NOT_FOUND, format!("sandbox {id:?} was not found"))
    }

    /// A sandbox that does not run, as the proxy in front of it says it: 502. Clients look for these words.
    pub(crate) fn not_running(id: &str) -> Self {
        Self {
            status: StatusCode::BAD_GATEWAY,
            ..Self::no_sandbox(id)
        }
    }

    /// The same for one sandbox: that it is absent is its own answer.
    pub(crate) fn of_sandbox(error: EngineError, id: &str) -> Self {
        if error.is_absent() {
            return Self::no_sandbox(id);
        }
        error.into()
    }

    /// The same on the way to a sandbox.
    pub(crate) fn at_sandbox(error: EngineError, id: &str) -> Self {
        if error.is_absent() {
            return Self::not_running(id);
        }
        error.into()
    }

    fn finish(&self, mut response: Response) -> Response {
        *response.status_mut() = self.status;
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

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let (status, retry_after) = status(&error);
        Self {
            status,
            retry_after,
            is_limit: error.is_limit(),
            message: error.to_string(),
        }
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
        EngineError::Conflict { .. } | EngineError::KernelDead { .. } | EngineError::Fork { .. } => {
            StatusCode::CONFLICT
        }
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
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, None)
}

/// As the control plane, and the HTTP routes of a sandbox, say it.
#[derive(Clone, Debug)]
pub(crate) struct ControlFailure(pub(crate) Failure);

impl<E: Into<Failure>> From<E> for ControlFailure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for ControlFailure {
    fn into_response(self) -> Response {
        let Self(failure) = self;
        let body = Json(json!({ "code": failure.status.as_u16(), "message": failure.message }));
        failure.finish(body.into_response())
    }
}

/// As the code interpreter says it.
#[derive(Clone, Debug)]
pub(crate) struct TextFailure(pub(crate) Failure);

impl<E: Into<Failure>> From<E> for TextFailure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for TextFailure {
    fn into_response(self) -> Response {
        let Self(failure) = self;
        failure.finish(failure.message.clone().into_response())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_that_is_absent_is_404_to_the_control_plane_and_502_on_the_way_to_it() {
        let absent = || EngineError::no_session("x");
        assert_eq!(Failure::of_sandbox(absent(), "x").status, StatusCode::NOT_FOUND);
        let failure = Failure::at_sandbox(absent(), "x");
        assert_eq!(failure.status, StatusCode::BAD_GATEWAY);
        assert!(failure.message.contains("was not found"), "{}", failure.message);
        let busy = Failure::at_sandbox(EngineError::unavailable("busy"), "x");
        assert_eq!(busy.status, StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn a_limit_is_marked_and_says_when_to_try_again() {
        let failure = Failure::from(EngineError::QueueFull { queued: 3 });
        let response = ControlFailure(failure).into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
        assert!(response.extensions().get::<IsLimit>().is_some());
        let response = TextFailure(Failure::field("a", "is wrong")).into_response();
        assert!(response.extensions().get::<IsLimit>().is_none());
    }
}
