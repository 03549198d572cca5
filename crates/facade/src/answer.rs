//! Status and headers of an error.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use himalia_engine::{EngineError, FileError};

/// Marks a response that a limit is the reason of, for [`hold_back`](crate::hold_back).
#[derive(Clone, Copy, Debug)]
pub struct IsLimit;

/// HTTP status, code and text of an error, for any form of body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: StatusCode,
    /// Seconds after which to try again.
    pub retry_after: Option<u64>,
    /// True if a limit is the reason.
    pub is_limit: bool,
}

impl Answer {
    /// A status alone.
    pub fn new(status: StatusCode) -> Self {
        Self {
            status,
            retry_after: None,
            is_limit: false,
        }
    }

    /// Gives a response its status and headers.
    pub fn finish(self, mut response: Response) -> Response {
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

impl From<&EngineError> for Answer {
    fn from(error: &EngineError) -> Self {
        let (status, retry_after) = status(error);
        Self {
            status,
            retry_after,
            is_limit: error.is_limit(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse;

    #[test]
    fn a_limit_is_marked_and_says_when_to_try_again() {
        let answer = Answer::from(&EngineError::QueueFull { queued: 3 });
        let response = answer.finish("busy".into_response());
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
        assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
        assert!(response.extensions().get::<IsLimit>().is_some());
        let response = Answer::new(StatusCode::BAD_REQUEST).finish("bad".into_response());
        assert!(response.extensions().get::<IsLimit>().is_none());
        assert!(!response.headers().contains_key(header::RETRY_AFTER));
    }
}
