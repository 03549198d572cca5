//! `/api/sessions`: paths bound to kernels.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use himalia_engine::{KernelRef, NewSession, SessionPatch};

use super::kernels::{created, optional_kernel_id, settled};
use super::models::{Session, session_id};
use crate::app::App;
use crate::auth::Caller;
use crate::body::{self, Fields};
use crate::error::ApiError;
use crate::etag;
use crate::variables;

/// `GET /api/sessions`.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let sessions = app.engine().sessions(&principal).await?;
    let sessions: Vec<Session> = sessions.into_iter().map(Session::from).collect();
    etag::json(&headers, &sessions)
}

/// `POST /api/sessions` `{"path", "type", "name"?, "kernel": {"name"?, "id"?}}`, or the older `{"notebook": {"path"}}`: 201,
/// also for the session that has this path already.
pub(crate) async fn create(
    State(app): State<App>,
    Caller(principal): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let Some(mut fields) = body::fields(&app, &headers, body).await? else {
        return Err(ApiError::bad_request("No JSON data provided"));
    };
    let (mut path, mut kind) = (fields.string("path")?, fields.string("type")?);
    let mut name = fields.string("name")?;
    if let Some(mut notebook) = fields.object("notebook")? {
        let (old_path, old_name) = (notebook.string("path")?, notebook.string("name")?);
        path = path.or(old_path).or_else(|| old_name.clone());
        name = name.or(old_name);
        kind = kind.or_else(|| Some("notebook".into()));
    }
    let given = |value: Option<String>| value.filter(|text| !text.is_empty());
    let Some(path) = given(path) else {
        return Err(ApiError::bad_request("Missing field in JSON data: path"));
    };
    let Some(kind) = given(kind) else {
        return Err(ApiError::bad_request("Missing field in JSON data: type"));
    };
    let env = variables::read(&mut fields, "env")?;
    let kernel = kernel(&mut fields, UnknownId::Ignored)?.unwrap_or_default();
    let new = NewSession {
        path,
        kind,
        name,
        kernel,
        env,
    };
    let model = app.engine().create_session(&principal, new).await;
    let mut model = model.map_err(|error| ApiError::from(error).for_session())?;
    model.kernel = settled(&app, &principal, model.kernel).await;
    Ok(created(
        &app,
        "/api/sessions/",
        &model.id.to_string(),
        &Session::from(model),
    ))
}

/// `GET /api/sessions/{id}`.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    id: Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let model = app.engine().session(&principal, session_id(&id)?).await?;
    etag::json(&headers, &Session::from(model))
}

/// `PATCH /api/sessions/{id}` with any of `path`, `name`, `type`, `kernel`, or the older `notebook`.
pub(crate) async fn change(
    State(app): State<App>,
    Caller(principal): Caller,
    id: Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Session>, ApiError> {
    let id = session_id(&id)?;
    let mut fields = body::fields(&app, &headers, body).await?.unwrap_or_default();
    let mut patch = SessionPatch {
        path: fields.string("path")?,
        name: fields.string("name")?,
        kind: fields.string("type")?,
        kernel: kernel(&mut fields, UnknownId::Refused)?,
    };
    if let Some(mut notebook) = fields.object("notebook")? {
        patch.path = patch.path.or(notebook.string("path")?);
        patch.name = patch.name.or(notebook.string("name")?);
    }
    let model = app.engine().patch_session(&principal, id, patch).await;
    let mut model = model.map_err(|error| ApiError::from(error).for_session())?;
    model.kernel = settled(&app, &principal, model.kernel).await;
    Ok(Json(model.into()))
}

/// `DELETE /api/sessions/{id}`: 204 when the kernel is gone.
pub(crate) async fn end(
    State(app): State<App>,
    Caller(principal): Caller,
    id: Path<String>,
) -> Result<StatusCode, ApiError> {
    app.engine().delete_session(&principal, session_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The handling of a kernel id that is not a UUID, and therefore names no kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UnknownId {
    /// A kernel is started, as `jupyter_server` does for every id that it does not know.
    Ignored,
    Refused,
}

/// The member `kernel`; one that names nothing counts as absent.
fn kernel(fields: &mut Fields, unknown: UnknownId) -> Result<Option<KernelRef>, ApiError> {
    let Some(mut kernel) = fields.object("kernel")? else {
        return Ok(None);
    };
    let id = if unknown == UnknownId::Ignored {
        kernel.string("id")?.and_then(|text| text.parse().ok())
    } else {
        optional_kernel_id(&mut kernel, "id")?
    };
    let name = kernel.string("name")?.filter(|n| !n.is_empty());
    Ok((id.is_some() || name.is_some()).then_some(KernelRef { id, name }))
}
