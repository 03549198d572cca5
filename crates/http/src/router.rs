//! The construction of the router from the table of routes and the layers around it.

use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use himalia_cluster::{OwnRoutes, Repeatable};
use himalia_runs::Runs;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::app::App;
use crate::auth::{authenticate, cors};
use crate::caught;
use crate::config::{ConfigError, HttpConfig};
use crate::error::ApiError;
use crate::identify::identify;
use crate::jupyter::policy;
use crate::openapi::openapi;
use crate::prefix::{self, Target};
use crate::relay::{self, relay};
use crate::{render, routes, unread_body};

/// The facade as an axum router, for embedding. Without [`serve`](crate::serve) there is no limit on connections, no
/// header timeout, and WebSocket handshakes are refused, since they need the raw socket.
pub fn router(runs: Runs, config: HttpConfig, shutdown: CancellationToken) -> Result<Router, ConfigError> {
    Ok(app_and_router(runs, config, shutdown)?.clients)
}

/// The state, and the services over it.
pub(crate) struct Services {
    pub(crate) app: App,
    pub(crate) clients: Router,
    /// For other replicas, whose requests have a principal already.
    pub(crate) peers: Router,
}

pub(crate) fn app_and_router(
    runs: Runs,
    config: HttpConfig,
    shutdown: CancellationToken,
) -> Result<Services, ConfigError> {
    let app = App::new(runs, config, shutdown, openapi)?;
    let routes = routes::router()
        .fallback(|| async { ApiError::not_found("Not Found") })
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
        .layer(middleware::from_fn_with_state(app.clone(), relay))
        .layer(middleware::from_fn_with_state(app.clone(), authenticate))
        .with_state(app.clone());
    let peers = relay::inside(&app, routes.clone());
    let entry = routing::any_service(enter.with_state(Entry {
        app: app.clone(),
        routes,
        peers: peers.clone(),
    }));
    let router = Router::new()
        .fallback_service(entry)
        .layer(middleware::from_fn(caught::panics))
        .layer(middleware::from_fn(unread_body::read_rest))
        .layer(middleware::from_fn(render::errors))
        .layer(middleware::from_fn_with_state(app.clone(), cors))
        .layer(middleware::from_fn_with_state(app.clone(), identify));
    Ok(Services {
        app,
        clients: router,
        peers,
    })
}

#[derive(Clone)]
struct Entry {
    app: App,
    routes: Router,
    peers: Router,
}

/// Takes base URL and path token off and hands the rest to the routes.
async fn enter(State(entry): State<Entry>, mut request: Request) -> Response {
    let Entry { app, routes, peers } = entry;
    // Another replica may have its sessions: what this one knows may not be true any more.
    if !app.engine().may_answer() {
        return relay::not_an_owner(true).into_response();
    }
    let reads = request.method().is_safe();
    if app.cluster().is_some() {
        request.extensions_mut().insert(OwnRoutes(peers));
    }
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
            // Nor may what it has found meanwhile.
            if !app.engine().may_answer() {
                let keyed = response.extensions().get::<Repeatable>().is_some();
                response = relay::not_an_owner(reads || keyed).into_response();
            }
            if of_jupyter {
                policy::restrict(&app, &mut response);
            }
            response
        }
        Target::Redirect(location) => prefix::redirect(&location),
        Target::Outside => ApiError::not_found("Not Found").into_response(),
    }
}
