//! A kernel of a session, as everything above its actor sees it.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use himalia_kernel::Handle;
use himalia_model::{KernelModel, Origin, SessionInfo, from_micros};
use parking_lot::{Mutex, RwLock};

use crate::end::CullFacts;
use crate::start::KernelPermit;
use crate::{Facts, Lease};

/// A kernel with its facts and the sandbox that it is in. It is used like its [`Handle`].
#[derive(Debug)]
pub struct SessionKernel {
    handle: Arc<Handle>,
    facts: RwLock<Arc<Facts>>,
    /// The sandbox that it is in.
    lease: RwLock<Arc<Lease>>,
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
    pub(crate) fn new(facts: Facts, lease: Arc<Lease>, handle: Arc<Handle>) -> Self {
        Self {
            handle,
            facts: RwLock::new(Arc::new(facts)),
            lease: RwLock::new(lease),
            permit: Mutex::new(None),
        }
    }

    /// Its mailboxes, its log and its state, for clients.
    pub fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Its facts as of now.
    pub fn facts(&self) -> Arc<Facts> {
        Arc::clone(&self.facts.read())
    }

    /// Changes its facts.
    pub(crate) fn change_facts(&self, change: impl FnOnce(&mut Facts)) {
        let id = {
            let mut facts = self.facts.write();
            change(Arc::make_mut(&mut facts));
            facts.id
        };
        // A claim gives it another one.
        self.handle.set_id(id);
    }

    /// The sandbox that it is in, or was in.
    pub fn lease(&self) -> Arc<Lease> {
        Arc::clone(&self.lease.read())
    }

    /// It is in another sandbox from now on.
    pub(crate) fn set_lease(&self, lease: Arc<Lease>) {
        *self.lease.write() = lease;
    }

    /// The kernel with what is around it.
    pub fn info(&self) -> SessionInfo {
        self.facts().info(self.model())
    }

    /// The kernel as commands show it.
    pub fn model(&self) -> KernelModel {
        let facts = self.facts();
        let snapshot = self.snapshot.borrow();
        KernelModel {
            id: facts.id,
            name: facts.name.clone(),
            last_activity: from_micros(self.last_activity.load(Ordering::Relaxed)),
            execution_state: snapshot.state,
            connections: self.connections.load(Ordering::Relaxed),
            reason: snapshot.reason.clone(),
            unresponsive: snapshot.unresponsive,
            incarnation: snapshot.incarnation,
        }
    }

    /// What the culler needs to know.
    pub(crate) fn cull_facts(&self) -> CullFacts {
        CullFacts {
            state: self.snapshot.borrow().state,
            revives: self.facts().origin == Origin::V1,
            connections: self.connections.load(Ordering::Relaxed),
            last_micros: self.last_activity.load(Ordering::Relaxed),
            spec_timeout: self.facts().cull_timeout,
        }
    }
}
