//! Streams of events that continue at the next owner.
//!
//! The position of a client is the `id` of the last whole event that it was sent. When the stream of an owner is lost, or
//! ends because the owner stops, it is asked for again from there: the client sees a pause.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use futures_util::stream;
use himalia_engine::{FeedClosed, Principal};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::forward::{Served, Trip, forward};
use super::{Cluster, ResourceRef, Routes};
use crate::app::App;
use crate::error::ApiError;
use crate::v1::{events_end, push};

/// The position of a client, as it says it when it reconnects.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// What a request for an upgrade has and one for a stream has not.
const OF_THE_HANDSHAKE: [HeaderName; 6] = [
    header::UPGRADE,
    header::CONNECTION,
    header::SEC_WEBSOCKET_KEY,
    header::SEC_WEBSOCKET_VERSION,
    header::SEC_WEBSOCKET_PROTOCOL,
    header::SEC_WEBSOCKET_EXTENSIONS,
];
/// An event that is larger is passed on before it is whole.
const WHOLE_BYTES: usize = 1 << 20;

/// A body of events: the same as the owner's, for longer.
pub(super) fn continued(
    cluster: &Cluster,
    principal: &Principal,
    sought: ResourceRef,
    trip: Trip,
    response: Response,
) -> Response {
    let of_events = response.headers().get(header::CONTENT_TYPE);
    if of_events.is_none_or(|media| !media.as_bytes().starts_with(b"text/event-stream")) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let mut follow = Follow::new(cluster, principal, sought, trip, body);
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
    let asked = push::Asked::new(&mut request)?;
    let headers = request.headers_mut();
    for name in OF_THE_HANDSHAKE {
        headers.remove(name);
    }
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    let mut trip = Trip::new(app, request).await?;
    let served = forward(cluster, principal, &sought, &mut trip).await?;
    let is_here = matches!(served, Served::Here(_));
    let response = match served {
        Served::Response(response) => response,
        Served::Here(_) => serve_here(&trip, principal).await,
    };
    if response.status() != StatusCode::OK {
        return Ok(response);
    }
    let body = response.into_body();
    let mut follow = Follow::new(cluster, principal, sought, trip, body);
    follow.is_here = is_here;
    Ok(asked.serve(app, follow).into_response())
}

