//! What was run in a kernel, read back from its log, also when its session has ended.

use crate::access::Object;
use bytes::Bytes;
use himalia_executions::{
    CachedHistory, Detail, History, HistoryPosition, MAX_CELL_BYTES, MAX_HISTORY_PAGE, history, notebook,
    script,
};
use himalia_journal::may_block;
use himalia_model::{Action, EngineError, KernelId, Principal};

use super::Commands;
use super::ended::SessionLog;

/// What is read of a log is in memory as cells, as JSON and as text.
const COPIES: u64 = 3;

impl Commands {
    pub(crate) async fn history(
        &self,
        principal: &Principal,
        kernel: KernelId,
        from: Option<HistoryPosition>,
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
        let page = |past: &CachedHistory| history(kernel, past.cells(), from, limit);
        self.past(principal, &log, page).await
    }

    pub(crate) async fn notebook(
        &self,
        principal: &Principal,
        kernel: KernelId,
    ) -> Result<Bytes, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(kernel))?;
        let log = self.log(principal, kernel)?;
        let budget = &self.inner.budget;
        let mut reading = budget.reading(principal, log.journal()).await?;
        let held = budget.memory(principal, memory(&log))?;
        let spec = self.inner.catalog.get(&log.kernelspec()).await.ok();
        let mut past = CachedHistory::new(Detail::Outputs);
        past.read_on(log.journal(), &mut reading).await?;
        past.cells_mut().set_over(log.is_over());
        let made = may_block(|| notebook(kernel, past.cells(), spec.as_ref()).to_string());
        Ok(held.keep(made.into_bytes()))
    }

    pub(crate) async fn script(&self, principal: &Principal, kernel: KernelId) -> Result<Bytes, EngineError> {
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
        let held = self.inner.budget.memory(principal, memory(&log))?;
        let make = |past: &CachedHistory| script(kernel, past.cells());
        let made = self.past(principal, &log, make).await?;
        Ok(held.keep(made.into_bytes()))
    }

    /// What is made of the code that was run in a session: what was read of its log for an earlier question is not read again.
    pub(super) async fn past<T>(
        &self,
        principal: &Principal,
        log: &SessionLog,
        make: impl FnOnce(&CachedHistory) -> T,
    ) -> Result<T, EngineError> {
        let (kept, journal) = (&self.inner.histories, log.journal());
        let oldest = journal.first();
        let known = kept.get(journal.dir(), 0, oldest);
        let known = known.unwrap_or_else(|| {
            kept.add(
                principal,
                journal.dir(),
                0,
                oldest,
                CachedHistory::new(Detail::Code),
            )
        });
        let mut past = known.lock().await;
        if past.seq() < journal.head() {
            let budget = &self.inner.budget;
            let mut reading = budget.reading(principal, journal).await?;
            // What is read on is small; how much code a whole log has is unknown.
            let first = (past.seq() == 0).then(|| journal.disk_bytes().min(MAX_CELL_BYTES));
            let _held = first.map(|bytes| budget.memory(principal, bytes)).transpose()?;
            past.read_on(journal, &mut reading).await?;
            kept.weigh(journal.dir(), 0, &known, past.cells().weight());
        }
        past.cells_mut().set_over(log.is_over());
        let bytes = past.cells().weight();
        self.answer_in_turn(principal, bytes, || make(&past)).await
    }
}

/// Memory for what is made of a log: it is there as cells, as JSON and as text.
fn memory(log: &SessionLog) -> u64 {
    COPIES * log.journal().disk_bytes().min(MAX_CELL_BYTES)
}
