//! The replicas of which this gateway is one.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, Request};
use himalia_engine::{EngineError, Principal, ResourceRef, SpanKind, Traces};
use himalia_relay::{Body, Peer, Pool, Response, SendError};

use crate::directory::{Directory, Location};
use crate::error::RelayError;
use crate::locations::Locations;

/// Time that a request waits for an owner, if no take-over can need longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time that another replica may need to take over the sessions of a replica whose lease has ended.
const TAKE_OVER: Duration = Duration::from_secs(5);
/// Pause before the next try.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The replicas of which this gateway is one. Clones share connections and known locations.
#[derive(Clone, Debug)]
pub struct Cluster {
    directory: Arc<dyn Directory>,
    pool: Pool,
    locations: Arc<Locations>,
    traces: Option<Traces>,
    patience: Duration,
}

impl Cluster {
    /// A cluster with these connections to peers.
    pub fn new(directory: Arc<dyn Directory>, pool: Pool) -> Self {
        Self {
            directory,
            pool,
            locations: Arc::default(),
            traces: None,
            patience: PATIENCE,
        }
    }

    /// Replicas take over the sessions of a replica whose lease of this length has ended: requests wait for that.
    #[must_use]
    pub fn taking_over(self, lease: Duration) -> Self {
        Self {
            patience: PATIENCE.max(lease + TAKE_OVER),
            ..self
        }
    }

    /// Each relayed request gets a span.
    #[must_use]
    pub fn traced(self, traces: Traces) -> Self {
        Self {
            traces: Some(traces),
            ..self
        }
    }

    /// The time that a request waits for an owner.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// The connections to peers.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The other replicas that have a lease.
    pub async fn peers(&self) -> Result<Vec<Peer>, EngineError> {
        self.directory.peers().await
    }

    /// The other replicas that have kernels of a pool ready, as [`Directory::ready`].
    pub(crate) async fn ready(&self, template: &str, most: u32) -> Result<Vec<Peer>, EngineError> {
        self.directory.ready(template, most).await
    }

    /// Sends a request to a peer. `caller` is the principal as [`principal_text`] has it. The peer gets the context of the span.
    pub(crate) async fn send(
        &self,
        peer: &Peer,
        principal: &Principal,
        caller: &str,
        mut request: Request<Body>,
    ) -> Result<Response, SendError> {
        let traces = self.traces.as_ref();
        let span =
            traces.and_then(|traces| traces.begin("himalia.relay", SpanKind::Client, principal.trace()));
        let Some(mut span) = span else {
            return self.pool.send(peer, caller, request).await;
        };
        span.set("http.request.method", request.method().to_string());
        span.set("himalia.replica", peer.replica.clone());
        if let Ok(context) = HeaderValue::from_str(&span.context().to_string()) {
            request.headers_mut().insert("traceparent", context);
        }
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

    /// Finds the owner of an object. A known location is used for some seconds, unless `again`.
    pub async fn locate(
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

    /// Returns whether another replica owns the object. Known locations of others are not used.
    pub async fn is_elsewhere(
        &self,
        principal: &Principal,
        sought: &ResourceRef,
    ) -> Result<bool, EngineError> {
        if self.directory.has(principal, sought) {
            return Ok(false);
        }
        let found = self.directory.find(principal, sought).await?;
        Ok(matches!(found, Some(Location::At(_) | Location::Lost { .. })))
    }

    /// Forgets a replica whose lease has ended, and cuts the connection to it.
    pub(crate) fn forget(&self, address: &str) {
        self.locations.forget(address);
        self.pool.cut(address);
    }
}

/// The principal as the statement of a relayed request has it.
pub(crate) fn principal_text(principal: &Principal) -> Result<String, RelayError> {
    serde_json::to_string(principal).map_err(|_| RelayError::Principal)
}
