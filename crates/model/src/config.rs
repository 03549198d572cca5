//! Settings of the engine, already validated by the program that read them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::credential::CredentialSettings;
use crate::network::PrivateAddresses;
use crate::{
    Clock, LlmConfig, MountTemplate, PackageIndex, Principal, Retention, Spend, Template, ToolServerConfig,
};

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Durable state: journals, the store. Made if it is missing.
    pub data_dir: PathBuf,
    /// The name of this replica, which others answer with when they are asked for one of its sessions.
    pub replica: String,
    /// The store that several replicas share; `None`: a file in the data directory, for one gateway.
    pub shared_store: Option<SharedStore>,
    /// Kernels that may run or be starting at once.
    pub max_kernels: u32,
    /// Connections that clients may have at once; a part is kept for the operator.
    pub max_connections: u32,
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
    /// Longest time from the start of a sandbox to the call of its shim, and from there to the kernel's process.
    pub start_timeout: Duration,
    /// Longest time from the start of a process to its first `kernel_info_reply`. After it, the kernel is marked as never ready and used
    /// without the reply (jupyter's `kernel_info_timeout`: 60 s).
    pub ready_timeout: Duration,
    /// Grace between the polite `shutdown_request` and SIGKILL (jupyter's `shutdown_wait_time`: 5 s).
    pub shutdown_grace: Duration,
    /// Time without a gateway after which a sandbox ends its kernels and itself; `None`: the default of the shim.
    pub orphan_ttl: Option<Duration>,
    /// After a gateway start: how long known shims have to call before their kernels are `sandbox_lost`.
    pub adoption_grace: Duration,
    /// Bytes of a message of a kernel; a larger one becomes a marked gap.
    pub message_bytes: usize,
    /// Journal bytes kept per kernel on disk; older output becomes a marked gap.
    pub journal_quota_bytes: u64,
    /// Journal bytes kept per kernel in memory.
    pub journal_tail_bytes: usize,
    /// Bounds of the data of ended sessions.
    pub retention: Retention,
    /// Window for power loss: how often dirty journals are synced.
    pub sync_interval: Duration,
    /// Templates by name (`[A-Za-z0-9._-]`, at most 64 characters). Checked when the engine opens.
    pub templates: BTreeMap<String, Template>,
    /// Template for kernelspecs that have no template with their name. Its `kernelspec` is ignored.
    pub defaults: Template,
    /// Images that templates may name and grant to callers, for `docker`.
    pub images: Vec<String>,
    /// Networks that templates may name and grant to callers, for `docker`.
    pub networks: Vec<String>,
    /// Mounts that templates may name.
    pub mounts: BTreeMap<String, MountTemplate>,
    /// Addresses that sessions with a list may reach although they are not public.
    pub private_addresses: Vec<PrivateAddresses>,
    /// Addresses to which callbacks and prompts may be posted although they are not public.
    pub callback_addresses: Vec<PrivateAddresses>,
    /// Sandboxes show their work directory at `/mnt/data` too.
    pub show_data: bool,
    /// The index of packages that sessions use through the gateway, if their list has it.
    pub packages: Option<PackageIndex>,
    /// Bounds of the network connections of one session.
    pub network: NetworkLimits,
    /// Secrets that are added to requests of sessions.
    pub credentials: CredentialSettings,
    /// Servers of tools, whose names differ.
    pub tool_servers: Vec<ToolServerConfig>,
    /// Language models that code in sessions calls.
    pub models: Vec<LlmConfig>,
    /// Limits of single tenants, by their names.
    pub tenants: BTreeMap<String, TenantLimits>,
    /// Clock for ages. Tests use a clock of their own.
    pub clock: Clock,
    /// Bytes of the data directory's disk that must be free for a new session.
    pub min_free_bytes: u64,
}

/// A store that several replicas share.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedStore {
    /// Address, with an optional password: `postgres://user:password@host/database`.
    pub url: String,
    /// Duration of a replica's lease.
    pub lease: Duration,
    /// The object store for logs, which are shared then; `None`: logs are in the data directory.
    pub object_store: Option<String>,
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedStore")
            .field("lease", &self.lease)
            .field("object_store", &self.object_store)
            .finish_non_exhaustive()
    }
}

