//! `/v1/sessions/{id}/kernels`: the kernels of a session, and which of them a request is for.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use himalia_engine::{
    EngineError, ExecutionState, KernelId, NewKernel, Principal, Secrets, SessionId, SessionInfo, StartPath,
};
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::{CreatedResponse, Empty, TaggedJson};
use super::input::{ListQuery, Members, Parameters, Text, or_empty};
use super::models::UnresponsiveKernel;
use super::sessions::{of_session, session_id};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::variables;

/// Bytes of a directory's name.
const CWD_BYTES: usize = 4096;

/// A kernel of a session. All of them share the sandbox: files, limits, network and end.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionKernel {
    /// Routes of the Jupyter API accept it too.
    id: KernelId,
    session: SessionId,
    /// True for the first kernel of the session, which ends with it and has its id.
    first: bool,
    kernelspec: String,
    state: ExecutionState,
    /// Counts kernel processes, from 1. If it changes, the variables are gone.
    incarnation: u32,
    /// The reason for its state: a cause of death such as `oom`, or null.
    reason: Option<String>,
    /// Set if its process runs and does not respond; null if it responds, or is only busy.
    unresponsive: Option<UnresponsiveKernel>,
    cwd: String,
    /// `pool`, `zygote`, `cold` or `fork`.
    started_by: StartPath,
    start_ms: u64,
    connections: u32,
    #[schemars(extend("format" = "date-time"))]
    created: String,
    #[schemars(extend("format" = "date-time"))]
    last_activity: String,
}

impl SessionKernel {
    fn of(session: SessionId, info: SessionInfo) -> Self {
        let (kernel, described) = (info.kernel, info.session);
        Self {
            id: kernel.id,
            session,
            first: kernel.id == session.first_kernel(),
            kernelspec: kernel.name,
            state: kernel.execution_state,
            incarnation: kernel.incarnation,
            reason: kernel.reason.filter(|reason| !reason.is_empty()),
            unresponsive: kernel.unresponsive.map(UnresponsiveKernel::from),
            cwd: described.cwd.clone(),
            started_by: described.start_path,
            start_ms: described.start_ms,
            connections: kernel.connections,
            created: timestamp(described.created()),
            last_activity: timestamp(kernel.last_activity),
        }
    }
}

/// A page of the list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KernelPage {
    kernels: Vec<SessionKernel>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

/// An additional kernel; every member is optional.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewKernel")]
pub(crate) struct CreateKernelRequest {
    /// Default: the kernelspec of the first kernel. Its program must exist in the session's sandbox.
    kernelspec: Option<String>,
    /// The first directory, absolute or relative to the directory of the session. Default: the directory of the session.
    cwd: Option<Text<1, CWD_BYTES>>,
    /// Environment variables of its processes. Variables of the session are not included.
    #[serde(default, deserialize_with = "or_empty")]
    #[schemars(with = "Option<BTreeMap<String, String>>", extend("maxProperties" = variables::COUNT))]
    env: BTreeMap<String, String>,
    /// Environment variables that are neither shown nor stored.
    #[serde(default, deserialize_with = "or_empty")]
    #[schemars(with = "Option<BTreeMap<String, String>>", extend("maxProperties" = variables::COUNT))]
    secrets: BTreeMap<String, String>,
}

/// The kernel of a session that a request is for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KernelQuery {
    /// A kernel of the session; default: the first one.
    pub(super) kernel: Option<String>,
}

/// The letter of its cursors.
const LIST: char = 'k';

/// `GET /v1/sessions/{id}/kernels`: the first one, then the others in order of their start.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(wanted): Parameters<ListQuery<LIST>>,
    headers: HeaderMap,
) -> Result<TaggedJson<KernelPage>, ApiError> {
    let mut kernels = all(&app, &principal, &id)?;
    let key =
        |kernel: &SessionKernel| format!("{} {} {}", u8::from(!kernel.first), kernel.created, kernel.id);
    kernels.sort_by_cached_key(key);
    let (kernels, next) = wanted.page(kernels, key);
    TaggedJson::json(&headers, &KernelPage { kernels, next })
}

