//! Exports to a collector.

use crate::describe::{Catalog, Counter};

/// Items of one signal.
#[derive(Clone, Debug)]
pub struct ExportCounts {
    /// Items that a collector has taken.
    pub sent: Counter,
    /// Items that were lost: the queue was full, or no collector took them.
    pub dropped: Counter,
}

/// Items by signal.
#[derive(Clone, Debug)]
pub struct Exports {
    /// Spans of traces.
    pub traces: ExportCounts,
}

impl Exports {
    pub(crate) fn new(catalog: &mut Catalog) -> Self {
        Self {
            traces: ExportCounts {
                sent: catalog.counter(
                    "himalia_trace_spans_sent_total",
                    "Spans of traces that the collector has taken",
                ),
                dropped: catalog.counter(
                    "himalia_trace_spans_dropped_total",
                    "Spans of traces that were lost, because the collector did not take them in time",
                ),
            },
        }
    }
}
