//! Metrics of the gateway, for Prometheus.
//!
//! [`Metrics`] has one group for each part of the gateway. A part holds its group and counts with atomic operations; gauges
//! are set when they are read ([`Metrics::state`]). [`Metrics::encode`] writes all of it as `OpenMetrics` text.
//!
//! No metric has a label whose values callers choose: no session, kernel, caller or tenant. The number of series is bounded by
//! the code, by the routes of the API, and by the templates of the configuration. [`Metrics::described`] lists every name with
//! its labels; a test compares it with the dashboard, the alert rules and docs/operate/operations.md.

mod audit;
mod clients;
mod describe;
mod exports;
mod journal;
mod kernels;
mod network;
mod periodic;
mod process;
mod replicas;
mod starts;
mod state;
mod store;
mod tokens;

use std::fmt;
use std::sync::Arc;

pub use audit::AuditCounts;
pub use clients::Clients;
pub use describe::{Counter, Counters, DescribedMetric, Gauge, Gauges, Histogram, Histograms, Kind};
pub use exports::{ExportCounts, Exports};
pub use journal::JournalTimes;
pub use kernels::Kernels;
pub use network::Network;
pub use periodic::PeriodicRuns;
pub use replicas::Replicas;
pub use starts::Starts;
pub use state::{PoolLevel, State};
pub use store::StoreTimes;
pub use tokens::TokenRequests;

use describe::Catalog;
use process::Process;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// The content type of what [`Metrics::encode`] writes.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Metrics of one gateway. Clones name the same.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    described: Vec<DescribedMetric>,
    starts: Starts,
    kernels: Arc<Kernels>,
    journal: JournalTimes,
    store: StoreTimes,
    clients: Arc<Clients>,
    audit: AuditCounts,
    replicas: Replicas,
    exports: Exports,
    network: Network,
    tokens: TokenRequests,
    periodic: PeriodicRuns,
    state: State,
    process: Process,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        let mut catalog = Catalog::default();
        let build = catalog.gauges(
            "himalia_build_info",
            "1, with the version of the gateway",
            ["version"],
        );
        build.set([env!("CARGO_PKG_VERSION")], 1.0);
        let starts = Starts::new(&mut catalog);
        let kernels = Arc::new(Kernels::new(&mut catalog));
        let journal = JournalTimes::new(&mut catalog);
        let store = StoreTimes::new(&mut catalog);
        let clients = Arc::new(Clients::new(&mut catalog));
        let audit = AuditCounts::new(&mut catalog);
        let replicas = Replicas::new(&mut catalog);
        let exports = Exports::new(&mut catalog);
        let network = Network::new(&mut catalog);
        let tokens = TokenRequests::new(&mut catalog);
        let periodic = PeriodicRuns::new(&mut catalog);
        let state = State::new(&mut catalog);
        let process = Process::new(&mut catalog);
        let (registry, described) = catalog.finish();
        Self(Arc::new(Inner {
            registry,
            described,
            starts,
            kernels,
            journal,
            store,
            clients,
            audit,
            replicas,
            exports,
            network,
            tokens,
            periodic,
            state,
            process,
        }))
    }

    /// Requests for tokens of credentials.
    pub fn tokens(&self) -> &TokenRequests {
        &self.0.tokens
    }

    /// Starts of kernels and claims of the pool.
    pub fn starts(&self) -> &Starts {
        &self.0.starts
    }

    pub fn kernels(&self) -> &Arc<Kernels> {
        &self.0.kernels
    }

    /// Writes and syncs of logs.
    pub fn journal(&self) -> &JournalTimes {
        &self.0.journal
    }

    /// Calls of the store.
    pub fn store(&self) -> &StoreTimes {
        &self.0.store
    }

    pub fn clients(&self) -> &Arc<Clients> {
        &self.0.clients
    }

    /// Entries of the audit log.
    pub fn audit(&self) -> &AuditCounts {
        &self.0.audit
    }

    pub fn replicas(&self) -> &Replicas {
        &self.0.replicas
    }

    pub fn exports(&self) -> &Exports {
        &self.0.exports
    }

    /// Connections of sandboxes to the network.
    pub fn network(&self) -> &Network {
        &self.0.network
    }

    /// Runs of periodic work.
    pub fn periodic(&self) -> &PeriodicRuns {
        &self.0.periodic
    }

    /// Gauges, to be set before [`Self::encode`].
    pub fn state(&self) -> &State {
        &self.0.state
    }

    /// Every metric, in the order in which it is written.
    pub fn described(&self) -> &[DescribedMetric] {
        &self.0.described
    }

    /// All of it as `OpenMetrics` text. Reads the figures of the process from `/proc`.
    pub fn encode(&self) -> String {
        self.0.process.read();
        let mut text = String::with_capacity(32 << 10);
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.0.registry);
        text
    }

    /// The value of one series, written as in the text: `himalia_executions_total{outcome="ok"}`. Writes all of it to find that, so
    /// it is for tests.
    pub fn value(&self, series: &str) -> Option<f64> {
        let text = self.encode();
        let mut values = text
            .lines()
            .filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        values.next()?.parse().ok()
    }
}

#[cfg(test)]
mod tests;
