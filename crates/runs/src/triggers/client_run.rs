//! A run that a client starts with a callback: how it is named, and the quota of its owner.

use himalia_executions::ExecutionId;
use himalia_model::EngineError;
use himalia_store::CallbackQuota;
use uuid::Uuid;

use crate::run::id_of_run;

/// The name of this kind of triggers in the store.
pub(crate) const KIND: &str = "run";
/// Callbacks of runs of an owner whose run continues, or whose delivery has not ended.
pub const MAX_OPEN_CALLBACKS: u32 = 256;
/// Callbacks of runs of an owner that are kept.
pub const MAX_CALLBACKS: u32 = 10_000;
/// Seconds after which a caller may try again that has too many.
const RETRY_S: u64 = 10;

/// With what a callback of a run is signed.
#[derive(Clone, PartialEq, Eq)]
pub struct CallbackSecret(pub String);

impl std::fmt::Debug for CallbackSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CallbackSecret")
    }
}

/// A run that a client has started.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ClientRun {
    /// An execution of a session of its own.
    Skill(ExecutionId),
    Workflow(Uuid),
}

impl ClientRun {
    /// The id of its callback.
    pub(super) fn id(self) -> Uuid {
        match self {
            Self::Skill(id) => id.kernel.0,
            Self::Workflow(id) => id,
        }
    }

    /// The id that its client knows.
    pub(super) fn name(self) -> String {
        id_of_run(self.id())
    }
}

pub(super) const QUOTA: CallbackQuota = CallbackQuota {
    open: MAX_OPEN_CALLBACKS as i64,
    kept: MAX_CALLBACKS as i64,
};

pub(crate) fn no_callback() -> EngineError {
    EngineError::OverBudget {
        what: "callbacks",
        reason: format!("{MAX_OPEN_CALLBACKS} callbacks of runs have not ended, or {MAX_CALLBACKS} are kept"),
        gateways: false,
        retry_after: RETRY_S,
    }
}
