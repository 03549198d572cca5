//! Periodic work of the gateway.

use std::time::{Duration, SystemTime};

use crate::describe::{Catalog, Counters, Gauges};

/// Names of the periodic tasks.
const TASKS: [&str; 7] = [
    "collect",
    "cull",
    "lifetimes",
    "meter",
    "sweep",
    "sync_logs",
    "take_over",
];

/// Runs of each task.
#[derive(Clone, Debug)]
pub struct PeriodicRuns {
    runs: Counters<2>,
    last_success: Gauges<1>,
    interval: Gauges<1>,
}

impl PeriodicRuns {
    pub(crate) fn new(catalog: &mut Catalog) -> Self {
        let known = TASKS.map(|task| [[task, "ok"], [task, "failed"]]);
        Self {
            runs: catalog.counters(
                "himalia_periodic_runs_total",
                "Runs of periodic work, by task and outcome: ok, failed",
                ["task", "outcome"],
                known.as_flattened(),
            ),
            last_success: catalog.gauges(
                "himalia_periodic_last_success_seconds",
                "When periodic work succeeded last, by task, seconds since 1970",
                ["task"],
            ),
            interval: catalog.gauges(
                "himalia_periodic_interval_seconds",
                "The longest time between two runs of periodic work, by task",
                ["task"],
            ),
        }
    }

    /// A task begins; it runs at least so often.
    pub fn started(&self, task: &'static str, every: Duration) {
        self.interval.set([task], every.as_secs_f64());
    }

    pub fn ended(&self, task: &'static str, succeeded: bool) {
        self.runs.inc([task, if succeeded { "ok" } else { "failed" }]);
        if succeeded && let Ok(now) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            self.last_success.set([task], now.as_secs_f64());
        }
    }
}
