//! Server-sent events of a response, within its bound.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use himalia_upstream::{Body, BodyError};
use sse_stream::{Sse, SseStream};

/// The events of a body.
pub(super) type Events = Pin<Box<dyn Stream<Item = Result<Sse, EventError>> + Send>>;

/// Reasons why events end early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EventError {
    Body(BodyError),
    /// The text is not a stream of events.
    Malformed(String),
}

/// The events of a body, which has a bound for all of them together.
pub(super) fn events(body: Body) -> Events {
    let pieces = stream::try_unfold(body, |mut body| async move {
        let piece = body.next().await.map_err(Cut)?;
        Ok::<_, Cut>(piece.map(|piece: Bytes| (piece, body)))
    });
    let parsed = SseStream::from_bytes_stream(Box::pin(pieces));
    Box::pin(parsed.map(|event| event.map_err(EventError::from)))
}

#[derive(Debug)]
struct Cut(BodyError);

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for Cut {}

impl From<sse_stream::Error> for EventError {
    fn from(error: sse_stream::Error) -> Self {
        if let sse_stream::Error::Body(cause) = &error
            && let Some(Cut(cut)) = cause.downcast_ref()
        {
            return Self::Body(cut.clone());
        }
        Self::Malformed(error.to_string())
    }
}

/// The data of an event that is a message; `None`: it is another one.
pub(super) fn data(event: Sse) -> Option<String> {
    let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
    event.data.filter(|data| is_message && !data.trim().is_empty())
}
