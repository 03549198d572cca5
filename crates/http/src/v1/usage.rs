//! `GET /v1/usage`: what a tenant and its callers use, beside what they may.

use axum::extract::State;
use himalia_engine::{CallerUsage, OwnerUsage, Spend, Used as Amounts, UsedSpend as Spends};
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::NoStoreJson;
use super::input::Parameters;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// The owner of the usage.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UsageOwnerQuery {
    /// A tenant of the configuration, for the operator. Default: the tenant of the token.
    tenant: Option<String>,
}

/// An amount that is used, and its limit.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Used")]
struct UsedAmount {
    used: u64,
    /// Null: no limit of its own.
    limit: Option<u64>,
}

impl From<Amounts> for UsedAmount {
    fn from(Amounts { used, limit }: Amounts) -> Self {
        Self { used, limit }
    }
}

/// An amount of money that is used, and its limit, in the currency unit of the configuration.
#[derive(Debug, Serialize, JsonSchema)]
struct UsedSpend {
    used: Spend,
    /// Null: no limit.
    limit: Option<Spend>,
}

impl From<Spends> for UsedSpend {
    fn from(Spends { used, limit }: Spends) -> Self {
        Self { used, limit }
    }
}

/// Bytes of logs, artifacts and rows.
#[derive(Debug, Serialize, JsonSchema)]
struct Disk {
    /// Logs and artifacts of living sessions.
    live: u64,
    /// Logs and artifacts of ended sessions.
    ended: u64,
    /// Rows in the database: skills, workflows, schedules, webhooks, inputs and outputs of their runs, credentials and access tokens.
    rows: u64,
    /// The limit for all together. Null: no limit.
    limit: Option<u64>,
}

/// The usage of one caller, now and today.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OfCaller")]
struct CallerUsageView {
    caller: String,
    executions: u64,
    execution_ms: u64,
    /// Characters that tools of MCP have returned to it today, of all replicas.
    returned_chars: u64,
    connections: u64,
    buffered_bytes: u64,
}

impl From<CallerUsage> for CallerUsageView {
    fn from(usage: CallerUsage) -> Self {
        Self {
            caller: usage.caller,
            executions: usage.executions,
            execution_ms: usage.execution_ms,
            returned_chars: usage.returned_chars,
            connections: usage.connections,
            buffered_bytes: usage.buffered_bytes,
        }
    }
}

/// The usage of a tenant, or of the operator.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Usage {
    /// The tenant, or `operator`.
    owner: String,
    /// End of the day (UTC) to which the daily counts belong.
    #[schemars(extend("format" = "date-time"))]
    resets: String,
    /// Kernels, of all replicas.
    kernels: UsedAmount,
    /// Processor time of sandboxes today, milliseconds, of all replicas.
    cpu_ms: UsedAmount,
    /// Bytes of sandboxes to and from the network today, of all replicas.
    network_bytes: UsedAmount,
    /// Bytes of these connections to hosts.
    network_sent_bytes: u64,
    /// Bytes of these connections from hosts.
    network_received_bytes: u64,
    /// Connections of sandboxes to the network now.
    network_connections: UsedAmount,
    /// Calls of tools by code and models today, of all replicas.
    tool_calls: UsedAmount,
    /// Tokens that models have read and written for code today, of all replicas.
    model_tokens: UsedAmount,
    /// Tokens that the models have read.
    model_input_tokens: u64,
    /// Tokens that the models have written.
    model_output_tokens: u64,
    /// The costs of the calls.
    model_spend: UsedSpend,
    /// Characters that tools of MCP have returned today, of all replicas.
    returned_chars: UsedAmount,
    /// Memory of sandboxes now.
    sandbox_memory_bytes: UsedAmount,
    disk_bytes: Disk,
    connections: UsedAmount,
    /// Clients of events and of kernels.
    streams: UsedAmount,
    /// Large responses in memory.
    buffered_bytes: UsedAmount,
    /// Null: no limit.
    requests_per_second: Option<u64>,
    /// Null: no limit.
    starts_per_second: Option<u64>,
    /// Native executions that have ended today, of all replicas.
    executions: u64,
    /// The duration of the executions.
    execution_ms: u64,
    /// All callers for the scope `admin` and the operator, otherwise the requesting caller.
    callers: Vec<CallerUsageView>,
}

impl From<OwnerUsage> for Usage {
    fn from(usage: OwnerUsage) -> Self {
        Self {
            owner: usage.owner,
            resets: timestamp(usage.resets),
            kernels: usage.kernels.into(),
            cpu_ms: usage.cpu_ms.into(),
            network_bytes: usage.network_bytes.into(),
            network_sent_bytes: usage.network_sent_bytes,
            network_received_bytes: usage.network_received_bytes,
            network_connections: usage.network_connections.into(),
            tool_calls: usage.tool_calls.into(),
            model_tokens: usage.model_tokens.into(),
            model_input_tokens: usage.model_input_tokens,
            model_output_tokens: usage.model_output_tokens,
            model_spend: usage.model_spend.into(),
            returned_chars: usage.returned_chars.into(),
            sandbox_memory_bytes: usage.sandbox_memory_bytes.into(),
            disk_bytes: Disk {
                live: usage.disk_live_bytes,
                ended: usage.disk_ended_bytes,
                rows: usage.disk_rows_bytes,
                limit: usage.disk_limit_bytes,
            },
            connections: usage.connections.into(),
            streams: usage.streams.into(),
            buffered_bytes: usage.buffered_bytes.into(),
            requests_per_second: usage.requests_per_second,
            starts_per_second: usage.starts_per_second,
            executions: usage.executions,
            execution_ms: usage.execution_ms,
            callers: usage.callers.into_iter().map(CallerUsageView::from).collect(),
        }
    }
}

/// `GET /v1/usage?tenant=`.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Parameters(UsageOwnerQuery { tenant }): Parameters<UsageOwnerQuery>,
) -> Result<NoStoreJson<Usage>, ApiError> {
    let usage = app.engine().usage(&principal, tenant.as_deref()).await?;
    Ok(NoStoreJson(usage.into()))
}
