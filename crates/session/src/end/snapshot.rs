//! Record of a session after its end, and its way back.

use std::sync::atomic::Ordering;
use std::time::Duration;

use himalia_model::{
    ExecutionState, GivenVariables, KernelId, KernelModel, Origin, Session, SessionEnd, SessionInfo,
    from_micros,
};
use himalia_store::EndedRecord;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SessionKernel;

/// A session as of its end. Stored as JSON until its log is removed; one without a log has the defaults. Unknown members of later versions
/// are ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndedSessionSnapshot {
    #[serde(flatten)]
    pub session: Session,
    /// Incarnation of the last process of its first kernel.
    pub incarnation: u32,
    last_activity_micros: u64,
}

impl EndedSessionSnapshot {
    /// Creates the record of a session that ends.
    pub(crate) fn of(handle: &SessionKernel) -> Self {
        let mut session = Session::clone(&handle.session());
        // Nothing is started for it any more.
        session.sandbox.given = GivenVariables::default();
        Self {
            session,
            incarnation: handle.snapshot.borrow().incarnation,
            last_activity_micros: handle.last_activity.load(Ordering::Relaxed),
        }
    }

    /// As it is stored.
    pub(crate) fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// As it was stored. Its owner, its name and the time of its start are in columns of their own.
    pub fn of_record(row: &EndedRecord) -> Self {
        let snapshot: Self = serde_json::from_value(row.facts.clone()).unwrap_or_default();
        Self {
            session: Session {
                owner: row.owner.clone(),
                origin: Origin::V1,
                name: row.name.clone(),
                created_micros: u64::try_from(row.created_micros).unwrap_or(0),
                ..snapshot.session
            },
            ..snapshot
        }
    }
}

/// A session that has ended, as commands show it. Its log is kept for `kept` after its end, at most.
pub fn ended_info(row: &EndedRecord, kept: Duration) -> SessionInfo {
    let EndedSessionSnapshot {
        session,
        incarnation,
        last_activity_micros,
    } = EndedSessionSnapshot::of_record(row);
    let kernel = KernelModel {
        id: KernelId(row.id),
        name: session.kernelspec.clone(),
        last_activity: from_micros(last_activity_micros.max(session.created_micros)),
        execution_state: ExecutionState::Ended,
        connections: 0,
        reason: (!row.cause.is_empty()).then(|| row.cause.clone()),
        unresponsive: None,
        incarnation,
    };
    let ended = from_micros(u64::try_from(row.ended_micros).unwrap_or(0));
    let kept_until = ended.checked_add(kept.try_into().unwrap_or(time::Duration::MAX));
    let end = SessionEnd {
        at: ended,
        kept_until: kept_until.unwrap_or(ended),
    };
    SessionInfo {
        session,
        kernel,
        end: Some(end),
    }
}

#[cfg(test)]
mod tests {
    use himalia_model::{SandboxConfig, SessionId, StartPath};

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
        let snapshot = EndedSessionSnapshot {
            session: Session {
                kernelspec: "python3".into(),
                template: "small".into(),
                sandbox: SandboxConfig {
                    image: Some("lab".into()),
                    ..SandboxConfig::default()
                },
                start_path: StartPath::Fork,
                parent: Some(SessionId::random()),
                idle_timeout: Some(Duration::from_millis(1500)),
                labels: [("a".to_owned(), "b".to_owned())].into(),
                ..Session::default()
            },
            incarnation: 3,
            last_activity_micros: 4_000_000,
        };
        let info = ended_info(&row(snapshot.to_json()), Duration::from_mins(1));
        assert_eq!(info.kernel.execution_state, ExecutionState::Ended);
        assert_eq!(info.kernel.reason.as_deref(), Some("idle_culled"));
        assert_eq!(
            (info.kernel.incarnation, info.kernel.name.as_str()),
            (3, "python3")
        );
        assert_eq!(info.kernel.last_activity, from_micros(4_000_000));
        let (shown, was) = (&info.session, &snapshot.session);
        assert_eq!(
            (shown.template.as_str(), shown.sandbox.image.as_deref()),
            ("small", Some("lab"))
        );
        assert_eq!((shown.start_path, shown.parent), (StartPath::Fork, was.parent));
        assert_eq!(
            (shown.idle_timeout, &shown.labels),
            (was.idle_timeout, &was.labels)
        );
        assert_eq!(shown.name.as_deref(), Some("eda"));
        let end = info.end.unwrap();
        assert_eq!(
            (end.at, end.kept_until),
            (from_micros(5_000_000), from_micros(65_000_000))
        );
    }

    #[test]
    fn one_without_a_log_is_shown_all_the_same() {
        let info = ended_info(&row(serde_json::json!({})), Duration::MAX);
        assert_eq!(info.kernel.last_activity, from_micros(1_000_000));
        let session = &info.session;
        assert_eq!(
            (session.owner.as_str(), session.template.as_str()),
            ("operator", "")
        );
        assert_eq!(info.end.map(|end| end.at), Some(from_micros(5_000_000)));
    }
}
