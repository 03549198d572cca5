//! The Connect protocol with JSON, as far as E2B's clients use it.
//!
//! A unary call has one JSON document each way. A stream is frames: a byte of flags, the length (4 bytes, big endian), and JSON. The
//! last frame of a response has the flag 2, and an error if there was one.

use std::time::Duration;

use axum::Json;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Buf as _, BufMut as _, BytesMut};
use futures_util::{Stream, StreamExt as _, stream};
use himalia_engine::{EngineError, FileError};
use himalia_facade::{IsLimit, in_time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::limits::MESSAGE_BYTES;

/// Bytes before the JSON of a frame.
const HEAD: usize = 5;
/// The flag of the last frame.
const LAST: u8 = 2;

/// Codes of the protocol that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    InvalidArgument,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Unimplemented,
    Internal,
    Unavailable,
    DeadlineExceeded,
}

impl Code {
    fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::PermissionDenied => "permission_denied",
            Self::ResourceExhausted => "resource_exhausted",
            Self::FailedPrecondition => "failed_precondition",
            Self::Unimplemented => "unimplemented",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
            Self::DeadlineExceeded => "deadline_exceeded",
        }
    }

    /// The status of a unary response with this code.
    fn status(self) -> StatusCode {
        match self {
            Self::InvalidArgument | Self::FailedPrecondition => StatusCode::BAD_REQUEST,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::AlreadyExists => StatusCode::CONFLICT,
            Self::PermissionDenied => StatusCode::FORBIDDEN,
            Self::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Self::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

/// Error of a call.
#[derive(Clone, Debug)]
pub(crate) struct RpcFailure {
    pub(crate) code: Code,
    pub(crate) message: String,
    is_limit: bool,
}

impl RpcFailure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            is_limit: false,
        }
    }

    fn to_json(&self) -> Value {
        json!({ "code": self.code.as_str(), "message": self.message })
    }
}

impl From<Failure> for RpcFailure {
    fn from(failure: Failure) -> Self {
        let code = match failure.answer.status {
            StatusCode::BAD_REQUEST => Code::InvalidArgument,
            StatusCode::NOT_FOUND => Code::NotFound,
            StatusCode::CONFLICT => Code::FailedPrecondition,
            StatusCode::FORBIDDEN => Code::PermissionDenied,
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::INSUFFICIENT_STORAGE => Code::ResourceExhausted,
            StatusCode::NOT_IMPLEMENTED => Code::Unimplemented,
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
            StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT => Code::DeadlineExceeded,
            _ => Code::Internal,
        };
        Self {
            code,
            is_limit: failure.answer.is_limit,
            message: failure.message,
        }
    }
}

impl From<EngineError> for RpcFailure {
    fn from(error: EngineError) -> Self {
        let EngineError::Files { code, reason } = &error else {
            return Failure::from(error).into();
        };
        let code = match code {
            FileError::NotFound => Code::NotFound,
            FileError::BadPath
            | FileError::Outside
            | FileError::IsADirectory
            | FileError::NotADirectory
            | FileError::NotAFile => Code::InvalidArgument,
            FileError::Permission => Code::PermissionDenied,
            FileError::NotEmpty => Code::FailedPrecondition,
            FileError::TooLarge | FileError::TooMany | FileError::NoSpace | FileError::Quota => {
                Code::ResourceExhausted
            }
            _ => Code::Internal,
        };
        Self {
            code,
            message: reason.clone(),
            is_limit: error.is_limit(),
        }
    }
}

impl IntoResponse for RpcFailure {
    /// As a unary call says it.
    fn into_response(self) -> Response {
        let mut response = (self.code.status(), Json(self.to_json())).into_response();
        if self.is_limit {
            response.extensions_mut().insert(IsLimit);
        }
        response
    }
}

/// Time that a client waits for the end of its call, if it gives one.
pub(crate) fn deadline(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("connect-timeout-ms")?.to_str().ok()?;
    text.parse().ok().map(Duration::from_millis)
}

/// The one message of a stream that a client begins.
pub(crate) async fn first<T: DeserializeOwned>(body: Body) -> Result<T, RpcFailure> {
    let mut frames = Frames::new(body);
    let message = frames.next().await?;
    message.ok_or_else(|| RpcFailure::new(Code::InvalidArgument, "the stream has no message"))
}

/// The messages of a client's stream.
pub(crate) struct Frames {
    body: BodyDataStream,
    buffer: BytesMut,
}

impl Frames {
    pub(crate) fn new(body: Body) -> Self {
        Self {
            body: body.into_data_stream(),
            buffer: BytesMut::new(),
        }
    }

