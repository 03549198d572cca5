//! One shared log.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use himalia_journal::{Part, SealedSegment, SharedLog};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::committer::{Batch, Message};
use crate::housekeeper::Chore;
use crate::{FAILED_TIME, Inner, LARGE_BYTES, LARGE_TIME, restore};

/// One log, as its writer and its readers have it.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) inner: Arc<Inner>,
    pub(crate) name: String,
    /// Objects of rolled segments, by their first records.
    pub(crate) sealed: Arc<Mutex<BTreeMap<u64, String>>>,
}

impl SharedLog for Log {
    fn commit(&self, part: Part) -> oneshot::Receiver<()> {
        let (done, committed) = oneshot::channel();
        let is_start = part.at == 0;
        let batch = Batch {
            log: self.name.clone(),
            size: part.bytes.len() as u64,
            segment: part.segment,
            at: part.at,
            bytes: Some(part.bytes),
            object: None,
            done,
        };
        let failed = *self.inner.objects_failed.lock();
        let has_failed = failed.is_some_and(|at| at.elapsed() < FAILED_TIME);
        // The beginning of a segment waits for nothing, so that what follows cannot overtake it.
        if is_start || has_failed || batch.size < LARGE_BYTES as u64 {
            // The tasks end with the runtime.
            let _ = self.inner.commits.send(Message::Commit(batch));
        } else {
            let inner = Arc::clone(&self.inner);
            self.inner.runtime.spawn(large(inner, batch));
        }
        committed
    }

    fn seal(&self, segment: SealedSegment, path: &Path) {
        self.inner.unsealed.add(segment.bytes);
        self.inner.chore(Chore::Seal {
            log: self.name.clone(),
            segment,
            path: path.to_owned(),
            sealed: Arc::clone(&self.sealed),
        });
    }

    fn delete(&self, first: u64) {
        self.inner.chore(Chore::Delete {
            log: self.name.clone(),
            first,
            sealed: Arc::clone(&self.sealed),
        });
    }

    fn fetch(&self, first: u64, to: &Path) -> io::Result<()> {
        let object = self.sealed.lock().get(&first).cloned();
        let object = object.ok_or(io::ErrorKind::NotFound)?;
        let bytes = self.inner.runtime.block_on(self.inner.objects.get(&object));
        restore::write(to, &bytes.map_err(io::Error::other)?)
    }

    fn remove(&self) {
        self.inner.chore(Chore::Remove {
            log: self.name.clone(),
        });
    }

    fn keep_positions(&self, bytes: Bytes) {
        self.inner
            .chore(Chore::Positions(HashMap::from([(self.name.clone(), bytes)])));
    }
}

/// Writes the object of a large batch, and then commits the batch. While the object store fails, its bytes are committed themselves.
async fn large(inner: Arc<Inner>, mut batch: Batch) {
    if let Some(bytes) = batch.bytes.clone() {
        let put = inner.objects.put(&batch.log, batch.segment, bytes);
        let reason = match timeout(LARGE_TIME, put).await {
            Ok(Ok(object)) => {
                batch.object = Some(object);
                batch.bytes = None;
                None
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("it does not answer".to_owned()),
        };
        if let Some(reason) = reason {
            tracing::warn!(
                log = batch.log,
                reason,
                "cannot write an object; the database takes its bytes"
            );
            inner.metrics.object_failures.inc();
            *inner.objects_failed.lock() = Some(Instant::now());
        }
    }
    // The tasks end with the runtime.
    let _ = inner.commits.send(Message::Commit(batch));
}
