//! `POST /v1/sessions/{id}/complete` and `…/inspect`: what a kernel knows of code that was not run.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use himalia_engine::{Completion, Inspection};

use super::sessions::{of_session, session_id};
use crate::app::App;
use crate::auth::Caller;
use crate::body::{self, Fields};
use crate::error::ApiError;

/// `POST …/complete` `{code, cursor_pos?}`: how the code may go on there. 503 `busy` behind code that runs for long.
pub(crate) async fn complete(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Completion>, ApiError> {
    let kernel = session_id(&app, &principal, &id)?;
    let mut fields = body::fields(&app, &headers, body).await?.unwrap_or_default();
    let (code, cursor) = place(&mut fields)?;
    fields.finish()?;
    let done = app.engine().complete(&principal, kernel, &code, cursor).await;
    Ok(Json(done.map_err(|error| of_session(error, &id))?))
}

/// `POST …/inspect` `{code, cursor_pos?, detail_level?}`: what is known of the object there.
pub(crate) async fn inspect(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Inspection>, ApiError> {
    let kernel = session_id(&app, &principal, &id)?;
    let mut fields = body::fields(&app, &headers, body).await?.unwrap_or_default();
    let (code, cursor) = place(&mut fields)?;
    let detail = match fields.number("detail_level")?.unwrap_or(0) {
        0 => 0,
        1 => 1,
        _ => return Err(ApiError::bad_field("detail_level", "expected 0 or 1")),
    };
    fields.finish()?;
    let done = app
        .engine()
        .inspect(&principal, kernel, &code, cursor, detail)
        .await;
    Ok(Json(done.map_err(|error| of_session(error, &id))?))
}

fn place(fields: &mut Fields) -> Result<(String, Option<u64>), ApiError> {
    let code = fields.string("code")?;
    let code = code.ok_or_else(|| ApiError::bad_field("code", "is missing"))?;
    Ok((code, fields.number("cursor_pos")?))
}
