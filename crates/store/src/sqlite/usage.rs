//! The rows of what was used.

use rusqlite::named_params;

use super::SqliteStore;
use crate::{StoreError, UsageRecord};

const ADD: &str = "
INSERT INTO usage (day, owner, caller, cpu_ms, executions, execution_ms, network_sent_bytes, network_received_bytes,
    tool_calls, model_input_tokens, model_output_tokens, model_spend_nanos, returned_chars)
VALUES (:day, :owner, :caller, :cpu_ms, :executions, :execution_ms, :sent, :received,
    :tool_calls, :input_tokens, :output_tokens, :spend, :returned)
ON CONFLICT (day, owner, caller) DO UPDATE SET cpu_ms = cpu_ms + excluded.cpu_ms,
    executions = executions + excluded.executions, execution_ms = execution_ms + excluded.execution_ms,
    network_sent_bytes = network_sent_bytes + excluded.network_sent_bytes,
    network_received_bytes = network_received_bytes + excluded.network_received_bytes,
    tool_calls = tool_calls + excluded.tool_calls,
    model_input_tokens = model_input_tokens + excluded.model_input_tokens,
    model_output_tokens = model_output_tokens + excluded.model_output_tokens,
    model_spend_nanos = model_spend_nanos + excluded.model_spend_nanos,
    returned_chars = returned_chars + excluded.returned_chars";

impl SqliteStore {
    pub(super) async fn do_count_kernels(&self, owner: String) -> Result<usize, StoreError> {
        self.read(move |connection| {
            let mut count = connection.prepare_cached("SELECT count(*) FROM kernels WHERE owner = ?1")?;
            Ok(count
                .query_row([owner], |row| row.get::<_, i64>(0))
                .map(|count| usize::try_from(count).unwrap_or(0))?)
        })
        .await
    }

    pub(super) async fn do_add_usage(&self, day: i64, used: Vec<UsageRecord>) -> Result<(), StoreError> {
        self.write(move |transaction| {
            let mut add = transaction.prepare_cached(ADD)?;
            for row in &used {
                add.execute(named_params! {
                    ":day": day,
                    ":owner": row.owner,
                    ":caller": row.caller,
                    ":cpu_ms": row.cpu_ms,
                    ":executions": row.executions,
                    ":execution_ms": row.execution_ms,
                    ":sent": row.network_sent_bytes,
                    ":received": row.network_received_bytes,
                    ":tool_calls": row.tool_calls,
                    ":input_tokens": row.model_input_tokens,
                    ":output_tokens": row.model_output_tokens,
                    ":spend": row.model_spend_nanos,
                    ":returned": row.returned_chars,
                })?;
            }
            Ok(())
        })
        .await
    }

    pub(super) async fn do_usage(&self, day: i64) -> Result<Vec<UsageRecord>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT * FROM usage WHERE day = ?1 ORDER BY owner, caller")?
                .query_map([day], |row| {
                    Ok(UsageRecord {
                        owner: row.get("owner")?,
                        caller: row.get("caller")?,
                        cpu_ms: row.get("cpu_ms")?,
                        executions: row.get("executions")?,
                        execution_ms: row.get("execution_ms")?,
                        network_sent_bytes: row.get("network_sent_bytes")?,
                        network_received_bytes: row.get("network_received_bytes")?,
                        tool_calls: row.get("tool_calls")?,
                        model_input_tokens: row.get("model_input_tokens")?,
                        model_output_tokens: row.get("model_output_tokens")?,
                        model_spend_nanos: row.get("model_spend_nanos")?,
                        returned_chars: row.get("returned_chars")?,
                    })
                })?
                .map(|row| Ok(row?))
                .collect()
        })
        .await
    }

    pub(super) async fn do_forget_usage(&self, day: i64) -> Result<usize, StoreError> {
        self.write(move |transaction| {
            let mut delete = transaction.prepare_cached("DELETE FROM usage WHERE day < ?1")?;
            Ok(delete.execute([day])?)
        })
        .await
    }
}
