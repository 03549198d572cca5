//! Errors, in the forms that clients read: `{"code": 404, "message"}` of the control plane, and plain text of the code
//! interpreter.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use himalia_engine::EngineError;
use himalia_facade::{Answer, BodyError, shown};
use serde_json::json;

/// Error of a request.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// HTTP status and text of the error.
    pub(crate) answer: Answer,
    /// One line for people.
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            answer: Answer::new(status),
            message: message.into(),
        }
    }

    /// A field of the request that cannot be used.
    pub(crate) fn field(name: &str, reason: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, format!("{}: {reason}", shown(name, 100)))
    }

    /// Something that this gateway does not have.
    pub(crate) fn not_offered(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, message)
    }

    /// A sandbox that is not there, as the control plane says it.
    pub(crate) fn no_sandbox(id: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            format!("sandbox {:?} was not found", shown(id, 64)),
        )
    }

    /// A sandbox that does not run, as the proxy in front of it says it: 502. Clients look for these words.
    pub(crate) fn not_running(id: &str) -> Self {
        Self {
            answer: Answer::new(StatusCode::BAD_GATEWAY),
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
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self {
            answer: Answer::from(&error),
            message: error.to_string(),
        }
    }
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Self {
        Self::new(error.status(), error.text())
    }
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
        let body = Json(json!({ "code": failure.answer.status.as_u16(), "message": failure.message }));
        failure.answer.finish(body.into_response())
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
        failure.answer.finish(failure.message.into_response())
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header;
    use himalia_facade::IsLimit;

    use super::*;

    #[test]
    fn a_sandbox_that_is_absent_is_404_to_the_control_plane_and_502_on_the_way_to_it() {
        let absent = || EngineError::no_session("x");
        assert_eq!(
            Failure::of_sandbox(absent(), "x").answer.status,
            StatusCode::NOT_FOUND
        );
        let failure = Failure::at_sandbox(absent(), "x");
        assert_eq!(failure.answer.status, StatusCode::BAD_GATEWAY);
        assert!(failure.message.contains("was not found"), "{}", failure.message);
        let busy = Failure::at_sandbox(EngineError::unavailable("busy"), "x");
        assert_eq!(busy.answer.status, StatusCode::SERVICE_UNAVAILABLE);
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
