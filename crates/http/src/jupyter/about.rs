//! Version, description and status of the gateway: `/api`, `/api/spec.yaml`, `/api/status`.

use std::fmt::Write;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::etag;
use crate::route::{Access, Route};

/// The version that clients see.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// `GET /api`: liveness probes and clients look here without a token.
pub(crate) async fn version(headers: HeaderMap) -> Result<Response, ApiError> {
    etag::json(&headers, &json!({ "version": VERSION }))
}

/// `GET /api/status`.
pub(crate) async fn status(
    State(app): State<App>,
    Caller(principal): Caller,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let status = app.engine().status(&principal)?;
    let body = json!({
        "connections": status.connections,
        "kernels": status.kernels,
        "last_activity": himalia_wire::build::timestamp(status.last_activity),
        "started": himalia_wire::build::timestamp(status.started),
    });
    etag::json(&headers, &body)
}

/// `GET /api/spec.yaml`: the routes as a small `OpenAPI` document.
pub(crate) fn spec(app: &App, routes: &[Route]) -> Response {
    let mut text = format!(
        "openapi: 3.1.0\ninfo:\n  title: Himalia\n  version: {VERSION}\nservers:\n- url: {base}\npaths:\n",
        base = if app.url("").is_empty() {
            "/".into()
        } else {
            app.url("")
        },
    );
    let mut last = "";
    for route in routes {
        if route.path != last {
            // A parameter of several segments is one like others there.
            let _ = writeln!(text, "  {}:", route.path.replace("{*", "{"));
            last = route.path;
        }
        let method = route.method.as_str().to_ascii_lowercase();
        let _ = writeln!(text, "    {method}:\n      summary: {}", route.summary);
        if route.access == Access::Public {
            text.push_str("      security: []\n");
        }
        text.push_str("      responses: {default: {description: see summary}}\n");
    }
    text.push_str(
        "components:\n  securitySchemes:\n    token: {type: http, scheme: bearer}\nsecurity:\n- token: []\n",
    );
    ([(header::CONTENT_TYPE, "application/yaml")], text).into_response()
}
