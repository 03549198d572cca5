//! The thread that writes entries.
//!
//! Entries wait in a queue of 8,192. While writing fails (a full disk, a lost mount, a collector that does not respond) the same entries
//! are tried again every 250 ms, and the queue fills; what comes when it is full is lost. When writing works again, one entry tells how
//! many were lost.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use himalia_metrics::AuditCounts;
use himalia_wire::build::timestamp;
use serde_json::{Map, Value};
use time::OffsetDateTime;

use super::entry::Entry;

/// Entries that wait to be written.
const QUEUE: usize = 8_192;
/// Entries that a sink gets at once.
const BATCH: usize = 512;
/// The pause after a failed attempt; also how soon a request to reopen is seen.
const PAUSE: Duration = Duration::from_millis(250);

/// One entry, as it is written.
#[derive(Clone, Debug)]
pub struct AuditRecord {
    /// The end of the call.
    pub at: OffsetDateTime,
    /// What is known of it: `command`, `outcome` … as in the documentation, but for `time`.
    pub members: Map<String, Value>,
}

impl AuditRecord {
    /// Says how many entries were lost before it.
    fn of_lost(count: u64) -> Self {
        let mut members = Map::new();
        members.insert("command".to_owned(), Value::from("entries_lost"));
        members.insert("count".to_owned(), Value::from(count));
        Self {
            at: OffsetDateTime::now_utc(),
            members,
        }
    }

    /// As a JSON object with the line break.
    fn to_line(&self) -> String {
        let mut members = Map::new();
        members.insert("time".to_owned(), Value::from(timestamp(self.at)));
        members.extend(self.members.clone());
        format!("{}\n", Value::Object(members))
    }
}

