//! `/api/kernels`.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use himalia_engine::{KernelId, KernelModel, StartKernel};

use super::models::{Kernel, kernel_id};
use crate::app::App;
use crate::auth::Caller;
use crate::body::{self, Fields};
use crate::error::ApiError;
use crate::etag;

/// Largest value of an environment variable, bytes (the system's limit for one string of `execve`).
const ENV_VALUE_BYTES: usize = 128 << 10;
/// Most environment variables of one request.
const ENV_COUNT: usize = 1000;

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

/// `POST /api/kernels` `{"name"?, "path"?, "kernel_id"?, "env"?}`: 201 when the process is up.
pub(crate) async fn start(
    State(app): State<App>,
    Caller(principal): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let mut fields = body::fields(&app, &headers, body).await?.unwrap_or_default();
    let env = env(&mut fields)?;
    let start = StartKernel {
        name: fields.string("name")?.filter(|n| !n.is_empty()),
        id: optional_kernel_id(&mut fields, "kernel_id")?,
        cwd: cwd(&mut fields, &env)?,
        env,
    };
    let model = app.engine().start_kernel(&principal, start).await?;
    Ok(created(
        &app,
        "/api/kernels/",
        &model.id.to_string(),
        &Kernel::from(model),
    ))
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

/// `DELETE /api/kernels/{id}`: 204 when the kernel is gone.
pub(crate) async fn shutdown(
    State(app): State<App>,
    Caller(principal): Caller,
    id: Path<String>,
) -> Result<StatusCode, ApiError> {
    app.engine().shutdown_kernel(&principal, kernel_id(&id)?).await?;
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

/// `POST /api/kernels/{id}/restart`: 200 with the kernel when the new process is up. Any body is accepted and ignored.
pub(crate) async fn restart(
    State(app): State<App>,
    Caller(principal): Caller,
    id: Path<String>,
) -> Result<Json<Kernel>, ApiError> {
    let model: KernelModel = app.engine().restart_kernel(&principal, kernel_id(&id)?).await?;
    Ok(Json(model.into()))
}

/// 201 with `Location`.
pub(super) fn created(app: &App, path: &str, id: &str, model: &impl serde::Serialize) -> Response {
    let mut response = (StatusCode::CREATED, Json(model)).into_response();
    if let Ok(location) = HeaderValue::from_str(&app.url(&format!("{path}{id}"))) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// The member `env`: an object of strings that `execve` can take.
pub(super) fn env(fields: &mut Fields) -> Result<BTreeMap<String, String>, ApiError> {
    let Some(env) = fields.object("env")? else {
        return Ok(BTreeMap::new());
    };
    let env = env.into_strings()?;
    if env.len() > ENV_COUNT {
        return Err(ApiError::bad_request(format!(
            "env: more than {ENV_COUNT} variables"
        )));
    }
    for (name, value) in &env {
        let shown: String = name.chars().take(100).flat_map(char::escape_debug).collect();
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(ApiError::bad_request(format!(
                "env.{shown}: not a variable's name"
            )));
        }
        if value.contains('\0') {
            return Err(ApiError::bad_request(format!(
                "env.{shown}: holds a NUL character"
            )));
        }
        if name.len() + value.len() > ENV_VALUE_BYTES {
            return Err(ApiError::bad_request(format!(
                "env.{shown}: longer than {ENV_VALUE_BYTES} bytes"
            )));
        }
    }
    Ok(env)
}

/// The wanted working directory: `path`, or what gateway clients put into the environment.
fn cwd(fields: &mut Fields, env: &BTreeMap<String, String>) -> Result<Option<String>, ApiError> {
    let path = fields.string("path")?.filter(|p| !p.is_empty());
    Ok(path.or_else(|| env.get("KERNEL_WORKING_DIR").cloned()))
}

/// A member that names a kernel; absent, null and empty are `None`.
pub(super) fn optional_kernel_id(fields: &mut Fields, name: &str) -> Result<Option<KernelId>, ApiError> {
    let Some(text) = fields.string(name)?.filter(|t| !t.is_empty()) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(id) => Ok(Some(id)),
        Err(_) => Err(ApiError::bad_request(format!(
            "{}: not a UUID",
            fields.name(name)
        ))),
    }
}
