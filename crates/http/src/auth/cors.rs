//! CORS: which pages of other origins may read our replies. Outermost layer, so that errors carry the headers too.

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::origin::{Origin, judge};
use crate::app::App;

const METHODS: &str = "GET, HEAD, PUT, POST, PATCH, DELETE, OPTIONS";
const HEADERS: &str = "accept, content-type, authorization, x-xsrftoken, if-none-match, last-event-id, \
mcp-protocol-version, mcp-method, mcp-name";
const EXPOSED: &str = "location, etag, retry-after";

/// Answers every `OPTIONS` (never authenticated: browsers send no credentials with a preflight) and adds the CORS headers
/// for allowed origins.
pub(crate) async fn cors(State(app): State<App>, request: Request, next: Next) -> Response {
    let origin = judge(request.headers(), &app.config().allow_origin);
    let mut response = if request.method() == Method::OPTIONS {
        let mut response = StatusCode::NO_CONTENT.into_response();
        let headers = response.headers_mut();
        headers.insert(header::ALLOW, HeaderValue::from_static(METHODS));
        if matches!(origin, Origin::Allowed(_)) {
            headers.insert(
                header::ACCESS_CONTROL_ALLOW_METHODS,
                HeaderValue::from_static(METHODS),
            );
            headers.insert(
                header::ACCESS_CONTROL_ALLOW_HEADERS,
                HeaderValue::from_static(HEADERS),
            );
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        }
        response
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Origin::Allowed(origin) = origin
        && let Ok(value) = HeaderValue::from_str(&origin)
    {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, value);
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static(EXPOSED),
        );
    }
    response
}
