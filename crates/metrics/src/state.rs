//! Gauges of what there is now. They are set when they are read.

use crate::describe::{Catalog, Counters, Gauge, Gauges};

/// Sessions, kernels, pools and what is in use.
#[derive(Debug)]
pub struct State {
    /// 1 if new work is taken, else 0.
    pub ready: Gauge,
    sessions: Gauges<1>,
    kernels: Gauges<1>,
    pool: Gauges<2>,
    pool_failures: Counters<1>,
    /// Connections of clients that showed a token.
    pub connections: Gauge,
    /// Clients of events and of kernels.
    pub streams: Gauge,
    /// Bytes of responses that are held.
    pub response_bytes: Gauge,
    /// Ended sessions whose logs are kept.
    pub ended_sessions: Gauge,
    /// Bytes of the data directory's disk that are free.
    pub disk_free: Gauge,
    refused: Counters<1>,
}

/// States of a kernel, as the API spells them.
const KERNEL_STATES: [&str; 6] = ["starting", "idle", "busy", "restarting", "dead", "unknown"];

/// A pool, as far as it is shown.
#[derive(Clone, Debug)]
pub struct PoolLevel {
    /// Template of the configuration.
    pub template: String,
    /// Kernels that can be claimed.
    pub ready: u32,
    /// Kernels that are being started.
    pub starting: u32,
    /// Kernels that there are to be.
    pub target: u32,
    /// Kernels that could not be started, or died while they waited, since the start.
    pub failures: u64,
}

impl State {
    pub(crate) fn new(catalog: &mut Catalog) -> Self {
        Self {
            ready: catalog.gauge("himalia_ready", "1 if new work is taken, else 0"),
            sessions: catalog.gauges(
                "himalia_sessions",
                "Sessions, by state: live, dead (its next use starts it again, or it is to be deleted)",
                ["state"],
            ),
            kernels: catalog.gauges("himalia_kernels", "Kernels of sessions, by state", ["state"]),
            pool: catalog.gauges(
                "himalia_pool_kernels",
                "Kernels of the pool of a template, by state: ready, starting, target (how many there are to be)",
                ["template", "state"],
            ),
            pool_failures: catalog.counters(
                "himalia_pool_failures_total",
                "Kernels of the pool of a template that could not be started, or died while they waited",
                ["template"],
                &[],
            ),
            connections: catalog.gauge(
                "himalia_connections",
                "Connections of clients that showed a token",
            ),
            streams: catalog.gauge("himalia_streams", "Clients of kernels and of event streams"),
            response_bytes: catalog.gauge("himalia_response_bytes", "Bytes of large responses in memory"),
            ended_sessions: catalog.gauge(
                "himalia_ended_sessions",
                "Ended sessions whose logs are kept",
            ),
            disk_free: catalog.gauge(
                "himalia_data_dir_free_bytes",
                "Bytes that are free on the disk of the data directory",
            ),
            refused: catalog.counters(
                "himalia_refusals_total",
                "What a budget refused, by resource: memory, connections, streams, turns, requests, starts",
                ["resource"],
                &[],
            ),
        }
    }

    /// Sessions with and without a process.
    pub fn set_sessions(&self, live: usize, dead: usize) {
        self.sessions.set(["live"], as_f64(live));
        self.sessions.set(["dead"], as_f64(dead));
    }

    /// Kernels by state; a state that no kernel has is 0.
    pub fn set_kernels(&self, count: impl Fn(&str) -> usize) {
        for state in KERNEL_STATES {
            self.kernels.set([state], as_f64(count(state)));
        }
    }

    /// The pools. Templates do not change while the gateway runs.
    pub fn set_pools(&self, pools: &[PoolLevel]) {
        for pool in pools {
            let levels = [
                ("ready", pool.ready),
                ("starting", pool.starting),
                ("target", pool.target),
            ];
            self.pool_failures.set([pool.template.clone()], pool.failures);
            for (state, count) in levels {
                self.pool
                    .set([pool.template.clone(), state.to_owned()], f64::from(count));
            }
        }
    }

    /// Sets the refusals since the start, all callers together.
    pub fn set_refused(&self, resource: &'static str, count: u64) {
        self.refused.set([resource], count);
    }
}

/// Counts are far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn as_f64(count: usize) -> f64 {
    count as f64
}
