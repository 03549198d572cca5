use std::collections::BTreeMap;
use std::sync::Arc;

use himalia_model::ExecutionState;
use parking_lot::Mutex;
use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::sync::Notify;

use himalia_store::{Scope, SqliteStore};

use super::input::MAX_CHARS;
use super::*;

/// Kernels that are only written down.
#[derive(Clone, Default)]
struct Fake {
    kernels: Arc<Mutex<BTreeMap<KernelId, KernelModel>>>,
    starts: Arc<Mutex<Vec<StartSession>>>,
    /// Starts wait for this, if it is there.
    hold: Arc<Mutex<Option<Arc<Notify>>>>,
}

impl Fake {
    fn count(&self) -> usize {
        self.kernels.lock().len()
    }

    fn remove(&self, id: KernelId) {
        self.kernels.lock().remove(&id).unwrap();
    }
}

impl Kernels for Fake {
    fn kernel(&self, _: &Principal, id: KernelId) -> Result<KernelModel, EngineError> {
        self.kernels
            .lock()
            .get(&id)
            .cloned()
            .ok_or_else(|| EngineError::no_kernel(id))
    }

    async fn start(&self, _: &Principal, start: StartSession) -> Result<KernelModel, EngineError> {
        self.starts.lock().push(start.clone());
        let hold = self.hold.lock().clone();
        if let Some(hold) = hold {
            hold.notified().await;
        }
        let name = start.name.unwrap_or_else(|| "python3".into());
        if name == "missing" {
            return Err(EngineError::NoSuchKernelspec { name });
        }
        let model = KernelModel {
            id: start.id.unwrap_or_else(KernelId::random),
            name,
            last_activity: OffsetDateTime::UNIX_EPOCH,
            execution_state: ExecutionState::Starting,
            connections: 0,
            unresponsive: None,
            reason: None,
            incarnation: 1,
        };
        self.kernels.lock().insert(model.id, model.clone());
        Ok(model)
    }

    async fn shutdown(&self, _: &Principal, id: KernelId) -> Result<(), EngineError> {
        self.kernels
            .lock()
            .remove(&id)
            .map(drop)
            .ok_or_else(|| EngineError::no_kernel(id))
    }
}

struct World {
    dir: TempDir,
    kernels: Fake,
    sessions: JupyterSessions,
    me: Principal,
}

impl World {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let sessions = JupyterSessions::new(Arc::new(
            SqliteStore::open(&dir.path().join("db"), "main").unwrap(),
        ));
        Self {
            dir,
            kernels: Fake::default(),
            sessions,
            me: Principal::operator(),
        }
    }

    async fn create(&self, path: &str, kernel: KernelRef) -> Result<SessionModel, EngineError> {
        let (path, kind) = (path.to_owned(), "notebook".to_owned());
        let new = NewSession {
            path,
            kind,
            kernel,
            ..NewSession::default()
        };
        self.sessions.create(&self.kernels, &self.me, new).await
    }

    async fn patch(&self, id: JupyterSessionId, patch: SessionPatch) -> Result<SessionModel, EngineError> {
        self.sessions.patch(&self.kernels, &self.me, id, patch).await
    }

    async fn delete(&self, id: JupyterSessionId) -> Result<(), EngineError> {
        self.sessions.delete(&self.kernels, &self.me, id).await
    }

    async fn list(&self) -> Vec<SessionModel> {
        self.sessions.list(&self.kernels, &self.me).await.unwrap()
    }
}

fn by_id(id: KernelId) -> KernelRef {
    KernelRef {
        id: Some(id),
        name: Some("ignored".into()),
    }
}

fn by_name(name: &str) -> KernelRef {
    KernelRef {
        id: None,
        name: Some(name.into()),
    }
}

fn kernel(kernel: KernelRef) -> SessionPatch {
    SessionPatch {
        kernel: Some(kernel),
        ..SessionPatch::default()
    }
}

