//! JSON of the native API.

use std::collections::BTreeMap;
use std::time::Duration;

use himalia_engine::{
    Branch, Enforcement, FilesMode, Hazard, Isolation, KernelId, LimitReport, Network, Origin, PoolStatus,
    SessionInfo, SessionLimits, Usage,
};
use himalia_wire::build::timestamp;
use serde::Serialize;
use serde_json::{Value, json};

/// A session: a kernel and the sandbox around it.
#[derive(Debug, Serialize)]
pub(crate) struct Session {
    /// The kernel's id too: every route of a kernel takes it.
    id: KernelId,
    /// Its owner's name for it; every route of a session takes it in place of the id.
    name: Option<String>,
    /// The principal that it belongs to.
    owner: String,
    kernelspec: String,
    template: String,
    state: &'static str,
    /// Counts kernel processes, from 1. Another number: the variables are gone.
    incarnation: u32,
    /// Why it is in this state: a cause of death such as `oom`, or null.
    reason: Option<String>,
    origin: Origin,
    isolation: Isolation,
    limits: Limits,
    provisioner: String,
    network: Value,
    image: Option<String>,
    files: FilesMode,
    cwd: String,
    /// `pool`, `zygote`, `cold` or `fork`.
    started_by: &'static str,
    /// Why it did not come from its template's pool, or null.
    start_reason: Option<String>,
    start_ms: u64,
    parent: Option<KernelId>,
    connections: u32,
    created: String,
    last_activity: String,
    idle_timeout_s: Option<u64>,
    expires: Option<String>,
    labels: BTreeMap<String, String>,
}

impl From<SessionInfo> for Session {
    fn from(info: SessionInfo) -> Self {
        let kernel = info.kernel;
        Self {
            id: kernel.id,
            name: info.name,
            owner: info.owner,
            kernelspec: kernel.name,
            template: info.template,
            state: kernel.execution_state.as_str(),
            incarnation: kernel.incarnation,
            reason: kernel.reason.filter(|reason| !reason.is_empty()),
            origin: info.origin,
            isolation: info.isolation,
            limits: Limits::new(&info.limits, info.enforcement, info.isolation),
            provisioner: info.provisioner,
            network: match info.network {
                Network::None => json!("none"),
                Network::Open(name) => json!(name),
            },
            image: info.image,
            files: info.files,
            cwd: info.cwd,
            started_by: info.start_path.as_str(),
            start_reason: info.start_reason,
            start_ms: info.start_ms,
            parent: info.parent,
            connections: kernel.connections,
            created: timestamp(info.created),
            last_activity: timestamp(kernel.last_activity),
            idle_timeout_s: info.idle_timeout.as_ref().map(Duration::as_secs),
            expires: info.expires.map(timestamp),
            labels: info.labels,
        }
    }
}

/// The limits of a session by the names under which a caller asks for them.
#[derive(Debug, Serialize)]
struct Limits {
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

/// A limit and who enforces it.
#[derive(Debug, Serialize)]
struct Limit {
    /// Null: there is none.
    value: Option<u64>,
    /// `none`, `watched`, `rlimit`, `cgroup`, `hard`; `gateway` for what the gateway itself sees to.
    enforcement: &'static str,
}

impl Limits {
    fn new(limits: &SessionLimits, report: LimitReport, isolation: Isolation) -> Self {
        let limit = |value: Option<u64>, enforcement| Limit { value, enforcement };
        let reported = |value, enforcement| limit(value, word(enforcement));
        // File systems in memory exist in every sandbox with a root of its own.
        let sized = if isolation == Isolation::None {
            "none"
        } else {
            "hard"
        };
        Self {
            memory_bytes: reported(limits.memory_bytes, report.memory),
            pids: reported(limits.pids.map(u64::from), report.pids),
            cpu_millis: reported(limits.cpu_millis.map(u64::from), report.cpu),
            disk_bytes: reported(limits.disk_bytes, report.disk),
            tmp_bytes: limit(limits.tmp_bytes, sized),
            shm_bytes: limit(limits.shm_bytes, sized),
            open_files: limit(limits.open_files, "rlimit"),
            output_bytes: limit(limits.output_bytes, "gateway"),
            execution_ms: limit(limits.execution_ms, "gateway"),
        }
    }
}

fn word(enforcement: Enforcement) -> &'static str {
    match enforcement {
        Enforcement::None => "none",
        Enforcement::Watched => "watched",
        Enforcement::Rlimit => "rlimit",
        Enforcement::Cgroup => "cgroup",
        Enforcement::Hard => "hard",
    }
}

