//! Waiting for and reading the next records of a kernel's log: what both kinds of feed share.

use std::sync::Arc;

use himalia_budget::{Pace, Turn};
use himalia_journal::{Cursor, Journal, Read, Record};
use himalia_kernel::{Handle, Stage};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::FeedClosed;

/// Result of a read.
#[derive(Debug)]
pub(crate) enum Batch {
    Records(Vec<Arc<Record>>),
    /// `from..=to` are gone.
    Gap {
        from: u64,
        to: u64,
    },
}

impl Batch {
    /// Bytes of its records.
    fn bytes(&self) -> usize {
        match self {
            Self::Records(records) => records.iter().map(|record| record.body.len()).sum(),
            Self::Gap { .. } => 0,
        }
    }
}

/// A position in a log, of a client that takes turns with others for what costs much.
#[derive(Debug)]
pub(crate) struct PacedReader {
    log: LogReader,
    pace: Pace,
    /// Batch that waits for its turn.
    read: Option<Batch>,
}

/// A place in a log to return to, with what was read there.
#[derive(Debug)]
pub(crate) struct Position {
    log: LogReader,
    batch: Batch,
}

/// Batch, and the turn in which it is worked on.
#[derive(Debug)]
pub(crate) struct PacedBatch {
    pub(crate) batch: Batch,
    pub(crate) bytes: usize,
    _turn: Option<Turn>,
}

/// A position in the log of a kernel that is there.
#[derive(Debug)]
pub struct Reader {
    pub(crate) handle: Arc<Handle>,
    log: LogReader,
}

/// A position in a log, with everything that can end the reading.
#[derive(Debug)]
pub struct LogReader {
    /// While it is held, the directory of a log that has no other user stays.
    handle: Option<Arc<Handle>>,
    cursor: Cursor,
    /// Changes when there may be something to read.
    head: watch::Receiver<u64>,
    stage: watch::Receiver<Stage>,
    draining: CancellationToken,
    replaced: CancellationToken,
}

impl PacedReader {
    pub(crate) fn new(log: LogReader, pace: Pace) -> Self {
        Self {
            log,
            pace,
            read: None,
        }
    }

    /// The number of the newest record.
    pub(crate) fn head(&self) -> u64 {
        self.log.head()
    }

    /// Reads another log from now on. `batch`, which was read last, is read again after [`Self::arrive`].
    pub(crate) fn depart(&mut self, log: LogReader, batch: Batch) -> Position {
        Position {
            log: std::mem::replace(&mut self.log, log),
            batch,
        }
    }

    /// Returns to where it was.
    pub(crate) fn arrive(&mut self, Position { log, batch }: Position) {
        self.log = log;
        self.read = Some(batch);
    }

    /// The next records. Cancel-safe.
    pub(crate) async fn next(&mut self, records: usize, bytes: usize) -> Result<PacedBatch, FeedClosed> {
        let mut turn = None;
        if self.read.is_none() {
            if !self.log.cursor.in_memory() {
                turn = Some(self.pace.turn().await);
            }
            self.read = Some(self.log.next(records, bytes).await?);
        }
        let bytes = self.read.as_ref().map_or(0, Batch::bytes);
        if turn.is_none() {
            turn = self.pace.turn_for(bytes).await;
        }
        // Nothing is awaited from here on.
        let batch = self.read.take().unwrap_or(Batch::Records(Vec::new()));
        Ok(PacedBatch {
            batch,
            bytes,
            _turn: turn,
        })
    }
}

impl Reader {
    /// A reader of what comes after `after`, for a client: it is not woken by requests.
    pub fn new(
        handle: Arc<Handle>,
        after: u64,
        draining: CancellationToken,
        replaced: CancellationToken,
    ) -> Self {
        let mut log = LogReader::new(&handle, after, draining, replaced);
        log.head = handle.shown.subscribe();
        Self { handle, log }
    }

    /// The next records. Cancel-safe.
    pub(crate) async fn next(&mut self, records: usize, bytes: usize) -> Result<Batch, FeedClosed> {
        self.log.next(records, bytes).await
    }
}

impl LogReader {
    /// A reader of what comes after `after`.
    pub fn new(
        handle: &Arc<Handle>,
        after: u64,
        draining: CancellationToken,
        replaced: CancellationToken,
    ) -> Self {
        Self {
            handle: Some(Arc::clone(handle)),
            cursor: handle.journal.cursor(after),
            head: handle.journal.subscribe(),
            stage: handle.stage.clone(),
            draining,
            replaced,
        }
    }

    /// A reader of the log of a kernel that has ended: it ends with what there is.
    pub fn of_ended(journal: &Journal, after: u64) -> Self {
        Self {
            handle: None,
            cursor: journal.cursor(after),
            head: journal.subscribe(),
            stage: watch::channel(Stage::Gone).1,
            draining: CancellationToken::new(),
            replaced: CancellationToken::new(),
        }
    }

    /// The number of the newest record.
    pub(crate) fn head(&self) -> u64 {
        *self.head.borrow()
    }

    /// The next records. Cancel-safe: between reading and returning there is no await.
    pub(crate) async fn next(&mut self, records: usize, bytes: usize) -> Result<Batch, FeedClosed> {
        loop {
            if self.replaced.is_cancelled() {
                return Err(FeedClosed::Replaced);
            }
            // Looked at before the log, so that nothing is missed that was written before the end was announced.
            let complete = *self.stage.borrow_and_update() != Stage::Present;
            // Without its actor nothing will ever be announced.
            let draining = self.draining.is_cancelled() || self.stage.has_changed().is_err();
            self.head.mark_unchanged();
            match self.read(records, bytes)? {
                Read::Records(records) => return Ok(Batch::Records(records)),
                Read::Gap { from, to } => {
                    if let Some(handle) = &self.handle {
                        handle.metrics.missed.inc();
                    }
                    return Ok(Batch::Gap { from, to });
                }
                Read::UpToDate if complete => return Err(FeedClosed::KernelGone),
                Read::UpToDate if draining => return Err(FeedClosed::Draining),
                Read::UpToDate => {}
            }
            tokio::select! {
                biased;
                _ = self.head.changed() => {}
                _ = self.stage.changed() => {}
                () = self.replaced.cancelled() => {}
                () = self.draining.cancelled() => {}
            }
        }
    }

    fn read(&mut self, records: usize, bytes: usize) -> Result<Read, FeedClosed> {
        let cursor = &mut self.cursor;
        let read = if cursor.in_memory() {
            cursor.read(records, bytes)
        } else {
            himalia_journal::may_block(|| cursor.read(records, bytes))
        };
        read.map_err(|error| {
            tracing::error!(%error, "cannot read a kernel's log");
            FeedClosed::Storage
        })
    }
}
