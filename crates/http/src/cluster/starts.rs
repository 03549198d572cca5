//! Starts are served from the pool of any replica.
//!
//! A start for which the pool here has nothing ready goes to a replica whose pool has. Two steps: a kernel is *held* there for this
//! start, which one task decides, so that there is one winner and a loser learns it at once; then the request is relayed, as any
//! other, with the name of what is held in its statement. Here, too, a kernel is held before a start goes to its handler, so that of
//! many starts at once only those that find none are searched for.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use himalia_engine::{Engine, HeldKernel, Origin, Principal, Search, name_of_key};
use himalia_relay::{HEADER, Peer, SendError};
use http_body_util::{BodyExt as _, Limited};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::forward::{Trip, received};
use super::{Cluster, Relayed, ResourceRef, caller, lost};
use crate::app::App;
use crate::auth::Caller;
use crate::body;
use crate::error::ApiError;

/// Where a replica holds a kernel for a start that comes to another one.
pub(super) const ROUTE: &str = "/relay/held-kernels";
/// Replicas that are asked, one after the other.
const ASKED: u32 = 2;
/// How long the search takes at most; a start here begins then.
const SEARCH_TIME: Duration = Duration::from_secs(1);
/// Bytes of what a replica says that it holds.
const HELD_BYTES: usize = 4096;

/// How a body describes a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartBody {
    /// `POST /api/kernels`.
    Kernel,
    /// `POST /v1/sessions`, `PUT /v1/sessions/{name}`.
    Session,
}

/// A start, as far as it decides which pool serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// Name of a template or a kernelspec.
    pub(super) template: Option<String>,
    pub(super) origin: Origin,
}

#[derive(Deserialize)]
struct KernelMembers {
    name: Option<String>,
    kernel_id: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct SessionMembers {
    template: Option<String>,
    id: Option<IgnoredAny>,
    image: Option<IgnoredAny>,
    network: Option<IgnoredAny>,
}

impl StartBody {
    /// What a body asks for; `None` if no pool can serve it, or it cannot be understood, which its handler will say.
    fn read(self, bytes: &[u8]) -> Option<Start> {
        let bytes = if bytes.trim_ascii().is_empty() {
            b"{}"
        } else {
            bytes
        };
        match self {
            Self::Kernel => {
                let members: KernelMembers = serde_json::from_slice(bytes).ok()?;
                members.kernel_id.is_none().then_some(Start {
                    template: members.name,
                    origin: Origin::Jupyter,
                })
            }
            Self::Session => {
                let members: SessionMembers = serde_json::from_slice(bytes).ok()?;
                let own = [members.id, members.image, members.network];
                own.iter().all(Option::is_none).then_some(Start {
                    template: members.template,
                    origin: Origin::V1,
                })
            }
        }
    }
}

/// The session that a start with an idempotency key may have made before; and the request as it was.
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

/// Serves a request that starts a session, at the replica that has a kernel ready for it.
pub(super) async fn begin(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    body: StartBody,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let trip = Trip::new(app, request).await?;
    serve(app, cluster, principal, body, &trip, next).await
}

/// The same for one that was read.
pub(super) async fn serve(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    body: StartBody,
    trip: &Trip,
    next: Next,
) -> Result<Response, ApiError> {
    let start = trip.kept().and_then(|bytes| body.read(bytes));
    anywhere(app, cluster, principal, start, trip, next).await
}

/// The same for a start that is known.
pub(super) async fn anywhere(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    start: Option<Start>,
    trip: &Trip,
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
        return Ok(next.run(trip.local()).await);
    };
    if let Some(held) = engine.hold_kernel(principal, &template).await {
        let hold = Hold::new(engine, held);
        let mut request = trip.local();
        let principal = principal.clone().holding(hold.held.clone());
        request.extensions_mut().insert(Caller(principal));
        return Ok(hold.until_answered(next.run(request).await));
    }
    let searched = timeout(SEARCH_TIME, search(cluster, principal, &template)).await;
    let search = match searched.unwrap_or(Err(Search::Failed)) {
        Ok((peer, held)) => match relay(cluster, principal, &peer, held, trip).await? {
            Ok(response) => {
                engine.searched(Search::Served);
                return Ok(response);
            }
            Err(search) => search,
        },
        Err(search) => search,
    };
    engine.searched(search);
    Ok(next.run(trip.local()).await)
}