/// `POST /v1/sessions/{id}/kernels`: 201 with the kernel when its process is up.
pub(crate) async fn create(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Members(wanted): Members<CreateKernelRequest>,
) -> Result<CreatedResponse<SessionKernel>, ApiError> {
    variables::check("env", &wanted.env)?;
    variables::check("secrets", &wanted.secrets)?;
    let new = NewKernel {
        kernelspec: wanted.kernelspec.filter(|name| !name.is_empty()),
        cwd: wanted.cwd.map(|Text(cwd)| cwd),
        env: wanted.env,
        secrets: Secrets(wanted.secrets),
    };
    let session = session_id(&app, &principal, &id)?;
    let made = app.engine().start_session_kernel(&principal, session, new).await;
    let kernel = SessionKernel::of(session, made.map_err(|error| of_session(error, &id))?);
    let path = format!("/v1/sessions/{session}/kernels/{}", kernel.id);
    Ok(CreatedResponse::at(&app, &path, kernel))
}

/// `GET /v1/sessions/{id}/kernels/{kernel}`.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((id, kernel)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<TaggedJson<SessionKernel>, ApiError> {
    TaggedJson::json(&headers, &one(&app, &principal, &id, &kernel)?)
}

/// `DELETE /v1/sessions/{id}/kernels/{kernel}`: 204 when it is gone; 409 for the first one.
pub(crate) async fn end(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((id, kernel)): Path<(String, String)>,
) -> Result<Empty<204>, ApiError> {
    let session = session_id(&app, &principal, &id)?;
    let ended = app
        .engine()
        .end_session_kernel(&principal, session, &kernel)
        .await;
    ended.map_err(|error| of_kernel(error, &id))?;
    Ok(Empty)
}

/// `POST /v1/sessions/{id}/kernels/{kernel}/interrupt`: 204 when the interrupt is sent.
pub(crate) async fn interrupt(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((id, kernel)): Path<(String, String)>,
) -> Result<Empty<204>, ApiError> {
    let kernel = kernel_id(&app, &principal, &id, Some(&kernel))?;
    app.engine().interrupt_kernel(&principal, kernel).await?;
    Ok(Empty)
}

/// `POST /v1/sessions/{id}/kernels/{kernel}/restart`: 200 with the kernel when its next process is up.
pub(crate) async fn restart(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((id, kernel)): Path<(String, String)>,
) -> Result<Json<SessionKernel>, ApiError> {
    let found = kernel_id(&app, &principal, &id, Some(&kernel))?;
    app.engine().restart_kernel(&principal, found).await?;
    Ok(Json(one(&app, &principal, &id, &kernel)?))
}

/// The kernel that a request is for: one of a session's, the first one if it names none.
pub(super) fn kernel_id(
    app: &App,
    principal: &Principal,
    session: &str,
    kernel: Option<&str>,
) -> Result<KernelId, ApiError> {
    let id = session_id(app, principal, session)?;
    let found = app.engine().session_kernel(principal, id, kernel);
    found.map_err(|error| of_kernel(error, session))
}

fn all(app: &App, principal: &Principal, id: &str) -> Result<Vec<SessionKernel>, ApiError> {
    let session = session_id(app, principal, id)?;
    let infos = app.engine().session_kernels(principal, session);
    let infos = infos.map_err(|error| of_session(error, id))?.into_iter();
    Ok(infos.map(|info| SessionKernel::of(session, info)).collect())
}

fn one(app: &App, principal: &Principal, id: &str, kernel: &str) -> Result<SessionKernel, ApiError> {
    let wanted = kernel_id(app, principal, id, Some(kernel))?;
    let mut kernels = all(app, principal, id)?.into_iter();
    let found = kernels.find(|kernel| kernel.id == wanted);
    found.ok_or_else(|| EngineError::no_kernel(wanted).into())
}

/// An error about a kernel of a session, or about the session.
pub(super) fn of_kernel(error: EngineError, session: &str) -> ApiError {
    match error {
        EngineError::NotFound { what: "Session", .. } => of_session(error, session),
        other => other.into(),
    }
}
