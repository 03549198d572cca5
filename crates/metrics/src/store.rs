//! Calls of the store.

use std::time::Duration;

use crate::describe::{Catalog, Counters, Histograms};

/// Times and failures of the store's operations.
#[derive(Clone, Debug)]
pub struct StoreTimes {
    seconds: Histograms<1>,
    failures: Counters<1>,
}

impl StoreTimes {
    pub(crate) fn new(catalog: &mut Catalog) -> Self {
        Self {
            seconds: catalog.short_histograms(
                "himalia_store_seconds",
                "Calls of the store, by operation, the wait in its queue included",
                ["operation"],
            ),
            failures: catalog.counters(
                "himalia_store_failures_total",
                "Calls of the store that failed, by operation",
                ["operation"],
                &[],
            ),
        }
    }

    /// A call has returned. Operations are names of methods.
    pub fn called(&self, operation: &'static str, time: Duration, failed: bool) {
        self.seconds.observe([operation], time);
        if failed {
            self.failures.inc([operation]);
        }
    }
}
