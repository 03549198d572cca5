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
    /// Calls of tools. In the row without a caller, as the next three.
    pub tool_calls: i64,
    /// Tokens that models have read.
    pub model_input_tokens: i64,
    /// Tokens that models have written.
    pub model_output_tokens: i64,
    /// What that cost, in thousand-millionths of the currency unit.
    pub model_spend_nanos: i64,
    /// Characters that tools of MCP have returned to the caller.
    pub returned_chars: i64,
}

impl UsageRecord {
    /// The same with more of everything.
    #[must_use]
    pub fn plus(self, more: &Self) -> Self {
        Self {
            cpu_ms: self.cpu_ms.saturating_add(more.cpu_ms),
            executions: self.executions.saturating_add(more.executions),
            execution_ms: self.execution_ms.saturating_add(more.execution_ms),
            network_sent_bytes: self.network_sent_bytes.saturating_add(more.network_sent_bytes),
            network_received_bytes: self
                .network_received_bytes
                .saturating_add(more.network_received_bytes),
            tool_calls: self.tool_calls.saturating_add(more.tool_calls),
            model_input_tokens: self.model_input_tokens.saturating_add(more.model_input_tokens),
            model_output_tokens: self.model_output_tokens.saturating_add(more.model_output_tokens),
            model_spend_nanos: self.model_spend_nanos.saturating_add(more.model_spend_nanos),
            returned_chars: self.returned_chars.saturating_add(more.returned_chars),
            ..self
        }
    }
}
