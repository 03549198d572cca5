//! The routes of `OpenAI`'s containers, below `/openai`.

use axum::extract::{Request, State};
use axum::response::Response;
use himalia_engine::ResourceRef;

use super::forward;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::relay::{RequestHead, Target};

/// The prefix of the paths of this API.
const PREFIX: &str = "/openai";
/// The path of a container, up to the id of its session.
const CONTAINER: &str = "/openai/v1/containers/cntr_";

/// Any route; 404 where nothing is mounted.
pub(crate) async fn answer(
    State(app): State<App>,
    Caller(principal): Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let Some(service) = app.config().openai.clone() else {
        return Err(ApiError::not_found("Not Found"));
    };
    forward(&app, service, PREFIX, principal, request).await
}

/// The owner of the session of a request. A request that names no container is served where it arrives.
pub(crate) fn target(request: &RequestHead<'_>) -> Target {
    let session = session(request.uri.path());
    session.map_or(Target::Here, |id| Target::Owner(ResourceRef::Session(id)))
}

/// The id of the session that a request is for.
fn session(path: &str) -> Option<String> {
    let id = path.strip_prefix(CONTAINER)?.split('/').next()?;
    Some(id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_its_session() {
        let id = session("/openai/v1/containers/cntr_3f0c-11/files");
        assert_eq!(id.as_deref(), Some("3f0c-11"));
        assert_eq!(session("/openai/v1/containers"), None);
    }
}
