//! Access of callers to the logs of ended sessions.

use himalia_journal::Journal;
use himalia_model::{EngineError, KernelId, Principal};
use himalia_store::EndedRecord;

use super::ended_sessions::over;
use crate::{SessionKernel, SessionManager};

impl SessionManager {
    /// The error for a caller that sees a kernel and wants something of it that has ended or is ending.
    pub fn over(&self, handle: &SessionKernel) -> EngineError {
        match self.ended.of(handle) {
            Some(row) => over(&row),
            None => EngineError::no_kernel(handle.id()),
        }
    }

    /// Opens the log of an ended session, if the principal sees it, and returns its row. Blocks on the disk.
    pub fn ended_log(
        &self,
        principal: &Principal,
        id: KernelId,
    ) -> Result<(Journal, EndedRecord), EngineError> {
        let unknown = || EngineError::no_kernel(id);
        let row = self.ended.get(principal, id).ok_or_else(unknown)?;
        let dir = &row.session_dir;
        let check = || {
            // The log counts as used here: from now on it is not removed, or it is removed already.
            if let Some(removed) = self.ended.removed(principal, id) {
                return Err(removed);
            }
            // The directory of a shared log is a cache.
            if self.logs.shared.is_none() && !self.config.data_dir.join(dir).is_dir() {
                return Err(unknown());
            }
            Ok(())
        };
        let journal = self.logs.read(dir, check)?;
        Ok((journal, row))
    }
}