/// A branch that was made.
pub(super) fn branch(branch: Branch) -> Value {
    json!({
        "session": Session::from(branch.session),
        "copied_bytes": branch.copied_bytes,
        "hazards": branch.hazards.iter().map(hazard).collect::<Vec<_>>(),
        "ms": branch.ms,
    })
}

/// Something in a session that a fork may break.
pub(crate) fn hazard(hazard: &Hazard) -> Value {
    json!({
        "kind": hazard.kind,
        "name": hazard.name,
        "detail": hazard.detail,
        "severity": if hazard.refuses { "refuse" } else { "warn" },
    })
}

/// What a session's sandbox uses now.
#[derive(Debug, Serialize)]
pub(crate) struct SandboxUsage {
    /// Resident memory of all its processes; shared pages count in each.
    memory_bytes: u64,
    /// Processor time of the processes that live, milliseconds.
    cpu_ms: u64,
    processes: u32,
}

impl From<Usage> for SandboxUsage {
    fn from(usage: Usage) -> Self {
        Self {
            memory_bytes: usage.rss_bytes,
            cpu_ms: usage.cpu_millis,
            processes: usage.processes,
        }
    }
}

/// A pool.
pub(super) fn pool(pool: &PoolStatus) -> Value {
    json!({
        "template": pool.template,
        "ready": pool.ready,
        "starting": pool.starting,
        "target": pool.target,
        "size": pool.size,
        "max": pool.max,
        "hits": pool.hits,
        "misses": pool.misses,
        "failures": pool.failures,
        "problem": pool.problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use himalia_engine::{ExecutionState, KernelModel, StartPath};
    use time::macros::datetime;

    #[test]
    fn a_session_shows_each_limit_with_who_enforces_it() {
        let created = datetime!(2026-01-02 03:04:05 UTC);
        let session = Session::from(SessionInfo {
            kernel: KernelModel {
                id: "11111111-2222-3333-4444-555555555555".parse().unwrap(),
                name: "python3".into(),
                last_activity: created,
                execution_state: ExecutionState::Dead,
                connections: 0,
                reason: Some("oom".into()),
                incarnation: 2,
            },
            owner: "operator".into(),
            origin: Origin::V1,
            created,
            template: "small".into(),
            provisioner: "local".into(),
            isolation: Isolation::Namespaces,
            limits: SessionLimits {
                memory_bytes: Some(5),
                tmp_bytes: Some(6),
                ..SessionLimits::default()
            },
            enforcement: LimitReport {
                memory: Enforcement::Watched,
                pids: Enforcement::Cgroup,
                ..LimitReport::default()
            },
            network: Network::Open("lab".into()),
            image: None,
            files: FilesMode::Ephemeral,
            cwd: "/session".into(),
            start_path: StartPath::Zygote,
            start_reason: None,
            start_ms: 9,
            parent: None,
            idle_timeout: Some(Duration::from_mins(1)),
            expires: Some(created),
            labels: BTreeMap::new(),
            name: Some("eda".into()),
        });
        let shown = serde_json::to_value(session).unwrap();
        for (pointer, wanted) in [
            ("/state", json!("dead")),
            ("/reason", json!("oom")),
            ("/incarnation", json!(2)),
            ("/origin", json!("v1")),
            ("/isolation", json!("namespaces")),
            (
                "/limits/memory_bytes",
                json!({"value": 5, "enforcement": "watched"}),
            ),
            ("/limits/pids", json!({"value": null, "enforcement": "cgroup"})),
            ("/limits/tmp_bytes", json!({"value": 6, "enforcement": "hard"})),
            ("/network", json!("lab")),
            ("/files", json!("ephemeral")),
            ("/started_by", json!("zygote")),
            ("/idle_timeout_s", json!(60)),
            ("/expires", json!("2026-01-02T03:04:05.000000Z")),
            ("/parent", Value::Null),
            ("/name", json!("eda")),
            ("/owner", json!("operator")),
        ] {
            assert_eq!(shown.pointer(pointer), Some(&wanted), "{pointer}");
        }
    }
}