/// Takes entries to another place than a file. It is called by a thread of its own, outside of any runtime, and may block.
pub trait AuditSink: Send {
    /// Takes up to 512 entries, in order. Returns how many of them were refused permanently. After an error it gets the same ones again.
    fn write(&mut self, entries: &[AuditRecord]) -> io::Result<u64>;
}

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
        Self::spawn(Output::lines(None, Box::new(io::stdout())), counts)
    }

    pub(super) fn file(path: &Path, counts: AuditCounts) -> io::Result<Self> {
        let file = open(path)?;
        Self::spawn(Output::lines(Some(path.to_owned()), Box::new(file)), counts)
    }

    pub(super) fn sink(sink: Box<dyn AuditSink>, counts: AuditCounts) -> io::Result<Self> {
        Self::spawn(Output::Sink(sink), counts)
    }

    fn spawn(output: Output, counts: AuditCounts) -> io::Result<Self> {
        let (queue, messages) = sync_channel(QUEUE);
        let shared = Arc::new(Shared::default());
        let task = Task {
            output,
            shared: Arc::clone(&shared),
            counts: counts.clone(),
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
    output: Output,
    shared: Arc<Shared>,
    counts: AuditCounts,
}

impl Task {
    fn run(mut self, messages: &Receiver<Message>) {
        loop {
            match messages.recv_timeout(PAUSE) {
                Ok(Message::Entry(entry)) => {
                    let mut batch = vec![entry.to_record()];
                    let flush = self.fill(&mut batch, messages);
                    self.keep_writing(&batch);
                    let lost = self.shared.lost.swap(0, Ordering::Relaxed);
                    if lost > 0 {
                        self.keep_writing(&[AuditRecord::of_lost(lost)]);
                    }
                    flush.inspect(tell);
                }
                Ok(Message::Flush(done)) => tell(&done),
                Err(RecvTimeoutError::Timeout) => self.reopen_if_asked(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Adds the entries that wait already. Who wants to know when they are written ends the batch.
    fn fill(&self, batch: &mut Vec<AuditRecord>, messages: &Receiver<Message>) -> Option<SyncSender<()>> {
        while batch.len() < self.output.batch() {
            match messages.try_recv() {
                Ok(Message::Entry(entry)) => batch.push(entry.to_record()),
                Ok(Message::Flush(done)) => return Some(done),
                Err(_) => break,
            }
        }
        None
    }

    /// Writes entries, however long that takes.
    fn keep_writing(&mut self, entries: &[AuditRecord]) {
        loop {
            self.reopen_if_asked();
            match self.output.attempt(entries) {
                Ok(refused) => {
                    self.counts.lost.inc_by(refused);
                    self.shared.lost.fetch_add(refused, Ordering::Relaxed);
                    if self.shared.failing.swap(false, Ordering::Relaxed) {
                        tracing::info!("the audit log is written again");
                    }
                    return;
                }
                Err(error) => {
                    if !self.shared.failing.swap(true, Ordering::Relaxed) {
                        tracing::error!(%error, "the audit log cannot be written; entries wait");
                    }
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    fn reopen_if_asked(&mut self) {
        if self.shared.reopen.swap(false, Ordering::Acquire) {
            self.output.reopen();
        }
    }
}

/// The caller may have stopped waiting.
fn tell(done: &SyncSender<()>) {
    let _ = done.try_send(());
}

enum Output {
    Lines {
        path: Option<PathBuf>,
        out: Box<dyn Write + Send>,
        /// The latest attempt may have written a part of a line.
        broken: bool,
    },
    Sink(Box<dyn AuditSink>),
}

impl Output {
    fn lines(path: Option<PathBuf>, out: Box<dyn Write + Send>) -> Self {
        Self::Lines {
            path,
            out,
            broken: false,
        }
    }

    /// Entries of one attempt. A line that was written is not written again because the next one could not be.
    fn batch(&self) -> usize {
        match self {
            Self::Lines { .. } => 1,
            Self::Sink(_) => BATCH,
        }
    }

    /// How many were refused permanently.
    fn attempt(&mut self, entries: &[AuditRecord]) -> io::Result<u64> {
        match self {
            Self::Sink(sink) => sink.write(entries),
            Self::Lines { out, broken, .. } => {
                if std::mem::replace(broken, true) {
                    // What was cut off stays a line of its own.
                    out.write_all(b"\n")?;
                }
                for entry in entries {
                    out.write_all(entry.to_line().as_bytes())?;
                }
                out.flush()?;
                *broken = false;
                Ok(0)
            }
        }
    }

    fn reopen(&mut self) {
        let Self::Lines {
            path: Some(path),
            out,
            broken,
        } = self
        else {
            return;
        };
        match open(path) {
            Ok(file) => {
                *out = Box::new(file);
                *broken = false;
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
    use parking_lot::Mutex;

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
        let writer = Writer::spawn(Output::lines(None, Box::new(disk)), metrics.audit().clone()).unwrap();
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

    /// Fails a few times, and then refuses one entry of the first batch.
    struct Collector {
        failures: usize,
        got: Arc<Mutex<Vec<AuditRecord>>>,
    }

    impl AuditSink for Collector {
        fn write(&mut self, entries: &[AuditRecord]) -> io::Result<u64> {
            if self.failures > 0 {
                self.failures -= 1;
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let mut got = self.got.lock();
            let refused = u64::from(got.is_empty());
            got.extend_from_slice(entries);
            Ok(refused)
        }
    }

    #[test]
    fn a_sink_gets_each_entry_once_and_what_it_refuses_is_counted() {
        let got = Arc::new(Mutex::new(Vec::new()));
        let metrics = Metrics::new();
        let sink = Collector {
            failures: 2,
            got: Arc::clone(&got),
        };
        let writer = Writer::sink(Box::new(sink), metrics.audit().clone()).unwrap();
        for _ in 0..2 * BATCH {
            writer.write(entry());
        }
        assert!(writer.flush(Duration::from_mins(1)));
        assert!(!writer.is_failing());
        assert_eq!(metrics.audit().lost.get(), 1);
        let got = got.lock();
        let of = |command: &str| {
            let of_it = got.iter().filter(|one| one.members["command"] == command);
            of_it.collect::<Vec<_>>()
        };
        assert_eq!(of("x").len(), 2 * BATCH);
        assert_eq!(of("entries_lost")[0].members["count"], 1);
    }
}
