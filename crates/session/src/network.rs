//! The network of sessions: connections that shims carry to this gateway, each served with the list of its session.

mod account;
mod notes;

use std::sync::Arc;

use himalia_egress::MAX_CONNECTIONS;
use himalia_link::Streams;
use himalia_model::network::AllowList;
use himalia_model::{EngineError, NotOffered, Session};
use himalia_provisioner::Network;
use tokio::sync::Semaphore;

pub(crate) use notes::{Notes, write};

use crate::{SessionKernel, SessionManager};

/// Connections of one shim at once: those that are served, and those that wait for a client or for a refusal.
const STREAMS_MAX: usize = MAX_CONNECTIONS + 64;

impl SessionManager {
    /// Serves the connections that the sandbox of a kernel carries here, if it may have any, until its streams are gone.
    pub(crate) fn serve_network(&self, kernel: &Arc<SessionKernel>, streams: &Streams) {
        if !kernel.session().sandbox.has_proxy() {
            return;
        }
        let door = self.door(kernel);
        kernel.network().set_own_service(Arc::new(door));
        self.set_account(kernel);
        kernel.count_connections(self.metrics.network().clone());
        let (egress, access) = (Arc::clone(&self.network.egress), Arc::clone(kernel.network()));
        let mut arrivals = streams.network();
        let stop = self.stopping.actors_end.clone();
        self.background.spawn(async move {
            let places = Arc::new(Semaphore::new(STREAMS_MAX));
            loop {
                let stream = tokio::select! {
                    () = stop.cancelled() => return,
                    stream = arrivals.recv() => stream,
                };
                let Some(stream) = stream else { return };
                // A shim that opens more is not ours.
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                    continue;
                };
                let socket = stream.plain_socket();
                // Without a descriptor the stream itself is read.
                let socket = socket.and_then(|socket| socket.try_clone_to_owned().ok());
                let (stream, read) = stream.into_plain();
                let served = Arc::clone(&egress).serve(stream, read, socket, Arc::clone(&access));
                let stop = stop.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = served => {}
                    }
                    drop(place);
                });
            }
        });
        self.background
            .spawn(kernel.write_notes(self.stopping.actors_end.clone()));
    }

    /// All kernels in the sandbox of this one, which reach the same.
    pub(crate) fn in_same_sandbox(&self, kernel: &SessionKernel) -> Vec<Arc<SessionKernel>> {
        let lease = kernel.lease();
        let mut all = self.registry.all_unordered();
        all.retain(|other| Arc::ptr_eq(&other.lease(), &lease) && !other.is_over());
        all
    }
}

/// Refuses a list that is longer than that of the session.
pub(crate) fn check_narrower(session: &Session, list: &AllowList) -> Result<(), EngineError> {
    let refused = |field, reason| Err(EngineError::not_offered(NotOffered::Network, field, reason));
    if session.sandbox.network != Network::Allow {
        return refused("network", "this session has no list of hosts".to_owned());
    }
    match list.exceeds(&session.sandbox.allow) {
        Some(rule) => {
            let has = &session.sandbox.allow;
            refused(
                "network.allow",
                format!("{rule} is more than this session may reach: {has}"),
            )
        }
        None => Ok(()),
    }
}
