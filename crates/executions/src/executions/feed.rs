//! Waiting for what becomes of an execution.

use himalia_budget::{Pace, work};
use himalia_journal::Record;
use himalia_model::{from_micros, wall_micros};

use crate::feed::{Batch, PacedReader};
use crate::{ArtifactStore, ExecutionEvent, ExecutionResult, FeedClosed, Follower, LogReader};

/// Records and bytes of one batch.
pub(super) const BATCH_RECORDS: usize = 256;
pub(super) const BATCH_BYTES: usize = 256 << 10;

/// Ends of a wait for an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitUntil {
    /// It has ended, or its own time has expired and it continues.
    Settled,
    /// It is settled, or it ignores interrupts, or the one that it waits for does.
    Notified,
    /// The kernel works on it, or its feed names what it waits for.
    Begun,
    /// It has ended, or it asks for input.
    OverOrAsking,
}

/// An execution that is followed. Cheap to drop at any time: that stops nothing.
#[derive(Debug)]
pub struct ExecutionFeed {
    reader: PacedReader,
    follower: Follower,
    artifacts: ArtifactStore,
    /// Events up to this record are not told.
    after: u64,
}

impl ExecutionFeed {
    /// The events after `after`, read from the log.
    pub fn new(
        reader: LogReader,
        follower: Follower,
        artifacts: ArtifactStore,
        after: u64,
        pace: Pace,
    ) -> Self {
        Self {
            reader: PacedReader::new(reader, pace),
            follower,
            artifacts,
            after,
        }
    }

    /// The next events, at least one; `None` after the last one. Waits while there is none. Texts of one stream that came
    /// together are one event. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Vec<ExecutionEvent>>, FeedClosed> {
        self.next_as(|events| events).await
    }

    /// Makes a value of the next events. Large values are made in a turn of the client's principal, so `make` must not wait.
    pub async fn next_as<T>(
        &mut self,
        make: impl FnOnce(Vec<ExecutionEvent>) -> T,
    ) -> Result<Option<T>, FeedClosed> {
        while !self.follower.is_over() {
            let read = self.reader.next(BATCH_RECORDS, BATCH_BYTES).await?;
            let events = work(read.bytes, || self.events(&read.batch));
            if !events.is_empty() {
                return Ok(Some(work(read.bytes, || make(events))));
            }
        }
        Ok(None)
    }

    fn events(&mut self, batch: &Batch) -> Vec<ExecutionEvent> {
        let mut events = Vec::new();
        match batch {
            Batch::Gap { from, to } => events.push(ExecutionEvent {
                seq: *to,
                at: from_micros(wall_micros()),
                kind: self.follower.missing(*from, *to),
            }),
            Batch::Records(records) => {
                for record in records {
                    let event = self.tell(record);
                    if let Some(event) = event.filter(|event| event.seq > self.after) {
                        append(&mut events, event);
                    }
                }
            }
        }
        events
    }

    /// Waits for as long as that takes. Cancel-safe.
    pub async fn wait(&mut self, until: WaitUntil) -> Result<ExecutionResult, FeedClosed> {
        while !self.has(until) {
            let read = self.reader.next(BATCH_RECORDS, BATCH_BYTES).await?;
            work(read.bytes, || {
                take(&mut self.follower, &self.artifacts, &read.batch);
            });
        }
        Ok(self.result())
    }

    fn has(&self, until: WaitUntil) -> bool {
        match until {
            WaitUntil::Settled => self.follower.is_settled(),
            WaitUntil::Notified => self.follower.is_notified(),
            WaitUntil::Begun => self.follower.has_begun(),
            // A question that was answered since is behind in the log.
            WaitUntil::OverOrAsking => {
                let is_current = || self.follower.seq() >= self.reader.head();
                self.follower.is_over() || (self.follower.asks() && is_current())
            }
        }
    }

    /// Result as far as it was read.
    pub fn result(&self) -> ExecutionResult {
        self.follower.result()
    }

    fn tell(&mut self, record: &Record) -> Option<ExecutionEvent> {
        let (event, artifacts) = self.follower.tell(record);
        self.artifacts.keep(&artifacts);
        event
    }
}

fn take(follower: &mut Follower, artifacts: &ArtifactStore, batch: &Batch) {
    match batch {
        Batch::Gap { from, to } => drop(follower.missing(*from, *to)),
        Batch::Records(records) => {
            for record in records {
                artifacts.keep(&follower.record(record));
            }
        }
    }
}

/// Folds one record, where a blocking thread is expected if it is large.
pub(super) fn blocking<T>(record: &Record, fold: impl FnOnce() -> T) -> T {
    work(record.body.len(), fold)
}

fn append(events: &mut Vec<ExecutionEvent>, event: ExecutionEvent) {
    let left = match events.last_mut() {
        Some(last) => last.join(event),
        None => Some(event),
    };
    events.extend(left);
}
