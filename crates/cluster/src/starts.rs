//! Starts that the pool of another replica serves.
//!
//! Two steps: one replica *holds* a started kernel for this start, which one task decides, so that there is one winner and a loser learns
//! it at once. Then the request is relayed, as any other, and its statement names the held kernel.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use himalia_engine::{HeldKernel, Principal, Search};
use himalia_relay::{HEADER, Peer, Response, SendError};
use http_body_util::{BodyExt as _, Limited};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::cluster::{Cluster, principal_text};
use crate::error::RelayError;
use crate::request::ReplayableRequest;

/// The path at which a replica holds a kernel for the start of a peer. The body of the request is a [`HoldRequest`], that of the response
/// a [`HeldKernel`]; 204 without one.
pub const HELD_KERNELS: &str = "/relay/held-kernels";
/// Replicas that are asked, one after the other.
const ASKED_PEERS: u32 = 2;
/// Longest search. The start is served here afterwards.
const SEARCH_TIME: Duration = Duration::from_secs(1);
/// Bytes of the description of a held kernel.
const HELD_BYTES: usize = 4096;

/// The body of a request to hold a kernel.
#[derive(Debug, Serialize, Deserialize)]
pub struct HoldRequest {
    /// The template whose pool has the kernel.
    pub template: String,
}

/// Finds another replica that has a kernel of a template ready, and relays a start to it. `Ok(Err(_))`: no replica has handled it.
pub async fn start_at_peer(
    cluster: &Cluster,
    principal: &Principal,
    template: &str,
    request: &ReplayableRequest,
) -> Result<Result<Response, Search>, RelayError> {
    let found = timeout(SEARCH_TIME, search(cluster, principal, template)).await;
    match found.unwrap_or(Err(Search::Failed)) {
        Ok((peer, held)) => relay(cluster, principal, &peer, held, request).await,
        Err(search) => Ok(Err(search)),
    }
}

/// Holds a kernel at another replica.
async fn search(
    cluster: &Cluster,
    principal: &Principal,
    template: &str,
) -> Result<(Peer, HeldKernel), Search> {
    let peers = cluster.ready(template, ASKED_PEERS).await;
    let mut outcome = Search::NoneReady;
    for peer in peers.map_err(|_| Search::Failed)? {
        match hold(cluster, principal, &peer, template).await {
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

/// Holds a kernel at one peer; `None` if the peer has none ready.
async fn hold(
    cluster: &Cluster,
    principal: &Principal,
    peer: &Peer,
    template: &str,
) -> Result<Option<HeldKernel>, String> {
    let body = HoldRequest {
        template: template.to_owned(),
    };
    let text = serde_json::to_string(&body).map_err(|error| error.to_string())?;
    let caller = principal_text(principal).map_err(|_| "its caller cannot be stated".to_owned())?;
    let mut request = Request::new(himalia_relay::body(Body::from(text)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::from_static(HELD_KERNELS);
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

/// Relays a start to the peer that holds a kernel for it.
async fn relay(
    cluster: &Cluster,
    principal: &Principal,
    peer: &Peer,
    held: HeldKernel,
    request: &ReplayableRequest,
) -> Result<Result<Response, Search>, RelayError> {
    let principal = principal.clone().holding(held);
    let caller = principal_text(&principal)?;
    let reason = match cluster.send(peer, &principal, &caller, request.for_peer()).await {
        Ok(response) if response.headers().contains_key(HEADER) => "it serves nothing now".to_owned(),
        Ok(response) => return Ok(Ok(response)),
        // It may have been started.
        Err(error @ SendError::Lost(_)) => {
            return Err(RelayError::Lost {
                reason: error.to_string(),
                repeatable: request.is_repeatable(),
            });
        }
        Err(error) => error.to_string(),
    };
    tracing::warn!(replica = peer.replica, reason, "cannot relay a start");
    Ok(Err(Search::Failed))
}
