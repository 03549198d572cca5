//! JSON of the native API.

use std::collections::BTreeMap;
use std::time::Duration;

use himalia_engine::{
    Enforcement, ExecutionState, FilesMode, Hazard, Isolation, KernelId, LimitReport, Network, Origin,
    PoolStatus, SessionInfo, SessionLimits, StartPath, Unanswered, Unresponsive, Usage,
};
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::Serialize;

/// A session: a kernel and the sandbox around it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Session {
    /// The kernel's id too: every route of a kernel takes it.
    id: KernelId,
    /// Its owner's name for it; as long as it lives, every route of a session takes it in place of the id.
    name: Option<String>,
    /// The tenant that it belongs to, or `operator`.
    owner: String,
    kernelspec: String,
    template: String,
    state: ExecutionState,
    /// Counts kernel processes, from 1. Another number: the variables are gone.
    incarnation: u32,
    /// Why it is in this state: a cause of death such as `oom`, of its end such as `idle_culled`, or null.
    reason: Option<String>,
    /// Its process runs and does not answer; null for one that answers, or whose code is only busy.
    unresponsive: Option<NotAnswering>,
    origin: Origin,
    isolation: Isolation,
    limits: Limits,
    /// What the sandbox may use of memory in all, file systems in memory included; null: no limit.
    memory_total_bytes: Option<u64>,
    provisioner: String,
    /// `none`, or the name of an open network.
    network: String,
    image: Option<String>,
    files: FilesMode,
    cwd: String,
    /// `pool`, `zygote`, `cold` or `fork`.
    started_by: StartPath,
    /// Why it did not come from its template's pool, or null.
    start_reason: Option<String>,
    start_ms: u64,
    parent: Option<KernelId>,
    connections: u32,
    #[schemars(extend("format" = "date-time"))]
    created: String,
    #[schemars(extend("format" = "date-time"))]
    last_activity: String,
    idle_timeout_s: Option<u64>,
    #[schemars(extend("format" = "date-time"))]
    expires: Option<String>,
    /// When it ended; null while it lives.
    #[schemars(extend("format" = "date-time"))]
    ended: Option<String>,
    /// When its log is removed at the latest; null while it lives.
    #[schemars(extend("format" = "date-time"))]
    kept_until: Option<String>,
    labels: BTreeMap<String, String>,
}

impl From<SessionInfo> for Session {
    fn from(info: SessionInfo) -> Self {
        let memory_total_bytes = info.memory_total();
        let kernel = info.kernel;
        Self {
            id: kernel.id,
            name: info.name,
            owner: info.owner,
            kernelspec: kernel.name,
            template: info.template,
            state: kernel.execution_state,
            incarnation: kernel.incarnation,
            reason: kernel.reason.filter(|reason| !reason.is_empty()),
            unresponsive: kernel.unresponsive.map(NotAnswering::from),
            origin: info.origin,
            isolation: info.isolation,
            memory_total_bytes,
            limits: Limits::new(&info.limits, info.enforcement, info.isolation),
            provisioner: info.provisioner,
            network: match info.network {
                Network::None => "none".to_owned(),
                Network::Open(name) => name,
            },
            image: info.image,
            files: info.files,
            cwd: info.cwd,
            started_by: info.start_path,
            start_reason: info.start_reason,
            start_ms: info.start_ms,
            parent: info.parent,
            connections: kernel.connections,
            created: timestamp(info.created),
            last_activity: timestamp(kernel.last_activity),
            idle_timeout_s: info.idle_timeout.as_ref().map(Duration::as_secs),
            expires: info.expires.map(timestamp),
            ended: info.end.map(|end| timestamp(end.at)),
            kept_until: info.end.map(|end| timestamp(end.kept_until)),
            labels: info.labels,
        }
    }
}

/// That a kernel does not answer.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Unresponsive")]
pub(crate) struct NotAnswering {
    #[schemars(extend("format" = "date-time"))]
    since: String,
    problem: Unanswered,
    /// What is the matter and what can be done about it.
    advice: &'static str,
}

impl From<Unresponsive> for NotAnswering {
    fn from(found: Unresponsive) -> Self {
        Self {
            since: timestamp(found.since()),
            problem: found.problem,
            advice: found.problem.advice(),
        }
    }
}

/// The limits of a session by the names under which a caller asks for them.
#[derive(Debug, Serialize, JsonSchema)]
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
#[derive(Debug, Serialize, JsonSchema)]
struct Limit {
    /// Null: there is none.
    value: Option<u64>,
    enforcement: Enforcer,
}

/// Who enforces a limit.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Enforcer {
    /// Nobody.
    None,
    /// It is measured now and then, and what exceeds it is ended.
    Watched,
    /// A resource limit of each process.
    Rlimit,
    /// The kernel, for the sandbox as a whole.
    Cgroup,
    /// A file system that is full.
    Hard,
    /// The gateway.
    Gateway,
}

impl Limits {
    fn new(limits: &SessionLimits, report: LimitReport, isolation: Isolation) -> Self {
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

/// A branch that was made.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Branch {
    session: Session,
    /// Of its parent's files.
    copied_bytes: u64,
    /// What it may have lost.
    hazards: Vec<ShownHazard>,
    /// What took how long.
    ms: std::collections::BTreeMap<String, u64>,
}

impl From<himalia_engine::Branch> for Branch {
    fn from(branch: himalia_engine::Branch) -> Self {
        Self {
            session: branch.session.into(),
            copied_bytes: branch.copied_bytes,
            hazards: branch.hazards.into_iter().map(ShownHazard::from).collect(),
            ms: branch.ms,
        }
    }
}

/// Something in a session that a fork may break.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Hazard")]
pub(crate) struct ShownHazard {
    /// `native-thread`, `process-pool`, `cuda` …
    kind: String,
    /// Which one.
    name: String,
    /// For people, one line.
    detail: String,
    severity: Severity,
}

/// What a hazard does to a fork.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Severity {
    /// It refuses it under every policy.
    Refuse,
    /// It refuses it under `strict`, and is told under `report`.
    Warn,
}

impl From<Hazard> for ShownHazard {
    fn from(hazard: Hazard) -> Self {
        Self {
            kind: hazard.kind,
            name: hazard.name,
            detail: hazard.detail,
            severity: if hazard.refuses {
                Severity::Refuse
            } else {
                Severity::Warn
            },
        }
    }
}

/// What a session's sandbox uses now.
#[derive(Debug, Serialize, JsonSchema)]
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
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Pool {
    template: String,
    /// Kernels that can be claimed.
    ready: u32,
    /// Kernels that are being started.
    starting: u32,
    /// How many are wanted now: between `size` and `max`, as claims come.
    target: u32,
    size: u32,
    max: u32,
    hits: u64,
    misses: u64,
    failures: u64,
    /// Why it is not filled, or null.
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

#[cfg(test)]
mod tests {
    use super::*;
    use himalia_engine::KernelModel;
    use serde_json::{Value, json};
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
                unresponsive: None,
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
            end: None,
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
            ("/ended", Value::Null),
            ("/name", json!("eda")),
            ("/owner", json!("operator")),
        ] {
            assert_eq!(shown.pointer(pointer), Some(&wanted), "{pointer}");
        }
    }
}
