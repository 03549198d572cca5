//! `/v1/sessions`: kernels with the sandboxes around them.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use himalia_engine::{EngineError, KernelId};
use serde::Serialize;

use super::models::Session;
use super::start;
use crate::app::App;
use crate::auth::Caller;
use crate::body;
use crate::error::ApiError;
use crate::etag;
use crate::jupyter::kernels::created;

/// A list that can grow further members.
#[derive(Debug, Serialize)]
struct Sessions {
    sessions: Vec<Session>,
}

/// `GET /v1/sessions`: all of them, those that the Jupyter API made included, in order of their start.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let infos = app.engine().session_infos(&principal)?;
    let sessions = infos.into_iter().map(Session::from).collect();
    etag::json(&headers, &Sessions { sessions })
}

/// `POST /v1/sessions`: 201 with the session when its process is up.
///
/// Members, all optional: `template` (a template's or kernelspec's name), `id` (a UUID, so that a repeated request makes
/// no second session), `env`, `secrets` (variables that are shown and stored nowhere), `cwd`, `limits`, `isolation` (at
/// least), `image`, `network`, `idle_timeout_s`, `lifetime_s`, `labels`.
pub(crate) async fn create(
    State(app): State<App>,
    Caller(principal): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let fields = body::fields(&app, &headers, body).await?.unwrap_or_default();
    let start = start::read(fields)?;
    let info = app.engine().start_session(&principal, start).await?;
    let id = info.kernel.id.to_string();
    Ok(created(&app, "/v1/sessions/", &id, &Session::from(info)))
}

/// `GET /v1/sessions/{id}`.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let info = app.engine().session_info(&principal, session_id(&id)?);
    etag::json(
        &headers,
        &Session::from(info.map_err(|error| of_session(error, &id))?),
    )
}

/// `DELETE /v1/sessions/{id}`: 204 when its kernel is gone. The sandbox ends with its last session.
pub(crate) async fn end(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let ended = app.engine().shutdown_kernel(&principal, session_id(&id)?).await;
    ended.map_err(|error| of_session(error, &id))?;
    Ok(StatusCode::NO_CONTENT)
}

/// The session of a path; what is no id names none.
pub(super) fn session_id(text: &str) -> Result<KernelId, ApiError> {
    text.parse().map_err(|_| absent(text))
}

/// An error about a session, which the engine calls a kernel.
pub(super) fn of_session(error: EngineError, id: &str) -> ApiError {
    match error {
        EngineError::NotFound { .. } => absent(id),
        other => other.into(),
    }
}

fn absent(id: &str) -> ApiError {
    let id: String = id.chars().take(64).flat_map(char::escape_debug).collect();
    ApiError::not_found(format!("Session does not exist: {id}"))
}
