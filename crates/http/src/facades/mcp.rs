//! The route of a mounted service ([`MountedService`]).

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http;
use axum::response::Response;
use tower::ServiceExt as _;

use crate::app::App;
use crate::auth::{Caller, may_be_rebound};
use crate::body;
use crate::error::ApiError;
use crate::mounted::{MountedService, OwnBody};

/// `POST /mcp`; 404 where nothing is mounted. MCP demands that a page at a name which was made to mean this machine is refused
/// whatever it shows.
pub(crate) async fn answer(
    State(app): State<App>,
    Caller(principal): Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let Some(MountedService(service)) = app.config().mcp.clone() else {
        return Err(ApiError::not_found("Not Found"));
    };
    if may_be_rebound(request.headers(), &app.config().allow_origin) {
        return Err(ApiError::forbidden("this origin is not allowed"));
    }
    let (mut parts, body) = request.into_parts();
    let bytes = body::whole(&app, &parts.headers, body).await?;
    parts.extensions.insert(principal);
    // The service works in tasks of its own.
    parts.extensions.insert(tracing::Span::current());
    let request = http::Request::from_parts(parts, Body::from(bytes));
    let mut response = match service.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    response.extensions_mut().insert(OwnBody);
    Ok(response)
}
