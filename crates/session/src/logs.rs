//! Logs of sessions: their directories, their bounds, and which of them are open.

use std::path::PathBuf;
use std::sync::Arc;

use himalia_journal::{Journal, LogStore, Options, Recovery, SharedLogs};
use himalia_model::{EngineConfig, EngineError, KernelId, SessionLimits};
use himalia_shared_log::ReplicaLogs;

use crate::end::OpenLogs;

/// Memory for the newest records of a log that is only read, in bytes.
const READING_BYTES: usize = 256 << 10;

/// The logs below one data directory, by directories relative to it.
pub(crate) struct SessionLogs {
    data_dir: PathBuf,
    /// Memory for the newest records of a log, in bytes.
    tail_bytes: usize,
    /// Largest log of a session without a limit of its own, in bytes.
    quota_bytes: u64,
    /// Logs that outlive the data directory, if they do.
    pub(crate) shared: Option<ReplicaLogs>,
    pub(crate) open: OpenLogs,
}

impl SessionLogs {
    pub(crate) fn new(config: &EngineConfig, shared: Option<ReplicaLogs>) -> Self {
        Self {
            data_dir: config.data_dir.clone(),
            tail_bytes: config.journal_tail_bytes,
            quota_bytes: config.journal_quota_bytes,
            shared,
            open: OpenLogs::default(),
        }
    }

    /// Directory of a new kernel's log. Not the id alone: callers may choose it again while clients still read the log of the kernel that
    /// had it before.
    pub(crate) fn dir(id: KernelId, created_micros: u64) -> String {
        format!("kernels/{id}-{created_micros:x}")
    }

    pub(crate) fn storage(&self) -> LogStore {
        let shared = self.shared.clone();
        LogStore::new(&self.data_dir).shared(shared.map(|shared| Arc::new(shared) as Arc<dyn SharedLogs>))
    }

    /// Bytes of logs that wait for the object store.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.shared.as_ref().map_or(0, ReplicaLogs::waiting_bytes)
    }

    /// Largest log of a session with these limits, in bytes.
    pub(crate) fn quota(&self, limits: &SessionLimits) -> u64 {
        limits.output_bytes.unwrap_or(self.quota_bytes)
    }

    /// Opens a log for its kernel. Blocks on the disk.
    pub(crate) fn open(&self, dir: &str, limits: &SessionLimits) -> Result<(Journal, Recovery), EngineError> {
        let options = Options {
            tail_bytes: self.tail_bytes,
            quota_bytes: self.quota(limits),
            ..Options::default()
        };
        let open = || {
            self.storage()
                .open(dir, options)
                .map_err(|error| EngineError::internal("cannot open a kernel's log", error))
        };
        self.open.open(dir, open, |(journal, _)| journal)
    }

    /// Opens a log that is not written any more, if `check` permits. The log is not removed from before `check` until it is closed. Blocks on
    /// the disk.
    pub(crate) fn read(
        &self,
        dir: &str,
        check: impl FnOnce() -> Result<(), EngineError>,
    ) -> Result<Journal, EngineError> {
        let options = Options {
            tail_bytes: READING_BYTES,
            quota_bytes: u64::MAX,
            ..Options::default()
        };
        let open = || {
            check()?;
            self.storage()
                .open(dir, options)
                .map(|(journal, _)| journal)
                .map_err(|error| EngineError::internal("cannot open the log of an ended session", error))
        };
        self.open.open(dir, open, |journal| journal)
    }
}
