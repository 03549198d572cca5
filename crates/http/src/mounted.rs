//! A service of another facade at a route of this one: behind the same origins, token and limits on bodies.

use std::convert::Infallible;
use std::fmt;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use axum::response::Response;
use axum::{BoxError, http};
use himalia_engine::Principal;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt as _};

use crate::app::App;
use crate::auth::may_be_rebound;
use crate::error::ApiError;

/// A service to be mounted. It gets whole bodies, and the [`Principal`](himalia_engine::Principal) in the extensions of
/// each request; what it answers goes to the client as it is, errors too.
#[derive(Clone)]
pub struct Mounted(pub(crate) BoxCloneSyncService<http::Request<Body>, Response, Infallible>);

impl Mounted {
    /// Of any service that never fails.
    pub fn new<S, B>(service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<B>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        B: axum::body::HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let service = service.map_response(|response: http::Response<B>| response.map(Body::new));
        Self(BoxCloneSyncService::new(service))
    }
}

impl fmt::Debug for Mounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mounted(…)")
    }
}

/// Sends a request to a service, below whose prefix it came, on behalf of a principal.
pub(crate) async fn forward(
    app: &App,
    service: Mounted,
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

/// Marks a reply whose body stays as it is, whatever its status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnBody;

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
