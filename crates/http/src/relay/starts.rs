//! Starts are served from the pool of any replica.
//!
//! A start for which the pool of this replica has nothing ready goes to a replica whose pool has a kernel
//! ([`start_at_peer`]). A kernel of this replica is held, too, before a start goes to its handler: of many starts at once only those that
//! find no kernel search other replicas.

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use himalia_cluster::{Cluster, HoldRequest, RelayedPrincipal, ReplayableRequest, start_at_peer};
use himalia_engine::{Engine, HeldKernel, Principal, ResourceRef, Search, name_of_key};
use http_body_util::BodyExt as _;
use serde::Deserialize;

use super::replay::{received, replayable};
use super::start_body::{Start, StartBody};
use crate::app::App;
use crate::auth::Caller;
use crate::body;
use crate::error::ApiError;

/// Returns the session that an earlier start with the same idempotency key may have made, and the request unchanged.
pub(super) async fn keyed(
    app: &App,
    principal: &Principal,
    request: Request,
) -> Result<(Option<ResourceRef>, Request), ApiError> {
    #[derive(Default, Deserialize)]
    struct Members {
        name: Option<String>,
        idempotency_key: Option<String>,
    }
    let (parts, load) = request.into_parts();
    let bytes = body::whole(app, &parts.headers, load).await?;
    let members: Members = serde_json::from_slice(&bytes).unwrap_or_default();
    let header = parts.headers.get("idempotency-key");
    let header = header.and_then(|key| key.to_str().ok()).map(str::to_owned);
    let key = members.idempotency_key.or(header);
    let name = key.map(|key| members.name.unwrap_or_else(|| name_of_key(principal, &key)));
    Ok((
        name.map(ResourceRef::Session),
        Request::from_parts(parts, Body::from(bytes)),
    ))
}

/// Serves a request that starts a session at the replica that has a kernel ready for it.
pub(super) async fn begin(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    body: StartBody,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let request = replayable(app, request).await?;
    serve(app, cluster, principal, body, &request, next).await
}

/// As [`begin`], for a request whose body was read.
pub(super) async fn serve(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    body: StartBody,
    request: &ReplayableRequest,
    next: Next,
) -> Result<Response, ApiError> {
    let start = request.whole_body().and_then(|bytes| body.read(bytes));
    anywhere(app, cluster, principal, start, request, next).await
}

/// As [`begin`], for a start that is known.
pub(super) async fn anywhere(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    start: Option<Start>,
    request: &ReplayableRequest,
    next: Next,
) -> Result<Response, ApiError> {
    let engine = app.engine();
    let template = match start {
        Some(Start { template, origin }) => {
            let pooled = engine.pooled_template(principal, template.as_deref(), origin);
            pooled.await
        }
        None => None,
    };
    let Some(template) = template else {
        return Ok(next.run(request.for_handler()).await);
    };
    if let Some(held) = engine.hold_kernel(principal, &template).await {
        let hold = Hold::new(engine, held);
        let mut request = request.for_handler();
        let principal = principal.clone().holding(hold.held.clone());
        request.extensions_mut().insert(Caller(principal));
        return Ok(hold.until_answered(next.run(request).await));
    }
    let search = match start_at_peer(cluster, principal, &template, request).await? {
        Ok(response) => {
            engine.searched(Search::Served);
            return Ok(received(response));
        }
        Err(search) => search,
    };
    engine.searched(search);
    Ok(next.run(request.for_handler()).await)
}

/// Holds a kernel for a start that a peer has received: 200 with its name, or 204 if none is ready.
pub(crate) async fn hold(
    State(app): State<App>,
    Extension(RelayedPrincipal(principal)): Extension<RelayedPrincipal>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let bytes = body::whole(&app, &parts.headers, body).await?;
    let wanted: HoldRequest = serde_json::from_slice(&bytes)
        .map_err(|_| ApiError::bad_request("the template of a start cannot be read"))?;
    // It is released after some seconds if the peer does not use it.
    let held = app.engine().hold_kernel(&principal, &wanted.template).await;
    Ok(match held {
        Some(held) => Json(held).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// A kernel that is held until its start has ended.
pub(super) struct Hold {
    engine: Engine,
    held: HeldKernel,
}

impl Hold {
    pub(super) fn new(engine: &Engine, held: HeldKernel) -> Self {
        Self {
            engine: engine.clone(),
            held,
        }
    }

    /// Releases it when the response is complete: a stream of events can begin before the start has ended.
    pub(super) fn until_answered(self, response: Response) -> Response {
        let media = response.headers().get(header::CONTENT_TYPE);
        if media.is_none_or(|media| !media.as_bytes().starts_with(b"text/event-stream")) {
            return response;
        }
        response.map(|body| {
            Body::new(body.map_frame(move |frame| {
                let _held = &self;
                frame
            }))
        })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.engine.release_held(&self.held);
    }
}
