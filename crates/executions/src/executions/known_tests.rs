//! What questions about long executions read.

use himalia_budget::{Budget, Pace, Reading};
use himalia_journal::{Journal, NewRecord, Options};
use himalia_kernel::{ExecutionRecord, Language, RecordKind, RecordMeta, owner_of, word};
use himalia_model::{EngineConfig, KernelId, Principal};
use himalia_outcome::Excerpt;
use himalia_wire::{Channel, build, v1};
use serde_json::{Value, json};

use crate::{ArtifactStore, CachedExecution, ExecutionId, ExecutionStatus, Follower, LogReader};

const LINE: usize = 100;
const LINES_OF_A_MESSAGE: usize = 1000;
/// Read besides what is asked for: the records since the last place, the way to it in a segment, and what is read at a time.
const ASIDE: u64 = 3 << 20;

struct Log {
    _dir: tempfile::TempDir,
    journal: Journal,
    known: CachedExecution,
    lines: usize,
}

impl Log {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            tail_bytes: 256 << 10,
            ..Options::default()
        };
        let (journal, _) = Journal::open(dir.path(), options).unwrap();
        let id = ExecutionId {
            kernel: KernelId(uuid::Uuid::nil()),
            seq: 1,
        };
        let follower = Follower::new(id, Language::Kernel, String::new(), 100, Excerpt::new(100));
        let log = Self {
            _dir: dir,
            journal,
            known: CachedExecution::new(id, follower),
            lines: 0,
        };
        log.event(&json!({
            "event": "submitted", "code": "x", "timeout_ms": null, "on_timeout": "interrupt", "text_chars": 100,
            "allow_stdin": false, "store_history": true, "expect_incarnation": null, "key": null, "caller": "a", "ahead": 0, "turn": 1,
        }));
        log.event(&json!({ "event": "sent", "attempt": 1, "replaced": null }));
        log
    }

    fn append(&self, kind: RecordKind, channel: Option<Channel>, body: bytes::Bytes) {
        let meta = RecordMeta {
            owner: owner_of(1),
            channel,
            word: word::BEGAN,
            ..RecordMeta::default()
        };
        let record = NewRecord {
            kind: kind as u8,
            meta: meta.encode(),
            body,
        };
        self.journal.append(&record).unwrap();
    }

    fn event(&self, event: &Value) {
        let record: ExecutionRecord = serde_json::from_value(event.clone()).unwrap();
        self.append(RecordKind::Execution, None, record.to_body());
    }

    fn message(&self, kind: &str, content: &Value) {
        let frame = v1::encode(Channel::Iopub, &build::message("k", kind, None, content));
        self.append(RecordKind::Message, Some(Channel::Iopub), frame);
    }

    /// Numbered lines in messages of about 100 kB.
    fn print(&mut self, messages: usize) {
        for _ in 0..messages {
            let lines = self.lines..self.lines + LINES_OF_A_MESSAGE;
            let text: String = lines.map(line).collect();
            self.message("stream", &json!({"name": "stdout", "text": text}));
            self.lines += LINES_OF_A_MESSAGE;
        }
    }

    fn end(&self) {
        self.event(
            &json!({"event": "ended", "status": "ok", "cause": null, "ran": true, "failed_before": 0, "failures": 0, "turn": 1}),
        );
    }

    fn reader(&self, after: u64) -> LogReader {
        LogReader::of_ended(&self.journal, after)
    }

    async fn poll(&mut self) {
        let artifacts = ArtifactStore::beside(self.journal.dir());
        let mut reader = self.reader(self.known.seq());
        let mut reading = Reading::free();
        let read = self.known.catch_up(&mut reader, &artifacts, &mut reading);
        read.await.unwrap();
    }

    async fn page(&self, offset: u64, limit: usize) -> crate::OutputPage {
        let part = self.known.part(offset);
        let mut reader = self.reader(part.seq());
        let mut reading = Reading::free();
        let page = part.page(&mut reader, offset, limit, &mut reading);
        page.await.unwrap()
    }

    /// What was read meanwhile.
    fn read(&self, before: u64) -> u64 {
        self.journal.read_bytes() - before
    }
}

