//! Entries of the audit log.

use crate::describe::{Catalog, Counter};

/// Entries that were made, and those that were lost.
#[derive(Clone, Debug)]
pub struct AuditCounts {
    /// Entries that were made.
    pub entries: Counter,
    /// Lost entries, because they could not be written for too long.
    pub lost: Counter,
}

impl AuditCounts {
    pub(crate) fn new(catalog: &mut Catalog) -> Self {
        Self {
            entries: catalog.counter("himalia_audit_entries_total", "Entries of the audit log"),
            lost: catalog.counter(
                "himalia_audit_lost_total",
                "Entries of the audit log that were lost, because they could not be written for too long",
            ),
        }
    }
}
