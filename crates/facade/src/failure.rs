//! Errors that are one JSON object to clients.

use std::marker::PhantomData;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use himalia_engine::EngineError;
use serde_json::Value;

use crate::{Answer, BodyError, shown};

/// The form in which the clients of one product read errors.
pub trait Shape: Sized {
    fn body(failure: &Failure<Self>) -> Value;
}

/// Error for clients that read errors in this form.
#[derive(Clone, Debug)]
pub struct Failure<S> {
    /// HTTP status and text of the error.
    pub answer: Answer,
    /// A word for programs.
    pub code: String,
    /// One line for people.
    pub message: String,
    /// The field of the request that is wrong.
    pub field: Option<String>,
    shape: PhantomData<S>,
}

impl<S> Failure<S> {
    pub fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self {
            answer: Answer::new(status),
            code: code.to_owned(),
            message: message.into(),
            field: None,
            shape: PhantomData,
        }
    }

    /// A field of the request that cannot be used.
    pub fn field(name: &str, reason: impl std::fmt::Display) -> Self {
        let name = shown(name, 100);
        let message = format!("{name}: {reason}");
        Self {
            field: Some(name),
            ..Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
        }
    }
}

impl<S> From<EngineError> for Failure<S> {
    fn from(error: EngineError) -> Self {
        let answer = Answer::from(&error);
        Self {
            answer,
            ..Self::new(answer.status, error.code(), error.to_string())
        }
    }
}

impl<S> From<BodyError> for Failure<S> {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Form(_, text) => Self::field("body", text),
            BodyError::TooLarge(_) => Self::new(error.status(), "too_large", error.text()),
            BodyError::Late | BodyError::Silent => Self::new(error.status(), "timeout", error.text()),
        }
    }
}

impl<S: Shape> IntoResponse for Failure<S> {
    fn into_response(self) -> Response {
        self.answer.finish(Json(S::body(&self)).into_response())
    }
}
