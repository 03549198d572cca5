//! Open logs, which are not removed.

use std::collections::HashMap;

use himalia_journal::Journal;
use himalia_model::EngineError;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Open logs, by their directories. A log that is read or written is not removed.
#[derive(Debug, Default)]
pub(crate) struct OpenLogs {
    all: Mutex<HashMap<String, Uses>>,
}

#[derive(Debug, Default)]
struct Uses {
    opening: usize,
    /// Each says that its log is closed, once it is.
    open: Vec<watch::Receiver<u64>>,
}

impl Uses {
    fn is_used(&mut self) -> bool {
        self.open.retain(|head| head.has_changed().is_ok());
        self.opening > 0 || !self.open.is_empty()
    }
}

impl OpenLogs {
    /// Opens a log. It counts as used from before it has a directory until it is not read any more.
    pub(crate) fn open<T>(
        &self,
        dir: &str,
        open: impl FnOnce() -> Result<T, EngineError>,
        journal: impl FnOnce(&T) -> &Journal,
    ) -> Result<T, EngineError> {
        self.all.lock().entry(dir.to_owned()).or_default().opening += 1;
        let opened = open();
        let mut all = self.all.lock();
        let uses = all.entry(dir.to_owned()).or_default();
        uses.opening = uses.opening.saturating_sub(1);
        if let Ok(opened) = &opened {
            uses.open.push(journal(opened).subscribe());
        }
        // As many stay as are open.
        all.retain(|_, uses| uses.is_used());
        opened
    }

    /// True if the log is read or written.
    pub(crate) fn is_used(&self, dir: &str) -> bool {
        self.all.lock().get_mut(dir).is_some_and(Uses::is_used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_used_while_it_is_open() {
        let root = tempfile::tempdir().unwrap();
        let logs = OpenLogs::default();
        let open = || {
            assert!(logs.is_used("a"), "while it is opened");
            let opened = Journal::open(root.path().join("a"), himalia_journal::Options::default());
            Ok(opened.unwrap().0)
        };
        let journal = logs.open("a", open, |journal| journal).unwrap();
        let cursor = journal.cursor(0);
        drop(journal);
        assert!(logs.is_used("a"), "it is read");
        drop(cursor);
        assert!(!logs.is_used("a"));
        let failed: Result<Journal, _> =
            logs.open("a", || Err(EngineError::unavailable("no")), |journal| journal);
        assert!(failed.is_err() && !logs.is_used("a"));
    }
}
