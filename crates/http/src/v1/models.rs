//! JSON of the native API.

use std::collections::BTreeMap;
use std::time::Duration;

use himalia_engine::{
    Enforcement, ExecutionState, FilesMode, Hazard, Isolation, KernelId, LimitReport, Network, Origin,
    PoolStatus, SessionId, SessionInfo, SessionLimits, StartPath, Unanswered, Unresponsive, Usage,
};
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::Serialize;

/// A session: a kernel and its sandbox.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Session {
    /// Also the id of its first kernel: every route of a kernel accepts it.
    id: KernelId,
    /// The name that its owner gave it; while it lives, every route of a session accepts it in place of the id.
    name: Option<String>,
    /// The tenant that owns it, or `operator`.
    owner: String,
    kernelspec: String,
    template: String,
    state: ExecutionState,
    /// Counts kernel processes, from 1. If it changes, the variables are gone.
    incarnation: u32,
    /// The reason for its state: a cause of death such as `oom`, of its end such as `idle_culled`, or null.
    reason: Option<String>,
    /// Set if its process runs and does not respond; null if it responds, or is only busy.
    unresponsive: Option<NotAnswering>,
    origin: Origin,
    isolation: Isolation,
    limits: Limits,
    /// Maximum memory of the sandbox, including file systems in memory; null: no limit.
    memory_total_bytes: Option<u64>,
    provisioner: String,
    /// `none`, or the name of an open network.
    network: String,
    image: Option<String>,
    files: FilesMode,
    cwd: String,
    /// `pool`, `zygote`, `cold` or `fork`.
    started_by: StartPath,
    /// The reason why it was not taken from the pool of its template, or null.
    start_reason: Option<String>,
    start_ms: u64,
    parent: Option<SessionId>,
    connections: u32,
    #[schemars(extend("format" = "date-time"))]
    created: String,
    #[schemars(extend("format" = "date-time"))]
    last_activity: String,
    idle_timeout_s: Option<u64>,
    #[schemars(extend("format" = "date-time"))]
    expires: Option<String>,
    /// Time of its end; null while it lives.
    #[schemars(extend("format" = "date-time"))]
    ended: Option<String>,
    /// When its log is removed at the latest; null while it lives.
    #[schemars(extend("format" = "date-time"))]
    kept_until: Option<String>,
    labels: BTreeMap<String, String>,
}

impl From<SessionInfo> for Session {
    fn from(info: SessionInfo) -> Self {
        let SessionInfo { session, kernel, end } = info;
        let memory_total_bytes = session.memory_total();
        let (created, expires) = (session.created(), session.expires());
        let sandbox = session.sandbox;
        Self {
            id: kernel.id,
            name: session.name,
            owner: session.owner,
            kernelspec: session.kernelspec,
            template: session.template,
            state: kernel.execution_state,
            incarnation: kernel.incarnation,
            reason: kernel.reason.filter(|reason| !reason.is_empty()),
            unresponsive: kernel.unresponsive.map(NotAnswering::from),
            origin: session.origin,
            isolation: sandbox.isolation,
            memory_total_bytes,
            limits: Limits::new(&sandbox.limits, sandbox.enforcement, sandbox.isolation),
            provisioner: session.provisioner,
            network: match sandbox.network {
                Network::None => "none".to_owned(),
                Network::Open(name) => name,
            },
            image: sandbox.image,
            files: sandbox.files,
            cwd: session.cwd,
            started_by: session.start_path,
            start_reason: session.start_reason,
            start_ms: session.start_ms,
            parent: session.parent,
            connections: kernel.connections,
            created: timestamp(created),
            last_activity: timestamp(kernel.last_activity),
            idle_timeout_s: session.idle_timeout.as_ref().map(Duration::as_secs),
            expires: expires.map(timestamp),
            ended: end.map(|end| timestamp(end.at)),
            kept_until: end.map(|end| timestamp(end.kept_until)),
            labels: session.labels,
        }
    }
}

/// A kernel that does not respond.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Unresponsive")]
pub(crate) struct NotAnswering {
    #[schemars(extend("format" = "date-time"))]
    since: String,
    problem: Unanswered,
    /// The problem and the possible remedies.
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

/// The limits of a session, with the names that a request uses.
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

/// A limit and the mechanism that enforces it.
#[derive(Debug, Serialize, JsonSchema)]
struct Limit {
    /// Null: no limit.
    value: Option<u64>,
    enforcement: Enforcer,
}

/// The mechanism that enforces a limit.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Enforcer {
    /// The limit is not enforced.
    None,
    /// The gateway measures it at intervals, and ends what exceeds it.
    Watched,
    /// A resource limit of each process.
    Rlimit,
    /// The Linux kernel, for the whole sandbox.
    Cgroup,
    /// The size of a file system.
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

/// A new branch.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Branch {
    session: Session,
    /// The copy of its parent's files.
    copied_bytes: u64,
    /// What the branch may have lost.
    hazards: Vec<ShownHazard>,
    /// Duration of each step.
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
    /// Its name.
    name: String,
    /// One line for humans.
    detail: String,
    severity: Severity,
}

/// The effect of a hazard on a fork.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Severity {
    /// It prevents the fork under every policy.
    Refuse,
    /// It prevents the fork under `strict`, and is reported under `report`.
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

/// Current resource use of a session's sandbox.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SandboxUsage {
    /// Resident memory of all its processes; shared pages count in each process.
    memory_bytes: u64,
    /// Processor time of the living processes, in milliseconds.
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
    /// The current target: between `size` and `max`, depending on claims.
    target: u32,
    size: u32,
    max: u32,
    hits: u64,
    misses: u64,
    failures: u64,
    /// The reason why it is not full, or null.
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
    use himalia_engine::{KernelModel, SandboxConfig};
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
            session: himalia_engine::Session {
                owner: "operator".into(),
                origin: Origin::V1,
                name: Some("eda".into()),
                created_micros: 1,
                template: "small".into(),
                kernelspec: "python3".into(),
                provisioner: "local".into(),
                sandbox: SandboxConfig {
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
                    ..SandboxConfig::default()
                },
                cwd: "/session".into(),
                start_path: StartPath::Zygote,
                start_ms: 9,
                idle_timeout: Some(Duration::from_mins(1)),
                expires_micros: Some(1_767_323_045_000_000),
                ..himalia_engine::Session::default()
            },
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
