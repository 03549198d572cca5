//! `GET /v1/openapi.json`: the description of this API.

use axum::extract::State;
use axum::http::HeaderMap;
use serde_json::Value;

use super::answers::TaggedJson;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// The document, with the base URL of this gateway.
pub(crate) async fn show(
    State(app): State<App>,
    _: Caller,
    headers: HeaderMap,
) -> Result<TaggedJson<Value>, ApiError> {
    TaggedJson::json(&headers, app.description())
}
