//! `/v1/sessions/{id}/executions`, `/v1/executions`: code that runs once, and its result at any later time.

mod accepted;
mod images;
mod request;
mod session_stream;
pub(super) mod stream;
mod text;

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use himalia_engine::{
    Execute, ExecutionBrief, ExecutionFeed, ExecutionId, ExecutionResult, ExecutionStatus, ExecutionTarget,
    FeedClosed, FeedStart, MAX_INPUT_BYTES, Provenance, WaitUntil,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::{EitherResponse, Empty, JsonWithStatus, PlainText, SerializedJson, TaggedJson};
use super::input::{Client, Cursor, Key, LastEventId, Members, Parameters, Text, Wait, Whole, limit, page};
use super::kernels::{kernel_id, of_kernel};
use super::push::{Socket, Upgrade};
use super::sessions::of_session;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::openapi::{Answer, Operation};
use accepted::AcceptedExecution;
use images::WithStatus;
use request::{ExecuteRequest, NewExecution, ResponseTiming, WAIT};
pub(super) use request::{Form, WAIT_MOST};
use stream::EventStream;
pub(super) use stream::Framing;

pub(crate) use session_stream::all as session_events;

/// Bytes of a page of output: when the caller does not say, and at most.
const PAGE_BYTES: u64 = 64 << 10;
const PAGE_MOST: u64 = 1 << 20;

/// The approximate bytes of one execution in a list.
const BRIEF_BYTES: usize = 256;

/// Executions of a page of a list, at most and by default: all that a kernel remembers.
const LISTED: u64 = 2000;
/// The cursors of the list.
const LIST: char = 'e';

/// A page of the list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExecutionPage {
    executions: Vec<ExecutionBrief>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::v1) enum Order {
    /// The oldest first.
    #[default]
    Asc,
    /// The newest first.
    Desc,
}

/// A query for executions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListExecutionsQuery {
    /// A kernel of the session; default: the first one.
    kernel: Option<String>,
    /// Only executions with this status, or with one of several.
    #[serde(default)]
    status: Vec<ExecutionStatus>,
    /// Only executions of this caller: `operator`, or tenant and caller.
    caller: Option<String>,
    /// Default: the oldest first.
    #[serde(default)]
    order: Order,
    /// The `next` of the page before, with the same `order`.
    cursor: Option<Cursor<LIST>>,
    /// Executions of a page; default: all that are remembered.
    limit: Option<Whole<1, LISTED>>,
}

/// `POST /v1/sessions/{id}/executions`.
///
/// With `Accept: application/json` (or none) it responds when the execution has ended, or after `wait_s`: 200 with the
/// result, 202 while it waits or runs. Without `wait_s` it responds about 10 seconds after `timeout_s` at the latest. With `text/event-stream` or `application/x-ndjson` it responds with its events.
/// `background` responds at once: 202. `Location` names the execution in every case, and a caller that disconnects
/// stops nothing.
pub(crate) async fn create(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    Key(key): Key,
    Client(client): Client,
    Members(wanted): Members<NewExecution>,
) -> Result<AcceptedExecution, ApiError> {
    let form = Form::of(&headers);
    let ExecuteRequest {
        execute,
        background,
        wait,
        images: bounds,
        kernel,
    } = wanted.read(key)?;
    let engine = app.engine();
    let execute = Execute { client, ..execute };
    let (taken, answer) = if background {
        let kernel = kernel_id(&app, &principal, &id, kernel.as_deref())?;
        let taken = engine.execute(&principal, kernel, execute).await;
        let taken = taken.map_err(|error| of_session(error, &id))?;
        let result = engine.execution(&principal, taken.id).await?;
        let made = images::answer(&app, &principal, result, bounds, |result| result).await?;
        let answer = EitherResponse::One(CurrentResult(WithStatus(StatusCode::ACCEPTED, made)));
        (taken, answer)
    } else {
        let target = ExecutionTarget::Session {
            session: &id,
            kernel: kernel.as_deref(),
        };
        let from = match form {
            Form::Json => FeedStart::Now,
            Form::Events(_) => FeedStart::Beginning,
        };
        let submitted = engine.submit(&principal, target, execute, from).await;
        let (taken, feed) = submitted.map_err(|error| match kernel {
            None => of_session(error, &id),
            Some(_) => of_kernel(error, &id),
        })?;
        let answer = match form {
            Form::Json => {
                let result = patient(&app, feed, wait).await?;
                let status = status_of(&result);
                let made = images::answer(&app, &principal, result, bounds, |result| result).await?;
                EitherResponse::One(CurrentResult(WithStatus(status, made)))
            }
            Form::Events(framing) => EitherResponse::Other(stream::of(&app, taken.id, feed, framing)),
        };
        (taken, answer)
    };
    Ok(AcceptedExecution {
        location: app.url(&format!("/v1/executions/{}", taken.id)),
        repeated: taken.repeated,
        answer,
    })
}

