//! A call, its bounds, and what becomes of it.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use himalia_model::TraceContext;
use himalia_upstream::{BodyError, IncomingResponse, SendError, clip};
use http::{HeaderName, HeaderValue};
use serde_json::Value;
use thiserror::Error;

/// The bounds of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From its start to its end. A wait for other calls counts.
    pub time: Duration,
    /// Bytes of the body of the response. What is longer is not read further.
    pub reply_bytes: usize,
}

impl Limits {
    /// The smaller of both, each.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self {
            time: self.time.min(other.time),
            reply_bytes: self.reply_bytes.min(other.reply_bytes),
        }
    }
}

/// Result of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Structured content, if the server gave some; else JSON, if that is what its text is; else its text. `null`: there is none.
    pub content: Value,
    /// Images, audio and other files.
    pub blobs: Vec<Blob>,
    /// The tool says that it failed; `content` says why.
    pub is_error: bool,
    /// Bytes of the response.
    pub bytes: usize,
}

/// A file in a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Media type as the server gives it, not checked.
    pub mime_type: String,
    pub bytes: Bytes,
}

/// Reasons why a call has no reply. No text has a secret of the credential.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// The call was not done: it was not sent, or the server refused the connection's session as a whole.
    #[error("{0}")]
    Unavailable(String),
    /// The arguments cannot be written into a request. Nothing was sent.
    #[error("{0}")]
    BadArguments(String),
    /// No reply in time. Whether it was done is unknown.
    #[error("no reply within {:.1} s; whether it was done is unknown", .0.as_secs_f64())]
    Timeout(Duration),
    /// The connection ended before the reply. Whether it was done is unknown.
    #[error("{0}; whether it was done is unknown")]
    Lost(String),
    /// The reply is longer than the limit, or has too many values. It was done, and the rest of the reply was not read.
    #[error("the reply {0}; it was not read further")]
    TooLarge(String),
    /// The server answered that it does not do it.
    #[error("{code}: {text}")]
    Refused {
        /// An HTTP status, or a code of JSON-RPC, which is negative.
        code: i64,
        /// Error text of the server, cut.
        text: String,
        /// Seconds after which it may be asked again, as it says (`Retry-After`).
        retry_after: Option<u64>,
    },
    /// The server answered something that is no reply.
    #[error("{0}")]
    Failed(String),
}

impl CallError {
    pub(crate) fn unavailable(reason: impl fmt::Display) -> Self {
        Self::Unavailable(reason.to_string())
    }

    pub(crate) fn failed(reason: impl fmt::Display) -> Self {
        Self::Failed(reason.to_string())
    }

    pub(crate) fn refused(code: i64, text: &str) -> Self {
        let text = clip(text.trim());
        let text = if text.is_empty() {
            "the server gives no reason".to_owned()
        } else {
            text
        };
        Self::Refused {
            code,
            text,
            retry_after: None,
        }
    }

    /// The same with the seconds after which the server may be asked again.
    pub(crate) fn after(mut self, seconds: Option<u64>) -> Self {
        if let Self::Refused { retry_after, .. } = &mut self {
            *retry_after = seconds;
        }
        self
    }

    pub(crate) fn too_long(most: usize) -> Self {
        Self::TooLarge(format!("has more than {most} bytes"))
    }

    /// True if it is unknown whether the tool has run.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::Lost(_))
    }
}

/// Turns an error response into the error of a call.
pub(crate) async fn refusal(incoming: IncomingResponse) -> CallError {
    let code = i64::from(incoming.status.as_u16());
    let after = retry_after(&incoming);
    CallError::refused(code, &incoming.refusal().await).after(after)
}

/// Seconds after which a server may be asked again, as it says. A date says nothing here.
pub(crate) fn retry_after(incoming: &IncomingResponse) -> Option<u64> {
    incoming.header("retry-after")?.trim().parse().ok()
}

/// The header with the span of a call (W3C Trace Context).
pub(crate) fn trace_header(trace: TraceContext) -> Option<(HeaderName, HeaderValue)> {
    let value = HeaderValue::try_from(trace.to_string()).ok()?;
    Some((HeaderName::from_static("traceparent"), value))
}

impl From<SendError> for CallError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NotSent(reason) | SendError::NoGrant(reason) => Self::Unavailable(reason),
            SendError::Lost(reason) => Self::Lost(reason),
            SendError::Unreadable(reason) => Self::Failed(reason),
        }
    }
}

impl From<BodyError> for CallError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLong(most) => Self::too_long(most),
            BodyError::Lost => Self::Lost("the connection ended within the reply".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_limits_hold() {
        let limits = |seconds, reply_bytes| Limits {
            time: Duration::from_secs(seconds),
            reply_bytes,
        };
        assert_eq!(limits(1, 20).min(limits(2, 10)), limits(1, 10));
    }
}
