//! Writes and syncs of logs.

use crate::describe::{Catalog, Counter, Histogram};

/// Times of the disk for logs.
#[derive(Clone, Debug)]
pub struct JournalTimes {
    /// Writing a batch of records to a log.
    pub append: Histogram,
    /// Flushing a log to the disk.
    pub sync: Histogram,
    /// Batches that could not be written.
    pub failures: Counter,
}

impl JournalTimes {
    pub(crate) fn new(catalog: &mut Catalog) -> Self {
        Self {
            append: catalog.short_histogram(
                "himalia_journal_append_seconds",
                "Writing a batch of records to the log of a kernel",
            ),
            sync: catalog.short_histogram(
                "himalia_journal_sync_seconds",
                "Flushing the log of a kernel to the disk",
            ),
            failures: catalog.counter(
                "himalia_journal_failures_total",
                "Batches of records that could not be written, and logs that could not be flushed",
            ),
        }
    }
}
