//! JSON of sessions.

use std::collections::BTreeMap;
use std::time::Duration;

use himalia_engine::{
    AllowList, ExecutionId, ExecutionState, FilesMode, Isolation, KernelId, Network, Origin, SessionId,
    SessionInfo, StartPath, TreePlace,
};
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::models::{Limits, UnresponsiveKernel};

/// The place of a session that code of another session has started.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionTree")]
struct Tree {
    /// The session at the top, which a client has started.
    root: SessionId,
    /// The execution there whose code, through sessions between, has started this one; null: there was none.
    #[schemars(with = "Option<String>")]
    root_execution: Option<ExecutionId>,
    /// The session whose code has started this one.
    parent: SessionId,
    /// Number of sessions above it, at least 1.
    depth: u32,
}

impl From<TreePlace> for Tree {
    fn from(place: TreePlace) -> Self {
        Self {
            root: place.root,
            root_execution: place.root_execution.map(|seq| ExecutionId {
                kernel: place.root.first_kernel(),
                seq,
            }),
            parent: place.parent,
            depth: place.depth,
        }
    }
}

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
    unresponsive: Option<UnresponsiveKernel>,
    origin: Origin,
    isolation: Isolation,
    limits: Limits,
    /// Maximum memory of the sandbox, including file systems in memory; null: no limit.
    memory_total_bytes: Option<u64>,
    provisioner: String,
    /// `none`, `allow`, or the name of an open network.
    network: String,
    /// With `allow`: the hosts that it may reach.
    allow: AllowList,
    /// Names of the credentials that it may use.
    credentials: Vec<String>,
    /// Tools that it may use: servers, and patterns of their tools.
    tools: Vec<String>,
    image: Option<String>,
    files: FilesMode,
    cwd: String,
    /// `pool`, `zygote`, `cold` or `fork`.
    started_by: StartPath,
    /// The reason why it was not taken from the pool of its template, or null.
    start_reason: Option<String>,
    start_ms: u64,
    parent: Option<SessionId>,
    /// The place in a tree, if code of another session has started it, or null.
    tree: Option<Tree>,
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
            unresponsive: kernel.unresponsive.map(UnresponsiveKernel::from),
            origin: session.origin,
            isolation: sandbox.isolation,
            memory_total_bytes,
            limits: Limits::new(&sandbox.limits, sandbox.enforcement, sandbox.isolation),
            provisioner: session.provisioner,
            network: match sandbox.network {
                Network::None => "none".to_owned(),
                Network::Allow => "allow".to_owned(),
                Network::Open(name) => name,
            },
            allow: sandbox.allow,
            credentials: sandbox.credentials,
            tools: sandbox.tools.tools.into_iter().map(String::from).collect(),
            image: sandbox.image,
            files: sandbox.files,
            cwd: session.cwd,
            started_by: session.start_path,
            start_reason: session.start_reason,
            start_ms: session.start_ms,
            parent: session.parent,
            tree: session.tree.map(Tree::from),
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

#[cfg(test)]
mod tests {
    use super::*;
    use himalia_engine::{Enforcement, KernelModel, LimitReport, SandboxConfig, SessionLimits};
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
                tree: Some(TreePlace {
                    root: "11111111-2222-3333-4444-666666666666".parse().unwrap(),
                    root_execution: Some(7),
                    parent: "11111111-2222-3333-4444-777777777777".parse().unwrap(),
                    depth: 2,
                }),
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
            ("/tree/depth", json!(2)),
            ("/tree/root", json!("11111111-2222-3333-4444-666666666666")),
            (
                "/tree/root_execution",
                json!("exe_11111111222233334444666666666666_7"),
            ),
            ("/ended", Value::Null),
            ("/name", json!("eda")),
            ("/owner", json!("operator")),
        ] {
            assert_eq!(shown.pointer(pointer), Some(&wanted), "{pointer}");
        }
    }
}