fn pace() -> Pace {
    let budget = Budget::of(&EngineConfig::new("unused"));
    budget.paced_stream(&Principal::operator()).unwrap()
}

fn line(number: usize) -> String {
    format!("{number:0width$}\n", width = LINE - 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_reads_what_is_new() {
    let mut log = Log::new();
    log.print(200);
    log.poll().await;
    assert!(log.journal.read_bytes() >= 200 * 100_000);
    for _ in 0..3 {
        let before = log.journal.read_bytes();
        log.poll().await;
        assert_eq!(log.read(before), 0, "there was nothing new");
        log.print(1);
        let before = log.journal.read_bytes();
        log.poll().await;
        let read = log.read(before);
        assert!((100_000..200_000).contains(&read), "{read} bytes for one message");
    }
    log.end();
    log.poll().await;
    let result = log.known.result(None);
    assert_eq!(result.status, ExecutionStatus::Ok);
    assert_eq!(result.truncated.unwrap().bytes_total, (log.lines * LINE) as u64);
    assert!(log.known.weight() < 8 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_reads_about_its_own_size_wherever_it_is() {
    let mut log = Log::new();
    log.print(320);
    log.end();
    log.poll().await;
    let total = (log.lines * LINE) as u64;
    for tenth in [0, 1, 5, 9] {
        let first = tenth * log.lines / 10;
        let before = log.journal.read_bytes();
        let page = log.page((first * LINE) as u64, 64 << 10).await;
        let read = log.read(before);
        assert!(read < ASIDE, "{read} bytes for a page after {tenth} tenths");
        assert_eq!(
            (page.text.len(), page.bytes_total, page.complete),
            (64 << 10, total, true)
        );
        assert!(page.text.starts_with(&line(first)));
        assert_eq!(page.next, page.offset + (64 << 10));
    }
    let before = log.journal.read_bytes();
    let last = log.page(total - 5, 64 << 10).await;
    assert_eq!((last.text.len(), last.next), (5, total));
    assert!(log.read(before) < ASIDE);
    let before = log.journal.read_bytes();
    let beyond = log.page(total + 5, 10).await;
    assert_eq!(
        (beyond.text.as_str(), beyond.offset, beyond.next),
        ("", total, total)
    );
    assert_eq!(log.read(before), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_text_comes_piece_by_piece() {
    let mut log = Log::new();
    log.message("stream", &json!({"name": "stdout", "text": "taken back\n"}));
    log.message("clear_output", &json!({"wait": true}));
    log.print(60);
    log.message("stream", &json!({"name": "stdout", "text": "no end"}));
    log.poll().await;
    let whole: String = (0..log.lines).map(line).chain(["no end".to_owned()]).collect();
    for offset in [0, 7, 3_000_000, whole.len()] {
        let part = log.known.part(offset as u64);
        let reader = log.reader(part.seq());
        let mut text = part.text(reader, offset as u64, pace());
        // What comes later is no part of it.
        log.print(1);
        let mut all = String::new();
        while let Some(piece) = text.next().await.unwrap() {
            assert!(
                !piece.is_empty() && piece.len() < 1 << 20,
                "{} bytes at once",
                piece.len()
            );
            all.push_str(&piece);
        }
        assert!(all == whole[offset..], "{} bytes after {offset}", all.len());
        assert_eq!(
            log.page(offset as u64, 10).await.text,
            whole[offset..].chars().take(10).collect::<String>()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn places_in_a_text_are_bounded() {
    let mut log = Log::new();
    // Lines that have not ended are what a place has to remember.
    let long = format!("{}\n", "x".repeat(60_000));
    for _ in 0..400 {
        log.message("stream", &json!({"name": "stdout", "text": long}));
    }
    log.poll().await;
    assert!(log.known.weight() < 8 << 20, "{}", log.known.weight());
    let total = 400 * long.len() as u64;
    let page = log.page(total - long.len() as u64, 10).await;
    assert_eq!((page.text.as_str(), page.bytes_total), ("xxxxxxxxxx", total));
}
