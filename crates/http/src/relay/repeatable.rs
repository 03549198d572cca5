//! Requests that may be sent to another owner after the first one was lost: done twice, they are as done once.

use axum::body::Body;
use axum::extract::Request;
use himalia_cluster::Repeatable;
use serde::Deserialize;

use crate::app::App;
use crate::auth::may_be_rebound;
use crate::body;
use crate::error::ApiError;

/// The requests of a route that may be sent again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Repeatability {
    /// None of those that change something.
    Never,
    /// All: the path names the object that a request makes.
    Always,
    /// Requests with an idempotency key: the header `Idempotency-Key`, or the member `idempotency_key` of the body.
    Keyed,
    /// Calls of MCP with the argument `idempotency_key`.
    KeyedCall,
    /// Requests for which this function returns true.
    If(fn(&Request) -> bool),
}

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
pub(super) async fn mark(
    app: &App,
    repeatability: Repeatability,
    mut request: Request,
) -> Result<Request, ApiError> {
    let in_body = |members: fn(Members) -> bool| (false, Some(members));
    let (mut marked, members) = match repeatability {
        Repeatability::Never => (false, None),
        Repeatability::Always => (true, None),
        Repeatability::If(repeatable) => (repeatable(&request), None),
        Repeatability::Keyed if request.headers().contains_key("idempotency-key") => (true, None),
        Repeatability::Keyed => in_body(Members::have_key),
        // MCP refuses such a request, and reads no body.
        Repeatability::KeyedCall if may_be_rebound(request.headers(), &app.config().allow_origin) => {
            (false, None)
        }
        Repeatability::KeyedCall => in_body(Members::call_has_key),
    };
    if let Some(has_key) = members {
        let (parts, load) = request.into_parts();
        let bytes = body::whole(app, &parts.headers, load).await?;
        marked = has_key(Members::read(&bytes));
        request = Request::from_parts(parts, Body::from(bytes));
    }
    if marked {
        request.extensions_mut().insert(Repeatable);
    }
    Ok(request)
}

impl Members {
    fn read(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    fn have_key(self) -> bool {
        self.idempotency_key.is_some()
    }

    fn call_has_key(self) -> bool {
        let arguments = self.params.and_then(|params| params.arguments);
        arguments.is_some_and(|arguments| arguments.idempotency_key.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::openapi;
    use crate::routes::ROUTES;

    /// The routes with a key are those whose description has its header.
    #[test]
    fn routes_with_a_key_are_marked() {
        let document = openapi("");
        for route in ROUTES.iter().filter(|route| !route.id.is_empty()) {
            let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
            let parameters = operation["parameters"].as_array();
            let is_key = |parameter: &serde_json::Value| parameter["name"] == "Idempotency-Key";
            let described = parameters.is_some_and(|all| all.iter().any(is_key));
            let keyed = matches!(route.repeatable, Repeatability::Keyed);
            assert_eq!(keyed, described, "{} {}", route.method, route.path);
        }
    }

    #[test]
    fn the_key_of_a_body_is_where_its_route_has_it() {
        let call = br#"{"method": "tools/call", "params": {"name": "execute", "arguments": {"code": "1", "idempotency_key": "k"}}}"#;
        assert!(Members::read(call).call_has_key());
        assert!(!Members::read(call).have_key());
        let start = br#"{"idempotency_key": "k"}"#;
        assert!(Members::read(start).have_key());
        for without in [&br#"{"idempotency_key": null}"#[..], b"{}", b"", b"[1]", start] {
            assert!(!Members::read(without).call_has_key());
        }
    }
}
