//! Layers around the handlers of a facade.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use himalia_engine::{Engine, Principal};

use crate::IsLimit;

/// A tenant that met a limit waits for its answer. A layer around all routes.
pub async fn hold_back(State(engine): State<Engine>, request: Request, next: Next) -> Response {
    let principal = request.extensions().get::<Principal>().cloned();
    let response = next.run(request).await;
    if let (Some(principal), Some(IsLimit)) = (principal, response.extensions().get::<IsLimit>()) {
        engine.hold_back(&principal).await;
    }
    response
}

/// Says that a route of the product's API is not here.
pub fn not_offered(request: &Request) -> String {
    let (method, path) = (request.method(), request.uri().path());
    let path: String = path.chars().take(200).collect();
    format!("{method} {path}: this gateway does not offer this")
}

/// The beginning of a text of a client, for messages.
pub fn shown(text: &str, chars: usize) -> String {
    text.chars().take(chars).flat_map(char::escape_debug).collect()
}
