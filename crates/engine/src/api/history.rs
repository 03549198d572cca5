//! What was run in a kernel, read back from its log, also when its session is over.

use serde_json::Value;

use super::Engine;
use super::ended::SessionLog;
use crate::history::{Detail, MAX_HISTORY_PAGE, history, notebook, script, walk};
use crate::{Action, EngineError, History, KernelId, Object, Principal};

impl Engine {
    /// What native callers and Jupyter clients ran, in the order in which the kernel came to it: at most `limit` entries
    /// (1 to 1,000) after the first `offset`, or the latest ones. Silent requests are left out.
    pub async fn history(
        &self,
        principal: &Principal,
        kernel: KernelId,
        offset: Option<u64>,
        limit: u64,
    ) -> Result<History, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(kernel))?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        if !(1..=MAX_HISTORY_PAGE).contains(&limit) {
            return Err(EngineError::bad_request(
                "limit",
                format!("expected 1 to {MAX_HISTORY_PAGE}"),
            ));
        }
        let log = self.log(principal, kernel)?;
        read(log, Detail::Code, move |cells| {
            history(kernel, cells, offset, limit)
        })
        .await
    }

    /// The same as a notebook (nbformat 4.5) with all outputs, within 64 MiB: the outputs of earlier cells are left out
    /// beyond that, and say so.
    pub async fn notebook(&self, principal: &Principal, kernel: KernelId) -> Result<Value, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(kernel))?;
        let log = self.log(principal, kernel)?;
        let spec = self.inner.catalog.get(&log.kernelspec()).await.ok();
        read(log, Detail::Outputs, move |cells| {
            notebook(kernel, cells, spec.as_ref())
        })
        .await
    }

    /// The same as one Python file. [`EngineError::Unsupported`] where the kernel's language is known to be another.
    pub async fn script(&self, principal: &Principal, kernel: KernelId) -> Result<String, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(kernel))?;
        let log = self.log(principal, kernel)?;
        let spec = self.inner.catalog.get(&log.kernelspec()).await.ok();
        if let Some(spec) = spec.filter(|spec| !spec.spec.language.eq_ignore_ascii_case("python")) {
            return Err(EngineError::Unsupported {
                reason: format!(
                    "the language of this kernel is {:?}, not Python",
                    spec.spec.language
                ),
            });
        }
        read(log, Detail::Code, move |cells| script(kernel, cells)).await
    }
}

/// Reads the whole log, where blocking is expected.
async fn read<T: Send + 'static>(
    log: SessionLog,
    detail: Detail,
    make: impl FnOnce(crate::history::Cells) -> T + Send + 'static,
) -> Result<T, EngineError> {
    let made = tokio::task::spawn_blocking(move || {
        let mut cells = walk(log.journal(), detail)?;
        if log.is_over() {
            cells.end();
        }
        Ok(make(cells))
    });
    made.await
        .map_err(|error| EngineError::internal("reading a kernel's log", error))?
}
