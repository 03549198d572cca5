//! `/v1/sessions/{id}/executions`, `/v1/executions`: code, run once, and what came of it at any later time.

mod request;
mod stream;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use himalia_engine::{Closed, ExecutionBrief, ExecutionFeed, ExecutionId, ExecutionResult};
use serde::Serialize;
use serde_json::json;

use super::events::position;
use super::push;
use super::sessions::{of_session, session_id};
use crate::app::App;
use crate::auth::Caller;
use crate::body;
use crate::error::ApiError;
use crate::etag;
use crate::listen::Peer;
use crate::query;
use request::{Form, Wish};

/// Bytes of a page of output: when the caller does not say, and at most.
const PAGE_BYTES: u64 = 64 << 10;
const PAGE_MOST: u64 = 1 << 20;

/// A list that can grow further members.
#[derive(Debug, Serialize)]
struct Executions {
    executions: Vec<ExecutionBrief>,
}

/// `POST /v1/sessions/{id}/executions`; the members of the body are those of [`request::read`].
///
/// With `Accept: application/json` (or none) it answers when the execution is over, or its time: 200 with the result, 202
/// while it still runs. With `text/event-stream` or `application/x-ndjson` it answers with its events. `background`
/// answers at once: 202. `Location` names the execution in every case, and a caller that goes away stops nothing.
pub(crate) async fn create(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let kernel = session_id(&app, &principal, &id)?;
    let fields = body::fields(&app, &headers, body).await?.unwrap_or_default();
    let Wish { execute, background } = request::read(fields, &headers)?;
    let form = Form::of(&headers);
    let taken = app.engine().execute(&principal, kernel, execute).await;
    let taken = taken.map_err(|error| of_session(error, &id))?;
    let mut response = if background {
        let result = app.engine().execution(&principal, taken.id).await?;
        (StatusCode::ACCEPTED, Json(result)).into_response()
    } else {
        let feed = app.engine().follow_execution(&principal, taken.id, None).await?;
        match form {
            Form::Json => waited(&app, feed).await?,
            Form::Events(framing) => stream::of(&app, taken.id, feed, framing),
        }
    };
    let headers = response.headers_mut();
    if let Ok(location) = HeaderValue::from_str(&app.url(&format!("/v1/executions/{}", taken.id))) {
        headers.insert(header::LOCATION, location);
    }
    if taken.repeated {
        headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Waits for the end: of the execution, of its time, or of the gateway.
async fn waited(app: &App, mut feed: ExecutionFeed) -> Result<Response, ApiError> {
    let shutdown = app.shutdown().clone();
    let result = tokio::select! {
        result = feed.settled() => result,
        () = shutdown.cancelled() => Err(Closed::Draining),
    };
    let result = match result {
        Ok(result) => result,
        Err(Closed::Storage) => return Err(ApiError::internal("reading a kernel's log")),
        // It goes on without this gateway, or its session is gone: as far as it is known.
        Err(_) => feed.result(),
    };
    Ok((status_of(&result), Json(result)).into_response())
}

fn status_of(result: &ExecutionResult) -> StatusCode {
    if result.status.is_over() {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    }
}

/// `GET /v1/sessions/{id}/executions`: those that are not over, and the latest thousand that are, oldest first.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let kernel = session_id(&app, &principal, &id)?;
    let executions = app.engine().executions(&principal, kernel).await;
    let executions = executions.map_err(|error| of_session(error, &id))?;
    etag::json(&headers, &Executions { executions })
}

/// `GET /v1/executions/{id}`: 200 with the result as of now.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<Json<ExecutionResult>, ApiError> {
    Ok(Json(
        app.engine().execution(&principal, execution_id(&id)?).await?,
    ))
}

/// `GET /v1/executions/{id}/output?offset=&limit=`: a part of the text, 64 KiB unless `limit` says otherwise (at most
/// 1 MiB).
pub(crate) async fn output(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let offset = query::number(&uri, "offset")?.unwrap_or(0);
    let limit = query::number(&uri, "limit")?.unwrap_or(PAGE_BYTES);
    if limit == 0 || limit > PAGE_MOST {
        return Err(ApiError::bad_field("limit", format!("expected 1 to {PAGE_MOST}")));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let page = app
        .engine()
        .execution_output(&principal, execution_id(&id)?, offset, limit)
        .await?;
    Ok(Json(page).into_response())
}

/// `GET /v1/executions/{id}/events`: its events from the beginning, or after `Last-Event-ID` (or `?after=`).
/// A request for an upgrade gets them over a WebSocket.
pub(crate) async fn events(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    mut request: Request,
) -> Result<Response, ApiError> {
    let id = execution_id(&id)?;
    let handshake = push::asked(&mut request)?;
    let after = position(request.uri(), request.headers())?;
    let feed = app.engine().follow_execution(&principal, id, after).await?;
    if let Some(handshake) = handshake {
        let peer = request.extensions().get::<Peer>().cloned();
        return Ok(push::serve(&app, handshake, peer, stream::Messages { id, feed }));
    }
    let framing = match Form::of(request.headers()) {
        Form::Events(framing) => framing,
        Form::Json => stream::Framing::Sse,
    };
    Ok(stream::of(&app, id, feed, framing))
}

/// `POST /v1/executions/{id}/interrupt`: 202 `{"stopping": true}` when the interrupt is on its way, false when the
/// execution is over already.
pub(crate) async fn interrupt(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let stopping = app
        .engine()
        .interrupt_execution(&principal, execution_id(&id)?)
        .await?;
    Ok((StatusCode::ACCEPTED, Json(json!({ "stopping": stopping }))).into_response())
}

/// `POST /v1/executions/{id}/input` `{value}`: 202 when the answer is on its way, 409 if nothing is asked.
pub(crate) async fn input(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ApiError> {
    let id = execution_id(&id)?;
    let mut fields = body::fields(&app, &headers, body).await?.unwrap_or_default();
    let value = fields.string("value")?;
    fields.finish()?;
    let value = value.ok_or_else(|| ApiError::bad_field("value", "is missing"))?;
    app.engine().answer_execution(&principal, id, value).await?;
    Ok(StatusCode::ACCEPTED)
}

fn execution_id(text: &str) -> Result<ExecutionId, ApiError> {
    Ok(text.parse::<ExecutionId>()?)
}
