use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use uuid::Uuid;

use super::*;

mod ended;
mod opening;
mod rows;

struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            dir: TempDir::new().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("himalia.sqlite")
    }

    fn open(&self) -> Result<Store, StoreError> {
        Store::open(&self.path())
    }

    /// Bytes of every file in the directory but the lock and the shared memory of readers.
    fn bytes(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut all: Vec<_> = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                !["lock", "sqlite-shm"]
                    .iter()
                    .any(|e| path.to_string_lossy().ends_with(e))
            })
            .map(|path| (path.clone(), fs::read(&path).unwrap()))
            .filter(|(path, bytes)| !(bytes.is_empty() && path.to_string_lossy().ends_with("-wal")))
            .collect();
        all.sort();
        all
    }
}

fn raw(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).unwrap()
}

fn kernel(n: u128) -> KernelRecord {
    KernelRecord {
        id: Uuid::from_u128(n),
        owner: "operator".into(),
        kernelspec: "python3".into(),
        session_dir: format!("sessions/{n}"),
        run_dir: "/run/himalia".into(),
        sandbox_id: format!("{n:032x}"),
        sandbox_key_hash: [7; 32],
        isolation: "none".into(),
        incarnation: 0,
        created_micros: i64::try_from(n).unwrap(),
        launch: LaunchRecord {
            argv: vec!["python3".into(), "-m".into(), "ipykernel_launcher".into()],
            cwd: "/work".into(),
            interrupt_mode: "signal".into(),
        },
        life: KernelLife::Starting,
        dead_cause: None,
        provisioner: "docker".into(),
        socket: "k2.sock".into(),
        role: "branch".into(),
        parent: Some(Uuid::from_u128(99)),
        template: "analysis".into(),
        start_path: "fork".into(),
        start_reason: Some("another image".into()),
        sandbox: serde_json::json!({"limits": {"memory_bytes": 5}}),
        labels: [("team".to_owned(), "a".to_owned())].into(),
        idle_timeout_ms: Some(60_000),
        expires_micros: Some(7),
        origin: "v1".into(),
        name: Some(format!("session-{n}")),
    }
}
