//! `/v1/sessions`: kernels with the sandboxes around them.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use himalia_engine::{EngineError, KernelId, Principal, SessionChange, SessionInfo, TimeChange};
use serde::Serialize;

use super::models::{SandboxUsage, Session};
use super::start;
use crate::app::App;
use crate::auth::Caller;
use crate::body::{self, Fields};
use crate::error::ApiError;
use crate::etag;
use crate::jupyter::kernels::created;
use crate::query;

/// A list that can grow further members.
#[derive(Debug, Serialize)]
struct Sessions {
    sessions: Vec<Session>,
}

/// `GET /v1/sessions?label=`: all of them, those that the Jupyter API made included, in order of their start. With `label=k=v`,
/// or `label=k` for any value, those that have it; several must all be there.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    query::only(&uri, &["label"])?;
    let wanted = query::all(&uri, "label");
    let has = |info: &SessionInfo, label: &String| match label.split_once('=') {
        Some((name, value)) => info.labels.get(name).is_some_and(|has| has == value),
        None => info.labels.contains_key(label),
    };
    let infos = app.engine().session_infos(&principal)?;
    let found = infos
        .into_iter()
        .filter(|info| wanted.iter().all(|label| has(info, label)));
    let sessions = found.map(Session::from).collect();
    etag::json(&headers, &Sessions { sessions })
}

/// `POST /v1/sessions`: 201 with the session when its process is up.
///
/// Members, all optional: `template` (a template's or kernelspec's name), `id` (a UUID, so that a repeated request makes
/// no second session), `name` (409 if a session has it), `env`, `secrets` (variables that are shown and stored nowhere), `cwd`, `limits`, `isolation` (at
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
    let info = app
        .engine()
        .session_info(&principal, session_id(&app, &principal, &id)?);
    etag::json(
        &headers,
        &Session::from(info.map_err(|error| of_session(error, &id))?),
    )
}

/// `GET /v1/sessions/{id}/usage`: `{memory_bytes, cpu_ms, processes}` of its sandbox, measured now. Branches share theirs.
pub(crate) async fn usage(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let kernel = session_id(&app, &principal, &id)?;
    let usage = app.engine().session_usage(&principal, kernel).await;
    let usage = usage.map_err(|error| of_session(error, &id))?;
    let no_store = [(header::CACHE_CONTROL, "no-store")];
    Ok((no_store, Json(SandboxUsage::from(usage))).into_response())
}

/// `DELETE /v1/sessions/{id}`: 204 when its kernel is gone. The sandbox ends with its last session.
pub(crate) async fn end(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let kernel = session_id(&app, &principal, &id)?;
    let ended = app.engine().shutdown_kernel(&principal, kernel).await;
    ended.map_err(|error| of_session(error, &id))?;
    Ok(StatusCode::NO_CONTENT)
}

/// `PUT /v1/sessions/{name}`: 201 with a new session of this name, or 200 with the one that has it. The members are those of
/// `POST`, without `id`; for a session that is there already only `template` counts, which must be its own (409).
pub(crate) async fn put(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let fields = body::fields(&app, &headers, body).await?.unwrap_or_default();
    let mut start = start::read(fields)?;
    if start.id.is_some() {
        return Err(ApiError::bad_field("id", "is not for a session with a name"));
    }
    if start.session_name.as_ref().is_some_and(|told| *told != name) {
        return Err(ApiError::bad_field("name", "is not that of the address"));
    }
    start.session_name = Some(name.clone());
    let (info, started) = app.engine().put_session(&principal, start).await?;
    let session = Session::from(info);
    Ok(if started {
        created(&app, "/v1/sessions/", &name, &session)
    } else {
        Json(session).into_response()
    })
}

/// `PATCH /v1/sessions/{id}`: 200 with the session as it is then. Members, all optional: `labels` (those with null are taken
/// away, others stay), `idle_timeout_s` and `lifetime_s` (from now on); null gives the template's.
pub(crate) async fn change(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Session>, ApiError> {
    let kernel = session_id(&app, &principal, &id)?;
    let mut fields = body::fields(&app, &headers, body).await?.unwrap_or_default();
    let change = SessionChange {
        labels: match fields.object("labels")? {
            Some(labels) => labels.into_optional_strings()?,
            None => BTreeMap::new(),
        },
        idle_timeout: span(&mut fields, "idle_timeout_s")?,
        lifetime: span(&mut fields, "lifetime_s")?,
    };
    fields.finish()?;
    let info = app.engine().change_session(&principal, kernel, change).await;
    Ok(Json(info.map_err(|error| of_session(error, &id))?.into()))
}

/// A time that may be absent or null.
fn span(fields: &mut Fields, name: &str) -> Result<TimeChange, ApiError> {
    if fields.is_null(name) {
        return Ok(TimeChange::Reset);
    }
    let time = start::seconds(fields, name)?;
    Ok(time.map_or(TimeChange::Keep, TimeChange::Set))
}

/// `POST /v1/sessions/{id}/interrupt`: 204 when the interrupt is sent. What runs may go on all the same.
pub(crate) async fn interrupt(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let kernel = session_id(&app, &principal, &id)?;
    let done = app.engine().interrupt_kernel(&principal, kernel).await;
    done.map_err(|error| of_session(error, &id))?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /v1/sessions/{id}/restart`: 200 with the session when its next process is up. Its variables are gone.
pub(crate) async fn restart(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<Json<Session>, ApiError> {
    let kernel = session_id(&app, &principal, &id)?;
    let done = app.engine().restart_kernel(&principal, kernel).await;
    done.map_err(|error| of_session(error, &id))?;
    let info = app.engine().session_info(&principal, kernel);
    Ok(Json(info.map_err(|error| of_session(error, &id))?.into()))
}

/// The session of a path: its id or its name.
pub(super) fn session_id(app: &App, principal: &Principal, text: &str) -> Result<KernelId, ApiError> {
    let found = app.engine().find_session(principal, text);
    found.map_err(|error| of_session(error, text))
}

/// An error about a session, which the engine calls a kernel.
pub(super) fn of_session(error: EngineError, id: &str) -> ApiError {
    match error {
        EngineError::NotFound {
            what: "Kernel" | "Session",
            ..
        } => absent(id),
        other => other.into(),
    }
}

fn absent(id: &str) -> ApiError {
    let id: String = id.chars().take(64).flat_map(char::escape_debug).collect();
    ApiError::not_found(format!("Session does not exist: {id}"))
}
