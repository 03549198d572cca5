//! `POST /v1/sessions/{id}/complete` and `…/inspect`: completion and inspection by the kernel.

use axum::Json;
use axum::extract::{Path, State};
use himalia_engine::{Completion, Inspection, MAX_CURSOR_CODE_BYTES};
use schemars::JsonSchema;
use serde::Deserialize;

use super::input::{Members, Text, Whole};
use super::kernels::kernel_id;
use super::sessions::of_session;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// A position in code.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlaceInCode {
    code: Text<0, MAX_CURSOR_CODE_BYTES>,
    /// A kernel of the session; default: the first one.
    kernel: Option<String>,
    /// Position in characters; default: the end of the code.
    cursor_pos: Option<u64>,
}

/// A position in code, and the level of detail.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DetailedPlace {
    code: Text<0, MAX_CURSOR_CODE_BYTES>,
    /// A kernel of the session; default: the first one.
    kernel: Option<String>,
    /// Position in characters; default: the end of the code.
    cursor_pos: Option<u64>,
    /// 1: include the source if the kernel has it; default 0.
    detail_level: Option<Whole<0, 1>>,
}

/// `POST …/complete`: completions at a position in code. 503 `busy` while other code runs for long.
pub(crate) async fn complete(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Members(at): Members<PlaceInCode>,
) -> Result<Json<Completion>, ApiError> {
    let kernel = kernel_id(&app, &principal, &id, at.kernel.as_deref())?;
    let done = app
        .engine()
        .complete(&principal, kernel, &at.code.0, at.cursor_pos)
        .await;
    Ok(Json(done.map_err(|error| of_session(error, &id))?))
}

/// `POST …/inspect`: what is known of the object there.
pub(crate) async fn inspect(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Members(at): Members<DetailedPlace>,
) -> Result<Json<Inspection>, ApiError> {
    let kernel = kernel_id(&app, &principal, &id, at.kernel.as_deref())?;
    let detail = u8::from(at.detail_level == Some(Whole(1)));
    let done = app
        .engine()
        .inspect(&principal, kernel, &at.code.0, at.cursor_pos, detail)
        .await;
    Ok(Json(done.map_err(|error| of_session(error, &id))?))
}
