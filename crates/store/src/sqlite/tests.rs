use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tempfile::TempDir;

use super::*;
use crate::tests::{ended, kernel};
use crate::*;

mod ended;
mod jobs;
mod opening;

struct Fixture {
    dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self {
            dir: TempDir::new().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("himalia.sqlite")
    }

    fn open(&self) -> Result<SqliteStore, StoreError> {
        SqliteStore::open(&self.path(), "main")
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

/// A file that several replicas seem to have open, which the lock of a real one prevents.
struct Shared {
    place: Fixture,
    first: Mutex<Option<SqliteStore>>,
}

impl crate::tests::Fixture for Shared {
    async fn new() -> Self {
        Self {
            place: Fixture::new(),
            first: Mutex::default(),
        }
    }

    /// Nothing says whose lease it is: the only gateway has everything.
    async fn expire(&self, _replica: &str) {}

    async fn open(&self, replica: &str) -> Arc<dyn Store> {
        let mut first = self.first.lock();
        let first = first.get_or_insert_with(|| self.place.open().unwrap());
        Arc::new(first.as_replica(replica))
    }

    async fn close(&self) {
        let first = self.first.lock().take();
        first.unwrap().close().await.unwrap();
    }
}

crate::tests::with_contract!(crate::tests::contract_tests, Shared);
