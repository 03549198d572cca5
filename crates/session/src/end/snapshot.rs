//! What a session that is over is shown with: the facts that are written down at its end, and their way back.

use std::collections::BTreeMap;
use std::time::Duration;

use himalia_model::{
    ExecutionState, KernelId, KernelModel, Origin, SessionEnd, SessionInfo, StartPath, from_micros,
};
use himalia_store::EndedRecord;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Facts, Given, Role, SandboxConfig, SessionKernel};

/// Facts of a session as of its end. Stored as JSON; unknown fields of later versions are ignored, and one that ended under
/// a version that wrote none has the defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Left {
    /// The kernelspec.
    pub kernelspec: String,
    /// Of its last process.
    pub incarnation: u32,
    last_activity_micros: u64,
    /// The template.
    pub template: String,
    provisioner: String,
    /// What was around it.
    pub around: SandboxConfig,
    cwd: String,
    start_path: StartPath,
    start_reason: Option<String>,
    start_ms: u64,
    /// What it was to its session.
    pub role: Role,
    parent: Option<KernelId>,
    idle_timeout: Option<Duration>,
    expires_micros: Option<u64>,
    labels: BTreeMap<String, String>,
}

impl Left {
    /// Of a session that ends.
    pub(crate) fn of(handle: &SessionKernel) -> Self {
        let facts = handle.facts();
        let last = &handle.last_activity;
        Self {
            kernelspec: facts.name.clone(),
            incarnation: handle.snapshot.borrow().incarnation,
            last_activity_micros: last.load(std::sync::atomic::Ordering::Relaxed),
            template: facts.template.clone(),
            provisioner: facts.provisioner.clone(),
            // Nothing is started for it any more.
            around: SandboxConfig {
                given: Given::default(),
                ..facts.around.clone()
            },
            cwd: facts.cwd.clone(),
            start_path: facts.start_path,
            start_reason: facts.start_reason.clone(),
            start_ms: facts.start_ms,
            role: facts.role,
            parent: facts.parent,
            idle_timeout: facts.idle_timeout,
            expires_micros: facts.expires_micros,
            labels: facts.labels.clone(),
        }
    }

    /// As it is stored.
    pub(crate) fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// As it was stored.
    pub fn of_record(row: &EndedRecord) -> Self {
        serde_json::from_value(row.facts.clone()).unwrap_or_default()
    }
}

/// A session that is over, as commands show it. Its log is kept for `kept` after its end, at most.
pub fn ended_info(row: &EndedRecord, kept: Duration) -> SessionInfo {
    let left = Left::of_record(row);
    let micros = |at: i64| u64::try_from(at).unwrap_or(0);
    let kernel = KernelModel {
        id: KernelId(row.id),
        name: left.kernelspec.clone(),
        last_activity: from_micros(left.last_activity_micros.max(micros(row.created_micros))),
        execution_state: ExecutionState::Ended,
        connections: 0,
        reason: (!row.cause.is_empty()).then(|| row.cause.clone()),
        unresponsive: None,
        incarnation: left.incarnation,
    };
    let facts = Facts {
        id: kernel.id,
        owner: row.owner.clone(),
        name: left.kernelspec,
        created_micros: micros(row.created_micros),
        cull_timeout: None,
        origin: Origin::V1,
        template: left.template,
        provisioner: left.provisioner,
        around: left.around,
        cwd: left.cwd,
        start_path: left.start_path,
        start_reason: left.start_reason,
        start_ms: left.start_ms,
        role: left.role,
        parent: left.parent,
        idle_timeout: left.idle_timeout,
        expires_micros: left.expires_micros,
        labels: left.labels,
        session_name: row.name.clone(),
    };
    let ended = from_micros(micros(row.ended_micros));
    let kept_until = ended.checked_add(kept.try_into().unwrap_or(time::Duration::MAX));
    SessionInfo {
        end: Some(SessionEnd {
            at: ended,
            kept_until: kept_until.unwrap_or(ended),
        }),
        ..facts.info(kernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(facts: Value) -> EndedRecord {
        EndedRecord {
            id: uuid::Uuid::from_u128(1),
            owner: "operator".into(),
            name: Some("eda".into()),
            session_dir: "kernels/1".into(),
            created_micros: 1_000_000,
            ended_micros: 5_000_000,
            cause: "idle_culled".into(),
            removed_micros: None,
            facts,
        }
    }

    #[test]
    fn a_session_is_shown_as_it_was() {
        let left = Left {
            kernelspec: "python3".into(),
            incarnation: 3,
            last_activity_micros: 4_000_000,
            template: "small".into(),
            around: SandboxConfig {
                image: Some("lab".into()),
                ..SandboxConfig::default()
            },
            start_path: StartPath::Fork,
            parent: Some(KernelId::random()),
            idle_timeout: Some(Duration::from_millis(1500)),
            labels: [("a".to_owned(), "b".to_owned())].into(),
            ..Left::default()
        };
        let info = ended_info(&row(left.to_json()), Duration::from_mins(1));
        assert_eq!(info.kernel.execution_state, ExecutionState::Ended);
        assert_eq!(info.kernel.reason.as_deref(), Some("idle_culled"));
        assert_eq!(
            (info.kernel.incarnation, info.kernel.name.as_str()),
            (3, "python3")
        );
        assert_eq!(info.kernel.last_activity, from_micros(4_000_000));
        assert_eq!(
            (info.template.as_str(), info.image.as_deref()),
            ("small", Some("lab"))
        );
        assert_eq!((info.start_path, info.parent), (StartPath::Fork, left.parent));
        assert_eq!(
            (info.idle_timeout, &info.labels),
            (left.idle_timeout, &left.labels)
        );
        assert_eq!(info.name.as_deref(), Some("eda"));
        let end = info.end.unwrap();
        assert_eq!(
            (end.at, end.kept_until),
            (from_micros(5_000_000), from_micros(65_000_000))
        );
    }

    #[test]
    fn one_of_an_earlier_version_is_shown_all_the_same() {
        let info = ended_info(&row(serde_json::json!({})), Duration::MAX);
        assert_eq!(info.kernel.last_activity, from_micros(1_000_000));
        assert_eq!((info.owner.as_str(), info.template.as_str()), ("operator", ""));
        assert_eq!(info.end.map(|end| end.at), Some(from_micros(5_000_000)));
    }
}
