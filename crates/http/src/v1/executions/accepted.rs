//! The response to an execution that was accepted.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::CurrentResult;
use super::stream::EventStream;
use crate::openapi::{Answer, Operation};
use crate::v1::answers::EitherResponse;

/// The result or the events of an accepted execution, and its address.
#[derive(Debug)]
pub(crate) struct AcceptedExecution {
    pub(super) location: String,
    /// It was there already, under the same idempotency key.
    pub(super) repeated: bool,
    pub(super) answer: EitherResponse<CurrentResult, EventStream>,
}

impl IntoResponse for AcceptedExecution {
    fn into_response(self) -> Response {
        let mut response = self.answer.into_response();
        let headers = response.headers_mut();
        if let Ok(location) = HeaderValue::from_str(&self.location) {
            headers.insert(header::LOCATION, location);
        }
        if self.repeated {
            headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
        }
        response
    }
}

impl Answer for AcceptedExecution {
    fn describe(operation: &mut Operation<'_>) {
        CurrentResult::describe(operation);
        EventStream::describe(operation);
        for status in [200, 202] {
            operation.header(status, "Location", "Address of the execution.");
            operation.header(
                status,
                "Idempotency-Replayed",
                "`true` for an execution that was there already.",
            );
        }
    }
}
