//! One request to all other replicas.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, StatusCode};
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use himalia_engine::Principal;
use himalia_relay::{HEADER, Peer, Response};
use tokio::time::timeout;

use crate::cluster::{Cluster, principal_text};
use crate::error::RelayError;
use crate::request::ReplayableRequest;

/// Time that a peer may take.
const TIME: Duration = Duration::from_secs(2);

/// The part of one replica in a list.
#[derive(Clone, Debug)]
pub struct Part {
    /// The headers of its response.
    pub headers: HeaderMap,
    /// The body of its response.
    pub bytes: Bytes,
}

/// Sends a request to peers, each for at most two seconds. Returns the bodies of those that respond with 200 and at most `most_bytes`,
/// and the names of the other replicas.
pub async fn ask_peers(
    cluster: &Cluster,
    peers: &[Peer],
    principal: &Principal,
    request: &ReplayableRequest,
    most_bytes: usize,
) -> Result<(Vec<Part>, Vec<String>), RelayError> {
    let caller = principal_text(principal)?;
    let asking = peers
        .iter()
        .map(|peer| ask(cluster, peer, principal, &caller, request, most_bytes));
    let (mut parts, mut missing) = (Vec::new(), Vec::new());
    for (part, peer) in join_all(asking).await.into_iter().zip(peers) {
        match part {
            Ok(part) => parts.push(part),
            Err(reason) => {
                tracing::warn!(replica = peer.replica, reason, "a replica has no part in a list");
                missing.push(peer.replica.clone());
            }
        }
    }
    Ok((parts, missing))
}

async fn ask(
    cluster: &Cluster,
    peer: &Peer,
    principal: &Principal,
    caller: &str,
    request: &ReplayableRequest,
    most_bytes: usize,
) -> Result<Part, String> {
    let asking = async {
        let response = cluster.send(peer, principal, caller, request.for_peer()).await;
        let response = response.map_err(|error| error.to_string())?;
        if response.status() != StatusCode::OK {
            return Err(response.status().to_string());
        }
        let (response, body) = response.into_parts();
        let bytes = to_bytes(Body::new(body), most_bytes).await;
        let bytes = bytes.map_err(|error| error.to_string())?;
        Ok(Part {
            headers: response.headers,
            bytes,
        })
    };
    timeout(TIME, asking)
        .await
        .unwrap_or_else(|_| Err("no answer in time".into()))
}

/// Returns the first response of another replica that is not 404: for artifacts, and logs of ended sessions. `None` if there is none within
/// two seconds.
pub async fn first_with(
    cluster: &Cluster,
    principal: &Principal,
    request: &ReplayableRequest,
) -> Result<Option<Response>, RelayError> {
    let (peers, caller) = (cluster.peers().await?, principal_text(principal)?);
    let mut asking: FuturesUnordered<_> = peers
        .iter()
        .map(|peer| timeout(TIME, cluster.send(peer, principal, &caller, request.for_peer())))
        .collect();
    while let Some(answer) = asking.next().await {
        if let Ok(Ok(response)) = answer
            && !response.headers().contains_key(HEADER)
            && response.status() != StatusCode::NOT_FOUND
        {
            return Ok(Some(response));
        }
    }
    Ok(None)
}
