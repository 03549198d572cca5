//! From a record to what callers see.

use himalia_model::{
    EngineError, JupyterSessionId, KernelId, KernelModel, KernelRef, Principal, SessionModel,
};
use himalia_store::JupyterSessionRecord;

use super::Kernels;

/// The session with its kernel as it is now; `None` when the kernel is gone.
pub(super) fn model(
    kernels: &impl Kernels,
    principal: &Principal,
    record: &JupyterSessionRecord,
) -> Result<Option<SessionModel>, EngineError> {
    match kernels.kernel(principal, KernelId(record.kernel_id)) {
        Ok(kernel) => Ok(Some(show(record, kernel))),
        Err(error) if error.is_absent() => Ok(None),
        Err(other) => Err(other),
    }
}

pub(super) fn show(record: &JupyterSessionRecord, kernel: KernelModel) -> SessionModel {
    SessionModel {
        id: JupyterSessionId(record.id),
        path: record.path.clone(),
        name: record.name.clone(),
        kind: record.kind.clone(),
        kernel,
    }
}

pub(super) fn existing(
    kernels: &impl Kernels,
    principal: &Principal,
    wanted: &KernelRef,
) -> Result<Option<KernelModel>, EngineError> {
    match wanted.id.map(|id| kernels.kernel(principal, id)) {
        None => Ok(None),
        Some(Err(error)) if error.is_absent() => Ok(None),
        Some(found) => found.map(Some),
    }
}