/// A result with 200 when the execution has ended, and else with 202.
#[derive(Debug)]
pub(crate) struct CurrentResult(WithStatus<ExecutionResult>);

impl IntoResponse for CurrentResult {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl Answer for CurrentResult {
    fn describe(operation: &mut Operation<'_>) {
        Json::<ExecutionResult>::describe(operation);
        JsonWithStatus::<202, ExecutionResult>::describe(operation);
    }
}

/// Waits as a new execution is waited for. The result is as of then.
async fn patient(
    app: &App,
    mut feed: ExecutionFeed,
    wait: ResponseTiming,
) -> Result<ExecutionResult, ApiError> {
    match wait {
        ResponseTiming::Exact(wait) => waited(app, &mut feed, WaitUntil::Settled, wait).await,
        ResponseTiming::Usual { queued } => {
            let since = Instant::now();
            let result = waited(app, &mut feed, WaitUntil::Begun, queued).await?;
            if result.status == ExecutionStatus::Queued {
                return Ok(result);
            }
            let rest = WAIT.saturating_sub(since.elapsed());
            waited(app, &mut feed, WaitUntil::Notified, rest).await
        }
    }
}

/// Waits at most `wait`, and no longer than the gateway. The result is as of then.
pub(super) async fn waited(
    app: &App,
    feed: &mut ExecutionFeed,
    until: WaitUntil,
    wait: Duration,
) -> Result<ExecutionResult, ApiError> {
    let shutdown = app.shutdown().clone();
    let result = tokio::select! {
        result = feed.wait(until) => result.map(Some),
        () = shutdown.cancelled() => Ok(None),
        () = tokio::time::sleep(wait) => Ok(None),
    };
    match result {
        Ok(Some(result)) => Ok(result),
        Err(FeedClosed::Storage) => Err(ApiError::internal("reading a kernel's log")),
        // The wait has expired, the gateway stops, or its session is gone: the result so far.
        Ok(None) | Err(_) => Ok(feed.result()),
    }
}

fn status_of(result: &ExecutionResult) -> StatusCode {
    if result.status.is_over() {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    }
}

/// `GET /v1/sessions/{id}/executions?kernel=`: those that have not ended, and the latest thousand that have.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(wanted): Parameters<ListExecutionsQuery>,
    headers: HeaderMap,
) -> Result<TaggedJson<ExecutionPage>, ApiError> {
    let kernel = kernel_id(&app, &principal, &id, wanted.kernel.as_deref())?;
    let executions = app.engine().executions(&principal, kernel).await;
    let mut executions = executions.map_err(|error| of_session(error, &id))?;
    executions.retain(|one| {
        (wanted.status.is_empty() || wanted.status.contains(&one.status))
            && wanted.caller.as_ref().is_none_or(|caller| one.caller == *caller)
    });
    let key = |one: &ExecutionBrief| match wanted.order {
        Order::Asc => format!("{:020}", one.id.seq),
        Order::Desc => format!("-{:020}", u64::MAX - one.id.seq),
    };
    executions.sort_by_cached_key(key);
    let (executions, next) = page(
        executions,
        wanted.cursor.as_ref(),
        limit(wanted.limit, LISTED),
        key,
    );
    let bytes = executions.len() * BRIEF_BYTES;
    let made = || TaggedJson::json(&headers, &ExecutionPage { executions, next });
    app.engine().answer_in_turn(&principal, bytes, made).await?
}

/// A result with its provenance.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Execution")]
pub(crate) struct ExecutionView {
    #[serde(flatten)]
    result: ExecutionResult,
    provenance: Provenance,
    /// Characters that tools of MCP have returned about it so far. Null where that is not known: of ended sessions, and of executions
    /// before the latest thousand that something was returned about.
    returned_chars: Option<u64>,
}

/// The wait for an execution, and the content of the response.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetExecutionQuery {
    /// Seconds that the response waits for the end, or for a prompt; default 0.
    wait_s: Option<Wait<WAIT_MOST>>,
    /// Bytes of images that the response contains in base64; larger ones are addresses. Default 0.
    image_bytes: Option<Whole<0, { images::MOST }>>,
    /// Pixels on a side of these images; of a larger one the smaller copy (`preview`), if there is one. Default: any number.
    image_pixels: Option<Whole<1, { images::MOST_PIXELS }>>,
}

