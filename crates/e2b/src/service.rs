//! The service: all routes.

use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::{Router, routing};
use himalia_engine::Engine;
use himalia_facade::{hold_back, not_offered};
use tokio_util::sync::CancellationToken;

use crate::envd::{Processes, Watchers};
use crate::facade::{Facade, Issuer, OfKey};
use crate::failure::{ControlFailure, Failure};
use crate::killed::KilledSandboxes;
use crate::{control, envd, interpreter};

/// The facade over an engine. The request's extensions must hold the [`Principal`](himalia_engine::Principal) on whose behalf it comes. When `shutdown` is
/// cancelled, streams end.
pub fn service(engine: Engine, issue: Issuer, of_key: OfKey, shutdown: CancellationToken) -> Router {
    let facade = Facade {
        engine: engine.with_absolute_paths(),
        issue,
        of_key,
        shutdown,
        processes: Processes::default(),
        watchers: Watchers::default(),
        killed: KilledSandboxes::default(),
    };
    Router::new()
        .merge(control::routes())
        .merge(interpreter::routes())
        .merge(envd::routes())
        .route("/health", routing::get(control::health))
        .fallback(unknown)
        // Each handler has bounds of its own; files have that of the sandbox.
        .layer(axum::extract::DefaultBodyLimit::disable())
        .layer(from_fn_with_state(facade.engine.clone(), hold_back))
        .with_state(facade)
}

/// A route of E2B's API that this gateway does not have.
async fn unknown(request: Request) -> ControlFailure {
    ControlFailure(Failure::not_offered(not_offered(&request)))
}
