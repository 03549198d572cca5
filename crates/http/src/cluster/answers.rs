//! The answer to a prompt that came as a signed message: who answers is known to its handler alone, so that the handler asks where the prompt is.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header;
use axum::response::Response;
use himalia_engine::{Principal, PromptId, Sought};
use serde_json::Value;

use super::Location;
use super::forward::{Served, Trip, forward};
use crate::app::App;
use crate::error::ApiError;

/// Sends an answer to the replica that has the prompt; `None` if that is this one, or if there is none.
pub(crate) async fn answer_elsewhere(
    app: &App,
    principal: &Principal,
    id: PromptId,
    body: &Value,
) -> Result<Option<Response>, ApiError> {
    let Some(cluster) = app.cluster().cloned() else {
        return Ok(None);
    };
    let sought = Sought::Kernel(id.kernel);
    match cluster.locate(principal, &sought, false).await? {
        Some(Location::At(_) | Location::Lost { .. }) => {}
        None | Some(Location::Here) => return Ok(None),
    }
    let request = Request::post(format!("/v1/prompts/{id}/answer"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()))
        .map_err(|_| ApiError::internal("writing an answer"))?;
    let mut trip = Trip::new(app, request).await?;
    match forward(&cluster, principal, &sought, &mut trip).await? {
        Served::Response(response) => Ok(Some(response)),
        Served::Here(_) => Ok(None),
    }
}
