//! A session as it is stored, and back: the one place where [`Session`] and rows of the store meet.

use himalia_executions::Provenance;
use himalia_model::{EngineError, KernelId, Session};
use himalia_store::{KernelLife, KernelRecord, PLACE, RuntimePaths};

/// The row of a kernel in a sandbox at this place.
pub(crate) fn record(
    id: KernelId,
    session: &Session,
    paths: &RuntimePaths,
    place: Option<&str>,
    (life, incarnation): (KernelLife, u32),
) -> KernelRecord {
    let mut stored = serde_json::to_value(session).unwrap_or_default();
    if let (Some(place), Some(members)) = (place, stored.as_object_mut()) {
        members.insert(PLACE.to_owned(), place.into());
    }
    KernelRecord {
        id: id.0,
        owner: session.owner.clone(),
        name: session.name.clone(),
        created_micros: i64::try_from(session.created_micros).unwrap_or(i64::MAX),
        session: stored,
        paths: paths.clone(),
        incarnation,
        life,
        dead_cause: None,
    }
}

/// The session of a row.
///
/// # Errors
/// [`EngineError::Internal`] for one that this version cannot read.
pub(crate) fn session_of(row: &KernelRecord) -> Result<Session, EngineError> {
    let session: Session = serde_json::from_value(row.session.clone())
        .map_err(|error| EngineError::internal("cannot read the row of a session", error))?;
    Ok(Session {
        start_ms: 0,
        ..session
    })
}

/// The place of the sandbox of a row.
pub(crate) fn place_of(row: &KernelRecord) -> Option<&str> {
    row.session.get(PLACE)?.as_str()
}

/// Provenance of an execution in a session.
pub fn provenance(session: &Session) -> Provenance {
    let sandbox = &session.sandbox;
    Provenance {
        kernelspec: session.kernelspec.clone(),
        template: session.template.clone(),
        isolation: sandbox.isolation,
        image: sandbox.image.clone(),
        image_digest: sandbox.image_digest.clone(),
        lock_hash: sandbox.lock_hash.clone(),
        packages_hash: None,
        limits: sandbox.limits.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use himalia_model::{Origin, Role, SandboxConfig, SessionId, SessionLimits, StartPath};
    use himalia_provisioner::{Isolation, Network};

    use super::*;

    fn session() -> Session {
        Session {
            owner: "operator".into(),
            origin: Origin::V1,
            name: Some("eda".into()),
            created_micros: 5,
            template: "analysis".into(),
            kernelspec: "python3".into(),
            provisioner: "docker".into(),
            sandbox: SandboxConfig {
                isolation: Isolation::Gvisor,
                limits: SessionLimits {
                    memory_bytes: Some(7),
                    ..SessionLimits::default()
                },
                network: Network::Open("net".into()),
                kept_files: Some("f".into()),
                ..SandboxConfig::default()
            },
            cwd: "/session".into(),
            start_path: StartPath::Pool,
            start_ms: 9,
            role: Role::Additional,
            parent: Some(SessionId::random()),
            idle_timeout: Some(Duration::from_millis(3500)),
            expires_micros: Some(11),
            labels: [("a".to_owned(), "b".to_owned())].into(),
            ..Session::default()
        }
    }

    fn row() -> KernelRecord {
        let paths = RuntimePaths {
            session_dir: "kernels/a".into(),
            sandbox_id: "s".into(),
            sandbox_key_hash: [1; 32],
            socket: "k2.sock".into(),
        };
        record(
            KernelId::random(),
            &session(),
            &paths,
            Some("here"),
            (KernelLife::Live, 1),
        )
    }

    #[test]
    fn a_session_comes_back_from_its_row() {
        let mut row = row();
        let expected = |session: Session| Session {
            start_ms: 0,
            parent: serde_json::from_value(row.session["parent"].clone()).unwrap(),
            ..session
        };
        let expected = expected(session());
        assert_eq!(session_of(&row).unwrap(), expected);
        assert_eq!(
            (row.session["role"].as_str(), place_of(&row)),
            (Some("kernel"), Some("here"))
        );
        // A later version may know more.
        row.session["unheard_of"] = 1.into();
        assert_eq!(session_of(&row).unwrap(), expected);
    }

    #[test]
    fn a_row_with_an_unknown_role_is_refused() {
        let mut row = row();
        row.session["role"] = "guest".into();
        assert!(session_of(&row).is_err());
    }
}
