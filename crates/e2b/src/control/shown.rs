//! Sandboxes as the control plane shows them.

use std::collections::BTreeMap;
use std::thread::available_parallelism;

use himalia_engine::{Network, SessionInfo, Usage};
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::caller::Domain;

/// The version of the agent in the sandbox that clients read to see what it can do: metadata of files (0.6.2), entries in events (0.6.3),
/// watches on network file systems (0.6.4).
const ENVD_VERSION: &str = "0.6.4";
/// Bytes in a mebibyte.
const MIB: u64 = 1 << 20;
/// The end of a sandbox that has none: the field is not optional.
const NEVER: &str = "9999-12-31T23:59:59Z";

/// A sandbox to its client.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sandbox {
    #[serde(rename = "templateID")]
    template: String,
    #[serde(rename = "sandboxID")]
    id: String,
    #[serde(rename = "clientID")]
    client: String,
    envd_version: &'static str,
    /// Clients that do not send all to one address reach a sandbox below this domain; without it, in E2B's cloud.
    domain: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    envd_access_token: Option<String>,
    /// The same one: clients send it on the routes where they send no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    traffic_access_token: Option<String>,
}

impl Sandbox {
    pub(crate) fn new(info: &SessionInfo, token: Option<String>, domain: Domain) -> Self {
        Self {
            domain: domain.0,
            template: info.session.template.clone(),
            id: info.id().to_string(),
            client: info.session.owner.clone(),
            envd_version: ENVD_VERSION,
            envd_access_token: token.clone(),
            traffic_access_token: token,
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedSandbox {
    #[serde(rename = "templateID")]
    template_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    alias: Option<String>,
    #[serde(rename = "sandboxID")]
    sandbox_id: String,
    #[serde(rename = "clientID")]
    client_id: String,
    started_at: String,
    end_at: String,
    cpu_count: u64,
    #[serde(rename = "memoryMB")]
    memory_mb: u64,
    #[serde(rename = "diskSizeMB")]
    disk_size_mb: u64,
    state: &'static str,
    envd_version: &'static str,
    metadata: BTreeMap<String, String>,
}

impl From<&SessionInfo> for ListedSandbox {
    fn from(info: &SessionInfo) -> Self {
        let session = &info.session;
        let limits = &session.sandbox.limits;
        Self {
            template_id: session.template.clone(),
            alias: session.name.clone(),
            sandbox_id: info.id().to_string(),
            client_id: session.owner.clone(),
            started_at: text(session.created()),
            end_at: session.expires().map_or_else(|| NEVER.to_owned(), text),
            cpu_count: cpu_count(info),
            memory_mb: limits.memory_bytes.map_or(0, |bytes| bytes / MIB),
            disk_size_mb: limits.disk_bytes.map_or(0, |bytes| bytes / MIB),
            state: "running",
            envd_version: ENVD_VERSION,
            metadata: session.labels.clone(),
        }
    }
}

/// One sandbox with all that is known of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Detail {
    #[serde(flatten)]
    listed: ListedSandbox,
    #[serde(skip_serializing_if = "Option::is_none")]
    envd_access_token: Option<String>,
    domain: String,
    allow_internet_access: bool,
    lifecycle: Lifecycle,
}

/// Action at the end of a sandbox: it is killed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Lifecycle {
    auto_resume: bool,
    on_timeout: &'static str,
}

impl Detail {
    pub(crate) fn new(info: &SessionInfo, token: Option<String>, domain: Domain) -> Self {
        Self {
            domain: domain.0,
            listed: ListedSandbox::from(info),
            envd_access_token: token,
            allow_internet_access: info.session.sandbox.network != Network::None,
            lifecycle: Lifecycle {
                auto_resume: false,
                on_timeout: "kill",
            },
        }
    }
}

/// Usage of a sandbox.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metric {
    timestamp: String,
    timestamp_unix: i64,
    cpu_count: u64,
    /// On average since its start.
    cpu_used_pct: f64,
    mem_used: u64,
    mem_total: u64,
    mem_cache: u64,
    disk_used: u64,
    disk_total: u64,
}

impl Metric {
    pub(crate) fn new(info: &SessionInfo, usage: &Usage, now: OffsetDateTime) -> Self {
        let limits = &info.session.sandbox.limits;
        let count = cpu_count(info);
        let lived = (now - info.session.created()).whole_milliseconds();
        let lived = u64::try_from(lived).unwrap_or(0).max(1);
        // Hundredths of a percent, so that whole numbers do.
        let used = u128::from(usage.cpu_millis) * 10_000 / u128::from(lived) / u128::from(count.max(1));
        Self {
            timestamp: text(now),
            timestamp_unix: now.unix_timestamp(),
            cpu_count: count,
            cpu_used_pct: f64::from(u32::try_from(used).unwrap_or(u32::MAX)) / 100.0,
            mem_used: usage.rss_bytes,
            mem_total: limits.memory_bytes.unwrap_or(0),
            mem_cache: 0,
            disk_used: 0,
            disk_total: limits.disk_bytes.unwrap_or(0),
        }
    }
}

/// Processors that it may use, at least one; without a limit those of the host.
fn cpu_count(info: &SessionInfo) -> u64 {
    let limit = info.session.sandbox.limits.cpu_millis;
    limit.map_or_else(
        || available_parallelism().map_or(1, |count| count.get() as u64),
        |millis| u64::from(millis.div_ceil(1000)),
    )
}

pub(crate) fn text(at: OffsetDateTime) -> String {
    at.format(&Rfc3339).unwrap_or_else(|_| NEVER.to_owned())
}