/// As a handler of this replica responds, which has become the owner.
async fn serve_here(trip: &Trip, principal: &Principal) -> Response {
    let Some(Routes(routes)) = trip.extensions.get::<Routes>().cloned() else {
        return ApiError::internal("continuing a stream").into_response();
    };
    match routes.oneshot(trip.unrouted(principal)).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// What comes next.
enum Next {
    Bytes(Bytes),
    /// There are no more.
    End,
    Closed(FeedClosed),
}

struct Follow {
    cluster: Cluster,
    principal: Principal,
    sought: ResourceRef,
    trip: Trip,
    body: Body,
    events: Events,
    /// This replica is the owner.
    is_here: bool,
    /// The stream was lost, and no owner was found yet.
    lost: bool,
    ended: bool,
}

impl Follow {
    fn new(cluster: &Cluster, principal: &Principal, sought: ResourceRef, trip: Trip, body: Body) -> Self {
        Self {
            cluster: cluster.clone(),
            principal: principal.clone(),
            sought,
            trip,
            body,
            events: Events::default(),
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
                Some(Taken::Events(bytes)) => return Next::Bytes(bytes),
                // This replica stops: there is no next owner to be asked from here.
                Some(Taken::Stops) if self.is_here => return Next::Closed(FeedClosed::Draining),
                Some(Taken::Stops) => {
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

    /// Asks the next owner for the rest. What comes in its place if there is none.
    async fn reattach(&mut self) -> Option<Next> {
        tracing::debug!(sought = ?self.sought, position = ?self.events.last, "a relayed stream looks for its owner");
        if let Some(last) = &self.events.last
            && let Ok(value) = HeaderValue::from_bytes(last)
        {
            self.trip.headers.insert(LAST_EVENT_ID, value);
        }
        self.events.restart();
        let served = forward(&self.cluster, &self.principal, &self.sought, &mut self.trip).await;
        self.is_here = matches!(served, Ok(Served::Here(_)));
        let response = match served {
            Ok(Served::Response(response)) => response,
            Ok(Served::Here(_)) => serve_here(&self.trip, &self.principal).await,
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

/// What was taken from the stream of an owner.
#[derive(Debug, PartialEq, Eq)]
enum Taken {
    Events(Bytes),
    /// The owner stops.
    Stops,
}

/// An event of which a part was passed on.
#[derive(Debug)]
struct Torn {
    id: Option<Vec<u8>>,
}

/// The events of a stream, whole.
#[derive(Debug, Default)]
struct Events {
    buffer: BytesMut,
    /// So many bytes hold no end of an event.
    searched: usize,
    /// The position behind the last whole event.
    last: Option<Vec<u8>>,
    /// The event of which a part was passed on.
    torn: Option<Torn>,
    large_in_parts: bool,
    /// What was found behind events that go first.
    stops: bool,
}

impl Events {
    fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    fn is_empty(&self) -> bool {
        self.buffer.is_empty() && self.torn.is_none()
    }

    fn is_torn(&self) -> bool {
        self.torn.is_some()
    }

    /// A new stream begins; what is left of the old one comes again.
    fn restart(&mut self) {
        self.buffer.clear();
        self.searched = 0;
        self.stops = false;
    }

    /// All whole events, or a part of a large one.
    fn take(&mut self) -> Option<Taken> {
        if self.stops {
            return Some(Taken::Stops);
        }
        let mut end = 0;
        let mut from = self.searched;
        while let Some(at) = find_end(&self.buffer, from) {
            let event = self.buffer.get(end..at).unwrap_or_default();
            if let Some(Torn { id }) = self.torn.take() {
                self.last = id.or(self.last.take());
            } else if matches!(end_of(event), Some(FeedClosed::Draining)) {
                self.stops = true;
                break;
            } else if let Some(id) = line(event, b"id: ") {
                self.last = Some(id.to_vec());
            }
            (end, from) = (at, at);
        }
        self.searched = if self.stops {
            0
        } else {
            self.buffer.len().saturating_sub(end + 1)
        };
        if end > 0 {
            return Some(Taken::Events(self.buffer.split_to(end).freeze()));
        }
        if self.stops {
            return Some(Taken::Stops);
        }
        if self.large_in_parts && self.buffer.len() >= WHOLE_BYTES {
            if self.torn.is_none() {
                let id = line(&self.buffer, b"id: ").map(<[u8]>::to_vec);
                self.torn = Some(Torn { id });
            }
            // The last byte may be the first of two line breaks.
            let part = self.buffer.split_to(self.buffer.len().saturating_sub(1)).freeze();
            self.searched = 0;
            return Some(Taken::Events(part));
        }
        None
    }
}

/// Where the first event ends that ends after `from`.
fn find_end(buffer: &[u8], from: usize) -> Option<usize> {
    let rest = buffer.get(from..)?;
    rest.windows(2)
        .position(|two| two == b"\n\n")
        .map(|at| from + at + 2)
}

/// The events of whole ones.
fn events_of(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let end = find_end(rest, 0)?;
        let (event, after) = rest.split_at_checked(end)?;
        rest = after;
        Some(event)
    })
}

/// The rest of the line that begins so.
fn line<'a>(event: &'a [u8], begin: &[u8]) -> Option<&'a [u8]> {
    event
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(begin))
}

/// Why a stream ends, if this is its last event.
fn end_of(event: &[u8]) -> Option<FeedClosed> {
    if line(event, b"event: ") != Some(b"end") {
        return None;
    }
    let data = line(event, b"data: ").unwrap_or_default();
    let says = |reason: &str| data.windows(reason.len()).any(|part| part == reason.as_bytes());
    Some(if says("draining") {
        FeedClosed::Draining
    } else if says("kernel_gone") {
        FeedClosed::KernelGone
    } else if says("replaced") {
        FeedClosed::Replaced
    } else {
        FeedClosed::Storage
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(events: &mut Events) -> Option<String> {
        match events.take() {
            Some(Taken::Events(bytes)) => Some(String::from_utf8(bytes.to_vec()).unwrap()),
            Some(Taken::Stops) => Some("stops".into()),
            None => None,
        }
    }

    #[test]
    fn events_are_passed_on_whole() {
        let mut events = Events::default();
        events.push(b"id: 7\ndata: a\n\n: keep-alive\n\nid: 8\nda");
        assert_eq!(taken(&mut events).unwrap(), "id: 7\ndata: a\n\n: keep-alive\n\n");
        assert_eq!(
            (taken(&mut events), events.last.as_deref()),
            (None, Some(&b"7"[..]))
        );
        events.push(b"ta: b\n");
        assert_eq!(taken(&mut events), None);
        events.push(b"\n");
        assert_eq!(taken(&mut events).unwrap(), "id: 8\ndata: b\n\n");
        assert_eq!(events.last.as_deref(), Some(&b"8"[..]));
        assert!(events.is_empty());
    }

    #[test]
    fn the_end_of_an_owner_is_not_that_of_the_stream() {
        let mut events = Events::default();
        events.push(b"id: 7\ndata: a\n\nevent: end\ndata: {\"reason\":\"draining\"}\n\n");
        assert_eq!(taken(&mut events).unwrap(), "id: 7\ndata: a\n\n");
        assert_eq!(taken(&mut events).unwrap(), "stops");
        events.restart();
        events.push(b"event: end\ndata: {\"reason\":\"kernel_gone\"}\n\n");
        assert!(taken(&mut events).unwrap().contains("kernel_gone"));
    }

    #[test]
    fn a_large_event_is_passed_on_in_parts() {
        let mut events = Events {
            large_in_parts: true,
            ..Events::default()
        };
        let mut text = b"id: 9\ndata: ".to_vec();
        text.resize(WHOLE_BYTES, b'x');
        events.push(&text);
        let mut all = taken(&mut events).unwrap();
        assert!(events.is_torn() && events.last.is_none());
        events.push(b"y\n");
        assert_eq!(taken(&mut events), None);
        events.push(b"\nid: 10\n");
        all += &taken(&mut events).unwrap();
        assert_eq!(all.len(), WHOLE_BYTES + 3);
        assert_eq!(
            (events.is_torn(), events.last.as_deref()),
            (false, Some(&b"9"[..]))
        );
    }

    proptest! {
        /// However a stream is cut, its events and the position come out the same.
        #[test]
        fn cuts_change_nothing(sizes in prop::collection::vec(1usize..40, 1..100)) {
            let event = |n: usize| format!("id: {n}\nevent: x\ndata: {}\n\n", "y".repeat(n));
            let whole = (1..50).map(event).collect::<Vec<_>>().concat();
            let (mut events, mut out, mut at) = (Events::default(), String::new(), 0);
            for size in sizes.iter().cycle() {
                if at == whole.len() {
                    break;
                }
                let next = (at + size).min(whole.len());
                events.push(&whole.as_bytes()[at..next]);
                at = next;
                while let Some(text) = taken(&mut events) {
                    prop_assert!(text.ends_with("\n\n"));
                    out += &text;
                }
            }
            prop_assert_eq!(out, whole);
            prop_assert_eq!(events.last.as_deref(), Some(&b"49"[..]));
        }
    }
}
