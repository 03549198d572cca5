//! Signed answers to prompts: only the handler knows the principal, so it relays the message itself.

use axum::extract::Request;
use axum::response::Response;
use himalia_cluster::{Location, RelayedPrincipal};
use himalia_engine::{Principal, PromptId, ResourceRef};

use super::peers::not_here;
use super::replay::{Relay, forward, replayable};
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
    let relayed = message.extensions().get::<RelayedPrincipal>().is_some();
    match cluster.locate(principal, &sought, relayed).await? {
        Some(Location::At(_) | Location::Lost { .. }) => {}
        None | Some(Location::Here) => return Ok(None),
    }
    if relayed {
        return Ok(Some(not_here()));
    }
    let message = replayable(app, message).await?;
    match forward(&cluster, principal, &sought, &message).await? {
        Relay::Response(response) => Ok(Some(response)),
        Relay::Here(_) => Ok(None),
    }
}
