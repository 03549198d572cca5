//! `GET /v1/pools`: kernels that are kept ready.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Value, json};

use super::models;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::etag;

/// All pools, one for each template that has one.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let pools: Vec<Value> = app.engine().pools(&principal)?.iter().map(models::pool).collect();
    etag::json(&headers, &json!({ "pools": pools }))
}
