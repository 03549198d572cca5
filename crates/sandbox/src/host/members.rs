//! The list of sandboxes that this process runs or starts.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{SandboxError, SandboxId};

#[derive(Debug)]
enum Slot<M> {
    /// Being started: its files are not left-overs.
    Starting,
    Live(Arc<M>),
}

/// All sandboxes of one provisioner, by name.
#[derive(Debug)]
pub(crate) struct Members<M> {
    slots: Mutex<HashMap<SandboxId, Slot<M>>>,
}

impl<M> Default for Members<M> {
    fn default() -> Self {
        Self {
            slots: Mutex::default(),
        }
    }
}

impl<M> Members<M> {
    /// Enters a sandbox that is being started.
    pub(crate) fn starting(&self, id: SandboxId) {
        self.slots.lock().insert(id, Slot::Starting);
    }

    /// Enters a sandbox that runs.
    ///
    /// # Errors
    /// The member of another call that was faster: that one counts.
    pub(crate) fn enter(&self, id: SandboxId, member: &Arc<M>) -> Result<(), Arc<M>> {
        let mut slots = self.slots.lock();
        if let Some(Slot::Live(existing)) = slots.get(&id) {
            return Err(Arc::clone(existing));
        }
        slots.insert(id, Slot::Live(Arc::clone(member)));
        Ok(())
    }

    /// A sandbox that runs.
    ///
    /// # Errors
    /// [`SandboxError::NotFound`], also while it is being started.
    pub(crate) fn get(&self, id: SandboxId) -> Result<Arc<M>, SandboxError> {
        match self.slots.lock().get(&id) {
            Some(Slot::Live(member)) => Ok(Arc::clone(member)),
            Some(Slot::Starting) | None => Err(SandboxError::NotFound(id)),
        }
    }

    /// Returns true if the sandbox is being started or waits for its owner.
    pub(crate) fn is_starting(&self, id: SandboxId) -> bool {
        matches!(self.slots.lock().get(&id), Some(Slot::Starting))
    }

    pub(crate) fn live(&self) -> Vec<Arc<M>> {
        let slots = self.slots.lock();
        let live = slots.values().filter_map(|slot| match slot {
            Slot::Live(member) => Some(Arc::clone(member)),
            Slot::Starting => None,
        });
        live.collect()
    }

    /// Forgets one, whatever it was.
    pub(crate) fn remove(&self, id: SandboxId) {
        self.slots.lock().remove(&id);
    }

    /// Forgets one that does not run, after `undo`; no other task can enter it meanwhile. `false` when it runs.
    pub(crate) fn abandon(&self, id: SandboxId, undo: impl FnOnce()) -> bool {
        let mut slots = self.slots.lock();
        if matches!(slots.get(&id), Some(Slot::Live(_))) {
            return false;
        }
        undo();
        slots.remove(&id);
        true
    }

    /// The sandboxes in `found` that are neither in this list nor in `keep`. The disk is read first, the list second: a
    /// sandbox that starts in between is in the list.
    pub(crate) fn strangers(
        &self,
        found: impl IntoIterator<Item = SandboxId>,
        keep: &[SandboxId],
    ) -> Vec<SandboxId> {
        let slots = self.slots.lock();
        found
            .into_iter()
            .filter(|id| !keep.contains(id) && !slots.contains_key(id))
            .collect()
    }

    /// Returns true if there is no member.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.lock().is_empty()
    }
}
