//! The answer to a prompt that came as a signed message: who answers is known to its handler alone, so that the handler asks where the prompt is.

use axum::extract::Request;
use axum::response::Response;
use himalia_engine::{Principal, PromptId, ResourceRef};

use super::forward::{Served, Trip, forward};
use super::peers::not_here;
use super::{Location, Relayed};
use crate::app::App;
use crate::error::ApiError;

/// Sends a signed message to the replica that has the prompt, which checks it as if it had come there; `None` if that is this one, or if
/// there is none.
pub(crate) async fn answer_elsewhere(
    app: &App,
    principal: &Principal,
    id: PromptId,
    message: Request,
) -> Result<Option<Response>, ApiError> {
    let Some(cluster) = app.cluster().cloned() else {
        return Ok(None);
    };
    let sought = ResourceRef::Kernel(id.kernel);
    let relayed = message.extensions().get::<Relayed>().is_some();
    match cluster.locate(principal, &sought, relayed).await? {
        Some(Location::At(_) | Location::Lost { .. }) => {}
        None | Some(Location::Here) => return Ok(None),
    }
    if relayed {
        return Ok(Some(not_here()));
    }
    let mut trip = Trip::new(app, message).await?;
    match forward(&cluster, principal, &sought, &mut trip).await? {
        Served::Response(response) => Ok(Some(response)),
        Served::Here(_) => Ok(None),
    }
}
