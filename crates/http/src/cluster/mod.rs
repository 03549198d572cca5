//! Several replicas, any of which serves any client.
//!
//! A session is at one replica, its owner. A request for a session of another replica is relayed to it, in one place: the
//! layer between authentication and handlers. Handlers know nothing of it, but for one (`answers`).
//!
//! * `served_at`: which routes are of one session, and which are lists of all replicas
//! * `layer`: the decision
//! * `forward`: one request, to the owner and again while there is none
//! * `events`: streams of events, which continue at the next owner
//! * `answers`: signed answers to prompts, the one thing that a handler sends on
//! * `attach`: the channels of a kernel; the replica of the client has the WebSocket, and its owner the log
//! * `lists`: lists of all replicas
//! * `bodies`: in which bodies a session is named
//! * `starts`: starts that the pool of another replica serves
//! * `living`: connections to replicas whose lease has ended
//! * `repeatable`: requests that may be sent to the next owner after they were lost
//! * `peers`: what a replica does for others. It never relays what was relayed to it
//!
//! The owner can change while a client is there. What waits for an owner waits for at most [`PATIENCE`], or for as long as a take-over
//! may need.

mod answers;
mod attach;
mod bodies;
mod directory;
mod events;
mod forward;
mod layer;
mod lists;
mod living;
mod locations;
mod peers;
mod repeatable;
mod served_at;
mod starts;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::future::BoxFuture;
use himalia_engine::{EngineError, Principal, ResourceRef, SpanKind, Traces};
use himalia_relay::{Peer, Pool, SendError};

pub(crate) use answers::answer_elsewhere;
pub(crate) use layer::relay;
pub(crate) use living::keep_living;
use locations::Locations;
pub(crate) use peers::{Relayed, inside, service};
pub(crate) use repeatable::Repeatable;

use crate::error::ApiError;
use crate::request_id::method;
use crate::traced;

/// How long a request waits for an owner that can be reached, if no take-over can need longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long another replica may need to take over what a replica had whose lease has ended.
const TAKE_OVER: Duration = Duration::from_secs(5);
/// Pause before the next try.
const PAUSE: Duration = Duration::from_millis(100);

/// Who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// This replica.
    Here,
    /// Another one.
    At(Peer),
    /// A replica that is gone, or that no other can reach.
    Lost {
        /// Its name.
        replica: String,
    },
}

/// Who has what, and which replicas there are.
pub trait Directory: Debug + Send + Sync + 'static {
    /// Whether this replica has it, as far as that is known without a wait.
    fn has(&self, principal: &Principal, sought: &ResourceRef) -> bool;

    /// Who has it; `None` where the principal sees nothing of the kind.
    fn find<'a>(
        &'a self,
        principal: &'a Principal,
        sought: &'a ResourceRef,
    ) -> BoxFuture<'a, Result<Option<Location>, EngineError>>;

    /// The other replicas that have kernels of a template's pool ready, as far as is known, those with the most first, at most `most`.
    fn ready<'a>(&'a self, template: &'a str, most: u32) -> BoxFuture<'a, Result<Vec<Peer>, EngineError>>;

    /// The other replicas that live.
    fn peers(&self) -> BoxFuture<'_, Result<Vec<Peer>, EngineError>>;
}

/// The replicas of which this gateway is one. Clones share connections and what is known of locations.
#[derive(Clone, Debug)]
pub struct Cluster {
    directory: Arc<dyn Directory>,
    pool: Pool,
    locations: Arc<Locations>,
    traces: Option<Traces>,
    patience: Duration,
}

impl Cluster {
    /// With connections to peers.
    pub fn new(directory: Arc<dyn Directory>, pool: Pool) -> Self {
        Self {
            directory,
            pool,
            locations: Arc::default(),
            traces: None,
            patience: PATIENCE,
        }
    }

    /// The replicas take over from each other what one had whose lease has ended: what waits for an owner waits for that.
    #[must_use]
    pub fn taking_over(self, lease: Duration) -> Self {
        Self {
            patience: PATIENCE.max(lease + TAKE_OVER),
            ..self
        }
    }

    /// The same, whose relays are traced here.
    #[must_use]
    pub(crate) fn traced(self, traces: Traces) -> Self {
        Self {
            traces: Some(traces),
            ..self
        }
    }

    /// Sends a request to a peer; with a span, whose context the peer gets.
    async fn send(
        &self,
        peer: &Peer,
        principal: &Principal,
        caller: &str,
        mut request: axum::http::Request<himalia_relay::Body>,
    ) -> Result<himalia_relay::Response, SendError> {
        let traces = self.traces.as_ref();
        let span =
            traces.and_then(|traces| traces.begin("himalia.relay", SpanKind::Client, principal.trace()));
        let Some(mut span) = span else {
            return self.pool.send(peer, caller, request).await;
        };
        span.set("http.request.method", method(request.method()));
        span.set("himalia.replica", peer.replica.clone());
        traced::name(request.headers_mut(), span.context());
        let sent = self.pool.send(peer, caller, request).await;
        match &sent {
            Ok(response) => {
                let status = response.status().as_u16();
                span.set("http.response.status_code", i64::from(status));
                if status >= 400 {
                    span.fail(status.to_string());
                }
            }
            Err(_) => span.fail("not_reached"),
        }
        sent
    }

    /// The connections to peers.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Who has it. What was found is believed for a while, unless `again`.
    async fn locate(
        &self,
        principal: &Principal,
        sought: &ResourceRef,
        again: bool,
    ) -> Result<Option<Location>, EngineError> {
        if self.directory.has(principal, sought) {
            return Ok(Some(Location::Here));
        }
        if !again && let Some(peer) = self.locations.get(principal, sought) {
            return Ok(Some(Location::At(peer)));
        }
        let found = self.directory.find(principal, sought).await?;
        match &found {
            Some(Location::At(peer)) => self.locations.set(principal, sought, peer.clone()),
            _ => self.locations.remove(principal, sought),
        }
        Ok(found)
    }
}

/// The routes, in the extensions of each request, for what continues when this replica has become the owner.
#[derive(Clone, Debug)]
pub(crate) struct Routes(pub(crate) Router);

/// The principal as a statement has it.
fn caller(principal: &Principal) -> Result<String, ApiError> {
    serde_json::to_string(principal).map_err(|_| ApiError::internal("relaying a request"))
}

/// 503: no owner responded in time.
fn no_owner(reason: &str) -> ApiError {
    EngineError::unavailable(format!("the replica that has this does not respond: {reason}")).into()
}

/// 503 of a replica that lost its lease before it responded. A request that reads, has a key, or was not begun, can be sent again.
pub(crate) fn not_an_owner(can_be_sent_again: bool) -> ApiError {
    if can_be_sent_again {
        return EngineError::unavailable("this gateway has lost its lease and ends").into();
    }
    let reason = "this gateway lost its lease while it handled the request, which may have been done";
    ApiError {
        retryable: false,
        ..EngineError::unavailable(reason).into()
    }
}

/// 503 for a request that was sent and not answered.
fn lost(error: &SendError, can_be_sent_again: bool) -> ApiError {
    let reason = format!(
        "the replica that has this was lost while it handled the request, which may have been done: {error}"
    );
    ApiError {
        retryable: can_be_sent_again,
        ..EngineError::unavailable(reason).into()
    }
}
