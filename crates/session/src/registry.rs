//! All kernels by id. Handles are cloned out; no guard lives across an await.

use std::sync::{Arc, Weak};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use himalia_model::{EngineError, KernelId, SessionId};
use parking_lot::Mutex;

use crate::{Lease, SessionKernel};

/// A kernel's place.
#[derive(Debug)]
enum Slot {
    /// It is being started; it has no handle yet.
    Reserved,
    Present(Arc<SessionKernel>),
}

/// All kernels, and the sandboxes that they are in.
#[derive(Debug, Default)]
pub struct Registry {
    slots: DashMap<KernelId, Slot>,
    /// Sandboxes that kernels are in.
    leases: Mutex<Vec<Weak<Lease>>>,
}

impl Registry {
    pub(crate) fn add_sandbox(&self, lease: &Arc<Lease>) {
        let mut leases = self.leases.lock();
        leases.retain(|lease| lease.strong_count() > 0);
        leases.push(Arc::downgrade(lease));
    }

    /// All sandboxes that exist.
    pub(crate) fn sandboxes(&self) -> Vec<Arc<Lease>> {
        self.leases.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Takes an id for a kernel that is being started. Given back when the reservation is dropped unfilled.
    pub(crate) fn reserve(self: &Arc<Self>, id: KernelId) -> Result<Reservation, EngineError> {
        match self.slots.entry(id) {
            Entry::Occupied(_) => Err(EngineError::Conflict {
                reason: format!("Kernel exists already: {id}"),
            }),
            Entry::Vacant(vacant) => {
                vacant.insert(Slot::Reserved);
                Ok(Reservation {
                    registry: Arc::clone(self),
                    id: Some(id),
                })
            }
        }
    }

    /// A kernel that exists.
    pub fn get(&self, id: KernelId) -> Option<Arc<SessionKernel>> {
        match &*self.slots.get(&id)? {
            Slot::Present(handle) => Some(Arc::clone(handle)),
            Slot::Reserved => None,
        }
    }

    /// True if a kernel has this id, or will have it.
    pub(crate) fn has(&self, id: KernelId) -> bool {
        self.slots.contains_key(&id)
    }

    /// All kernels that exist, in order of their start.
    pub fn all(&self) -> Vec<Arc<SessionKernel>> {
        let mut all = self.all_unordered();
        all.sort_by_key(|handle| (handle.session().created_micros, handle.id()));
        all
    }

    /// All kernels that exist.
    pub fn all_unordered(&self) -> Vec<Arc<SessionKernel>> {
        let present = |slot: &Slot| match slot {
            Slot::Present(handle) => Some(Arc::clone(handle)),
            Slot::Reserved => None,
        };
        self.slots
            .iter()
            .filter_map(|slot| present(slot.value()))
            .collect()
    }

    /// The kernels that fit, in no order; `None` if there are more than `most`.
    pub fn few(&self, most: usize, fits: impl Fn(&SessionKernel) -> bool) -> Option<Vec<Arc<SessionKernel>>> {
        let mut few = Vec::new();
        for slot in &self.slots {
            if let Slot::Present(handle) = slot.value()
                && fits(handle)
            {
                if few.len() == most {
                    return None;
                }
                few.push(Arc::clone(handle));
            }
        }
        Some(few)
    }

    /// The additional kernels of a session, in order of their start, those that are ending included.
    pub fn additional(&self, session: SessionId) -> Vec<Arc<SessionKernel>> {
        let mut all = self.all();
        all.retain(|handle| handle.session().is_additional_of(session));
        all
    }

    /// Forgets a kernel, if it is this one that has the id.
    pub(crate) fn remove(&self, handle: &Arc<SessionKernel>) {
        let is_it = |_: &KernelId, slot: &Slot| matches!(slot, Slot::Present(it) if Arc::ptr_eq(it, handle));
        self.slots.remove_if(&handle.id(), is_it);
    }
}

/// An id that was taken.
#[derive(Debug)]
pub(crate) struct Reservation {
    registry: Arc<Registry>,
    id: Option<KernelId>,
}

impl Reservation {
    /// The kernel exists now.
    pub(crate) fn fill(mut self, handle: Arc<SessionKernel>) {
        if let Some(id) = self.id.take() {
            self.registry.slots.insert(id, Slot::Present(handle));
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.registry.slots.remove(&id);
        }
    }
}