#[tokio::test]
async fn the_same_path_is_the_same_session() {
    let world = World::new();
    let first = world.create("a.ipynb", by_name("python3")).await.unwrap();
    let second = world.create("a.ipynb", by_name("other")).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(world.kernels.count(), 1);
    let other = world.create("b.ipynb", KernelRef::default()).await.unwrap();
    assert_ne!(other.id, first.id);
    assert_eq!(world.list().await, [first.clone(), other]);
    assert_eq!(
        world
            .sessions
            .get(&world.kernels, &world.me, first.id)
            .await
            .unwrap(),
        first
    );
    assert_eq!(world.kernels.starts.lock()[0].env["JPY_SESSION_NAME"], "a.ipynb");
}

#[tokio::test]
async fn two_at_once_on_one_path_start_one_kernel() {
    let world = World::new();
    let hold = Arc::new(Notify::new());
    *world.kernels.hold.lock() = Some(Arc::clone(&hold));
    let release = async {
        while world.kernels.starts.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        hold.notify_one();
    };
    let (first, second, ()) = tokio::join!(
        world.create("a", KernelRef::default()),
        world.create("a", KernelRef::default()),
        release
    );
    assert_eq!(first.unwrap(), second.unwrap());
    assert_eq!(world.kernels.starts.lock().len(), 1);
}

#[tokio::test]
async fn a_caller_that_leaves_does_not_leave_a_kernel_without_a_session() {
    let world = World::new();
    let hold = Arc::new(Notify::new());
    *world.kernels.hold.lock() = Some(Arc::clone(&hold));
    let caller = tokio::spawn({
        let (sessions, kernels) = (world.sessions.clone(), world.kernels.clone());
        let new = NewSession {
            path: "a".into(),
            kind: "file".into(),
            ..NewSession::default()
        };
        async move { sessions.create(&kernels, &Principal::operator(), new).await }
    });
    while world.kernels.starts.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    hold.notify_one();
    while world.list().await.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.list().await.len(), world.kernels.count());
}

#[tokio::test]
async fn a_kernel_can_be_named_by_id() {
    let world = World::new();
    let first = world.create("a", KernelRef::default()).await.unwrap();
    let attached = world.create("b", by_id(first.kernel.id)).await.unwrap();
    assert_eq!(attached.kernel.id, first.kernel.id);
    assert_eq!(world.kernels.count(), 1);
    let chosen = KernelId::random();
    let started = world.create("c", by_id(chosen)).await.unwrap();
    assert_eq!(started.kernel.id, chosen);
}

#[tokio::test]
async fn bad_input_names_its_field() {
    let world = World::new();
    let long = "x".repeat(MAX_CHARS + 1);
    for path in ["", "a\0b", &long] {
        let error = world.create(path, KernelRef::default()).await.unwrap_err();
        assert!(
            matches!(error, EngineError::BadRequest { field: "path", .. }),
            "{error}"
        );
    }
    let new = NewSession {
        path: "a".into(),
        ..NewSession::default()
    };
    let error = world
        .sessions
        .create(&world.kernels, &world.me, new)
        .await
        .unwrap_err();
    assert!(
        matches!(error, EngineError::BadRequest { field: "type", .. }),
        "{error}"
    );
    let error = world.create("a", by_name("missing")).await.unwrap_err();
    assert!(matches!(error, EngineError::NoSuchKernelspec { .. }), "{error}");
    assert!(world.list().await.is_empty());
    let missing = world
        .patch(JupyterSessionId::random(), SessionPatch::default())
        .await;
    assert!(matches!(
        missing,
        Err(EngineError::NotFound { what: "Session", .. })
    ));
}

#[tokio::test]
async fn names_change_and_the_kernel_stays() {
    let world = World::new();
    let session = world.create("a", KernelRef::default()).await.unwrap();
    let patch = SessionPatch {
        path: Some("dir/b".into()),
        name: Some("B".into()),
        kind: Some("console".into()),
        kernel: Some(KernelRef::default()),
    };
    let changed = world.patch(session.id, patch).await.unwrap();
    assert_eq!(
        (
            changed.path.as_str(),
            changed.name.as_str(),
            changed.kind.as_str()
        ),
        ("dir/b", "B", "console")
    );
    assert_eq!(changed.kernel, session.kernel);
    assert_eq!(world.list().await, [changed]);
    let error = world
        .patch(
            session.id,
            SessionPatch {
                path: Some(String::new()),
                ..Default::default()
            },
        )
        .await;
    assert!(matches!(
        error,
        Err(EngineError::BadRequest { field: "path", .. })
    ));
}

