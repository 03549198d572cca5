//! Rolled segments, removals and positions: what no client waits for.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use himalia_journal::SealedSegment;
use himalia_metrics::Replicas;
use himalia_store::{LogSegment, LogTable, ReplicaLease};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::UNSEALED_BYTES;
use crate::attempts::Attempts;
use crate::objects::Objects;

/// Something that is to be done, in order.
#[derive(Debug)]
pub(crate) enum Chore {
    /// A segment was rolled: it becomes an object, and its parts go.
    Seal {
        log: String,
        segment: SealedSegment,
        path: PathBuf,
        sealed: Arc<Mutex<BTreeMap<u64, String>>>,
    },
    /// A rolled segment is above the quota.
    Delete {
        log: String,
        first: u64,
        sealed: Arc<Mutex<BTreeMap<u64, String>>>,
    },
    /// A log is not needed any more.
    Remove { log: String },
    /// Positions of readers, by log.
    Positions(HashMap<String, Bytes>),
    /// All before is done.
    Flush(oneshot::Sender<()>),
}

/// Bytes of rolled segments that are not objects yet.
#[derive(Debug, Default)]
pub(crate) struct UnsealedBytes {
    bytes: AtomicU64,
    less: Notify,
}

impl UnsealedBytes {
    pub(crate) fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    fn remove(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.less.notify_waiters();
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Waits until there are few enough.
    pub(crate) async fn room(&self) {
        loop {
            let less = self.less.notified();
            if self.bytes() <= UNSEALED_BYTES {
                return;
            }
            tracing::warn!("output waits for the object store");
            less.await;
        }
    }
}

#[derive(Debug)]
pub(crate) struct Housekeeper {
    pub(crate) table: Arc<LogTable>,
    pub(crate) objects: Objects,
    pub(crate) lease: ReplicaLease,
    pub(crate) metrics: Replicas,
    pub(crate) unsealed: Arc<UnsealedBytes>,
}

impl Housekeeper {
    pub(crate) async fn run(self, mut chores: mpsc::UnboundedReceiver<Chore>) {
        let mut next = None;
        while let Some(chore) = match next.take() {
            Some(chore) => Some(chore),
            None => chores.recv().await,
        } {
            let chore = match chore {
                Chore::Flush(done) => {
                    let _ = done.send(());
                    continue;
                }
                // The latest of each log, all at once: many logs may have readers that move all the time.
                Chore::Positions(mut all) => {
                    while next.is_none()
                        && let Ok(chore) = chores.try_recv()
                    {
                        match chore {
                            Chore::Positions(newer) => all.extend(newer),
                            other => next = Some(other),
                        }
                    }
                    Chore::Positions(all)
                }
                other => other,
            };
            let mut attempts = Attempts::default();
            loop {
                if !self.lease.is_valid() {
                    return;
                }
                match self.attempt(&chore).await {
                    Ok(()) => break,
                    Err(error) => {
                        self.metrics.object_failures.inc();
                        attempts.failed(&error, "cannot tidy logs").await;
                    }
                }
            }
            attempts.succeeded("logs are tidied again");
            if let Chore::Seal { segment, .. } = chore {
                self.unsealed.remove(segment.bytes);
            }
        }
    }

    async fn attempt(&self, chore: &Chore) -> Result<(), String> {
        match chore {
            Chore::Seal {
                log,
                segment,
                path,
                sealed,
            } => self.seal(log, *segment, path, sealed).await,
            Chore::Delete { log, first, sealed } => {
                sealed.lock().remove(first);
                let number = i64::try_from(*first).unwrap_or(i64::MAX);
                let objects = self.table.delete_segment(log, number).await;
                self.forget(objects.map_err(|error| error.to_string())?).await
            }
            Chore::Remove { log } => {
                // The objects first: without the row, no later attempt would find them.
                let removed = self.objects.delete_all(log).await;
                removed.map_err(|error| error.to_string())?;
                let removed = self.table.remove(log).await;
                removed.map(drop).map_err(|error| error.to_string())
            }
            Chore::Positions(all) => {
                let all = all.iter().map(|(log, bytes)| (log.clone(), bytes.to_vec()));
                let noted = self.table.set_positions(all.collect()).await;
                noted.map_err(|error| error.to_string())
            }
            Chore::Flush(_) => Ok(()),
        }
    }

    async fn seal(
        &self,
        log: &str,
        segment: SealedSegment,
        path: &Path,
        sealed: &Mutex<BTreeMap<u64, String>>,
    ) -> Result<(), String> {
        let (path, length) = (path.to_owned(), segment.bytes);
        let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
        let mut bytes = match read.map_err(|error| error.to_string())? {
            Ok(bytes) => bytes,
            // The log was removed, or the segment was above the quota.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        let object = self.objects.put(log, segment.first, bytes.into()).await;
        let object = object.map_err(|error| error.to_string())?;
        sealed.lock().insert(segment.first, object.clone());
        let row = LogSegment {
            first: i64::try_from(segment.first).unwrap_or(i64::MAX),
            object,
            size: i64::try_from(length).unwrap_or(i64::MAX),
        };
        let parts = self.table.seal(log, row).await;
        self.forget(parts.map_err(|error| error.to_string())?).await
    }

    /// Removes objects that no row names any more. One that cannot be removed goes with its log.
    async fn forget(&self, objects: Vec<String>) -> Result<(), String> {
        for object in objects {
            if let Err(error) = self.objects.delete(&object).await {
                tracing::warn!(object, %error, "cannot remove an object");
            }
        }
        Ok(())
    }
}
