//! Waiting for what becomes of an execution.

use himalia_journal::Record;
use himalia_outcome::Sink;

use super::{ArtifactStore, ExecutionEvent, ExecutionEventKind, ExecutionResult, Follower};
use crate::Closed;
use crate::feed::{Batch, LogReader};
use crate::kernel::{from_micros, may_block, wall_micros};

/// Records and bytes of one batch.
const BATCH_RECORDS: usize = 256;
const BATCH_BYTES: usize = 256 << 10;
/// A record from this size on is folded where a blocking thread is expected.
const BLOCKING_BYTES: usize = 1 << 20;

/// An execution that is followed. Cheap to drop at any time: that stops nothing.
#[derive(Debug)]
pub struct ExecutionFeed {
    reader: LogReader,
    follower: Follower,
    artifacts: ArtifactStore,
    /// Events up to this record are not told.
    after: u64,
}

impl ExecutionFeed {
    pub(crate) fn new(reader: LogReader, follower: Follower, artifacts: ArtifactStore, after: u64) -> Self {
        Self {
            reader,
            follower,
            artifacts,
            after,
        }
    }

    /// The next events, at least one; `None` after the last one. Waits while there is none. Texts of one stream that came
    /// together are one event. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Vec<ExecutionEvent>>, Closed> {
        while !self.follower.is_over() {
            let events = match self.reader.next(BATCH_RECORDS, BATCH_BYTES).await? {
                Batch::Gap { from, to } => {
                    let kind = self.follower.missing(from, to);
                    vec![ExecutionEvent {
                        seq: to,
                        at: from_micros(wall_micros()),
                        kind,
                    }]
                }
                Batch::Records(records) => {
                    let mut events: Vec<ExecutionEvent> = Vec::new();
                    for record in &records {
                        let event = blocking(record, || self.tell(record));
                        let Some(event) = event.filter(|event| event.seq > self.after) else {
                            continue;
                        };
                        append(&mut events, event);
                    }
                    events
                }
            };
            if !events.is_empty() {
                return Ok(Some(events));
            }
        }
        Ok(None)
    }

    /// Waits until it is over, or until its time is. Cancel-safe.
    pub async fn settled(&mut self) -> Result<ExecutionResult, Closed> {
        while !self.follower.is_settled() {
            let batch = self.reader.next(BATCH_RECORDS, BATCH_BYTES).await?;
            take(&mut self.follower, &self.artifacts, batch);
        }
        Ok(self.result())
    }

    /// What came of it as far as it was read.
    pub fn result(&self) -> ExecutionResult {
        self.follower.result()
    }

    fn tell(&mut self, record: &Record) -> Option<ExecutionEvent> {
        let (event, artifacts) = self.follower.tell(record);
        self.artifacts.keep(&artifacts);
        event
    }
}

/// Reads everything that there is now, without waiting for more.
pub(crate) async fn catch_up<S: Sink + Clone>(
    reader: &mut LogReader,
    follower: &mut Follower<S>,
    artifacts: &ArtifactStore,
) -> Result<(), Closed> {
    let head = reader.head();
    while !follower.is_over() && follower.seq() < head {
        let batch = reader.next(BATCH_RECORDS, BATCH_BYTES).await?;
        take(follower, artifacts, batch);
        // A long log is many batches, none of which waits.
        tokio::task::yield_now().await;
    }
    Ok(())
}

fn take<S: Sink + Clone>(follower: &mut Follower<S>, artifacts: &ArtifactStore, batch: Batch) {
    match batch {
        Batch::Gap { from, to } => drop(follower.missing(from, to)),
        Batch::Records(records) => {
            for record in records {
                blocking(&record, || artifacts.keep(&follower.record(&record).artifacts));
            }
        }
    }
}

fn blocking<T>(record: &Record, work: impl FnOnce() -> T) -> T {
    if record.body.len() >= BLOCKING_BYTES {
        may_block(work)
    } else {
        work()
    }
}

fn append(events: &mut Vec<ExecutionEvent>, event: ExecutionEvent) {
    let ExecutionEvent { seq, at, kind } = event;
    let kind = match events.last_mut() {
        Some(last)
            if matches!(
                kind,
                ExecutionEventKind::Stdout { .. } | ExecutionEventKind::Stderr { .. }
            ) =>
        {
            let Some(kind) = last.kind.join(kind) else {
                (last.seq, last.at) = (seq, at);
                return;
            };
            kind
        }
        _ => kind,
    };
    events.push(ExecutionEvent { seq, at, kind });
}
