//! A service of another facade, and the mark of its responses.

use std::convert::Infallible;
use std::fmt;

use axum::body::{Body, Bytes};
use axum::response::Response;
use axum::{BoxError, http};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt as _};

use crate::auth::SandboxTokens;

/// A service that `http` mounts. It gets whole bodies, and the [`Principal`](himalia_engine::Principal) in the extensions of
/// each request. Its responses go to the client as they are, errors too.
#[derive(Clone)]
pub struct MountedService(pub(crate) BoxCloneSyncService<http::Request<Body>, Response, Infallible>);

impl MountedService {
    /// Wraps any service that never fails.
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

impl fmt::Debug for MountedService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MountedService(…)")
    }
}

/// The facade for clients of E2B.
#[derive(Clone, Debug)]
pub struct E2b {
    /// Serves the paths below `/e2b`. It reads bodies itself, within its own bounds.
    pub service: MountedService,
    /// The access tokens of its sandboxes.
    pub tokens: SandboxTokens,
}

/// Marks a reply whose body stays as it is, whatever its status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnBody;
