//! Kernels that this replica is taking over from others.

use himalia_model::KernelId;
use himalia_store::KernelRecord;
use parking_lot::Mutex;

/// A kernel whose row this replica has taken, and that it has not taken over yet.
#[derive(Clone, Debug)]
pub(crate) struct Adoptable {
    pub(crate) row: KernelRecord,
    /// The replica that had it before, if that was another one.
    pub(crate) had: Option<String>,
}

/// Take-overs in progress.
#[derive(Debug, Default)]
pub(crate) struct TakeOvers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// A statement, or the adoption of what it took, is under way.
    under_way: bool,
    /// Rows that this replica has, and that could not be adopted.
    failed: Vec<Adoptable>,
}

impl TakeOvers {
    /// True if a kernel is this replica's, and not ready yet. Any kernel may be while something is being taken.
    pub(crate) fn has(&self, kernel: KernelId) -> bool {
        let state = self.0.lock();
        state.under_way || state.failed.iter().any(|one| one.row.id == kernel.0)
    }

    /// These could not be adopted.
    pub(crate) fn try_again(&self, failed: Vec<Adoptable>) {
        self.0.lock().failed.extend(failed);
    }

    pub(super) fn begin(&self) {
        self.0.lock().under_way = true;
    }

    pub(super) fn end(&self) {
        self.0.lock().under_way = false;
    }

    /// Takes the kernels that could not be adopted.
    pub(super) fn take_failed(&self) -> Vec<Adoptable> {
        std::mem::take(&mut self.0.lock().failed)
    }

    pub(super) fn has_failed(&self) -> bool {
        !self.0.lock().failed.is_empty()
    }
}
