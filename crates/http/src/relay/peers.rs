//! Requests of other replicas.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::future::BoxFuture;
use himalia_cluster::{CHANNELS, HELD_KERNELS, RelayedPrincipal, Repeatable};
use himalia_engine::Principal;
use himalia_relay::{HEADER, Statement};
use hyper::body::Incoming;
use tower::ServiceExt as _;
use tracing::Instrument as _;

use super::{channels, not_an_owner, starts};
use crate::app::App;
use crate::labels::{self, RouteLabel};
use crate::mounted::OwnBody;
use crate::request_id::RequestId;
use crate::{caught, render, traced};

/// 421: another replica has what the request is about. It was not handled.
pub(super) fn not_here() -> Response {
    let mut response = StatusCode::MISDIRECTED_REQUEST.into_response();
    response
        .headers_mut()
        .insert(HEADER, HeaderValue::from_static("not-here"));
    // It is for a replica, and no error of the API.
    response.extensions_mut().insert(OwnBody);
    response
}

/// The routes for requests whose principal is known, and what only replicas ask for.
pub(crate) fn inside(app: &App, routes: Router) -> Router {
    Router::new()
        .route(CHANNELS, post(channels::serve))
        .route(HELD_KERNELS, post(starts::hold))
        .with_state(app.clone())
        .fallback_service(routes)
        .layer(middleware::from_fn(caught::panics))
        .layer(middleware::from_fn(render::errors))
}

/// Serves the requests of peers.
pub(crate) fn service(
    app: App,
    inside: Router,
) -> impl Fn(Request<Incoming>) -> BoxFuture<'static, Response> + Clone + Send + Sync + 'static {
    move |request: Request<Incoming>| Box::pin(respond(app.clone(), inside.clone(), request.map(Body::new)))
}

async fn respond(app: App, inside: Router, mut request: Request) -> Response {
    // Another replica may have its sessions, or will have them.
    if !app.engine().ready() {
        return not_here();
    }
    let statement = request.extensions_mut().remove::<Statement>();
    let principal = statement.and_then(|statement| serde_json::from_str::<Principal>(&statement.caller).ok());
    let Some(principal) = principal else {
        tracing::warn!("a peer states a principal that this version does not know");
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let id = RequestId::of(&request);
    let log = id.span();
    request.extensions_mut().insert(id);
    let method = labels::method(request.method());
    let parent = traced::named(request.headers()).or_else(|| principal.trace());
    let mut span = traced::begin(app.engine().traces(), &mut request, method, parent);
    let principal = match &span {
        Some(span) => principal.traced(span.context()),
        None => principal,
    };
    request.extensions_mut().insert(RelayedPrincipal(principal));
    let reads = request.method().is_safe();
    let mut response = match inside.oneshot(request).instrument(log).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    if !app.engine().may_answer() {
        response = if reads || response.extensions().get::<Repeatable>().is_some() {
            not_here()
        } else {
            not_an_owner(false).into_response()
        };
    }
    let route = RouteLabel::take(&mut response);
    if let Some(span) = &mut span {
        traced::answered(span, method, route, response.status().as_u16());
    }
    response
}
