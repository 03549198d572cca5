//! A kernel of a session, as everything above its actor sees it.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use himalia_egress::{NetworkAccess, Reports};
use himalia_kernel::{Handle, Phase};
use himalia_metrics::Network;
use himalia_model::{
    ExecutionState, KernelId, KernelModel, Origin, Role, Session, SessionId, SessionInfo, from_micros,
};
use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;

use crate::network::{Notes, write};
use crate::start::KernelPermit;
use crate::{Credentials, Lease};

/// Facts that decide if a kernel has been idle for too long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CullFacts {
    pub(crate) state: ExecutionState,
    /// Dead, it waits to be used again.
    pub(crate) revives: bool,
    pub(crate) connections: u32,
    pub(crate) last_micros: u64,
    /// `metadata.cull_idle_timeout` of the kernelspec, in seconds; zero = never.
    pub(crate) spec_timeout: Option<f64>,
}

impl CullFacts {
    /// Facts of a session with an additional kernel: it is as busy as the busier of the two, and was used when either was.
    pub(crate) fn with(self, additional: &Self) -> Self {
        let busy = additional.state == ExecutionState::Busy;
        Self {
            state: if busy { additional.state } else { self.state },
            connections: self.connections.saturating_add(additional.connections),
            last_micros: self.last_micros.max(additional.last_micros),
            ..self
        }
    }
}

/// A kernel with its session and the sandbox that it is in. It is used like its [`Handle`].
#[derive(Debug)]
pub struct SessionKernel {
    handle: Arc<Handle>,
    session: RwLock<Arc<Session>>,
    /// `metadata.cull_idle_timeout` of its kernelspec, seconds.
    pub(crate) cull_timeout: Option<f64>,
    /// The sandbox that it is in.
    lease: RwLock<Arc<Lease>>,
    network: Arc<NetworkAccess>,
    credentials: Arc<Credentials>,
    notes: Arc<Notes>,
    /// The kernel's place under the limit of kernels; given back at its end.
    pub(crate) permit: Mutex<Option<KernelPermit>>,
}

impl Deref for SessionKernel {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl SessionKernel {
    pub(crate) fn new(
        session: Session,
        cull_timeout: Option<f64>,
        lease: Arc<Lease>,
        handle: Arc<Handle>,
        credentials: Arc<Credentials>,
    ) -> Self {
        let notes = Arc::<Notes>::default();
        let reports: Arc<dyn Reports> = notes.clone();
        let network = NetworkAccess::new(session.sandbox.allow.clone(), reports);
        network.set_credentials(credentials.access_of(&session));
        Self {
            handle,
            network: Arc::new(network),
            credentials,
            notes,
            session: RwLock::new(Arc::new(session)),
            cull_timeout,
            lease: RwLock::new(lease),
            permit: Mutex::new(None),
        }
    }

    /// Mailboxes, log and state, for clients.
    pub fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// The session as of now; of an additional kernel, what [`Session`] says.
    pub fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session.read())
    }

    /// The id of the session that it belongs to.
    pub fn session_id(&self) -> SessionId {
        let session = self.session();
        let of_additional = session.parent.filter(|_| session.role == Role::Additional);
        of_additional.unwrap_or_else(|| SessionId::of_first_kernel(self.id()))
    }

    /// Changes what is known of the session.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Session)) {
        change(Arc::make_mut(&mut self.session.write()));
        self.reaches(&self.session());
    }

    /// Sets the network access and credentials of its sandbox to those of this session.
    fn reaches(&self, session: &Session) {
        self.network.set(&session.sandbox.allow);
        self.network.set_credentials(self.credentials.access_of(session));
    }

    /// Counts what becomes of its connections.
    pub(crate) fn count_connections(&self, metrics: Network) {
        self.notes.count(metrics);
    }

    /// Writes what its connections do into its log.
    pub(crate) fn write_notes(&self, stop: CancellationToken) -> impl Future<Output = ()> + use<> {
        write(Arc::clone(&self.notes), Arc::clone(&self.handle), stop)
    }

    pub(crate) fn network(&self) -> &Arc<NetworkAccess> {
        &self.network
    }

    /// It becomes another session: it was claimed.
    pub(crate) fn assign(&self, id: KernelId, session: Session) {
        self.reaches(&session);
        *self.session.write() = Arc::new(session);
        self.handle.set_id(id);
    }

    /// True if it has ended, or is ending.
    pub fn ends(&self) -> bool {
        self.is_over() || self.snapshot.borrow().phase == Phase::Stopping
    }

    /// The sandbox that it is in, or was in.
    pub fn lease(&self) -> Arc<Lease> {
        Arc::clone(&self.lease.read())
    }

    /// It is in another sandbox from now on.
    pub(crate) fn set_lease(&self, lease: Arc<Lease>) {
        *self.lease.write() = lease;
    }

    /// The session as commands show it.
    pub fn info(&self) -> SessionInfo {
        SessionInfo {
            session: Session::clone(&self.session()),
            kernel: self.model(),
            end: None,
        }
    }

    /// The kernel as commands show it.
    pub fn model(&self) -> KernelModel {
        let snapshot = self.snapshot.borrow();
        KernelModel {
            id: self.id(),
            name: self.session().kernelspec.clone(),
            last_activity: from_micros(self.last_activity.load(Ordering::Relaxed)),
            execution_state: snapshot.state,
            connections: self.connections.load(Ordering::Relaxed),
            reason: snapshot.reason.clone(),
            unresponsive: snapshot.unresponsive,
            incarnation: snapshot.incarnation,
        }
    }

    pub(crate) fn cull_facts(&self) -> CullFacts {
        CullFacts {
            state: self.snapshot.borrow().state,
            revives: self.session().origin == Origin::V1,
            connections: self.connections.load(Ordering::Relaxed),
            last_micros: self.last_activity.load(Ordering::Relaxed),
            spec_timeout: self.cull_timeout,
        }
    }
}
