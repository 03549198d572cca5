//! Requests that all replicas serve.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::Response;
use himalia_cluster::{Cluster, Part, ask_peers, first_with};
use himalia_engine::{EngineError, PeerSessions, Principal};

use super::merged_list::{ListRequest, MergedList};
use super::replay::{received, replayable};
use crate::app::App;
use crate::error::ApiError;
use crate::v1::session_pages::sessions_of;

/// Bytes of the part of one replica.
const PART_BYTES: usize = 64 << 20;
/// The header with the replicas whose part is missing.
const UNANSWERED: HeaderName = HeaderName::from_static("x-himalia-unanswered");

/// Merges the lists of all replicas. A header names the replicas that do not respond, unless the list has to be complete.
pub(super) async fn merged(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    list: MergedList,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let peers = cluster.peers().await?;
    if peers.is_empty() {
        return Ok(next.run(request).await);
    }
    let mut request = replayable(app, request).await?;
    request.method = Method::GET;
    let (client_headers, uri) = (request.headers.clone(), request.uri.clone());
    for name in [header::IF_NONE_MATCH, header::ACCEPT_ENCODING] {
        request.headers.remove(name);
    }
    let asking = ask_peers(cluster, &peers, principal, &request, PART_BYTES);
    let (own, asked) = tokio::join!(next.run(request.for_handler()), asking);
    let (parts, unanswered) = asked?;
    if own.status() != StatusCode::OK {
        return Ok(own);
    }
    let (own, body) = own.into_parts();
    let body = to_bytes(body, PART_BYTES)
        .await
        .map_err(|_| ApiError::internal("reading a list"))?;
    let mut all = vec![Part {
        headers: own.headers,
        bytes: body,
    }];
    all.extend(parts);
    if list.complete && !unanswered.is_empty() {
        let reason = format!("replicas do not respond: {}", unanswered.join(", "));
        return Err(EngineError::unavailable(reason).into());
    }
    let bytes = all.iter().map(|part| part.bytes.len()).sum();
    let client = ListRequest {
        headers: &client_headers,
        uri: &uri,
    };
    let made = || (list.merge)(&client, &all, &unanswered);
    let mut response = app.engine().answer_in_turn(principal, bytes, made).await??;
    if !unanswered.is_empty()
        && let Ok(names) = HeaderValue::from_str(&unanswered.join(", "))
    {
        response.headers_mut().insert(UNANSWERED, names);
    }
    Ok(response)
}

/// Serves a request that lists the sessions of all replicas: those of the others are in its extensions ([`PeerSessions`]).
pub(super) async fn with_peers(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let peers = cluster.peers().await?;
    if !peers.is_empty() {
        let mut listing = Request::new(Body::empty());
        *listing.uri_mut() = Uri::from_static("/v1/sessions");
        let listing = replayable(app, listing).await?;
        let (parts, unanswered) = ask_peers(cluster, &peers, principal, &listing, PART_BYTES).await?;
        let sessions = sessions_of(&parts)?;
        request
            .extensions_mut()
            .insert(PeerSessions { sessions, unanswered });
    }
    Ok(next.run(request).await)
}

/// Serves a request here, or at the first other replica that does not respond with 404: for artifacts, and logs of ended sessions.
pub(super) async fn first(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let request = replayable(app, request).await?;
    let own = next.run(request.for_handler()).await;
    if own.status() != StatusCode::NOT_FOUND {
        return Ok(own);
    }
    let found = first_with(cluster, principal, &request).await?;
    Ok(found.map_or(own, received))
}
