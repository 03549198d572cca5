//! Requests of clients that can be sent to another replica, and the responses to them.

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Uri, Version, header};
use axum::response::Response;
use himalia_cluster::{
    Cluster, ForwardOutcome, RelayedPrincipal, Repeatable, ReplayableRequest, RequestBody,
};
use himalia_engine::{Principal, ResourceRef};
use himalia_relay::HEADER;

use crate::app::App;
use crate::body;
use crate::error::ApiError;
use crate::listen::Peer;
use crate::mounted::OwnBody;
use crate::request_id::{self, RequestId};

/// Bodies up to this size are kept in memory, so that they can be sent again.
const KEPT_BYTES: u64 = 64 << 10;

/// Headers with a credential: the statement of the relay names the caller instead.
const CREDENTIALS: [HeaderName; 2] = [header::AUTHORIZATION, header::COOKIE];

pub(super) enum Relay {
    /// The response of the owner.
    Response(Response),
    /// This replica has become the owner: the request for its handler.
    Here(Request),
}

/// Sends a request to the owner of an object, as [`himalia_cluster::forward`].
pub(super) async fn forward(
    cluster: &Cluster,
    principal: &Principal,
    sought: &ResourceRef,
    request: &ReplayableRequest,
) -> Result<Relay, ApiError> {
    Ok(
        match himalia_cluster::forward(cluster, principal, sought, request).await? {
            ForwardOutcome::Response(response) => Relay::Response(received(response)),
            ForwardOutcome::Here(request) => Relay::Here(request),
        },
    )
}

/// Prepares a request of a client: without its credentials, and with its body in memory if that is small.
pub(super) async fn replayable(app: &App, request: Request) -> Result<ReplayableRequest, ApiError> {
    let (mut parts, body) = request.into_parts();
    // A body with an idempotency key is in memory already.
    let keyed = parts.extensions.get::<Repeatable>().is_some();
    let small = keyed || body.size_hint().upper().is_some_and(|most| most <= KEPT_BYTES);
    let body = if small {
        RequestBody::Whole(body::whole(app, &parts.headers, body).await?)
    } else {
        RequestBody::streaming(body)
    };
    let headers = &mut parts.headers;
    // E2B's clients name the user of a file or command in this header, without a secret.
    let names_user = parts.uri.path().starts_with("/e2b/")
        && headers
            .get(header::AUTHORIZATION)
            .is_some_and(|value| value.as_bytes().starts_with(b"Basic "));
    for name in CREDENTIALS.iter().chain(&crate::auth::E2B_CREDENTIALS) {
        if !(names_user && name == header::AUTHORIZATION) {
            headers.remove(name);
        }
    }
    headers.remove(HEADER);
    // The owner logs under the same id.
    if let Some(id) = parts.extensions.get::<RequestId>()
        && let Ok(value) = HeaderValue::from_str(id.as_str())
    {
        headers.insert(request_id::HEADER, value);
    }
    parts.uri = without_token(&parts.uri);
    Ok(ReplayableRequest::new(parts, body))
}

/// The request for the routes of this replica, as one that a peer has relayed.
pub(super) fn for_own_routes(request: &ReplayableRequest, principal: &Principal) -> Request {
    let mut own = request.without_extensions();
    let extensions = own.extensions_mut();
    extensions.insert(RelayedPrincipal(principal.clone()));
    if let Some(id) = request.extensions.get::<RequestId>() {
        extensions.insert(id.clone());
    }
    if let Some(peer) = request.extensions.get::<Peer>() {
        extensions.insert(peer.clone());
    }
    own
}

/// A peer's response for the client.
pub(super) fn received(response: himalia_relay::Response) -> Response {
    let mut response = response.map(Body::new);
    *response.version_mut() = Version::HTTP_11;
    response.extensions_mut().insert(OwnBody);
    response
}

/// Removes `?token=` from an address.
fn without_token(uri: &Uri) -> Uri {
    let Some(query) = uri.query().filter(|query| query.contains("token")) else {
        return uri.clone();
    };
    let kept: Vec<&str> = query
        .split('&')
        .filter(|pair| !pair.starts_with("token="))
        .collect();
    let text = if kept.is_empty() {
        uri.path().to_owned()
    } else {
        format!("{}?{}", uri.path(), kept.join("&"))
    };
    text.parse().unwrap_or_else(|_| uri.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_not_passed_on() {
        for (given, wanted) in [
            ("/a?token=x", "/a"),
            ("/a?b=1&token=x&c=token", "/a?b=1&c=token"),
            ("/a?b=1", "/a?b=1"),
            ("/a", "/a"),
        ] {
            assert_eq!(without_token(&given.parse().unwrap()), wanted);
        }
    }
}
