//! Usage of an owner, with its limits.

use time::OffsetDateTime;

use crate::Spend;

/// Amount in use, and its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// So much.
    pub used: u64,
    /// At most so much; `None`: the limit is the gateway's own, or there is none.
    pub limit: Option<u64>,
}

/// The same of an amount of money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsedSpend {
    /// So much.
    pub used: Spend,
    /// At most so much; `None`: there is no limit.
    pub limit: Option<Spend>,
}

/// Current usage of an owner, and its usage of today.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerUsage {
    /// The tenant, or `operator`.
    pub owner: String,
    /// When the day ends whose executions and processor time these are, UTC.
    pub resets: OffsetDateTime,
    /// Kernels, those included that have no process; of all replicas.
    pub kernels: Used,
    /// Processor time of its sandboxes today, milliseconds; of all replicas.
    pub cpu_ms: Used,
    /// Bytes of its sandboxes to and from the network today; of all replicas.
    pub network_bytes: Used,
    /// Network bytes sent to hosts.
    pub network_sent_bytes: u64,
    /// Network bytes received from hosts.
    pub network_received_bytes: u64,
    /// Connections of its sandboxes to the network now.
    pub network_connections: Used,
    /// Calls of tools by its code and its models today; of all replicas, as the next ones.
    pub tool_calls: Used,
    /// Tokens that models have read and written for its code today.
    pub model_tokens: Used,
    /// Input tokens of these calls.
    pub model_input_tokens: u64,
    /// Output tokens of these calls.
    pub model_output_tokens: u64,
    /// Cost of these calls.
    pub model_spend: UsedSpend,
    /// Characters that tools of MCP have returned today.
    pub returned_chars: Used,
    /// Memory of its sandboxes now, bytes.
    pub sandbox_memory_bytes: Used,
    /// Logs and artifacts of its living sessions, bytes.
    pub disk_live_bytes: u64,
    /// The same of its ended sessions.
    pub disk_ended_bytes: u64,
    /// Bytes of the rows in the database.
    pub disk_rows_bytes: u64,
    /// The limit of the sum of these bytes; `None`: no limit.
    pub disk_limit_bytes: Option<u64>,
    /// Connections now.
    pub connections: Used,
    /// Clients of events and of kernels now.
    pub streams: Used,
    /// Large responses that are in memory now, bytes.
    pub buffered_bytes: Used,
    /// Requests a second that it may send; `None`: no limit.
    pub requests_per_second: Option<u64>,
    /// Starts of kernels a second; `None`: no limit.
    pub starts_per_second: Option<u64>,
    /// Native executions that have ended today; of all replicas.
    pub executions: u64,
    /// Duration of these executions, in milliseconds.
    pub execution_ms: u64,
    /// Callers with usage. A caller who may manage tokens sees all, others only themselves.
    pub callers: Vec<CallerUsage>,
}

/// Current usage of a caller, and its usage of today.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerUsage {
    /// Name: `tenant/caller`, `operator` or `operator/caller`.
    pub caller: String,
    /// Native executions of it that have ended today; of all replicas.
    pub executions: u64,
    /// Duration of these executions, in milliseconds.
    pub execution_ms: u64,
    /// Characters that tools of MCP have returned to it today; of all replicas.
    pub returned_chars: u64,
    /// Connections now.
    pub connections: u64,
    /// Large responses that are in memory now, bytes.
    pub buffered_bytes: u64,
}