/// `GET /v1/executions/{id}?wait_s=`: 200 with the result, and where it comes from. With `wait_s` it responds when the
/// execution has ended or asks for input, or after that time.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(GetExecutionQuery {
        wait_s,
        image_bytes,
        image_pixels,
    }): Parameters<GetExecutionQuery>,
) -> Result<SerializedJson<ExecutionView>, ApiError> {
    let id = execution_id(&id)?;
    if let Some(Wait(wait)) = wait_s.filter(|Wait(wait)| !wait.is_zero()) {
        let mut feed = app.engine().watch_execution(&principal, id).await?;
        waited(&app, &mut feed, WaitUntil::OverOrAsking, wait).await?;
    }
    let shown = app.engine().execution_with_provenance(&principal, id);
    let (result, provenance) = shown.await?;
    let bounds = images::Bounds {
        bytes: image_bytes.map_or(0, |Whole(bytes)| bytes),
        pixels: image_pixels.map(|Whole(pixels)| pixels),
    };
    let shown = |result| ExecutionView {
        result,
        provenance,
        returned_chars: app.engine().returned_about(&principal, id),
    };
    images::answer(&app, &principal, result, bounds, shown).await
}

/// A part of the text of an execution, whole characters.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OutputPage")]
pub(crate) struct OutputPart {
    text: String,
    /// UTF-8 bytes before it.
    offset: u64,
    /// The cursor of the next part. Null: this is the last one, and no more text will come. While the execution runs it may be
    /// `bytes_total`: ask again later.
    next: Option<u64>,
    /// UTF-8 bytes of all text so far.
    bytes_total: u64,
    /// No more text will come.
    complete: bool,
}

/// A part of the text of an execution.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetOutputQuery {
    /// The `next` of the page before: the first byte. Default 0.
    cursor: Option<u64>,
    /// Maximum number of bytes; default 65,536.
    limit: Option<Whole<1, PAGE_MOST>>,
}

/// `GET /v1/executions/{id}/output?cursor=&limit=`: a part of the text. With `Accept: text/plain` all of it from
/// `cursor` on, as it is now, as one stream.
pub(crate) async fn output(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(GetOutputQuery { cursor, limit }): Parameters<GetOutputQuery>,
    headers: HeaderMap,
) -> Result<EitherResponse<Json<OutputPart>, PlainText>, ApiError> {
    let first = cursor.unwrap_or(0);
    if text::is_wanted(&headers) {
        if limit.is_some() {
            return Err(ApiError::bad_field("limit", "is for JSON alone"));
        }
        let id = execution_id(&id)?;
        let text = app.engine().execution_text(&principal, id, first).await?;
        return Ok(EitherResponse::Other(text::of(text)));
    }
    let limit = super::input::limit(limit, PAGE_BYTES);
    let page = app
        .engine()
        .execution_output(&principal, execution_id(&id)?, first, limit)
        .await?;
    let is_last = page.complete && page.next >= page.bytes_total;
    Ok(EitherResponse::One(Json(OutputPart {
        text: page.text,
        offset: page.offset,
        next: (!is_last).then_some(page.next),
        bytes_total: page.bytes_total,
        complete: page.complete,
    })))
}

/// The position at which a stream starts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamExecutionQuery {
    /// Continue after this number.
    after: Option<u64>,
}

/// `GET /v1/executions/{id}/events`: its events from the beginning, or after `Last-Event-ID` (or `?after=`).
/// A request for an upgrade gets them over a WebSocket.
pub(crate) async fn events(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    LastEventId(last): LastEventId,
    Parameters(StreamExecutionQuery { after }): Parameters<StreamExecutionQuery>,
    headers: HeaderMap,
    Upgrade(asked): Upgrade,
) -> Result<EitherResponse<EventStream, Socket>, ApiError> {
    let id = execution_id(&id)?;
    let feed = app
        .engine()
        .follow_execution(&principal, id, last.or(after))
        .await?;
    if let Some(asked) = asked {
        return Ok(EitherResponse::Other(
            asked.serve(&app, stream::Messages { id, feed }),
        ));
    }
    let framing = match Form::of(&headers) {
        Form::Events(framing) => framing,
        Form::Json => stream::Framing::Sse,
    };
    Ok(EitherResponse::One(stream::of(&app, id, feed, framing)))
}

/// The result of an interrupt.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Stopping")]
pub(crate) struct InterruptResult {
    /// False if the execution has already ended.
    stopping: bool,
}

/// `POST /v1/executions/{id}/interrupt`: 202 in both cases.
pub(crate) async fn interrupt(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<JsonWithStatus<202, InterruptResult>, ApiError> {
    let stopping = app
        .engine()
        .interrupt_execution(&principal, execution_id(&id)?)
        .await?;
    Ok(JsonWithStatus(InterruptResult { stopping }))
}

/// The answer to the prompt of an execution.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecutionInput {
    value: Text<0, MAX_INPUT_BYTES>,
}

/// `POST /v1/executions/{id}/input`: 202 when the answer is on its way, 409 if nothing is asked.
pub(crate) async fn input(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Members(ExecutionInput { value: Text(value) }): Members<ExecutionInput>,
) -> Result<Empty<202>, ApiError> {
    let id = execution_id(&id)?;
    app.engine().answer_execution(&principal, id, value).await?;
    Ok(Empty)
}

pub(super) fn execution_id(text: &str) -> Result<ExecutionId, ApiError> {
    Ok(text.parse::<ExecutionId>()?)
}
