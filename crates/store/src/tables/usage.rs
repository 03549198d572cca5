//! Usage of owners and their callers, by day.

use serde::Serialize;

use crate::StoreError;
use crate::failure::Failure;
use crate::part::part;
use crate::sql::{Sql, each, params, record};

/// One row of `usage`, or the amounts that are added to one.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct UsageRecord {
    /// The owner of the sessions: a tenant, or the operator.
    pub owner: String,
    /// The caller that ran the executions; empty in the row of usage without a known caller.
    pub caller: String,
    /// Processor time of sandboxes, milliseconds. In the row without a caller.
    pub cpu_ms: i64,
    /// Native executions that have ended.
    pub executions: i64,
    /// The time for which they ran, milliseconds.
    pub execution_ms: i64,
    /// Bytes of its sandboxes to the network. In the row without a caller, as the next one.
    pub network_sent_bytes: i64,
    pub network_received_bytes: i64,
    /// Calls of tools. In the row without a caller, as the next three.
    pub tool_calls: i64,
    /// Tokens that models have read.
    pub model_input_tokens: i64,
    /// Tokens that models have written.
    pub model_output_tokens: i64,
    /// The cost of these tokens, in thousand-millionths of the currency unit.
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

record!(UsageRecord in "usage" {
    owner, caller, cpu_ms, executions, execution_ms, network_sent_bytes, network_received_bytes, tool_calls,
    model_input_tokens, model_output_tokens, model_spend_nanos, returned_chars
});

part! {
    /// Usage.
    UsageStore {
        /// Adds amounts to the usage of a day (days since 1970, UTC), all or nothing.
        write fn add_usage(day: i64, used: Vec<UsageRecord>) -> ();

        /// The usage of a day, over all replicas, by owner and caller.
        read fn usage(day: i64) -> Vec<UsageRecord> = list("SELECT * FROM himalia.usage WHERE day = $1 ORDER BY owner, caller", day);

        /// Forgets the usage before a day; gives back how many rows that were.
        write fn forget_usage(day: i64) -> usize = count("DELETE FROM himalia.usage WHERE day < $1 AND {member}", day);
    }
}

/// Rows in one order, so that two replicas that add at once do not wait for each other.
macro_rules! add {
    ($($amount:literal)*) => {
        concat!(
            "INSERT INTO himalia.usage AS held (day, owner, caller", $(", ", $amount,)* ")
SELECT $1, more.value ->> 'owner', more.value ->> 'caller'",
            $(", CAST(more.value ->> '", $amount, "' AS bigint)",)*
            " FROM ", each!("$2"), " AS more WHERE {member}
ORDER BY more.value ->> 'owner', more.value ->> 'caller'
ON CONFLICT (day, owner, caller) DO UPDATE SET day = excluded.day",
            $(", ", $amount, " = held.", $amount, " + excluded.", $amount,)*
        )
    };
}

const ADD: &str = add!(
    "cpu_ms" "executions" "execution_ms" "network_sent_bytes" "network_received_bytes" "tool_calls"
    "model_input_tokens" "model_output_tokens" "model_spend_nanos" "returned_chars"
);

async fn add_usage(sql: &impl Sql, day: i64, used: Vec<UsageRecord>) -> Result<(), Failure> {
    if used.is_empty() {
        return Ok(());
    }
    let used = serde_json::json!(used);
    match sql.execute(ADD, params![day, used]).await? {
        0 => Err(StoreError::LeaseLost.into()),
        _ => Ok(()),
    }
}
