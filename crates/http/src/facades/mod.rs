//! Routes of other facades: each is a service ([`MountedService`]) behind the origins, tokens and limits of this one.

pub(crate) mod azure;
pub(crate) mod e2b;
pub(crate) mod mcp;
pub(crate) mod mcp_body;
pub(crate) mod openai;

use axum::extract::Request;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use axum::response::Response;
use himalia_engine::Principal;
use tower::ServiceExt as _;

use crate::app::App;
use crate::auth::may_be_rebound;
use crate::error::ApiError;
use crate::mounted::{MountedService, OwnBody};

/// Sends a request to a service, below whose prefix it came, on behalf of a principal.
pub(crate) async fn forward(
    app: &App,
    service: MountedService,
    prefix: &str,
    principal: Principal,
    request: Request,
) -> Result<Response, ApiError> {
    if may_be_rebound(request.headers(), &app.config().allow_origin) {
        return Err(ApiError::forbidden("this origin is not allowed"));
    }
    let (parts, body) = request.into_parts();
    // Without what this router has found: the service has routes of its own.
    let mut request = Request::new(body);
    *request.uri_mut() = inner(&parts.uri, prefix).unwrap_or(parts.uri);
    *request.method_mut() = parts.method;
    *request.headers_mut() = parts.headers;
    request.extensions_mut().insert(principal);
    let mut response = match service.0.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    response.extensions_mut().insert(OwnBody);
    Ok(response)
}

/// The address below the prefix; `None` for one that has none.
fn inner(uri: &Uri, prefix: &str) -> Option<Uri> {
    let inner = uri.path_and_query()?.as_str().strip_prefix(prefix)?;
    Some(Uri::from(PathAndQuery::try_from(inner).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_gets_what_is_below_its_prefix() {
        let of = |uri: &str| inner(&uri.parse().unwrap(), "/e2b");
        assert_eq!(of("/e2b/files?path=%2Fe2b").unwrap(), "/files?path=%2Fe2b");
        assert_eq!(of("/files"), None);
    }
}
