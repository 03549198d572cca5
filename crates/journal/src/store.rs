//! Storage of logs: opens, forgets and removes them.
//!
//! Everything above this crate names a log and has a [`Journal`] of it; only this module knows that a log is a directory on a
//! local disk. A store elsewhere needs four things from its medium: an append of a batch that is complete or cut off again, a
//! read from a number on, a new segment that begins with a checkpoint, and the removal of the oldest segment. [`Journal`] keeps
//! its tail, cursors and positions in either case. Artifacts lie beside a log, so [`Journal::dir`] has to move with it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Journal, JournalError, Options, Recovery, SharedLogs};

/// File that marks a forgotten log: should this process end before its last user, the next one removes it.
const FORGOTTEN: &str = "forgotten";

/// The logs below one directory of the local disk, which may be shared. All calls block on the disk, or on what is elsewhere.
#[derive(Clone, Debug)]
pub struct LogStore {
    root: PathBuf,
    shared: Option<Arc<dyn SharedLogs>>,
}

impl LogStore {
    /// The logs below this directory.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            shared: None,
        }
    }

    /// The same, of logs that are kept elsewhere too.
    #[must_use]
    pub fn shared(mut self, shared: Option<Arc<dyn SharedLogs>>) -> Self {
        self.shared = shared;
        self
    }

    /// Opens a log, or creates it. `name` is relative to the store.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn open(&self, name: &str, options: Options) -> Result<(Journal, Recovery), JournalError> {
        let dir = self.root.join(name);
        let Some(shared) = &self.shared else {
            return Journal::open(dir, options);
        };
        let failed = |error| JournalError::io("restore", &dir, error);
        std::fs::create_dir_all(&dir).map_err(failed)?;
        let restored = shared.open(name, &dir).map_err(failed)?;
        Journal::open_shared(dir, options, restored)
    }

    /// Removes a log, if there is one.
    pub fn remove(&self, name: &str) {
        let path = self.root.join(name);
        if path.is_dir() {
            remove_log(&path);
        }
        if let Some(shared) = &self.shared {
            shared.remove(name);
        }
    }

    /// Removes the logs in the folder `under` that were forgotten by a process that ended too early, and empty ones.
    pub fn remove_forgotten(&self, under: &str) {
        let logs = std::fs::read_dir(self.root.join(under));
        for entry in logs.into_iter().flatten().flatten() {
            let path = entry.path();
            let is_empty = || std::fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_none());
            if path.join(FORGOTTEN).exists() || is_empty() {
                remove_log(&path);
            }
        }
    }
}

impl Journal {
    /// Marks the log as one that is to be removed, by this process or by the next one that calls
    /// [`LogStore::remove_forgotten`].
    ///
    /// # Errors
    /// When the mark cannot be written.
    pub fn forget(&self) -> io::Result<()> {
        std::fs::write(self.dir().join(FORGOTTEN), "")
    }

    /// Removes the log, even if it is being read. Blocks on the disk.
    pub fn remove(&self) {
        remove_log(self.dir());
        if let Some(elsewhere) = &self.shared.elsewhere {
            elsewhere.remove();
        }
    }
}

/// Removes a log and its mark, the mark last: if this is cut short, the next process removes the rest.
fn remove_log(path: &Path) {
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_name() != FORGOTTEN {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    if let Err(error) = std::fs::remove_dir_all(path) {
        tracing::warn!(path = %path.display(), %error, "cannot remove a log");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_forgotten_and_empty_logs_are_swept() {
        let root = tempfile::tempdir().unwrap();
        let logs = root.path().join("logs");
        for (name, files) in [("a", &["1.seg"][..]), ("b", &["1.seg", FORGOTTEN]), ("c", &[])] {
            std::fs::create_dir_all(logs.join(name)).unwrap();
            for file in files {
                std::fs::write(logs.join(name).join(file), "x").unwrap();
            }
        }
        let store = LogStore::new(root.path());
        store.remove_forgotten("logs");
        store.remove_forgotten("none");
        let left: Vec<_> = std::fs::read_dir(logs)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["a"]);
    }

    #[test]
    fn a_forgotten_log_is_removed_by_name_or_by_its_journal() {
        let root = tempfile::tempdir().unwrap();
        let store = LogStore::new(root.path());
        for name in ["kernels/a", "kernels/b"] {
            let (journal, _) = store.open(name, Options::default()).unwrap();
            journal.forget().unwrap();
            if name == "kernels/a" {
                journal.remove();
            }
        }
        assert!(!root.path().join("kernels/a").exists());
        store.remove("kernels/b");
        store.remove("kernels/b");
        assert!(!root.path().join("kernels/b").exists());
    }
}
