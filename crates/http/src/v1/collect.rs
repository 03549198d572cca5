//! `POST /v1/gc`: removing what is not kept any longer.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::auth::Caller;
use crate::body;
use crate::error::ApiError;

/// Member, optional: `dry_run` (false). 200 with what was removed, or with `dry_run` what would be:
/// `{dry_run, sessions: [{id, name, reason, bytes}], orphans: [{kind, name, bytes}], bytes, database_free_bytes,
/// database_bytes, more}`.
pub(crate) async fn collect(
    State(app): State<App>,
    Caller(principal): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let mut fields = body::fields(&app, &headers, body).await?.unwrap_or_default();
    let dry_run = fields.boolean("dry_run")?.unwrap_or(false);
    fields.finish()?;
    let done = app.engine().collect(&principal, dry_run).await?;
    Ok(Json(done).into_response())
}
