//! One request, to the owner of what it is about.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Uri, Version, header};
use axum::response::Response;
use himalia_engine::Principal;
use himalia_relay::{HEADER, SendError};
use hyper::body::Frame;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::{Cluster, Location, PAUSE, Relayed, Repeatable, ResourceRef, caller, lost, no_owner};
use crate::app::App;
use crate::body;
use crate::error::ApiError;
use crate::listen::Peer;
use crate::mounted::OwnBody;
use crate::request_id::{self, RequestId};

/// Bodies up to this are kept, so that they can be sent again.
const KEPT_BYTES: u64 = 64 << 10;

/// Owners that may be lost with a request.
const LOSSES: u32 = 3;

/// Headers that tell of the caller: the statement of the peer has its place.
const CREDENTIALS: [HeaderName; 2] = [header::AUTHORIZATION, header::COOKIE];

/// What became of a request.
pub(super) enum Served {
    Response(Response),
    /// This replica has become the owner.
    Here(Request),
}

/// A request that can be sent more than once, as long as nothing of its body is lost.
pub(super) struct Trip {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) extensions: Extensions,
    load: Load,
}

enum Load {
    Kept(Bytes),
    Once(Arc<Once>),
}

/// A body that is passed on as it arrives.
struct Once {
    body: Mutex<Body>,
    begun: AtomicBool,
}

struct Passed(Arc<Once>);

impl HttpBody for Passed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.0.begun.store(true, Ordering::Relaxed);
        Pin::new(&mut *self.0.body.lock()).poll_frame(context)
    }
}

impl Trip {
    /// Takes a client's request apart: without its credentials, and with its body if that is small.
    pub(super) async fn new(app: &App, request: Request) -> Result<Self, ApiError> {
        let (parts, load) = request.into_parts();
        // One that has a key in its body is in memory already.
        let keyed = parts.extensions.get::<Repeatable>().is_some();
        let small = keyed || load.size_hint().upper().is_some_and(|most| most <= KEPT_BYTES);
        let load = if small {
            Load::Kept(body::whole(app, &parts.headers, load).await?)
        } else {
            Load::Once(Arc::new(Once {
                body: Mutex::new(load),
                begun: AtomicBool::new(false),
            }))
        };
        let mut headers = parts.headers;
        // That of E2B's clients names the user of a file or command, and shows nothing.
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
        let uri = without_token(&parts.uri);
        Ok(Self {
            method: parts.method,
            uri,
            headers,
            extensions: parts.extensions,
            load,
        })
    }

    /// The body, if it is small.
    pub(super) fn kept(&self) -> Option<&[u8]> {
        match &self.load {
            Load::Kept(bytes) => Some(bytes),
            Load::Once(_) => None,
        }
    }

    /// Whether nothing of the body is lost.
    pub(super) fn is_complete(&self) -> bool {
        match &self.load {
            Load::Kept(_) => true,
            Load::Once(once) => !once.begun.load(Ordering::Relaxed),
        }
    }

    /// Whether doing it twice is as doing it once.
    pub(super) fn is_repeatable(&self) -> bool {
        let repeatable = matches!(self.method, Method::GET | Method::HEAD)
            || self.extensions.get::<Repeatable>().is_some();
        repeatable && self.is_complete()
    }

    fn body(&self) -> Body {
        match &self.load {
            Load::Kept(bytes) => Body::from(bytes.clone()),
            Load::Once(once) => Body::new(Passed(Arc::clone(once))),
        }
    }

    fn with<B>(&self, body: B) -> axum::http::Request<B> {
        let mut request = axum::http::Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }

    /// For a peer.
    pub(super) fn outgoing(&self) -> axum::http::Request<himalia_relay::Body> {
        self.with(match &self.load {
            Load::Kept(bytes) if bytes.is_empty() => himalia_relay::empty(),
            _ => himalia_relay::body(self.body()),
        })
    }

    /// For a handler of this replica, behind its routing.
    pub(super) fn local(&self) -> Request {
        let mut request = self.with(self.body());
        *request.extensions_mut() = self.extensions.clone();
        request
    }

    /// For the routes of this replica. They add the parameters of the path to those that a request has, so it has none of the first
    /// routing.
    pub(super) fn unrouted(&self, principal: &Principal) -> Request {
        let mut request = self.with(self.body());
        let extensions = request.extensions_mut();
        extensions.insert(Relayed(principal.clone()));
        if let Some(id) = self.extensions.get::<RequestId>() {
            extensions.insert(id.clone());
        }
        if let Some(peer) = self.extensions.get::<Peer>() {
            extensions.insert(peer.clone());
        }
        request
    }
}

/// The same address without `?token=`.
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

/// Sends a request to the owner, and again for as long as the cluster has patience while no owner can be reached. A request that may have
/// been done is sent again if it only reads or has a key, after at most [`LOSSES`] owners that were lost with it.
pub(super) async fn forward(
    cluster: &Cluster,
    principal: &Principal,
    sought: &ResourceRef,
    trip: &mut Trip,
) -> Result<Served, ApiError> {
    let caller = caller(principal)?;
    let (mut start, mut losses) = (Instant::now(), 0);
    let mut again = false;
    loop {
        let (sent, mut had_it) = (Instant::now(), false);
        let reason = match cluster.locate(principal, sought, again).await? {
            None | Some(Location::Here) => return Ok(Served::Here(trip.local())),
            Some(Location::Lost { replica }) => format!("replica {replica} is gone"),
            Some(Location::At(peer)) => {
                match cluster.send(&peer, principal, &caller, trip.outgoing()).await {
                    Ok(response) if response.headers().contains_key(HEADER) => {
                        had_it = true;
                        format!("replica {} does not have it", peer.replica)
                    }
                    Ok(response) => return Ok(Served::Response(received(response))),
                    Err(SendError::NotSent(reason)) => reason,
                    Err(error @ SendError::Lost(_)) => {
                        if !trip.is_repeatable() {
                            return Err(lost(&error, false));
                        }
                        had_it = true;
                        error.to_string()
                    }
                    Err(error) => return Err(no_owner(&error.to_string())),
                }
            }
        };
        // An owner that had the request for a while: the next one is waited for from now on.
        if had_it && sent.elapsed() > PAUSE && losses < LOSSES {
            (start, losses) = (Instant::now(), losses + 1);
        }
        if !trip.is_complete() || start.elapsed() + PAUSE >= cluster.patience {
            return Err(no_owner(&reason));
        }
        if again {
            sleep(PAUSE).await;
        }
        again = true;
    }
}

/// A peer's response for the client.
pub(super) fn received(response: himalia_relay::Response) -> Response {
    let mut response = response.map(Body::new);
    *response.version_mut() = Version::HTTP_11;
    response.extensions_mut().insert(OwnBody);
    response
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
