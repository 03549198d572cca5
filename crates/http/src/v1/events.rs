//! `GET /v1/sessions/{id}/events`: a kernel's log as it grows, resumable from any number.
//!
//! A kernel made by the Jupyter API is an anonymous session whose id is the kernel's. The position is the `Last-Event-ID`
//! header, which browsers send by themselves when they reconnect, or else `?after=`; `after=0` gives all that is kept, no
//! position what comes from now on. What fell out of retention is one `gap` event. `?buffers=base64` adds binary
//! buffers. A request for an upgrade gets the same records over a WebSocket.

use std::convert::Infallible;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use himalia_engine::{Event, EventFeed, FeedClosed, KernelId};
use schemars::JsonSchema;
use serde::Deserialize;

use super::answers::{self, Either};
use super::input::{After, Parameters};
use super::kernels::kernel_id;
use super::push::{Socket, Upgrade};
use super::record::Record;
use super::sessions::of_session;
use super::{push, record, sse};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::openapi::{Answer, Operation};

/// Where the stream begins, and what is in it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// A kernel of the session; default: the first one.
    kernel: Option<String>,
    /// Continue after this number; 0 for all records.
    after: Option<u64>,
    /// `sizes` unless said.
    #[serde(default)]
    buffers: Buffers,
}

/// What of a message's binary buffers is in its event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Buffers {
    /// The lengths of the buffers.
    #[default]
    Sizes,
    /// The buffers too.
    Base64,
}

/// A body of records.
#[derive(Debug)]
pub(crate) struct Log(answers::Events);

impl IntoResponse for Log {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl Answer for Log {
    fn describe(operation: &mut Operation<'_>) {
        answers::Events::describe(operation);
        let schema = operation.schemas.written::<Record>();
        operation.of_each(200, "text/event-stream", &schema);
    }
}

/// Serves the stream until the client leaves, the kernel is gone or the gateway stops.
pub(crate) async fn stream(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    After(last): After,
    Parameters(wanted): Parameters<Wanted>,
    Upgrade(asked): Upgrade,
) -> Result<Either<Log, Socket>, ApiError> {
    let kernel = kernel_id(&app, &principal, &id, wanted.kernel.as_deref())?;
    let buffers = wanted.buffers == Buffers::Base64;
    let feed = app.engine().events(&principal, kernel, last.or(wanted.after));
    let feed = feed.map_err(|error| of_session(error, &id))?;
    if let Some(asked) = asked {
        return Ok(Either::Other(asked.serve(
            &app,
            Records {
                kernel,
                feed,
                buffers,
            },
        )));
    }
    let events = Events {
        kernel,
        feed,
        buffers,
        waiting: sse::Waiting::of(&app),
        ended: false,
    };
    let body = stream::unfold(events, Events::chunk);
    let body = sse::growing("text/event-stream", body);
    Ok(Either::One(Log(answers::Events(body))))
}

/// The records for a WebSocket.
struct Records {
    kernel: KernelId,
    feed: EventFeed,
    buffers: bool,
}

impl push::Source for Records {
    async fn next(&mut self) -> Result<Option<Vec<Bytes>>, FeedClosed> {
        let (kernel, buffers) = (self.kernel, self.buffers);
        let object = |event: &Event| {
            let mut out = Vec::new();
            record::write(&mut out, kernel, event, buffers);
            Bytes::from(out)
        };
        let made = self.feed.next_as(|events| events.iter().map(object).collect());
        made.await.map(Some)
    }
}

struct Events {
    kernel: KernelId,
    feed: EventFeed,
    buffers: bool,
    waiting: sse::Waiting,
    ended: bool,
}

impl Events {
    /// The next piece of the body: one batch of events. Taken only when the client has taken the last one.
    async fn chunk(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        if self.ended {
            return None;
        }
        let (kernel, buffers) = (self.kernel, self.buffers);
        let text = |events: Vec<Event>| {
            let mut out = Vec::new();
            for event in &events {
                sse::write(&mut out, kernel, event, buffers);
            }
            Bytes::from(out)
        };
        let bytes = match self.waiting.next(self.feed.next_as(text)).await {
            None => Bytes::from_static(sse::KEEP_ALIVE),
            Some(Ok(text)) => text,
            Some(Err(closed)) => {
                self.ended = true;
                sse::end(&closed)
            }
        };
        Some((Ok(bytes), self))
    }
}
