//! What owners and their callers have used, by day.

/// One row of `usage`, or what is added to one.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UsageRecord {
    /// Of whose sessions: a tenant, or the operator.
    pub owner: String,
    /// Who ran the executions; empty in the row of what no caller is known for.
    pub caller: String,
    /// Processor time of sandboxes, milliseconds. In the row without a caller.
    pub cpu_ms: i64,
    /// Native executions that have ended.
    pub executions: i64,
    /// How long they ran, milliseconds.
    pub execution_ms: i64,
    /// Bytes of its sandboxes to the network. In the row without a caller, as the next one.
    pub network_sent_bytes: i64,
    /// Bytes from there.
    pub network_received_bytes: i64,
}
