//! Health probes. Both are public, and report only the state of the gateway.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::app::App;
use crate::error::ApiError;

/// `GET /healthz`: 200 while the process answers.
pub(crate) async fn healthz() -> Response {
    Json(json!({ "status": "ok" })).into_response()
}

/// `GET /readyz`: 200 if new work is taken, 503 while the gateway starts or drains.
pub(crate) async fn readyz(State(app): State<App>) -> Result<Response, ApiError> {
    if app.shutdown().is_cancelled() || !app.engine().ready() {
        return Err(himalia_engine::EngineError::unavailable("not taking new work").into());
    }
    Ok(Json(json!({ "status": "ready" })).into_response())
}
