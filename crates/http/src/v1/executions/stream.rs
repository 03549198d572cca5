//! The events of an execution, or of all executions of a session, as a streamed body.
//!
//! ```text
//! id: 17                                             one line of application/x-ndjson is the data alone:
//! event: stdout
//! data: {"event":"stdout","seq":17,"at":"…","execution":"exe_…","text":"hello\n"}
//! ```

use std::convert::Infallible;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use himalia_engine::{ExecutionEvent, ExecutionEventKind, ExecutionFeed, ExecutionId, FeedClosed};
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::app::App;
use crate::openapi::{Answer, Operation};
use crate::v1::answers::{Either, Events as ServerSent, Lines};
use crate::v1::{push, sse};

/// How events stand in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::v1) enum Framing {
    /// `text/event-stream`.
    Sse,
    /// `application/x-ndjson`: one JSON object per line.
    Ndjson,
}

/// A body of events.
#[derive(Debug)]
pub(crate) struct Growing(Either<ServerSent, Lines>);

impl IntoResponse for Growing {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl Framing {
    /// `data` is the JSON of `event`.
    pub(super) fn write(self, out: &mut Vec<u8>, event: &ExecutionEvent, data: &str) {
        let text = match self {
            Self::Sse => {
                let (seq, word) = (event.seq, event.kind.as_str());
                format!("id: {seq}\nevent: {word}\ndata: {data}\n\n")
            }
            Self::Ndjson => format!("{data}\n"),
        };
        out.extend_from_slice(text.as_bytes());
    }
}

impl Answer for Growing {
    fn describe(operation: &mut Operation<'_>) {
        describe::<Event<'_>>(operation);
    }
}

/// A body of which each event is a `T`.
pub(in crate::v1) fn describe<T: JsonSchema>(operation: &mut Operation<'_>) {
    Either::<ServerSent, Lines>::describe(operation);
    let schema = operation.schemas.written::<T>();
    for media_type in ["text/event-stream", "application/x-ndjson"] {
        operation.of_each(200, media_type, &schema);
    }
}

/// Where the events of a body come from.
pub(in crate::v1) trait Source: Send + 'static {
    /// The next ones in a framing; `None` after the last one. Cancel-safe.
    fn next(&mut self, framing: Framing) -> impl Future<Output = Result<Option<Bytes>, FeedClosed>> + Send;
}

/// The data of one event.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ExecutionEvent")]
struct Event<'a> {
    #[serde(flatten)]
    kind: &'a ExecutionEventKind,
    seq: u64,
    #[schemars(extend("format" = "date-time"))]
    at: String,
    execution_id: ExecutionId,
}

impl<'a> Event<'a> {
    fn json(id: ExecutionId, event: &'a ExecutionEvent) -> String {
        let data = Self {
            kind: &event.kind,
            seq: event.seq,
            at: timestamp(event.at),
            execution_id: id,
        };
        serde_json::to_string(&data).unwrap_or_default()
    }
}

/// A reply whose body is the events, until the execution has ended, the client leaves or the gateway stops.
pub(super) fn of(app: &App, id: ExecutionId, feed: ExecutionFeed, framing: Framing) -> Growing {
    Growing(body(app, Messages { id, feed }, framing, Bytes::new()))
}

/// A reply whose body is `first` and then what a source gives.
pub(in crate::v1) fn body(
    app: &App,
    source: impl Source,
    framing: Framing,
    first: Bytes,
) -> Either<ServerSent, Lines> {
    let events = Events {
        first: Some(first).filter(|first| !first.is_empty()),
        source,
        framing,
        waiting: sse::Waiting::of(app),
        ended: false,
    };
    let body = stream::unfold(events, Events::chunk);
    match framing {
        Framing::Sse => Either::One(ServerSent(sse::growing("text/event-stream", body))),
        Framing::Ndjson => Either::Other(Lines(sse::growing("application/x-ndjson", body))),
    }
}

/// The events of one execution.
pub(super) struct Messages {
    pub(super) id: ExecutionId,
    pub(super) feed: ExecutionFeed,
}

impl push::Source for Messages {
    async fn next(&mut self) -> Result<Option<Vec<Bytes>>, FeedClosed> {
        let id = self.id;
        let all = |events: Vec<ExecutionEvent>| {
            let texts = events.iter().map(|event| Event::json(id, event));
            texts.map(Bytes::from).collect()
        };
        self.feed.next_as(all).await
    }
}

impl Source for Messages {
    async fn next(&mut self, framing: Framing) -> Result<Option<Bytes>, FeedClosed> {
        let id = self.id;
        let text = |events: Vec<ExecutionEvent>| {
            let mut out = Vec::new();
            for event in &events {
                framing.write(&mut out, event, &Event::json(id, event));
            }
            Bytes::from(out)
        };
        self.feed.next_as(text).await
    }
}

struct Events<S> {
    first: Option<Bytes>,
    source: S,
    framing: Framing,
    waiting: sse::Waiting,
    ended: bool,
}

impl<S: Source> Events<S> {
    /// The next piece of the body: one batch of events. Taken only when the client has taken the last one.
    async fn chunk(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        if self.ended {
            return None;
        }
        if let Some(first) = self.first.take() {
            return Some((Ok(first), self));
        }
        let bytes = match self.waiting.next(self.source.next(self.framing)).await {
            None => self.keep_alive(),
            Some(Ok(None)) => return None,
            Some(Ok(Some(text))) => text,
            Some(Err(closed)) => {
                self.ended = true;
                self.end(&closed)
            }
        };
        Some((Ok(bytes), self))
    }

    fn keep_alive(&self) -> Bytes {
        match self.framing {
            Framing::Sse => Bytes::from_static(sse::KEEP_ALIVE),
            Framing::Ndjson => Bytes::from_static(b"{\"event\":\"keep_alive\"}\n"),
        }
    }

    /// The last event of a stream that ends before the execution; it has no number, so that the position stays.
    fn end(&self, closed: &FeedClosed) -> Bytes {
        match self.framing {
            Framing::Sse => sse::end(closed),
            Framing::Ndjson => format!(
                "{}\n",
                json!({ "event": "end", "reason": sse::end_reason(closed) })
            )
            .into(),
        }
    }
}
