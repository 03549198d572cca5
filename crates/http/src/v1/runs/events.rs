//! `GET /v1/runs/{id}/events`: the states that a run goes through. The output of a skill is in the events of its execution.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use himalia_engine::{FeedClosed, RunFeed, RunView};
use schemars::JsonSchema;
use serde::Serialize;

use super::ListedRun;
use super::steps::StepStatus;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::openapi::{Answer, Operation};
use crate::v1::answers::{Either, Events, Lines};
use crate::v1::executions::{Form, Framing, stream};

/// The data of one event: the run as it is then.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct RunEvent {
    /// `run`.
    event: &'static str,
    #[serde(flatten)]
    run: ListedRun,
    /// How far each step of a workflow is, by its id.
    steps: BTreeMap<String, StepStatus>,
}

impl From<RunView> for RunEvent {
    fn from(view: RunView) -> Self {
        let steps = view.steps.into_iter();
        Self {
            event: "run",
            run: view.info.into(),
            steps: steps.map(|step| (step.id, step.state.into())).collect(),
        }
    }
}

/// A body of events.
#[derive(Debug)]
pub(crate) struct EventStream(Either<Events, Lines>);

impl IntoResponse for EventStream {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl Answer for EventStream {
    fn describe(operation: &mut Operation<'_>) {
        stream::describe::<RunEvent>(operation);
    }
}

/// The states of a run, each once.
struct States {
    feed: RunFeed,
    shown: Option<RunEvent>,
}

impl stream::Source for States {
    async fn next(&mut self, framing: Framing) -> Result<Option<Bytes>, FeedClosed> {
        loop {
            let view = self.feed.next().await.map_err(|error| {
                tracing::debug!(%error, "the events of a run end");
                FeedClosed::Storage
            })?;
            let Some(event) = view.map(RunEvent::from) else {
                return Ok(None);
            };
            if self.shown.as_ref() == Some(&event) {
                continue;
            }
            let data = serde_json::to_string(&event).unwrap_or_default();
            self.shown = Some(event);
            return Ok(Some(match framing {
                Framing::Sse => format!("event: run\ndata: {data}\n\n").into(),
                Framing::Ndjson => format!("{data}\n").into(),
            }));
        }
    }
}

/// Serves the stream until the run has ended, the client leaves or the gateway stops. The first event is the present state.
pub(crate) async fn stream_of(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<EventStream, ApiError> {
    let feed = app.engine().follow_run(&principal, &id).await?;
    let framing = match Form::of(&headers) {
        Form::Events(framing) => framing,
        Form::Json => Framing::Sse,
    };
    let states = States { feed, shown: None };
    Ok(EventStream(stream::body(&app, states, framing, Bytes::new())))
}
