//! The process of the gateway, under the names that Prometheus' own clients use.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use himalia_proc::Stat;
use prometheus_client::metrics::counter;
use rustix::process::{Resource, getrlimit};

use crate::describe::{Catalog, Gauge};

#[derive(Debug)]
pub(crate) struct Process {
    cpu: counter::Counter<f64, AtomicU64>,
    resident: Gauge,
    open_fds: Gauge,
    max_fds: Gauge,
}

impl Process {
    pub(crate) fn new(catalog: &mut Catalog) -> Self {
        let started = catalog.gauge(
            "process_start_time_seconds",
            "When the gateway started, seconds since 1970",
        );
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        started.set(now.as_secs_f64());
        Self {
            cpu: catalog.float_counter(
                "process_cpu_seconds_total",
                "User and system time of the gateway, in seconds",
            ),
            resident: catalog.gauge(
                "process_resident_memory_bytes",
                "Resident memory of the gateway, in bytes",
            ),
            open_fds: catalog.gauge("process_open_fds", "Open files of the gateway"),
            max_fds: catalog.gauge("process_max_fds", "Files that the gateway may have open"),
        }
    }

    /// Reads `/proc`. What cannot be read stays as it was.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(crate) fn read(&self) {
        let pid = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        if let Some(stat) = Stat::read(pid) {
            let seconds = stat.cpu_ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
            self.cpu.inner().store(seconds.to_bits(), Ordering::Relaxed);
            let bytes = stat
                .resident_pages
                .saturating_mul(rustix::param::page_size() as u64);
            self.resident.set(bytes as f64);
        }
        if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
            self.open_fds.set(files.count() as f64);
        }
        let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        self.max_fds.set(most as f64);
    }
}
