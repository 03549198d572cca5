//! The service, and what its handlers share.

use std::fmt;
use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::{Router, routing};
use himalia_engine::{Engine, KernelId, Principal};
use himalia_facade::{hold_back, not_offered};
use tokio_util::sync::CancellationToken;

use crate::envd::{Processes, Watchers};
use crate::failure::{ControlFailure, Failure};
use crate::{control, envd, interpreter};

/// Issues the token with which the caller reaches a sandbox, by its id. `None` where the caller has no credential.
pub type Issuer = Arc<dyn Fn(&Principal, &str) -> Option<String> + Send + Sync>;

/// The id of the sandbox that its owner starts with an idempotency key.
pub type OfKey = fn(&Principal, &[u8]) -> KernelId;

/// State of the handlers. Clones are cheap.
#[derive(Clone)]
pub(crate) struct Facade {
    pub(crate) engine: Engine,
    pub(crate) issue: Issuer,
    pub(crate) of_key: OfKey,
    /// Cancelled when the gateway stops.
    pub(crate) shutdown: CancellationToken,
    /// The commands that run.
    pub(crate) processes: Processes,
    /// The directories that clients ask about.
    pub(crate) watchers: Watchers,
}

impl fmt::Debug for Facade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Facade")
    }
}

/// The facade over an engine. The request's extensions must hold the [`Principal`] on whose behalf it comes. When `shutdown` is
/// cancelled, streams end.
pub fn service(engine: Engine, issue: Issuer, of_key: OfKey, shutdown: CancellationToken) -> Router {
    let facade = Facade {
        engine,
        issue,
        of_key,
        shutdown,
        processes: Processes::default(),
        watchers: Watchers::default(),
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
