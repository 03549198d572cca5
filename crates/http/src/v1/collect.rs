//! `POST /v1/gc`: removes expired data.

use axum::Json;
use axum::extract::State;
use himalia_engine::Collected;
use schemars::JsonSchema;
use serde::Deserialize;

use super::input::Members;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// A garbage collection.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Collection {
    /// If true, the data is reported and not removed. Default: false.
    dry_run: Option<bool>,
}

/// 200 with what was removed, or with `dry_run` what would be.
pub(crate) async fn collect(
    State(app): State<App>,
    Caller(principal): Caller,
    Members(Collection { dry_run }): Members<Collection>,
) -> Result<Json<Collected>, ApiError> {
    let done = app.engine().collect(&principal, dry_run.unwrap_or(false)).await?;
    Ok(Json(done))
}