/// Limits of one tenant. `None`: only the limit of the gateway applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantLimits {
    /// Kernels that run or start at the same time.
    pub max_kernels: Option<u32>,
    /// Processor time that its sandboxes may use in a day, UTC; `None`: no limit.
    pub cpu_per_day: Option<Duration>,
    /// Bytes that its sandboxes may send to and receive from the network in a day, UTC; `None`: no limit.
    pub network_per_day: Option<u64>,
    /// Limits per day.
    pub day: DayLimits,
    /// Bytes of memory that its sandboxes use from which on no session is started; `None`: no limit.
    pub sandbox_memory_bytes: Option<u64>,
    /// Networks that callers of this tenant may request, out of those that a template grants. Empty: none.
    pub networks: Vec<String>,
    /// The same of images.
    pub images: Vec<String>,
    /// Share of the resources that all tenants use.
    pub share: Share,
}

/// Limits of a tenant per day (UTC). `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DayLimits {
    /// Calls of tools by its code and its models.
    pub tool_calls: Option<u64>,
    /// Tokens that models read and write for its code.
    pub model_tokens: Option<u64>,
    /// Cost of model calls, by the prices of the configuration.
    pub model_spend: Option<Spend>,
    /// Characters that tools of MCP return to its models.
    pub returned_chars: Option<u64>,
}

/// Bounds of the network connections of one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkLimits {
    /// Bytes that a session may send and receive, as long as it lives; `None`: no limit.
    pub session_bytes: Option<u64>,
    /// Longest duration of one connection; `None`: no limit.
    pub connection_time: Option<Duration>,
}

/// A tenant's part of what there is for all. One of its callers has at most three quarters of memory, connections and clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Bytes of answers that are being made or sent.
    pub memory_bytes: u64,
    /// Connections.
    pub connections: u32,
    /// Clients of events and of kernels' messages.
    pub streams: u32,
    /// Connections of its sandboxes to the network; one session has at most three quarters of them.
    pub network_connections: u32,
    /// Requests a second; four times as many at once.
    pub requests_per_second: u32,
    /// Starts of kernels a second, branches included; four times as many at once.
    pub starts_per_second: u32,
    /// Bytes of logs and artifacts, of sessions that live and that have ended, from which on no session is started.
    pub disk_bytes: u64,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            connections: 1024,
            streams: 512,
            network_connections: 1024,
            requests_per_second: 200,
            starts_per_second: 20,
            disk_bytes: 64 << 30,
        }
    }
}

/// When idle kernels are ended, with `jupyter_server`'s meaning (`MappingKernelManager.cull_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CullConfig {
    /// Idle time after which a kernel is ended; zero = never, and then no kernelspec can turn it on either.
    pub idle_timeout: Duration,
    /// Interval between two checks; zero: 300 s.
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
            replica: "main".into(),
            shared_store: None,
            max_kernels: 100,
            max_connections: 4096,
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
            message_bytes: 32 << 20,
            journal_quota_bytes: 2 << 30,
            journal_tail_bytes: 8 << 20,
            retention: Retention::default(),
            sync_interval: Duration::from_millis(100),
            templates: BTreeMap::new(),
            defaults: Template::default(),
            images: Vec::new(),
            networks: Vec::new(),
            mounts: BTreeMap::new(),
            private_addresses: Vec::new(),
            callback_addresses: Vec::new(),
            show_data: false,
            packages: None,
            network: NetworkLimits::default(),
            credentials: CredentialSettings::default(),
            tool_servers: Vec::new(),
            models: Vec::new(),
            tenants: BTreeMap::new(),
            clock: Clock::default(),
            min_free_bytes: 1 << 30,
        }
    }

    /// The part of a principal's tenant; `None` for the operator, who has none.
    pub fn share(&self, principal: &Principal) -> Option<Share> {
        let own = self.tenants.get(principal.owner()).map(|limits| limits.share);
        (!principal.is_operator()).then(|| own.unwrap_or_default())
    }
}
