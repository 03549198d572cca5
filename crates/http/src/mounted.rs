//! A service of another facade at a route of this one: behind the same origins, token and limits on bodies.

use std::convert::Infallible;
use std::fmt;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use axum::{BoxError, http};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt as _};

use crate::app::App;
use crate::auth::{Caller, may_be_rebound};
use crate::body;
use crate::error::ApiError;

/// A service to be mounted. It gets whole bodies, and the [`Principal`](himalia_engine::Principal) in the extensions of
/// each request; what it answers goes to the client as it is, errors too.
#[derive(Clone)]
pub struct Mounted(BoxCloneSyncService<http::Request<Body>, Response, Infallible>);

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

/// Marks a reply whose body stays as it is, whatever its status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnBody;

/// `POST /mcp`; 404 where nothing is mounted. MCP demands that a page at a name which was made to mean this machine is refused
/// whatever it shows.
pub(crate) async fn mcp(
    State(app): State<App>,
    Caller(principal): Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let Some(Mounted(service)) = app.config().mcp.clone() else {
        return Err(ApiError::not_found("Not Found"));
    };
    if may_be_rebound(request.headers(), &app.config().allow_origin) {
        return Err(ApiError::forbidden("this origin is not allowed"));
    }
    let (mut parts, body) = request.into_parts();
    let bytes = body::whole(&app, &parts.headers, body).await?;
    parts.extensions.insert(principal);
    let request = http::Request::from_parts(parts, Body::from(bytes));
    let mut response = match service.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    response.extensions_mut().insert(OwnBody);
    Ok(response)
}
