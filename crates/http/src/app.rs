//! State that handlers share, and the construction of the router.

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use himalia_engine::Engine;
use parking_lot::RwLock;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::auth::{Backoff, SignIns, Tokens, authenticate, cors};
use crate::config::{ConfigError, HttpConfig};
use crate::error::ApiError;
use crate::jupyter::policy;
use crate::listen::Holders;
use crate::openapi::openapi;
use crate::prefix::{self, Target};
use crate::{render, routes};

/// Shared by all handlers; clones name the same.
#[derive(Clone, Debug)]
pub(crate) struct App(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: Engine,
    config: HttpConfig,
    tokens: RwLock<Arc<Tokens>>,
    backoff: Backoff,
    sign_ins: SignIns,
    holders: Arc<Holders>,
    shutdown: CancellationToken,
    streams: TaskTracker,
    description: OnceLock<Value>,
}

impl App {
    /// Validates the configuration.
    pub(crate) fn new(
        engine: Engine,
        config: HttpConfig,
        shutdown: CancellationToken,
    ) -> Result<Self, ConfigError> {
        let config = config.validated()?;
        let sign_ins = SignIns::new(
            config.sign_in_code.clone(),
            config.sign_ins_file.clone(),
            SystemTime::now(),
        );
        let (backoff, streams) = (Backoff::default(), TaskTracker::new());
        let tokens = RwLock::new(Arc::new(config.tokens.clone()));
        Ok(Self(Arc::new(Inner {
            engine,
            config,
            tokens,
            backoff,
            sign_ins,
            holders: Arc::default(),
            shutdown,
            streams,
            description: OnceLock::new(),
        })))
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(crate) fn config(&self) -> &HttpConfig {
        &self.0.config
    }

    /// The tokens that count now.
    pub(crate) fn tokens(&self) -> Arc<Tokens> {
        Arc::clone(&self.0.tokens.read())
    }

    /// From now on these count; connections end that showed one that does not.
    pub(crate) fn set_tokens(&self, tokens: Tokens) {
        let tokens = Arc::new(tokens);
        *self.0.tokens.write() = Arc::clone(&tokens);
        let ended = self.0.holders.end_revoked(&tokens);
        tracing::info!(
            connections = ended,
            "tokens have changed; connections of revoked ones end"
        );
    }

    pub(crate) fn backoff(&self) -> &Backoff {
        &self.0.backoff
    }

    pub(crate) fn sign_ins(&self) -> &SignIns {
        &self.0.sign_ins
    }

    /// Connections by whose they are.
    pub(crate) fn holders(&self) -> &Arc<Holders> {
        &self.0.holders
    }

    /// Cancelled when the gateway stops.
    pub(crate) fn shutdown(&self) -> &CancellationToken {
        &self.0.shutdown
    }

    /// Tasks that serve upgraded connections; the drain waits for them.
    pub(crate) fn streams(&self) -> &TaskTracker {
        &self.0.streams
    }

    /// The description of the API, with the base URL of this gateway. Made once: that takes longer than most answers.
    pub(crate) fn description(&self) -> &Value {
        self.0.description.get_or_init(|| openapi(&self.url("")))
    }

    /// A path below the base URL, as clients see it.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.0.config.base_url)
    }

    /// The service for one listener.
    pub(crate) fn into_router(self) -> Router {
        let routes = routes::router()
            .fallback(|| async { ApiError::not_found("Not Found") })
            .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
            .layer(middleware::from_fn_with_state(self.clone(), authenticate))
            .with_state(self.clone());
        let entry = routing::any_service(enter.with_state((self.clone(), routes)));
        Router::new()
            .fallback_service(entry)
            .layer(middleware::from_fn(render::errors))
            .layer(middleware::from_fn_with_state(self, cors))
    }
}

/// The facade as an axum router, for embedding. Without [`serve`](crate::serve) there is no limit on connections, no
/// header timeout, and WebSocket handshakes are refused, since they need the raw socket.
pub fn router(
    engine: Engine,
    config: HttpConfig,
    shutdown: CancellationToken,
) -> Result<Router, ConfigError> {
    Ok(App::new(engine, config, shutdown)?.into_router())
}

/// Takes base URL and path token off and hands the rest to the routes.
async fn enter(State((app, routes)): State<(App, Router)>, mut request: Request) -> Response {
    match prefix::resolve(&app.config().base_url, request.uri(), request.method()) {
        Target::Inside { uri, token } => {
            let of_jupyter = policy::is_of_jupyter(uri.path());
            *request.uri_mut() = uri;
            if let Some(token) = token {
                request.extensions_mut().insert(token);
            }
            let mut response = match routes.oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            if of_jupyter {
                policy::restrict(&app, &mut response);
            }
            response
        }
        Target::Redirect(location) => prefix::redirect(&location),
        Target::Outside => ApiError::not_found("Not Found").into_response(),
    }
}
