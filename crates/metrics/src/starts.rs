//! Starts of kernels.

use std::time::Duration;

use crate::describe::{Catalog, Counters, Histograms};

/// Starts by how the kernel came to be, and claims of the pool.
#[derive(Debug)]
pub struct Starts {
    seconds: Histograms<1>,
    failures: Counters<1>,
    claims: Counters<1>,
}

/// Sources of starts: `session`, `fork`, `additional` or `resume`.
const SOURCES: [[&str; 1]; 4] = [["session"], ["fork"], ["additional"], ["resume"]];

impl Starts {
    pub(crate) fn new(catalog: &mut Catalog) -> Self {
        Self {
            seconds: catalog.long_histograms(
                "himalia_start_seconds",
                "From the request to the running process, by path: cold, pool, zygote, fork, resumed, additional",
                ["path"],
            ),
            failures: catalog.counters(
                "himalia_start_failures_total",
                "Starts that failed, by what was to be started: session, fork, additional, resume",
                ["source"],
                &SOURCES,
            ),
            claims: catalog.counters(
                "himalia_pool_claims_total",
                "Starts of templates with a pool, by outcome: hit, miss",
                ["outcome"],
                &[["hit"], ["miss"]],
            ),
        }
    }

    /// A kernel was started on this path within this time.
    pub fn started(&self, path: &'static str, time: Duration) {
        self.seconds.observe([path], time);
    }

    pub fn failed(&self, source: &'static str) {
        self.failures.inc([source]);
    }

    /// A start asked the pool of its template, which had a kernel or not.
    pub fn claimed(&self, hit: bool) {
        self.claims.inc([if hit { "hit" } else { "miss" }]);
    }
}
