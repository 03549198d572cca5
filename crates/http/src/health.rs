//! Probes and metrics. The probes are public, and report only the state of the gateway.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use himalia_engine::METRICS_CONTENT_TYPE;
use serde_json::json;

use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::mounted::OwnBody;

/// `GET /healthz`: 200 while the process answers.
pub(crate) async fn healthz() -> Response {
    Json(json!({ "status": "ok" })).into_response()
}

/// `GET /readyz`: 200 if new work is taken; else 503 with the reasons.
pub(crate) async fn readyz(State(app): State<App>) -> Response {
    let mut reasons = app.engine().not_ready().await;
    if app.shutdown().is_cancelled() && reasons.is_empty() {
        reasons.push("draining".to_owned());
    }
    if reasons.is_empty() {
        return Json(json!({ "status": "ready" })).into_response();
    }
    let body = json!({ "status": "not ready", "reasons": reasons });
    let mut response = (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response();
    response.headers_mut().insert(header::RETRY_AFTER, 1.into());
    response.extensions_mut().insert(OwnBody);
    response
}

/// `GET /metrics`: what the gateway counts, for the operator's Prometheus.
pub(crate) async fn metrics(State(app): State<App>, Caller(principal): Caller) -> Result<Response, ApiError> {
    if let Some(cluster) = app.cluster() {
        let usage = cluster.pool().usage();
        let replicas = app.engine().counted().replicas();
        replicas.set_relays(usage.relayed, usage.failed, usage.open);
    }
    let text = app.engine().metrics(&principal)?;
    Ok(([(header::CONTENT_TYPE, METRICS_CONTENT_TYPE)], text).into_response())
}
