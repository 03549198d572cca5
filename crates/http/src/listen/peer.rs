//! The peer of a connection: address, principal, and whether it can be evicted.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use himalia_engine::{Engine, EngineError, HeldShare, Principal};
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::holders::Holders;
use super::waiting::WaitingConnections;
use crate::auth::{ShownCredential, ValidTokens};

/// Clones of a peer while there is no request: those of the connection, of the service that gives it to requests, and
/// of the caller that counts.
const HAVE_IDLE: usize = 3;

/// Put into every request's extensions, and held as long as its answer; an upgraded connection keeps it. The connection
/// counts until the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Peer(Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    address: SocketAddr,
    admitted: AtomicBool,
    place: u64,
    evicted: CancellationToken,
    waiting: Arc<WaitingConnections>,
    holders: Arc<Holders>,
    /// The owner, once the connection is admitted.
    owner: OnceLock<String>,
    /// The principal of the latest request, and its credential.
    shown: Mutex<Option<(Principal, ShownCredential)>>,
    /// The place in the budget, once the connection is admitted.
    held: Mutex<Option<HeldShare>>,
    _permit: OwnedSemaphorePermit,
}

impl Peer {
    /// A new connection, waiting to be admitted.
    pub(super) fn new(
        address: SocketAddr,
        permit: OwnedSemaphorePermit,
        waiting: &Arc<WaitingConnections>,
        holders: &Arc<Holders>,
    ) -> Self {
        let (place, evicted) = waiting.enter();
        Self(Arc::new(Inner {
            address,
            admitted: AtomicBool::new(false),
            place,
            evicted,
            waiting: Arc::clone(waiting),
            holders: Arc::clone(holders),
            owner: OnceLock::new(),
            shown: Mutex::default(),
            held: Mutex::default(),
            _permit: permit,
        }))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// It showed the right token of a principal: it counts as a connection of that principal, and connections without a
    /// token no longer evict it. If the principal is at its limit, an idle connection of its tenant is evicted; if the
    /// gateway is, one of the tenant with the most.
    pub(crate) fn admit(&self, engine: &Engine, principal: &Principal) -> Result<(), EngineError> {
        if self.0.admitted.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let held = self.hold(engine, principal).inspect_err(|_| {
            self.0.admitted.store(false, Ordering::Relaxed);
        })?;
        self.0.waiting.leave(self.0.place);
        let owner = self.0.owner.get_or_init(|| held.owner().to_owned());
        self.0.holders.enter(owner, self.0.place, Arc::downgrade(&self.0));
        *self.0.held.lock() = Some(held);
        Ok(())
    }

    fn hold(&self, engine: &Engine, principal: &Principal) -> Result<HeldShare, EngineError> {
        let operator = Principal::operator();
        engine.hold_connection(principal).or_else(|error| {
            let owner = match &error {
                EngineError::OverBudget { gateways: true, .. } => None,
                _ => Some(principal.owner()),
            };
            if !self.0.holders.evict(owner, operator.owner()) {
                return Err(error);
            }
            engine.clients().ended("idle");
            engine.hold_connection(principal)
        })
    }

    /// Notes the principal of a request, and its credential.
    pub(crate) fn showed(&self, principal: &Principal, shown: ShownCredential) {
        *self.0.shown.lock() = Some((principal.clone(), shown));
    }

    /// Forgets the credential of the latest request. Its own request has ended it, and that does not end the connection.
    pub(crate) fn forget(&self) {
        *self.0.shown.lock() = None;
    }

    /// Checks whether this is the same connection.
    pub(super) fn is(&self, other: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.0, other)
    }

    /// Resolves when newer connections evict it, or its sign-in has ended.
    pub(crate) async fn evicted(&self) {
        self.0.evicted.cancelled().await;
    }
}

impl Inner {
    /// Checks whether no request is open on the connection.
    pub(super) fn is_idle(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) <= HAVE_IDLE && self.held.lock().is_some()
    }

    pub(super) fn is_signed(&self, sign_in: &[u8; 32]) -> bool {
        let shown = self.shown.lock();
        matches!(&*shown, Some((_, shown)) if shown.kind == "browser" && shown.hash == *sign_in)
    }

    /// Checks whether the credential of the latest request is not valid any more.
    pub(super) fn is_revoked(&self, tokens: &ValidTokens) -> bool {
        let shown = self.shown.lock();
        shown
            .as_ref()
            .is_some_and(|(principal, shown)| !tokens.still(shown, principal))
    }

    /// It counts no longer, and ends. `false` if it did already.
    pub(super) fn evict(&self) -> bool {
        let held = self.held.lock().take();
        self.evicted.cancel();
        held.is_some()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !*self.admitted.get_mut() {
            self.waiting.leave(self.place);
        }
        if let Some(owner) = self.owner.get() {
            self.holders.leave(owner, self.place);
        }
    }
}

/// Serves an upgraded connection, which counts as long, until its sign-in has ended.
pub(crate) async fn until_ended(peer: Option<Peer>, serve: impl Future<Output = ()>) {
    let Some(peer) = peer else {
        return serve.await;
    };
    tokio::select! {
        () = serve => {}
        () = peer.evicted() => tracing::debug!(peer = %peer.address(), "the sign-in of a socket has ended"),
    }
}
