//! The route of a mounted service ([`MountedService`]).

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{self, HeaderMap};
use axum::response::Response;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::app::App;
use crate::auth::{Caller, SCOPE, address, may_be_rebound};
use crate::body;
use crate::error::ApiError;
use crate::mounted::{MountedService, OwnBody};

/// `GET /.well-known/oauth-protected-resource` and the same with `/mcp`: which tokens `/mcp` wants (RFC 9728). The gateway has no
/// authorization server: its tokens are those of its configuration, and those that it issues to callers.
pub(crate) async fn metadata(State(app): State<App>, request: HeaderMap) -> Result<Json<Value>, ApiError> {
    let resource = app.config().mcp.as_ref().and(address(&app, &request, "/mcp"));
    let resource = resource.ok_or_else(|| ApiError::not_found("Not Found"))?;
    Ok(Json(json!({
        "resource": resource,
        "resource_name": "Himalia",
        "scopes_supported": [SCOPE],
        "bearer_methods_supported": ["header"],
    })))
}

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
