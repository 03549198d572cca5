//! Logs of sessions that outlive the disk of a gateway.
//!
//! The newest segment of a log is in the store, one row for each batch. A rolled segment is an object in an object store, under the hash
//! of its content, and so is a batch above [`LARGE_BYTES`] unless the object store fails. The directory of a log is a cache of both.
//!
//! ```text
//! Journal (crate journal) -> SharedLog::commit -> Committer: batches of all logs, one transaction -> LogTable (crate store)
//!                            SharedLog::seal   -> Housekeeper: object -> row of the segment, rows of its parts go
//! LogStore::open          -> SharedLogs::open  -> restore: rows -> the newest segment, in the directory
//! Cursor                  -> SharedLog::fetch  -> object -> a rolled segment, in the directory
//! ```
//!
//! # Order
//! What is asked of one log is done in that order. A batch is committed before it is visible, and the beginning of a new segment before
//! the segment before it is sealed.
//!
//! # Bounds
//! One transaction has at most [`COMMIT_BYTES`] or one batch. A log has one batch on its way. While more than [`UNSEALED_BYTES`] of
//! rolled segments wait for the object store, no batch is committed: kernels wait as they do for a full disk.

mod attempts;
mod committer;
mod housekeeper;
mod log;
mod objects;
mod restore;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use himalia_journal::{RestoredLog, SharedLogs};
use himalia_metrics::Replicas;
use himalia_store::{LogTable, ReplicaLease, StoreError};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use committer::Committer;
use housekeeper::{Chore, Housekeeper, UnsealedBytes};
pub use objects::{ObjectStoreUrl, Objects, ObjectsError};

/// A batch from this size on is an object.
pub const LARGE_BYTES: usize = 256 << 10;
/// Time that a batch waits for its object before the database takes its bytes.
const LARGE_TIME: Duration = Duration::from_secs(2);
/// Time after a failed object in which no batch waits for one.
const FAILED_TIME: Duration = Duration::from_secs(10);
/// Bytes of batches in one transaction, beside the first batch.
pub const COMMIT_BYTES: usize = 1 << 20;
/// Bytes of rolled segments that may wait for the object store.
pub const UNSEALED_BYTES: u64 = 256 << 20;

/// The shared logs of one replica. Clones are the same.
#[derive(Clone, Debug)]
pub struct ReplicaLogs {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    table: Arc<LogTable>,
    objects: Objects,
    runtime: Handle,
    commits: mpsc::UnboundedSender<committer::Message>,
    metrics: Replicas,
    unsealed: Arc<UnsealedBytes>,
    /// When an object of a batch could not be written.
    objects_failed: Mutex<Option<Instant>>,
}

impl ReplicaLogs {
    /// Starts the tasks. Must be called within a tokio runtime.
    pub fn start(table: Arc<LogTable>, objects: Objects, lease: ReplicaLease, metrics: Replicas) -> Self {
        // One batch of each log at most is in it, the beginnings of its segments, and what is to be done with those before.
        let (commits, queue) = mpsc::unbounded_channel();
        let (chores, todo) = mpsc::unbounded_channel();
        let unsealed = Arc::<UnsealedBytes>::default();
        let committer = Committer {
            table: Arc::clone(&table),
            lease: lease.clone(),
            metrics: metrics.clone(),
            chores,
            unsealed: Arc::clone(&unsealed),
        };
        tokio::spawn(committer.run(queue));
        let housekeeper = Housekeeper {
            table: Arc::clone(&table),
            objects: objects.clone(),
            lease,
            metrics: metrics.clone(),
            unsealed: Arc::clone(&unsealed),
        };
        tokio::spawn(housekeeper.run(todo));
        let inner = Inner {
            table,
            objects,
            runtime: Handle::current(),
            commits,
            metrics,
            unsealed,
            objects_failed: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Removes the logs of this replica that neither a kernel nor an ended session has: of kernels that waited in a pool, and of starts
    /// that were under way. Only before the first kernel is started.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn remove_orphans(&self) -> Result<(), StoreError> {
        for name in self.inner.table.orphans().await? {
            self.remove(&name);
        }
        Ok(())
    }

    /// Bytes of rolled segments that wait for the object store.
    pub fn waiting_bytes(&self) -> u64 {
        self.inner.unsealed.bytes()
    }

    /// Removes a log of this replica that neither a kernel nor an ended session has.
    pub fn forget(&self, name: &str) {
        self.remove(name);
    }

    /// Waits until all that was asked is done, or `limit` has passed: `false`.
    pub async fn flush(&self, limit: Duration) -> bool {
        let (done, flushed) = oneshot::channel();
        self.inner.chore(Chore::Flush(done));
        matches!(tokio::time::timeout(limit, flushed).await, Ok(Ok(())))
    }
}

impl Inner {
    /// To be done after what was committed before.
    pub(crate) fn chore(&self, chore: Chore) {
        // The tasks end with the runtime.
        let _ = self.commits.send(committer::Message::Chore(chore));
    }
}

impl SharedLogs for ReplicaLogs {
    fn open(&self, name: &str, dir: &Path) -> io::Result<RestoredLog> {
        restore::open(&self.inner, name, dir)
    }

    fn remove(&self, name: &str) {
        self.inner.chore(Chore::Remove { log: name.to_owned() });
    }
}

#[cfg(test)]
mod tests;
