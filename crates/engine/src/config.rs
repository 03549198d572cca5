//! Settings of the engine, already validated by whoever read them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::model::{Retention, Template};

/// Settings of an [`Engine`](crate::Engine).
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Durable state: journals, the store. Made if it is missing.
    pub data_dir: PathBuf,
    /// Kernels that may run or be starting at once.
    pub max_kernels: u32,
    /// Kernelspec used when none is named.
    pub default_kernel: String,
    /// Directories that hold kernelspecs (`<dir>/<name>/kernel.json`), first match wins. The Jupyter path is
    /// appended by the engine unless `only_these_kernelspecs` is set.
    pub kernelspec_dirs: Vec<PathBuf>,
    /// Look in `kernelspec_dirs` only, not on the Jupyter path.
    pub only_these_kernelspecs: bool,
    /// Names of kernelspecs to show; empty = all.
    pub allowed_kernelspecs: Vec<String>,
    /// When idle kernels are ended.
    pub cull: CullConfig,
    /// Automatic restarts in a row after a crash before the kernel is dead (jupyter's restarter: 5).
    pub restart_limit: u32,
    /// How long a start waits for the shim's call and for the kernel's process.
    pub start_timeout: Duration,
    /// How long a kernel may take from process start to its first `kernel_info_reply` before it counts as
    /// never ready; the engine goes on without (jupyter's `kernel_info_timeout`: 60 s).
    pub ready_timeout: Duration,
    /// Grace between the polite `shutdown_request` and SIGKILL (jupyter's `shutdown_wait_time`: 5 s).
    pub shutdown_grace: Duration,
    /// How long a sandbox waits for a gateway before it ends its kernels and itself; `None` is the shim's own default.
    pub orphan_ttl: Option<Duration>,
    /// After a gateway start: how long known shims have to call before their kernels are `sandbox_lost`.
    pub adoption_grace: Duration,
    /// Journal bytes kept per kernel on disk; older output becomes a marked gap.
    pub journal_quota_bytes: u64,
    /// Journal bytes kept per kernel in memory.
    pub journal_tail_bytes: usize,
    /// How long what is left of sessions that are over is kept.
    pub retention: Retention,
    /// Window for power loss: how often dirty journals are synced.
    pub sync_interval: Duration,
    /// Templates by name (`[A-Za-z0-9._-]`, at most 64 characters). Checked when the engine opens.
    pub templates: BTreeMap<String, Template>,
    /// What a kernelspec without a template of its name is started with; its `kernelspec` is not looked at.
    pub defaults: Template,
    /// Images that callers and templates may name, for `docker`.
    pub images: Vec<String>,
    /// Networks that callers and templates may name, for `docker`.
    pub networks: Vec<String>,
    /// Limits of single tenants, by their names.
    pub tenants: BTreeMap<String, TenantLimits>,
}

/// What one tenant may use of what the gateway has; `None` leaves it to the gateway's own limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantLimits {
    /// Its kernels that may run or be starting at once.
    pub max_kernels: Option<u32>,
}

/// When idle kernels are ended, with `jupyter_server`'s meaning (`MappingKernelManager.cull_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CullConfig {
    /// Idle time after which a kernel is ended; zero = never, and then no kernelspec can turn it on either.
    pub idle_timeout: Duration,
    /// How often it is looked at; zero = every 300 s.
    pub interval: Duration,
    /// Also kernels with open connections.
    pub connected: bool,
    /// Also busy kernels.
    pub busy: bool,
}

impl Default for CullConfig {
    fn default() -> Self {
        Self {
            idle_timeout: Duration::ZERO,
            interval: Duration::from_mins(5),
            connected: false,
            busy: false,
        }
    }
}

impl EngineConfig {
    /// Defaults, with the directory that has none.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            max_kernels: 100,
            default_kernel: "python3".into(),
            kernelspec_dirs: Vec::new(),
            only_these_kernelspecs: false,
            allowed_kernelspecs: Vec::new(),
            cull: CullConfig::default(),
            restart_limit: 5,
            start_timeout: Duration::from_secs(40),
            ready_timeout: Duration::from_mins(1),
            shutdown_grace: Duration::from_secs(5),
            orphan_ttl: None,
            adoption_grace: Duration::from_secs(10),
            journal_quota_bytes: 2 << 30,
            journal_tail_bytes: 8 << 20,
            retention: Retention::default(),
            sync_interval: Duration::from_millis(100),
            templates: BTreeMap::new(),
            defaults: Template::default(),
            images: Vec::new(),
            networks: Vec::new(),
            tenants: BTreeMap::new(),
        }
    }
}
