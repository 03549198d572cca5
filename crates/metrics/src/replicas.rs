//! Work of a replica on state that all replicas share.

use crate::describe::{Catalog, Counter, Counters, Gauge, Histogram};

/// The lease of this replica, requests that it relayed, and logs that outlive its disk.
#[derive(Clone, Debug)]
pub struct Replicas {
    /// Seconds until the lease ends unless it is renewed. 0: the gateway is alone, or has lost it.
    pub lease_left: Gauge,
    /// Kernels that this replica has taken over from others.
    pub taken_over: Counter,
    relays_open: Gauge,
    relayed: Counters<1>,
    searches: Counters<1>,
    /// Committing batches of shared logs, all attempts together.
    pub log_commit: Histogram,
    /// Bytes of rolled segments that wait for the object store.
    pub log_waiting: Gauge,
    /// Attempts to commit to the database that failed.
    pub log_commit_failures: Counter,
    /// Attempts to write an object, or to remove one, that failed.
    pub object_failures: Counter,
}

impl Replicas {
    pub(crate) fn new(catalog: &mut Catalog) -> Self {
        Self {
            lease_left: catalog.gauge(
                "himalia_lease_seconds",
                "Seconds until the lease of this replica ends unless it is renewed; 0: it is alone, or has lost it",
            ),
            taken_over: catalog.counter(
                "himalia_kernels_taken_over_total",
                "Kernels that this replica has taken over from replicas that were lost or stopped",
            ),
            relays_open: catalog.gauge(
                "himalia_relays_open",
                "Requests, streams and WebSockets that are being relayed to other replicas",
            ),
            relayed: catalog.counters(
                "himalia_relayed_requests_total",
                "Requests that were sent to other replicas, by outcome: ok (there was a response), failed",
                ["outcome"],
                &[["ok"], ["failed"]],
            ),
            searches: catalog.counters(
                "himalia_starts_elsewhere_total",
                "Starts for which the pool here had no kernel ready, by what other replicas had: served (one started it), none_ready, failed (no answer)",
                ["outcome"],
                &[["served"], ["none_ready"], ["failed"]],
            ),
            log_commit: catalog.short_histogram(
                "himalia_shared_log_commit_seconds",
                "Committing batches of shared logs to the database, until it succeeds",
            ),
            log_waiting: catalog.gauge(
                "himalia_shared_log_waiting_bytes",
                "Bytes of rolled segments that wait for the object store; output waits from 256 MiB on",
            ),
            log_commit_failures: catalog.counter(
                "himalia_shared_log_commit_failures_total",
                "Attempts to commit batches of shared logs that failed",
            ),
            object_failures: catalog.counter(
                "himalia_object_store_failures_total",
                "Attempts to write or remove objects that failed",
            ),
        }
    }

    /// Counts a search of other replicas for a ready kernel: `served`, `none_ready`, `failed`.
    pub fn searched(&self, outcome: &'static str) {
        self.searches.inc([outcome]);
    }

    /// Requests that were relayed since the start, with and without a response, and those that are being relayed.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn set_relays(&self, ok: u64, failed: u64, open: u64) {
        self.relayed.set(["ok"], ok);
        self.relayed.set(["failed"], failed);
        self.relays_open.set(open as f64);
    }
}
