//! Commits the batches of all logs, many in one transaction.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use himalia_metrics::Replicas;
use himalia_store::{LogPart, LogTable, ReplicaLease};
use tokio::sync::{mpsc, oneshot};

use crate::COMMIT_BYTES;
use crate::attempts::Attempts;
use crate::housekeeper::{Chore, UnsealedBytes};

/// Requests to the committer, in order.
#[derive(Debug)]
pub(crate) enum Message {
    Commit(Batch),
    /// For the housekeeper, after what was committed before.
    Chore(Chore),
}

/// Bytes of a log that are to be committed.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) log: String,
    pub(crate) segment: u64,
    pub(crate) at: u64,
    /// The bytes, or an object that has them.
    pub(crate) bytes: Option<Bytes>,
    pub(crate) object: Option<String>,
    pub(crate) size: u64,
    pub(crate) done: oneshot::Sender<()>,
}

#[derive(Debug)]
pub(crate) struct Committer {
    pub(crate) table: Arc<LogTable>,
    pub(crate) lease: ReplicaLease,
    pub(crate) metrics: Replicas,
    pub(crate) chores: mpsc::UnboundedSender<Chore>,
    pub(crate) unsealed: Arc<UnsealedBytes>,
}

impl Committer {
    /// Commits batches. Batches that arrive during a transaction are in the next one, so a transaction grows with the load and no batch waits without
    /// need.
    pub(crate) async fn run(self, mut queue: mpsc::UnboundedReceiver<Message>) {
        while let Some(first) = queue.recv().await {
            let (mut batches, mut chores, mut bytes) = (Vec::new(), Vec::new(), 0);
            let mut next = Some(first);
            while let Some(message) = next {
                match message {
                    Message::Commit(batch) => {
                        bytes += batch.bytes.as_ref().map_or(0, Bytes::len);
                        batches.push(batch);
                    }
                    Message::Chore(chore) => chores.push(chore),
                }
                next = if bytes < COMMIT_BYTES {
                    queue.try_recv().ok()
                } else {
                    None
                };
            }
            if !batches.is_empty() {
                self.unsealed.room().await;
                if !self.commit(batches).await {
                    // The process ends; what waits fails, as its senders are dropped.
                    return;
                }
            }
            for chore in chores {
                let _ = self.chores.send(chore);
            }
        }
    }

    /// Commits until it is done. `false`: this process may not act any more.
    async fn commit(&self, batches: Vec<Batch>) -> bool {
        let mut parts: HashMap<(String, u64, u64), LogPart> = HashMap::new();
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let mut waiters = Vec::new();
        for batch in batches {
            waiters.push((batch.log.clone(), batch.done));
            let part = LogPart {
                log: batch.log.clone(),
                segment: signed(batch.segment),
                at: signed(batch.at),
                bytes: batch.bytes.map(Vec::from),
                object: batch.object,
                size: signed(batch.size),
            };
            // The latest beginning of a segment that was rolled twice at one place counts.
            parts.insert((batch.log, batch.segment, batch.at), part);
        }
        let parts = Arc::new(parts.into_values().collect::<Vec<_>>());
        let (start, mut attempts) = (Instant::now(), Attempts::default());
        let committed = loop {
            if !self.lease.is_valid() {
                return false;
            }
            match self.table.commit(Arc::clone(&parts)).await {
                Ok(logs) => break logs,
                Err(error) => {
                    self.metrics.log_commit_failures.inc();
                    attempts.failed(&error, "cannot commit output").await;
                }
            }
        };
        self.metrics.log_commit.observe(start.elapsed());
        attempts.succeeded("output is committed again");
        for (log, done) in waiters {
            if committed.contains(&log) {
                // The actor may have gone.
                let _ = done.send(());
            } else {
                tracing::warn!(log, "a log has another owner");
            }
        }
        true
    }
}
