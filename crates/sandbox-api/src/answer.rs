//! Responses: JSON, and errors as `{code, message, hint, …}`.

use std::convert::Infallible;

use bytes::Bytes;
use himalia_egress::Body;
use himalia_model::{EngineError, ToolError};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde::Serialize;
use serde_json::{Value, json};

/// Error of a request.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    body: Value,
}

impl Problem {
    /// One without anything beside.
    pub(crate) fn new(status: StatusCode, code: &str, message: &str) -> Self {
        Self {
            status,
            body: json!({"code": code, "message": message}),
        }
    }

    /// 500 for a request whose handler has panicked. The log has the reason, under this id.
    pub(crate) fn panicked(id: &str, may_have_done: bool) -> Self {
        let (code, outcome) = if may_have_done {
            ("outcome_unknown", "; whether it was done is unknown")
        } else {
            ("internal", "")
        };
        let message = format!("the gateway failed while it handled the request{outcome} (its log: {id})");
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            body: json!({"code": code, "message": message, "request_id": id}),
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn message(&self) -> String {
        let message = self.body["message"].as_str();
        message.unwrap_or_default().to_owned()
    }

    /// A member of the request that cannot be used.
    pub(crate) fn member(name: &str, reason: impl std::fmt::Display) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "bad_request",
            &format!("{name}: {reason}"),
        )
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        let status = |code: u16| StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        match error {
            EngineError::Tool(error) => Self {
                status: status(error.code.status()),
                body: ToolError::to_json(&error),
            },
            other => {
                let code = match &other {
                    error if error.is_limit() => 429,
                    error if error.retryable() => 503,
                    EngineError::BadRequest { .. } => 400,
                    EngineError::SessionEnded(_) => 410,
                    error if error.is_absent() => 404,
                    _ => 500,
                };
                Self::new(status(code), other.code(), &other.to_string())
            }
        }
    }
}

pub(crate) fn json(value: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(text) => response(StatusCode::OK, text),
        // Of names and values that were JSON.
        Err(error) => problem(&Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            &error.to_string(),
        )),
    }
}

/// A response of this status with this as JSON.
pub(crate) fn with_status(status: StatusCode, value: &Value) -> Response<Body> {
    response(status, value.to_string().into_bytes())
}

/// A response that says why there is no other one.
pub(crate) fn problem(problem: &Problem) -> Response<Body> {
    response(problem.status, problem.body.to_string().into_bytes())
}

fn response(status: StatusCode, text: Vec<u8>) -> Response<Body> {
    let body = Full::new(Bytes::from(text)).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
