//! `GET /v1/sessions/{id}/executions/events`: the events of all executions of a session, so that a client needs one connection.
//!
//! The position is that of the session's log, as in its other streams: `Last-Event-ID` or `?after=`, and without one from now on.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use himalia_engine::{ExecutionEventKind, ExecutionId, FeedClosed, SessionEvent, SessionFeed};
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::request::Form;
use super::stream::{self, Framing};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::openapi::{Answer, Operation};
use crate::v1::answers::{EitherResponse, Events, Lines};
use crate::v1::input::{LastEventId, Parameters};
use crate::v1::kernels::kernel_id;
use crate::v1::push::{self, Socket, Upgrade};
use crate::v1::sessions::of_session;

/// The position at which the stream starts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamExecutionsQuery {
    /// A kernel of the session; default: the first one.
    kernel: Option<String>,
    /// Continue after this number. 0: all kept events. Default: only new events.
    after: Option<u64>,
}

/// A body of events.
#[derive(Debug)]
pub(crate) struct SessionEventStream(EitherResponse<Events, Lines>);

impl IntoResponse for SessionEventStream {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl Answer for SessionEventStream {
    fn describe(operation: &mut Operation<'_>) {
        stream::describe::<Event<'_>>(operation);
    }
}

/// The data of one event of a session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionExecutionEvent")]
struct Event<'a> {
    #[serde(flatten)]
    kind: &'a ExecutionEventKind,
    seq: u64,
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// Null for a `gap` that may concern several executions.
    execution_id: Option<ExecutionId>,
}

fn json(one: &SessionEvent) -> String {
    let data = Event {
        kind: &one.event.kind,
        seq: one.event.seq,
        at: timestamp(one.event.at),
        execution_id: one.execution,
    };
    serde_json::to_string(&data).unwrap_or_default()
}

struct SessionSource(SessionFeed);

impl stream::Source for SessionSource {
    async fn next(&mut self, framing: Framing) -> Result<Option<Bytes>, FeedClosed> {
        let text = |events: Vec<SessionEvent>| {
            let mut out = Vec::new();
            for one in &events {
                framing.write(&mut out, &one.event, &json(one));
            }
            Bytes::from(out)
        };
        self.0.next_as(text).await.map(Some)
    }
}

impl push::Source for SessionSource {
    async fn next(&mut self) -> Result<Option<Vec<Bytes>>, FeedClosed> {
        let all = |events: Vec<SessionEvent>| events.iter().map(|one| Bytes::from(json(one))).collect();
        self.0.next_as(all).await.map(Some)
    }
}

/// Serves the stream until the client leaves, the session is gone or the gateway stops.
pub(crate) async fn all(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    LastEventId(last): LastEventId,
    Parameters(StreamExecutionsQuery { kernel, after }): Parameters<StreamExecutionsQuery>,
    headers: HeaderMap,
    Upgrade(asked): Upgrade,
) -> Result<EitherResponse<SessionEventStream, Socket>, ApiError> {
    let kernel = kernel_id(&app, &principal, &id, kernel.as_deref())?;
    let feed = app
        .engine()
        .follow_executions(&principal, kernel, last.or(after))
        .map_err(|error| of_session(error, &id))?;
    if let Some(asked) = asked {
        return Ok(EitherResponse::Other(asked.serve(&app, SessionSource(feed))));
    }
    let framing = match Form::of(&headers) {
        Form::Events(framing) => framing,
        Form::Json => Framing::Sse,
    };
    // A position without an event, for a client that has to reconnect before the first one.
    let first = match framing {
        Framing::Sse => format!("id: {}\n\n", feed.start()),
        Framing::Ndjson => String::new(),
    };
    let body = stream::body(&app, SessionSource(feed), framing, first.into());
    Ok(EitherResponse::One(SessionEventStream(body)))
}
