//! `/api/kernels`.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use himalia_engine::{ExecutionState, KernelId, KernelModel, Principal, StartSession};
use tokio::time::{Instant, sleep};

use super::models::{Kernel, kernel_id};
use crate::app::App;
use crate::auth::Caller;
use crate::body::{self, Fields};
use crate::error::ApiError;
use crate::etag;
use crate::variables;

/// The kind of start of a new kernel: `pool`, `zygote`, `cold`.
const STARTED_BY: HeaderName = HeaderName::from_static("x-himalia-started-by");
/// The level of its sandbox.
const ISOLATION: HeaderName = HeaderName::from_static("x-himalia-isolation");

/// Longest time that an answer waits for a kernel that has not answered yet.
const SETTLE_TIME: Duration = Duration::from_secs(2);
/// Time between two looks at it.
const SETTLE_LOOK: Duration = Duration::from_millis(10);

/// `GET /api/kernels`: all of them, never paged. Clients take an absent kernel for culled.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let kernels: Vec<Kernel> = app
        .engine()
        .kernels(&principal)?
        .into_iter()
        .map(Kernel::from)
        .collect();
    etag::json(&headers, &kernels)
}

/// `POST /api/kernels` `{"name"?, "path"?, "kernel_id"?, "env"?}`: 201 when the process is up and [settled].
pub(crate) async fn start(
    State(app): State<App>,
    Caller(principal): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let mut fields = body::fields(&app, &headers, body).await?.unwrap_or_default();
    let env = variables::read(&mut fields, "env")?;
    let start = StartSession {
        name: fields.string("name")?.filter(|n| !n.is_empty()),
        id: optional_kernel_id(&mut fields, "kernel_id")?,
        cwd: cwd(&mut fields, &env)?,
        env,
        ..StartSession::default()
    };
    let model = app.engine().start_kernel(&principal, start).await?;
    let model = settled(&app, &principal, model).await;
    let id = model.id;
    let mut response = created(&app, "/api/kernels/", &id.to_string(), &Kernel::from(model));
    // Beside Jupyter's shape, which stays as it is. It may have ended in the meantime.
    if let Ok(info) = app.engine().session_info(&principal, id) {
        let headers = response.headers_mut();
        headers.insert(
            STARTED_BY,
            HeaderValue::from_static(info.session.start_path.as_str()),
        );
        headers.insert(
            ISOLATION,
            HeaderValue::from_static(info.session.sandbox.isolation.as_str()),
        );
    }
    Ok(response)
}

/// `GET /api/kernels/{id}`.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    id: Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let model = app.engine().kernel(&principal, kernel_id(&id)?)?;
    etag::json(&headers, &Kernel::from(model))
}

/// `DELETE /api/kernels/{id}`: 204 when the kernel is gone. One of a native session stays, with the same answer: the client
/// leaves it, and its owner ends it with `DELETE /v1/sessions/{id}`.
pub(crate) async fn shutdown(
    State(app): State<App>,
    Caller(principal): Caller,
    id: Path<String>,
) -> Result<StatusCode, ApiError> {
    app.engine().release_kernel(&principal, kernel_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /api/kernels/{id}/interrupt`: 204 when the signal is sent. Any body is accepted and ignored.
pub(crate) async fn interrupt(
    State(app): State<App>,
    Caller(principal): Caller,
    id: Path<String>,
) -> Result<StatusCode, ApiError> {
    app.engine().interrupt_kernel(&principal, kernel_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /api/kernels/{id}/restart`: 200 with the kernel when the new process is up and [settled]. Any body is accepted and ignored.
pub(crate) async fn restart(
    State(app): State<App>,
    Caller(principal): Caller,
    id: Path<String>,
) -> Result<Json<Kernel>, ApiError> {
    let model = app.engine().restart_kernel(&principal, kernel_id(&id)?).await?;
    Ok(Json(settled(&app, &principal, model).await.into()))
}

/// A kernel that has started, or that is still starting after a moment. Clients compare the answer to a start with the next list, so its
/// state must not be one that changes by itself right away.
pub(super) async fn settled(app: &App, principal: &Principal, mut model: KernelModel) -> KernelModel {
    let end = Instant::now() + SETTLE_TIME;
    while model.execution_state == ExecutionState::Starting && Instant::now() < end {
        sleep(SETTLE_LOOK).await;
        let Ok(now) = app.engine().kernel(principal, model.id) else {
            break;
        };
        model = now;
    }
    model
}

/// 201 with `Location`.
pub(crate) fn created(app: &App, path: &str, id: &str, model: &impl serde::Serialize) -> Response {
    let mut response = (StatusCode::CREATED, Json(model)).into_response();
    if let Ok(location) = HeaderValue::from_str(&app.url(&format!("{path}{id}"))) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// The wanted working directory: `path`, or what gateway clients put into the environment.
fn cwd(fields: &mut Fields, env: &BTreeMap<String, String>) -> Result<Option<String>, ApiError> {
    let path = fields.string("path")?.filter(|p| !p.is_empty());
    Ok(path.or_else(|| env.get("KERNEL_WORKING_DIR").cloned()))
}

/// A member that names a kernel; absent, null and empty are `None`.
pub(crate) fn optional_kernel_id(fields: &mut Fields, name: &str) -> Result<Option<KernelId>, ApiError> {
    let Some(text) = fields.string(name)?.filter(|t| !t.is_empty()) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(id) => Ok(Some(id)),
        Err(_) => Err(ApiError::bad_field(fields.name(name), "not a UUID")),
    }
}