/// Has a kernel held at another replica.
async fn search(
    cluster: &Cluster,
    principal: &Principal,
    template: &str,
) -> Result<(Peer, HeldKernel), Search> {
    let peers = cluster.directory.ready(template, ASKED).await;
    let mut outcome = Search::NoneReady;
    for peer in peers.map_err(|_| Search::Failed)? {
        match ask(cluster, principal, &peer, template).await {
            Ok(Some(held)) => return Ok((peer, held)),
            Ok(None) => {}
            Err(reason) => {
                tracing::warn!(
                    replica = peer.replica,
                    reason,
                    "cannot ask for a kernel that is ready"
                );
                outcome = Search::Failed;
            }
        }
    }
    Err(outcome)
}

/// What a peer is asked for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Wanted {
    template: String,
}

/// Asks one peer to hold one; `None` if it has none ready.
async fn ask(
    cluster: &Cluster,
    principal: &Principal,
    peer: &Peer,
    template: &str,
) -> Result<Option<HeldKernel>, String> {
    let wanted = Wanted {
        template: template.to_owned(),
    };
    let text = serde_json::to_string(&wanted).map_err(|error| error.to_string())?;
    let caller = caller(principal).map_err(|_| "its caller cannot be stated".to_owned())?;
    let mut request = axum::http::Request::new(himalia_relay::body(Body::from(text)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = axum::http::Uri::from_static(ROUTE);
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::CONTENT_TYPE, json);
    let response = cluster.send(peer, principal, &caller, request).await;
    let response = response.map_err(|error| error.to_string())?;
    if response.status() != StatusCode::OK {
        return Ok(None);
    }
    let bytes = Limited::new(response.into_body(), HELD_BYTES).collect().await;
    let bytes = bytes.map_err(|error| error.to_string())?.to_bytes();
    let held = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    Ok(Some(held))
}

/// Holds a kernel for a start that came to a peer: 200 with its name, or 204 if none is ready.
pub(crate) async fn hold(
    State(app): State<App>,
    Extension(Relayed(principal)): Extension<Relayed>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, load) = request.into_parts();
    let bytes = body::whole(&app, &parts.headers, load).await?;
    let wanted: Wanted = serde_json::from_slice(&bytes)
        .map_err(|_| ApiError::bad_request("the template of a start cannot be read"))?;
    // If the peer does not come for it, it is let go after some seconds.
    let held = app.engine().hold_kernel(&principal, &wanted.template).await;
    Ok(match held {
        Some(held) => Json(held).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Relays a start to the peer that holds a kernel for it. `Err`: it was not handled there.
async fn relay(
    cluster: &Cluster,
    principal: &Principal,
    peer: &Peer,
    held: HeldKernel,
    trip: &Trip,
) -> Result<Result<Response, Search>, ApiError> {
    let principal = principal.clone().holding(held);
    let caller = caller(&principal)?;
    let reason = match cluster.send(peer, &principal, &caller, trip.outgoing()).await {
        Ok(response) if response.headers().contains_key(HEADER) => "it serves nothing now".to_owned(),
        Ok(response) => return Ok(Ok(received(response))),
        // It may have been started.
        Err(error @ SendError::Lost(_)) => return Err(lost(&error, trip.is_repeatable())),
        Err(error) => error.to_string(),
    };
    tracing::warn!(replica = peer.replica, reason, "cannot relay a start");
    Ok(Err(Search::Failed))
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

    /// Lets it go when the response is complete: a stream of events can begin before the start has ended.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_says_which_pool_can_serve_it() {
        let start = |template: Option<&str>, origin| {
            let template = template.map(str::to_owned);
            Some(Start { template, origin })
        };
        for (kind, body, wanted) in [
            (StartBody::Kernel, "", start(None, Origin::Jupyter)),
            (
                StartBody::Kernel,
                r#"{"name": "warm", "env": {}}"#,
                start(Some("warm"), Origin::Jupyter),
            ),
            (StartBody::Kernel, r#"{"kernel_id": "x"}"#, None),
            (
                StartBody::Session,
                r#"{"template": "warm", "labels": {"a": "b"}}"#,
                start(Some("warm"), Origin::V1),
            ),
            (
                StartBody::Session,
                r#"{"template": "warm", "id": null}"#,
                start(Some("warm"), Origin::V1),
            ),
            (
                StartBody::Session,
                r#"{"template": "warm", "image": "mine"}"#,
                None,
            ),
            (StartBody::Session, "[1]", None),
        ] {
            assert_eq!(kind.read(body.as_bytes()), wanted, "{body}");
        }
    }
}
