//! Requests that may be sent to another owner after the first one was lost: done twice, they are as done once.

use axum::body::Body;
use axum::extract::Request;
use axum::http::Method;
use himalia_cluster::Repeatable;
use serde::Deserialize;

use crate::app::App;
use crate::auth::may_be_rebound;
use crate::body;
use crate::error::ApiError;
use crate::facades::e2b;

/// Routes that keep an idempotency key: the header `Idempotency-Key`, or the member `idempotency_key` of the body.
const KEYED: [&str; 5] = [
    "/v1/schedules/{schedule}/runs",
    "/v1/sessions",
    "/v1/sessions/{session_id}/executions",
    "/v1/skills/{skill}/runs",
    "/v1/workflows/{workflow}/runs",
];

#[derive(Default, Deserialize)]
struct Members {
    idempotency_key: Option<String>,
    /// MCP has the key among the arguments of a tool.
    params: Option<Params>,
}

#[derive(Deserialize)]
struct Params {
    arguments: Option<Arguments>,
}

#[derive(Deserialize)]
struct Arguments {
    idempotency_key: Option<String>,
}

/// Marks a request that changes something and may be sent again.
pub(super) async fn mark(app: &App, pattern: &str, mut request: Request) -> Result<Request, ApiError> {
    let method = request.method();
    let by_name = *method == Method::PUT && pattern == "/v1/sessions/{session_id}";
    let mut marked = by_name || e2b::keyed(method, request.uri().path(), request.headers()).is_some();
    let of_mcp = pattern == "/mcp" && !may_be_rebound(request.headers(), &app.config().allow_origin);
    if *method == Method::POST && (KEYED.contains(&pattern) || of_mcp) {
        let of_header = !of_mcp && request.headers().contains_key("idempotency-key");
        marked = of_header;
        if !of_header {
            let (parts, load) = request.into_parts();
            let bytes = body::whole(app, &parts.headers, load).await?;
            marked = has_key(pattern, &bytes);
            request = Request::from_parts(parts, Body::from(bytes));
        }
    }
    if marked {
        request.extensions_mut().insert(Repeatable);
    }
    Ok(request)
}

fn has_key(pattern: &str, bytes: &[u8]) -> bool {
    let members: Members = serde_json::from_slice(bytes).unwrap_or_default();
    if pattern == "/mcp" {
        let arguments = members.params.and_then(|params| params.arguments);
        return arguments.is_some_and(|arguments| arguments.idempotency_key.is_some());
    }
    members.idempotency_key.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::openapi;

    /// The routes that keep a key are those whose description has its header.
    #[test]
    fn routes_with_a_key_are_known() {
        let document = openapi("");
        let mut keyed: Vec<&str> = Vec::new();
        for (path, operations) in document["paths"].as_object().unwrap() {
            let parameters = operations["post"]["parameters"].as_array();
            let has_key = |parameter: &serde_json::Value| parameter["name"] == "Idempotency-Key";
            if parameters.is_some_and(|all| all.iter().any(has_key)) {
                keyed.push(path);
            }
        }
        keyed.sort_unstable();
        assert_eq!(keyed, KEYED);
    }

    #[test]
    fn the_key_of_a_body_is_where_its_route_has_it() {
        let call = br#"{"method": "tools/call", "params": {"name": "execute", "arguments": {"code": "1", "idempotency_key": "k"}}}"#;
        assert!(has_key("/mcp", call));
        assert!(!has_key("/v1/sessions", call));
        let start = br#"{"idempotency_key": "k"}"#;
        assert!(has_key("/v1/sessions", start));
        for without in [&br#"{"idempotency_key": null}"#[..], b"{}", b"", b"[1]", start] {
            assert!(!has_key("/mcp", without));
        }
    }
}