#[tokio::test]
async fn an_exchanged_kernel_ends_unless_another_session_uses_it() {
    let world = World::new();
    let session = world.create("a", KernelRef::default()).await.unwrap();
    let shared = session.kernel.id;
    let other = world.create("b", by_id(shared)).await.unwrap();

    let changed = world.patch(session.id, kernel(by_name("ir"))).await.unwrap();
    assert_eq!(changed.kernel.name, "ir");
    assert_eq!(world.kernels.count(), 2);
    let changed_other = world
        .patch(other.id, kernel(by_id(changed.kernel.id)))
        .await
        .unwrap();
    assert_eq!(changed_other.kernel.id, changed.kernel.id);
    assert!(world.kernels.kernel(&world.me, shared).is_err());
    assert_eq!(world.kernels.count(), 1);
    // The same kernel again is no exchange.
    world
        .patch(other.id, kernel(by_id(changed.kernel.id)))
        .await
        .unwrap();
    assert_eq!(world.kernels.count(), 1);

    let error = world
        .patch(session.id, kernel(by_id(KernelId::random())))
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            EngineError::BadRequest {
                field: "kernel.id",
                ..
            }
        ),
        "{error}"
    );
    let error = world
        .patch(session.id, kernel(by_name("missing")))
        .await
        .unwrap_err();
    assert!(matches!(error, EngineError::NoSuchKernelspec { .. }), "{error}");
    assert_eq!(world.list().await.len(), 2);
}

#[tokio::test]
async fn a_deleted_session_takes_its_kernel_along() {
    let world = World::new();
    let session = world.create("a", KernelRef::default()).await.unwrap();
    world.delete(session.id).await.unwrap();
    assert_eq!(world.kernels.count(), 0);
    assert!(matches!(
        world.delete(session.id).await,
        Err(EngineError::NotFound { .. })
    ));

    let session = world.create("a", KernelRef::default()).await.unwrap();
    world.kernels.remove(session.kernel.id);
    assert!(matches!(
        world.delete(session.id).await,
        Err(EngineError::Gone { .. })
    ));
    assert!(matches!(
        world.delete(session.id).await,
        Err(EngineError::NotFound { .. })
    ));
}

#[tokio::test]
async fn a_session_without_its_kernel_is_dropped_on_read() {
    let world = World::new();
    for path in ["a", "b", "c"] {
        let session = world.create(path, KernelRef::default()).await.unwrap();
        world.kernels.remove(session.kernel.id);
        match path {
            "a" => assert!(world.list().await.is_empty()),
            "b" => {
                let got = world.sessions.get(&world.kernels, &world.me, session.id).await;
                assert!(matches!(got, Err(EngineError::NotFound { .. })));
            }
            _ => {
                let again = world.create(path, KernelRef::default()).await.unwrap();
                assert_ne!(again.id, session.id);
                world.delete(again.id).await.unwrap();
            }
        }
        assert!(
            world
                .sessions
                .store
                .jupyter_sessions(Scope::Own)
                .await
                .unwrap()
                .is_empty()
        );
    }
}

#[tokio::test]
async fn sessions_outlive_the_gateway() {
    let world = World::new();
    let session = world.create("a", KernelRef::default()).await.unwrap();
    world.sessions.store.close().await.unwrap();
    let failed = world.create("b", KernelRef::default()).await.unwrap_err();
    assert!(matches!(failed, EngineError::Internal { .. }), "{failed}");
    // A session that could not be stored leaves no kernel.
    assert_eq!(world.kernels.count(), 1);
    let next = JupyterSessions::new(Arc::new(
        SqliteStore::open(&world.dir.path().join("db"), "main").unwrap(),
    ));
    assert_eq!(next.list(&world.kernels, &world.me).await.unwrap(), [session]);
}

#[test]
fn a_kernel_starts_beside_its_document() {
    let cwd = |path: &str| {
        start_for(&NewSession {
            path: path.into(),
            ..NewSession::default()
        })
        .cwd
    };
    assert_eq!(cwd("/home/ada/a.ipynb").as_deref(), Some("/home/ada"));
    assert_eq!(cwd("/a.ipynb").as_deref(), Some("/"));
    assert_eq!(cwd("dir/a.ipynb"), None);
}
