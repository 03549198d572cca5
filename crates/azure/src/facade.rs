//! The service, and what its handlers share.

use std::fmt;

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::{Router, routing};
use himalia_engine::Engine;
use himalia_facade::{hold_back, not_offered};

use crate::failure::Failure;
use crate::{caller, execute, files};

/// The name of the session that a pool has for an identifier.
pub type NameOf = fn(pool: &str, identifier: &str) -> String;

/// State of the handlers. Clones are cheap.
#[derive(Clone)]
pub(crate) struct Facade {
    pub(crate) engine: Engine,
    pub(crate) name_of: NameOf,
}

impl fmt::Debug for Facade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Facade")
    }
}

/// The facade over an engine. The request's extensions must hold the [`Principal`](himalia_engine::Principal) on whose behalf it comes.
pub fn service(engine: Engine, name_of: NameOf) -> Router {
    let facade = Facade { engine, name_of };
    Router::new()
        .route("/{pool}/code/execute", routing::post(execute::inline))
        .route("/{pool}/executions", routing::post(execute::execution))
        .route("/{pool}/files", routing::get(files::list).post(files::upload))
        .route("/{pool}/files/upload", routing::post(files::upload))
        .route("/{pool}/files/content/{*path}", routing::get(files::content))
        .route(
            "/{pool}/files/{*path}",
            routing::get(files::of_path).delete(files::remove),
        )
        .route("/{pool}/session", routing::delete(caller::end))
        .fallback(unknown)
        // Each handler has bounds of its own; files have that of the sandbox.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(facade.engine.clone(), hold_back))
        .with_state(facade)
}

/// A route of Azure's API that this gateway does not have.
async fn unknown(request: Request) -> Failure {
    Failure::new(StatusCode::NOT_IMPLEMENTED, "not_offered", not_offered(&request))
}