    /// The next message; `None` at the end.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, RpcFailure> {
        let bad = |reason: String| RpcFailure::new(Code::InvalidArgument, reason);
        loop {
            if let Some(json) = self.frame()? {
                let read = serde_json::from_slice(&json);
                return Ok(Some(
                    read.map_err(|error| bad(format!("the message cannot be read: {error}")))?,
                ));
            }
            match in_time(self.body.next()).await {
                Ok(Some(Ok(bytes))) => self.buffer.extend_from_slice(&bytes),
                Ok(Some(Err(_))) => return Err(bad("the request broke off".to_owned())),
                Ok(None) if self.buffer.is_empty() => return Ok(None),
                Ok(None) => return Err(bad("the request ends within a message".to_owned())),
                Err(_) => {
                    return Err(RpcFailure::new(
                        Code::DeadlineExceeded,
                        "the request stopped arriving",
                    ));
                }
            }
        }
    }

    fn frame(&mut self) -> Result<Option<Bytes>, RpcFailure> {
        let Some(mut head) = self.buffer.get(..HEAD) else {
            return Ok(None);
        };
        let (flags, length) = (head.get_u8(), head.get_u32() as usize);
        let refuse = |reason: String| Err(RpcFailure::new(Code::InvalidArgument, reason));
        if length > MESSAGE_BYTES {
            return refuse(format!("a message is larger than {MESSAGE_BYTES} bytes"));
        }
        if flags & 1 != 0 {
            return refuse("compressed messages are not supported".to_owned());
        }
        if self.buffer.len() < HEAD + length {
            return Ok(None);
        }
        self.buffer.advance(HEAD);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

fn framed(flags: u8, json: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(HEAD + json.len());
    out.put_u8(flags);
    out.put_u32(u32::try_from(json.len()).unwrap_or(u32::MAX));
    out.put_slice(json);
    out.freeze()
}

/// A stream of messages, which ends with the first failure.
pub(crate) fn streamed<T: Serialize>(
    messages: impl Stream<Item = Result<T, RpcFailure>> + Send + 'static,
) -> Response {
    let frames = stream::unfold(Some(Box::pin(messages)), async |state| {
        let mut messages = state?;
        let bytes = match messages.next().await {
            Some(Ok(message)) => {
                let json = serde_json::to_vec(&message).unwrap_or_default();
                return Some((
                    Ok::<_, std::convert::Infallible>(framed(0, &json)),
                    Some(messages),
                ));
            }
            Some(Err(failure)) => json!({ "error": failure.to_json() }).to_string(),
            None => "{}".to_owned(),
        };
        Some((Ok(framed(LAST, bytes.as_bytes())), None))
    });
    let mut response = Response::new(Body::from_stream(frames));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/connect+json"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A failure before the first message of a stream.
pub(crate) fn failed(failure: RpcFailure) -> Response {
    let is_limit = failure.is_limit;
    let mut response = streamed(stream::iter([Err::<Value, _>(failure)]));
    if is_limit {
        response.extensions_mut().insert(IsLimit);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;

    #[tokio::test]
    async fn frames_come_whole_whatever_the_pieces() {
        let whole = [framed(0, br#"{"a":1}"#), framed(0, br#"{"a":2}"#)].concat();
        for size in [1, 3, whole.len()] {
            let pieces: Vec<_> = whole
                .chunks(size)
                .map(|piece| Ok::<_, std::io::Error>(piece.to_vec()))
                .collect();
            let mut frames = Frames::new(Body::from_stream(stream::iter(pieces)));
            assert_eq!(frames.next::<Value>().await.unwrap(), Some(json!({"a": 1})));
            assert_eq!(frames.next::<Value>().await.unwrap(), Some(json!({"a": 2})));
            assert_eq!(frames.next::<Value>().await.unwrap(), None);
        }
        for bad in [
            &whole[..3],
            &whole[..9],
            &framed(1, b"{}"),
            &[0, 255, 255, 255, 255],
            &framed(0, b"x"),
        ] {
            let mut frames = Frames::new(Body::from(bad.to_vec()));
            assert_eq!(
                frames.next::<Value>().await.unwrap_err().code,
                Code::InvalidArgument,
                "{bad:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_stream_ends_with_a_last_frame() {
        let body = |response: Response| async { to_bytes(response.into_body(), 1000).await.unwrap() };
        let ended = streamed(stream::iter([Ok(json!({"x": 1}))]));
        assert_eq!(
            body(ended).await,
            [framed(0, br#"{"x":1}"#), framed(2, b"{}")].concat()
        );
        let response = failed(RpcFailure::new(Code::NotFound, "no"));
        assert_eq!(response.status(), StatusCode::OK);
        let expected = framed(2, br#"{"error":{"code":"not_found","message":"no"}}"#);
        assert_eq!(body(response).await, expected);
    }
}
