//! The service, and what its handlers share.

use std::fmt;

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::{Router, routing};
use himalia_engine::Engine;
use himalia_facade::{hold_back, not_offered};

use crate::failure::Failure;
use crate::{containers, files};

/// State of the handlers. Clones are cheap.
#[derive(Clone)]
pub(crate) struct Facade {
    pub(crate) engine: Engine,
}

impl fmt::Debug for Facade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Facade")
    }
}

/// The facade over an engine. The request's extensions must hold the [`Principal`](himalia_engine::Principal) on whose behalf it comes.
pub fn service(engine: Engine) -> Router {
    let facade = Facade { engine };
    let one = "/v1/containers/{container}";
    let its = "/v1/containers/{container}/files";
    let file = "/v1/containers/{container}/files/{file}";
    Router::new()
        .route(
            "/v1/containers",
            routing::get(containers::list).post(containers::create),
        )
        .route(one, routing::get(containers::show).delete(containers::end))
        .route(its, routing::get(files::list).post(files::create))
        .route(file, routing::get(files::show).delete(files::remove))
        .route(&format!("{file}/content"), routing::get(files::content))
        .fallback(unknown)
        // Each handler has bounds of its own; files have that of the sandbox.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(facade.engine.clone(), hold_back))
        .with_state(facade)
}

/// A route of `OpenAI`'s API that this gateway does not have.
async fn unknown(request: Request) -> Failure {
    Failure::new(StatusCode::NOT_IMPLEMENTED, "not_offered", not_offered(&request))
}
