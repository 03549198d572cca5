//! The thread that writes entries.
//!
//! Entries wait in a queue of 8,192. While writing fails (a full disk, a lost mount) the same entry is tried again every 250 ms, and the
//! queue fills; what comes when it is full is lost. When writing works again, one entry tells how many were lost.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use himalia_metrics::AuditCounts;
use serde_json::json;
use time::OffsetDateTime;

use super::entry::Entry;

/// Entries that wait to be written.
const QUEUE: usize = 8_192;
/// The pause after a failed attempt; also how soon a request to reopen is seen.
const PAUSE: Duration = Duration::from_millis(250);

enum Message {
    Entry(Box<Entry>),
    Flush(SyncSender<()>),
}

#[derive(Debug, Default)]
struct Shared {
    reopen: AtomicBool,
    failing: AtomicBool,
    lost: AtomicU64,
}

pub(super) struct Writer {
    queue: SyncSender<Message>,
    shared: Arc<Shared>,
    counts: AuditCounts,
}

impl Writer {
    pub(super) fn stdout(counts: AuditCounts) -> io::Result<Self> {
        Self::spawn(None, Box::new(io::stdout()), counts)
    }

    pub(super) fn file(path: &Path, counts: AuditCounts) -> io::Result<Self> {
        let file = open(path)?;
        Self::spawn(Some(path.to_owned()), Box::new(file), counts)
    }

    fn spawn(path: Option<PathBuf>, out: Box<dyn Write + Send>, counts: AuditCounts) -> io::Result<Self> {
        let (queue, messages) = sync_channel(QUEUE);
        let shared = Arc::new(Shared::default());
        let task = Task {
            path,
            out,
            shared: Arc::clone(&shared),
            broken: false,
        };
        let named = std::thread::Builder::new().name("audit".to_owned());
        named.spawn(move || task.run(&messages))?;
        Ok(Self {
            queue,
            shared,
            counts,
        })
    }

    pub(super) fn write(&self, entry: Entry) {
        match self.queue.try_send(Message::Entry(Box::new(entry))) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.counts.lost.inc();
                self.shared.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
    }

    pub(super) fn is_failing(&self) -> bool {
        self.shared.failing.load(Ordering::Relaxed)
    }

    pub(super) fn flush(&self, limit: Duration) -> bool {
        let (done, written) = sync_channel(1);
        // A full queue is not flushed in time.
        self.queue.try_send(Message::Flush(done)).is_ok() && written.recv_timeout(limit).is_ok()
    }
}

/// To be appended to; for its owner alone.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
}

struct Task {
    path: Option<PathBuf>,
    out: Box<dyn Write + Send>,
    shared: Arc<Shared>,
    /// The latest attempt may have written a part of a line.
    broken: bool,
}

impl Task {
    fn run(mut self, messages: &Receiver<Message>) {
        loop {
            match messages.recv_timeout(PAUSE) {
                Ok(Message::Entry(entry)) => {
                    self.keep_writing(&entry.to_line());
                    let lost = self.shared.lost.swap(0, Ordering::Relaxed);
                    if lost > 0 {
                        let time = himalia_wire::build::timestamp(OffsetDateTime::now_utc());
                        let entry = json!({ "time": time, "command": "entries_lost", "count": lost });
                        self.keep_writing(&format!("{entry}\n"));
                    }
                }
                Ok(Message::Flush(done)) => {
                    // The caller may have stopped waiting.
                    let _ = done.try_send(());
                }
                Err(RecvTimeoutError::Timeout) => self.reopen_if_asked(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Writes a line, however long that takes.
    fn keep_writing(&mut self, line: &str) {
        loop {
            self.reopen_if_asked();
            match self.attempt(line) {
                Ok(()) => {
                    self.broken = false;
                    if self.shared.failing.swap(false, Ordering::Relaxed) {
                        tracing::info!("the audit log is written again");
                    }
                    return;
                }
                Err(error) => {
                    self.broken = true;
                    if !self.shared.failing.swap(true, Ordering::Relaxed) {
                        tracing::error!(%error, "the audit log cannot be written; entries wait");
                    }
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    fn attempt(&mut self, line: &str) -> io::Result<()> {
        if self.broken {
            // What was cut off stays a line of its own.
            self.out.write_all(b"\n")?;
        }
        self.out.write_all(line.as_bytes())?;
        self.out.flush()
    }

    fn reopen_if_asked(&mut self) {
        let asked = self.shared.reopen.swap(false, Ordering::Acquire);
        let Some(path) = self.path.as_ref().filter(|_| asked) else {
            return;
        };
        match open(path) {
            Ok(file) => {
                self.out = Box::new(file);
                self.broken = false;
            }
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "cannot open the audit log again; the old file is kept");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use himalia_metrics::Metrics;

    use super::super::Effect;
    use super::*;

    fn entry() -> Entry {
        Entry::new("x", Effect::Change, None, None, "ok")
    }

    /// Fails as long as `full` is set.
    struct Disk {
        full: Arc<AtomicBool>,
        out: File,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !self.full.load(Ordering::Relaxed) {
                return self.out.write(bytes);
            }
            // A part of it gets there.
            self.out.write_all(&bytes[..bytes.len() / 2])?;
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            self.out.flush()
        }
    }

    #[test]
    fn a_file_that_was_renamed_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("audit"), dir.path().join("audit.1"));
        let writer = Writer::file(&path, Metrics::new().audit().clone()).unwrap();
        writer.write(entry());
        assert!(writer.flush(Duration::from_mins(1)));
        std::fs::rename(&path, &old).unwrap();
        writer.reopen();
        writer.write(entry());
        assert!(writer.flush(Duration::from_mins(1)));
        for file in [path, old] {
            assert_eq!(std::fs::read_to_string(file).unwrap().lines().count(), 1);
        }
    }

    #[test]
    fn a_full_disk_loses_what_exceeds_the_queue_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit");
        let full = Arc::new(AtomicBool::new(true));
        let disk = Disk {
            full: Arc::clone(&full),
            out: open(&path).unwrap(),
        };
        let metrics = Metrics::new();
        let writer = Writer::spawn(None, Box::new(disk), metrics.audit().clone()).unwrap();
        // One is with the writer, or will be.
        let all = QUEUE + 10;
        for _ in 0..all {
            writer.write(entry());
        }
        let deadline = std::time::Instant::now() + Duration::from_mins(1);
        while !writer.is_failing() {
            assert!(std::time::Instant::now() < deadline);
            std::thread::yield_now();
        }
        let lost = metrics.audit().lost.get();
        assert!((9..=10).contains(&lost), "{lost}");
        full.store(false, Ordering::Relaxed);
        // Written when there is room in the queue again.
        while !writer.flush(Duration::from_secs(1)) {
            assert!(std::time::Instant::now() < deadline);
        }
        assert!(!writer.is_failing());
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let noted = lines
            .iter()
            .find(|line| line["command"] == "entries_lost")
            .unwrap();
        assert_eq!(noted["count"], lost);
        let written = lines.iter().filter(|line| line["command"] == "x").count();
        assert_eq!(written as u64 + lost, all as u64);
    }
}
