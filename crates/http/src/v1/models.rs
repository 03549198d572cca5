//! JSON of the native API that several routes share: limits, unresponsive kernels, usage, pools.

use himalia_engine::{
    Enforcement, Isolation, LimitReport, PoolStatus, SessionLimits, SessionUsage, Spend, Unanswered,
    Unresponsive,
};
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::Serialize;

/// A kernel that does not respond.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Unresponsive")]
pub(crate) struct UnresponsiveKernel {
    #[schemars(extend("format" = "date-time"))]
    since: String,
    problem: Unanswered,
    /// The problem and the possible remedies.
    advice: &'static str,
}

impl From<Unresponsive> for UnresponsiveKernel {
    fn from(found: Unresponsive) -> Self {
        Self {
            since: timestamp(found.since()),
            problem: found.problem,
            advice: found.problem.advice(),
        }
    }
}

/// The limits of a session, with the names that a request uses.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Limits {
    memory_bytes: Limit,
    pids: Limit,
    cpu_millis: Limit,
    disk_bytes: Limit,
    tmp_bytes: Limit,
    shm_bytes: Limit,
    open_files: Limit,
    output_bytes: Limit,
    execution_ms: Limit,
}

/// A limit and the mechanism that enforces it.
#[derive(Debug, Serialize, JsonSchema)]
struct Limit {
    /// Null: no limit.
    value: Option<u64>,
    enforcement: Enforcer,
}

/// The mechanism that enforces a limit.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Enforcer {
    /// The limit is not enforced.
    None,
    /// The gateway measures it at intervals, and ends what exceeds it.
    Watched,
    /// A resource limit of each process.
    Rlimit,
    /// The Linux kernel, for the whole sandbox.
    Cgroup,
    /// The size of a file system.
    Hard,
    /// The gateway.
    Gateway,
}

impl Limits {
    pub(super) fn new(limits: &SessionLimits, report: LimitReport, isolation: Isolation) -> Self {
        let limit = |value: Option<u64>, enforcement| Limit { value, enforcement };
        let reported = |value, enforcement| limit(value, word(enforcement));
        // File systems in memory exist in every sandbox with a root of its own.
        let sized = if isolation == Isolation::None {
            Enforcer::None
        } else {
            Enforcer::Hard
        };
        Self {
            memory_bytes: reported(limits.memory_bytes, report.memory),
            pids: reported(limits.pids.map(u64::from), report.pids),
            cpu_millis: reported(limits.cpu_millis.map(u64::from), report.cpu),
            disk_bytes: reported(limits.disk_bytes, report.disk),
            tmp_bytes: limit(limits.tmp_bytes, sized),
            shm_bytes: limit(limits.shm_bytes, sized),
            open_files: limit(limits.open_files, Enforcer::Rlimit),
            output_bytes: limit(limits.output_bytes, Enforcer::Gateway),
            execution_ms: limit(limits.execution_ms, Enforcer::Gateway),
        }
    }
}

fn word(enforcement: Enforcement) -> Enforcer {
    match enforcement {
        Enforcement::None => Enforcer::None,
        Enforcement::Watched => Enforcer::Watched,
        Enforcement::Rlimit => Enforcer::Rlimit,
        Enforcement::Cgroup => Enforcer::Cgroup,
        Enforcement::Hard => Enforcer::Hard,
    }
}

/// Current resource use of a session's sandbox.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SandboxUsage {
    /// Resident memory of all its processes; shared pages count in each process.
    memory_bytes: u64,
    /// Processor time of the living processes, in milliseconds.
    cpu_ms: u64,
    processes: u32,
    /// Connections to the network that have ended or were refused, of the session's kernel and its sandbox.
    network_connections: u64,
    /// Bytes of these connections to hosts.
    network_sent_bytes: u64,
    /// Bytes of these connections from hosts.
    network_received_bytes: u64,
    /// Calls of tools, including refused calls.
    tool_calls: u64,
    tool_calls_refused: u64,
    tool_calls_failed: u64,
    /// Calls that may have been done or not.
    tool_calls_unknown: u64,
    /// Bytes that tools have returned.
    tool_reply_bytes: u64,
    /// Calls of models, including refused calls and answers from the cache.
    model_calls: u64,
    model_calls_refused: u64,
    model_calls_failed: u64,
    /// Calls that may have been done or not.
    model_calls_unknown: u64,
    /// Calls that were answered from the cache.
    model_calls_cached: u64,
    /// Tokens that models have read.
    model_input_tokens: u64,
    /// Tokens that models have written.
    model_output_tokens: u64,
    /// The costs of the calls by the prices of the configuration, in its currency unit.
    model_spend: Spend,
    /// Characters that tools of MCP have returned about it.
    returned_chars: u64,
}

impl From<SessionUsage> for SandboxUsage {
    fn from(usage: SessionUsage) -> Self {
        let SessionUsage {
            sandbox,
            network,
            tool_calls,
            model_calls,
            returned_chars,
        } = usage;
        Self {
            memory_bytes: sandbox.rss_bytes,
            cpu_ms: sandbox.cpu_millis,
            processes: sandbox.processes,
            network_connections: network.connections,
            network_sent_bytes: network.sent_bytes,
            network_received_bytes: network.received_bytes,
            tool_calls: tool_calls.calls,
            tool_calls_refused: tool_calls.refused,
            tool_calls_failed: tool_calls.failed,
            tool_calls_unknown: tool_calls.unknown,
            tool_reply_bytes: tool_calls.reply_bytes,
            model_calls: model_calls.calls.calls,
            model_calls_refused: model_calls.calls.refused,
            model_calls_failed: model_calls.calls.failed,
            model_calls_unknown: model_calls.calls.unknown,
            model_calls_cached: model_calls.cached,
            model_input_tokens: model_calls.used.input_tokens,
            model_output_tokens: model_calls.used.output_tokens,
            model_spend: model_calls.used.spend,
            returned_chars,
        }
    }
}

/// A pool.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Pool {
    template: String,
    /// Kernels that can be claimed.
    ready: u32,
    /// Kernels that are being started.
    starting: u32,
    /// The current target: between `size` and `max`, depending on claims.
    target: u32,
    size: u32,
    max: u32,
    hits: u64,
    misses: u64,
    failures: u64,
    /// The reason why it is not full, or null.
    problem: Option<String>,
}

impl From<PoolStatus> for Pool {
    fn from(pool: PoolStatus) -> Self {
        Self {
            template: pool.template,
            ready: pool.ready,
            starting: pool.starting,
            target: pool.target,
            size: pool.size,
            max: pool.max,
            hits: pool.hits,
            misses: pool.misses,
            failures: pool.failures,
            problem: pool.problem,
        }
    }
}
