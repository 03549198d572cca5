//! The rows of what was used, which all replicas add to. In each write `$1` is the name of the replica and `$2` the epoch of its process.

use super::PostgresStore;
use super::connection::Param;
use super::failure::Failure;
use crate::{StoreError, UsageRecord};

/// Rows in one order, so that two replicas that add at once do not wait for each other.
const ADD: &str = "
INSERT INTO himalia.usage AS u
    (day, owner, caller, cpu_ms, executions, execution_ms, network_sent_bytes, network_received_bytes,
     tool_calls, model_input_tokens, model_output_tokens, model_spend_nanos, returned_chars)
SELECT $3, owner, caller, cpu_ms, executions, execution_ms, sent, received,
    tool_calls, input_tokens, output_tokens, spend, returned
FROM unnest($4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[],
        $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[])
    AS more (owner, caller, cpu_ms, executions, execution_ms, sent, received,
        tool_calls, input_tokens, output_tokens, spend, returned)
WHERE EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
ORDER BY owner, caller
ON CONFLICT (day, owner, caller) DO UPDATE SET cpu_ms = u.cpu_ms + excluded.cpu_ms,
    executions = u.executions + excluded.executions, execution_ms = u.execution_ms + excluded.execution_ms,
    network_sent_bytes = u.network_sent_bytes + excluded.network_sent_bytes,
    network_received_bytes = u.network_received_bytes + excluded.network_received_bytes,
    tool_calls = u.tool_calls + excluded.tool_calls,
    model_input_tokens = u.model_input_tokens + excluded.model_input_tokens,
    model_output_tokens = u.model_output_tokens + excluded.model_output_tokens,
    model_spend_nanos = u.model_spend_nanos + excluded.model_spend_nanos,
    returned_chars = u.returned_chars + excluded.returned_chars";

const OF_DAY: &str = "
SELECT owner, caller, cpu_ms, executions, execution_ms, network_sent_bytes, network_received_bytes,
    tool_calls, model_input_tokens, model_output_tokens, model_spend_nanos, returned_chars
FROM himalia.usage WHERE day = $1 ORDER BY owner, caller";

const FORGET: &str = "
DELETE FROM himalia.usage
WHERE day < $3 AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const COUNT_KERNELS: &str = "SELECT count(*) FROM himalia.kernels WHERE owner = $1";

impl PostgresStore {
    pub(super) async fn do_count_kernels(&self, owner: String) -> Result<usize, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let rows = link.query(COUNT_KERNELS, &[&owner]).await?;
                let count: i64 = match rows.first() {
                    Some(row) => row.try_get(0)?,
                    None => 0,
                };
                Ok(usize::try_from(count).unwrap_or(0))
            })
            .await
    }

    pub(super) async fn do_add_usage(&self, day: i64, used: Vec<UsageRecord>) -> Result<(), StoreError> {
        if used.is_empty() {
            return Ok(());
        }
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let name: &str = &me.name;
                let owners: Vec<&str> = used.iter().map(|row| row.owner.as_str()).collect();
                let callers: Vec<&str> = used.iter().map(|row| row.caller.as_str()).collect();
                let column = |of: fn(&UsageRecord) -> i64| used.iter().map(of).collect::<Vec<i64>>();
                let (cpu, count, ran) = (
                    column(|row| row.cpu_ms),
                    column(|row| row.executions),
                    column(|row| row.execution_ms),
                );
                let (sent, received) = (
                    column(|row| row.network_sent_bytes),
                    column(|row| row.network_received_bytes),
                );
                let (calls, input, output) = (
                    column(|row| row.tool_calls),
                    column(|row| row.model_input_tokens),
                    column(|row| row.model_output_tokens),
                );
                let (spend, returned) = (
                    column(|row| row.model_spend_nanos),
                    column(|row| row.returned_chars),
                );
                let params: [Param<'_>; 15] = [
                    &name, &me.epoch, &day, &owners, &callers, &cpu, &count, &ran, &sent, &received, &calls,
                    &input, &output, &spend, &returned,
                ];
                if link.execute(ADD, &params).await? == 0 {
                    return Err(StoreError::LeaseLost.into());
                }
                Ok(())
            })
            .await
    }

    pub(super) async fn do_usage(&self, day: i64) -> Result<Vec<UsageRecord>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let rows = link.query(OF_DAY, &[&day]).await?;
                let read = |row: &tokio_postgres::Row| {
                    Ok::<_, Failure>(UsageRecord {
                        owner: row.try_get("owner")?,
                        caller: row.try_get("caller")?,
                        cpu_ms: row.try_get("cpu_ms")?,
                        executions: row.try_get("executions")?,
                        execution_ms: row.try_get("execution_ms")?,
                        network_sent_bytes: row.try_get("network_sent_bytes")?,
                        network_received_bytes: row.try_get("network_received_bytes")?,
                        tool_calls: row.try_get("tool_calls")?,
                        model_input_tokens: row.try_get("model_input_tokens")?,
                        model_output_tokens: row.try_get("model_output_tokens")?,
                        model_spend_nanos: row.try_get("model_spend_nanos")?,
                        returned_chars: row.try_get("returned_chars")?,
                    })
                };
                rows.iter().map(read).collect()
            })
            .await
    }

    pub(super) async fn do_forget_usage(&self, day: i64) -> Result<usize, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let name: &str = &me.name;
                let count = link.execute(FORGET, &[&name, &me.epoch, &day]).await?;
                Ok(usize::try_from(count).unwrap_or(usize::MAX))
            })
            .await
    }
}
