//! The outermost layer: an id for each request, the span of its log lines, and the count of its response.

use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;

use crate::app::App;
use crate::labels::{self, RouteLabel};
use crate::request_id::{self, RequestId};
use crate::traced;

/// Gives a request its id and its span, and counts its response.
pub(crate) async fn identify(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = RequestId::of(&request);
    let method = labels::method(request.method());
    request.extensions_mut().insert(id.clone());
    let mut traced = if is_probe(&app, &request) {
        None
    } else {
        let parent = traced::named(request.headers());
        traced::begin(app.engine().traces(), &mut request, method, parent)
    };
    if let Some(traced) = &mut traced {
        traced.set("himalia.request.id", id.as_str().to_owned());
    }
    let mut response = next.run(request).instrument(id.span()).await;
    let route = RouteLabel::take(&mut response);
    if let Some(traced) = &mut traced {
        traced::answered(traced, method, route, response.status().as_u16());
        traced::name(response.headers_mut(), traced.context());
    }
    let route = route.unwrap_or("other");
    let status = labels::status(response.status().as_u16());
    app.engine()
        .clients()
        .answered(method, route, status, begun.elapsed());
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        response.headers_mut().insert(request_id::HEADER, value);
    }
    response
}

/// Probes come every few seconds from no client: they are not traced.
fn is_probe(app: &App, request: &Request) -> bool {
    let path = request.uri().path();
    let inside = path.strip_prefix(app.config().base_url.as_str());
    inside.is_some_and(|path| ["/healthz", "/readyz", "/metrics"].contains(&path))
}
