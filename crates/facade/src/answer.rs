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
        Self {
            status: status(error),
            retry_after: error.retry_after_s(),
            is_limit: error.is_limit(),
        }
    }
}

fn status(error: &EngineError) -> StatusCode {
    match error {
        // A session that has ended is none for these clients, and they know few statuses.
        EngineError::SessionEnded(_) | EngineError::Removed { .. } => StatusCode::NOT_FOUND,
        EngineError::NotOffered { .. }
        | EngineError::Files {
            code:
                FileError::IsADirectory
                | FileError::NotADirectory
                | FileError::NotAFile
                | FileError::NotEmpty
                | FileError::Range
                | FileError::BadArchive,
            ..
        } => StatusCode::BAD_REQUEST,
        other => StatusCode::from_u16(other.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
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
        assert_eq!(
            Answer::from(&EngineError::KeyReused).status,
            StatusCode::UNPROCESSABLE_ENTITY
        );
        let response = Answer::new(StatusCode::BAD_REQUEST).finish("bad".into_response());
        assert!(response.extensions().get::<IsLimit>().is_none());
        assert!(!response.headers().contains_key(header::RETRY_AFTER));
    }
}
