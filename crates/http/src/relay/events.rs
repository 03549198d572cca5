//! Streams of events that continue at the next owner.
//!
//! The position of a client is the `id` of the last whole event that it was sent. When the stream of an owner is lost, or
//! ends because the owner stops, it is asked for again from there: the client sees a pause.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use himalia_cluster::{
    Cluster, EventPart, EventSplitter, OwnRoutes, ReplayableRequest, end_of, events_of, line,
};
use himalia_engine::{FeedClosed, Principal, ResourceRef};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::replay::{Relay, for_own_routes, forward, replayable};
use crate::app::App;
use crate::error::ApiError;
use crate::v1::{events_end, push};

/// The position of a client that reconnects.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Headers of a request for an upgrade, which a request for a stream does not have.
const OF_THE_HANDSHAKE: [HeaderName; 6] = [
    header::UPGRADE,
    header::CONNECTION,
    header::SEC_WEBSOCKET_KEY,
    header::SEC_WEBSOCKET_VERSION,
    header::SEC_WEBSOCKET_PROTOCOL,
    header::SEC_WEBSOCKET_EXTENSIONS,
];

/// A body of events: the same as the owner's, for longer.
pub(super) fn continued(
    cluster: &Cluster,
    principal: &Principal,
    sought: ResourceRef,
    request: ReplayableRequest,
    response: Response,
) -> Response {
    let of_events = response.headers().get(header::CONTENT_TYPE);
    if of_events.is_none_or(|media| !media.as_bytes().starts_with(b"text/event-stream")) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let mut follow = Follow::new(cluster, principal, sought, request, body);
    follow.events.large_in_parts = true;
    let body = stream::unfold(follow, async |mut follow| {
        let bytes = match follow.next().await {
            Next::Bytes(bytes) => bytes,
            Next::End => return None,
            Next::Closed(closed) => {
                follow.ended = true;
                events_end(&closed)
            }
        };
        Some((Ok::<_, Infallible>(bytes), follow))
    });
    Response::from_parts(parts, Body::from_stream(body))
}

/// The events of an owner over the WebSocket of a client.
pub(super) async fn open_socket(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    sought: ResourceRef,
    mut request: Request,
) -> Result<Response, ApiError> {
    let asked = push::EventsUpgrade::new(&mut request)?;
    let headers = request.headers_mut();
    for name in OF_THE_HANDSHAKE {
        headers.remove(name);
    }
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    let request = replayable(app, request).await?;
    let served = forward(cluster, principal, &sought, &request).await?;
    let is_here = matches!(served, Relay::Here(_));
    let response = match served {
        Relay::Response(response) => response,
        Relay::Here(_) => serve_here(&request, principal).await,
    };
    if response.status() != StatusCode::OK {
        return Ok(response);
    }
    let body = response.into_body();
    let mut follow = Follow::new(cluster, principal, sought, request, body);
    follow.is_here = is_here;
    Ok(asked.serve(app, follow).into_response())
}

/// The response of this replica, which has become the owner.
async fn serve_here(request: &ReplayableRequest, principal: &Principal) -> Response {
    let Some(OwnRoutes(routes)) = request.extensions.get::<OwnRoutes>().cloned() else {
        return ApiError::internal("continuing a stream").into_response();
    };
    match routes.oneshot(for_own_routes(request, principal)).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// The next part of a stream.
enum Next {
    Bytes(Bytes),
    /// The stream has ended.
    End,
    Closed(FeedClosed),
}

struct Follow {
    cluster: Cluster,
    principal: Principal,
    sought: ResourceRef,
    request: ReplayableRequest,
    body: Body,
    events: EventSplitter,
    /// This replica is the owner.
    is_here: bool,
    /// The stream was lost, and no owner was found yet.
    lost: bool,
    ended: bool,
}

impl Follow {
    fn new(
        cluster: &Cluster,
        principal: &Principal,
        sought: ResourceRef,
        request: ReplayableRequest,
        body: Body,
    ) -> Self {
        Self {
            cluster: cluster.clone(),
            principal: principal.clone(),
            sought,
            request,
            body,
            events: EventSplitter::default(),
            is_here: false,
            lost: false,
            ended: false,
        }
    }

    /// The next whole events as they stand in the stream. Cancel-safe.
    async fn next(&mut self) -> Next {
        if self.ended {
            return Next::End;
        }
        loop {
            if self.lost
                && let Some(end) = self.reattach().await
            {
                return end;
            }
            match self.events.take() {
                Some(EventPart::Events(bytes)) => return Next::Bytes(bytes),
                // This replica stops: there is no next owner to be asked from here.
                Some(EventPart::Stops) if self.is_here => return Next::Closed(FeedClosed::Draining),
                Some(EventPart::Stops) => {
                    self.lost = true;
                    continue;
                }
                None => {}
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.events.push(&data);
                    }
                }
                None if self.events.is_empty() => return Next::End,
                Some(Err(_)) | None => {
                    if self.events.is_torn() {
                        // The client has a part of an event: it has to come back itself.
                        return Next::Closed(FeedClosed::Draining);
                    }
                    self.lost = true;
                }
            }
        }
    }

    /// Asks the next owner for the rest. Returns the end of the stream if there is none.
    async fn reattach(&mut self) -> Option<Next> {
        tracing::debug!(sought = ?self.sought, position = ?self.events.last, "a relayed stream looks for its owner");
        if let Some(last) = &self.events.last
            && let Ok(value) = HeaderValue::from_bytes(last)
        {
            self.request.headers.insert(LAST_EVENT_ID, value);
        }
        self.events.restart();
        let served = forward(&self.cluster, &self.principal, &self.sought, &self.request).await;
        self.is_here = matches!(served, Ok(Relay::Here(_)));
        let response = match served {
            Ok(Relay::Response(response)) => response,
            Ok(Relay::Here(_)) => serve_here(&self.request, &self.principal).await,
            Err(_) => return Some(Next::Closed(FeedClosed::Draining)),
        };
        match response.status() {
            StatusCode::OK => {
                self.body = response.into_body();
                self.lost = false;
                None
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => Some(Next::Closed(FeedClosed::KernelGone)),
            _ => Some(Next::Closed(FeedClosed::Draining)),
        }
    }
}

impl push::Source for Follow {
    async fn next(&mut self) -> Result<Option<Vec<Bytes>>, FeedClosed> {
        loop {
            match Self::next(self).await {
                Next::End => return Ok(None),
                Next::Closed(closed) => return Err(closed),
                Next::Bytes(bytes) => {
                    let mut messages = Vec::new();
                    for event in events_of(&bytes) {
                        if let Some(closed) = end_of(event) {
                            return Err(closed);
                        }
                        messages.extend(line(event, b"data: ").map(|data| bytes.slice_ref(data)));
                    }
                    if !messages.is_empty() {
                        return Ok(Some(messages));
                    }
                }
            }
        }
    }
}
