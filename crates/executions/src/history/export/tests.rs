use bytes::Bytes;
use himalia_journal::{NewRecord, Record};
use himalia_kernel::{
    End, ExecutionRecord, OnTimeout, RecordKind, RecordMeta, RequestKind, Submission, owner_of, word,
};
use himalia_wire::{Channel, build, v1};

use super::super::cells::Detail;
use super::*;

/// A log that is written by hand.
struct Log {
    cells: Cells,
    seq: u64,
}

impl Log {
    fn new(detail: Detail) -> Self {
        Self {
            cells: Cells::new(detail),
            seq: 0,
        }
    }

    fn put(&mut self, kind: RecordKind, meta: &RecordMeta, body: Bytes) -> u64 {
        self.seq += 1;
        let NewRecord { kind, meta, body } = NewRecord {
            kind: kind as u8,
            meta: meta.encode(),
            body,
        };
        self.cells.record(&Record {
            seq: self.seq,
            at_micros: self.seq,
            kind,
            meta,
            body,
        });
        self.seq
    }

    fn native(&mut self, code: &str) -> u64 {
        self.native_in(Language::Kernel, code)
    }

    fn native_in(&mut self, language: Language, code: &str) -> u64 {
        let submission = Submission {
            code: code.into(),
            language,
            timeout_ms: None,
            on_timeout: OnTimeout::Interrupt,
            text_chars: 1,
            allow_stdin: false,
            store_history: true,
            expect_incarnation: None,
            key: None,
            max_failures: None,
            caller: "operator".into(),
            client: None,
            trace: None,
            env: std::collections::BTreeMap::new(),
            cwd: None,
            metadata: serde_json::Map::new(),
        };
        let record = ExecutionRecord::Submitted {
            submission,
            ahead: 0,
            turn: 0,
            behind: None,
            stuck: false,
        };
        self.put(RecordKind::Execution, &meta(0, 0), record.to_body())
    }

    fn ended(&mut self, seq: u64, status: End) {
        let record = ExecutionRecord::Ended {
            status,
            cause: None,
            ran: true,
            failed_before: 0,
            variables_lost: None,
            failures: 0,
            turn: 0,
        };
        self.put(RecordKind::Execution, &meta(owner_of(seq), 0), record.to_body());
    }

    /// A cell of a Jupyter client, by the number of its request.
    fn client(&mut self, number: u64, content: &Value, again: u64) -> u64 {
        let meta = RecordMeta {
            word: RequestKind::Execute as u32,
            link: again,
            ..meta(9, number)
        };
        let parts = build::message("client", "execute_request", None, content);
        self.put(RecordKind::Request, &meta, v1::encode(Channel::Shell, &parts))
    }

    fn says(
        &mut self,
        owner: u64,
        number: u64,
        channel: Channel,
        msg_type: &str,
        content: &Value,
        began: bool,
    ) {
        let meta = RecordMeta {
            channel: Some(channel),
            word: if began { word::BEGAN } else { 0 },
            ..meta(owner, number)
        };
        let parts = build::message("kernel", msg_type, None, content);
        self.put(RecordKind::Message, &meta, v1::encode(channel, &parts));
    }
}

fn meta(owner: u64, request: u64) -> RecordMeta {
    RecordMeta {
        kernel: 1,
        incarnation: 1,
        owner,
        request,
        epoch: 1,
        ..RecordMeta::default()
    }
}

fn kernel() -> KernelId {
    KernelId(uuid::Uuid::nil())
}

/// A native execution, a cell of a client that ran before it although it came later, a silent one, and one that is lost.
fn filled(detail: Detail) -> Log {
    let mut log = Log::new(detail);
    let native = log.native("1 + 1");
    let first = log.client(5, &json!({"code": "print('hi')"}), 0);
    log.client(6, &json!({"code": "hidden", "silent": true}), 0);
    // Sent again under another number.
    log.client(7, &json!({"code": "print('hi')"}), first);
    let status = json!({"execution_state": "busy"});
    log.says(0, 7, Channel::Iopub, "status", &status, true);
    log.says(
        0,
        7,
        Channel::Iopub,
        "stream",
        &json!({"name": "stdout", "text": "hi\n"}),
        false,
    );
    log.says(
        9,
        7,
        Channel::Shell,
        "execute_reply",
        &json!({"status": "ok", "execution_count": 1}),
        false,
    );
    let owner = owner_of(native);
    log.says(owner, 8, Channel::Iopub, "status", &status, true);
    let result = json!({"data": {"text/plain": "2"}, "execution_count": 2});
    log.says(owner, 8, Channel::Iopub, "execute_result", &result, false);
    log.says(
        owner,
        8,
        Channel::Shell,
        "execute_reply",
        &json!({"status": "ok", "execution_count": 2}),
        false,
    );
    log.ended(native, End::Ok);
    log.client(9, &json!({"code": "1/0\nmore"}), 0);
    log.says(0, 9, Channel::Iopub, "status", &status, true);
    let exited = json!({"event": "exited"}).to_string();
    log.put(RecordKind::Lifecycle, &meta(0, 0), exited.into());
    log
}

#[test]
fn history_is_in_the_order_of_the_kernel_and_paged() {
    let all = history(kernel(), &filled(Detail::Code).cells, None, 10);
    let told: Vec<_> = all
        .history
        .iter()
        .map(|one| {
            (
                one.code.as_str(),
                one.status.as_str(),
                one.execution_count,
                one.id.is_some(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("print('hi')", "ok", Some(1), false),
            ("1 + 1", "ok", Some(2), true),
            ("1/0\nmore", "kernel_died", None, false),
        ]
    );
    let latest = history(kernel(), &filled(Detail::Code).cells, None, 1);
    assert_eq!(
        (latest.offset, latest.total, latest.history[0].seq),
        (2, 3, all.history[2].seq)
    );
    // From either end, whatever is omitted before.
    let at = |position| history(kernel(), &filled(Detail::Code).cells, Some(position), 2);
    let (first, omitted) = (at(HistoryPosition::From(0)), all.omitted);
    assert_eq!(first.history, all.history[..2]);
    let rest = at(HistoryPosition::From(omitted + 2));
    assert_eq!((rest.history.as_slice(), rest.offset), (&all.history[2..], 2));
    let before = at(HistoryPosition::Before(omitted + 3));
    assert_eq!(
        (before.history.as_slice(), before.offset),
        (&all.history[1..3], 1)
    );
    assert_eq!(at(HistoryPosition::Before(omitted + 1)).history, all.history[..1]);
    assert!(at(HistoryPosition::Before(omitted)).history.is_empty());
}

#[test]
fn a_notebook_has_cells_with_their_outputs() {
    let book = notebook(kernel(), &filled(Detail::Outputs).cells, None);
    assert_eq!(
        (&book["nbformat"], &book["nbformat_minor"]),
        (&json!(4), &json!(5))
    );
    let cells = book["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 3);
    assert_eq!(cells[0]["outputs"][0]["text"], "hi\n");
    assert_eq!(cells[1]["outputs"][0]["execution_count"], 2);
    assert_eq!(cells[1]["metadata"]["himalia"]["status"], "ok");
    assert_eq!(cells[2]["execution_count"], Value::Null);
}

#[test]
fn a_script_runs_what_ran() {
    let text = script(kernel(), &filled(Detail::Code).cells);
    assert!(
        text.ends_with("\n# %% [1]\nprint('hi')\n\n# %% [2]\n1 + 1\n\n# %% [ ] kernel_died\n# 1/0\n# more\n"),
        "{text}"
    );
}

#[test]
fn bash_keeps_its_text_and_its_name() {
    let filled = || {
        let mut log = Log::new(Detail::Outputs);
        for code in ["ls -l\necho \"$HOME\" ", "printf 'a\\n'"] {
            let seq = log.native_in(Language::Bash, code);
            log.ended(seq, End::Ok);
        }
        log
    };
    let page = history(kernel(), &filled().cells, None, 10);
    assert_eq!(
        (page.history[1].code.as_str(), page.history[1].language),
        ("printf 'a\\n'", Language::Bash)
    );
    assert_eq!(json!(page.history[1])["language"], "bash");
    let book = notebook(kernel(), &filled().cells, None);
    assert_eq!(book["cells"][0]["source"], "%%bash\nls -l\necho \"$HOME\" ");
    assert_eq!(book["cells"][0]["metadata"]["himalia"]["language"], "bash");
    let text = script(kernel(), &filled().cells);
    for wanted in [
        "import subprocess\nsubprocess.run([\"bash\", \"-c\", \"\"\"ls -l\necho \"$HOME\" \"\"\"], check=True)\n",
        "subprocess.run([\"bash\", \"-c\", \"printf 'a\\\\n'\"], check=True)\n",
    ] {
        assert!(text.contains(wanted), "{text}");
    }
}

#[test]
fn what_is_too_much_is_left_out_and_counted() {
    let mut log = Log::new(Detail::Outputs);
    for number in 1..=12_000 {
        log.client(number, &json!({"code": "x"}), 0);
    }
    let page = history(kernel(), &log.cells, None, 1000);
    assert!(
        page.total <= 10_000 && page.total + page.omitted == 12_000,
        "{} {}",
        page.total,
        page.omitted
    );
    let mut log = Log::new(Detail::Outputs);
    let picture = json!({"data": {"image/png": "x".repeat(15 << 20)}});
    for number in 1..=6 {
        log.client(number, &json!({"code": "x"}), 0);
        log.says(0, number, Channel::Iopub, "display_data", &picture, false);
    }
    let book = notebook(kernel(), &log.cells, None);
    let kept = |cell: &&Value| cell["outputs"][0]["output_type"] == "display_data";
    assert_eq!(book["cells"].as_array().unwrap().iter().filter(kept).count(), 4);
}

#[test]
fn a_later_cell_changes_the_display_of_an_earlier_one() {
    let mut log = Log::new(Detail::Outputs);
    let shown = |text: &str| json!({"data": {"text/plain": text}, "transient": {"display_id": "d"}});
    for (number, kind, text) in [(1, "display_data", "before"), (2, "update_display_data", "after")] {
        log.client(number, &json!({"code": "x"}), 0);
        log.says(
            0,
            number,
            Channel::Iopub,
            "status",
            &json!({"execution_state": "busy"}),
            true,
        );
        log.says(0, number, Channel::Iopub, kind, &shown(text), false);
    }
    let (cells, _) = log.cells.in_order();
    assert_eq!(cells[0].cell.outputs()[0]["data"]["text/plain"], "after");
    assert!(cells[1].cell.outputs().is_empty());
}

#[test]
fn later_cells_change_a_bounded_number_of_displays_with_short_ids() {
    let content =
        |id: &str, text: &str| json!({"data": {"text/plain": text}, "transient": {"display_id": id}});
    let mut log = Log::new(Detail::Outputs);
    let mut cell = |number: u64, kind: &str, text: &str, ids: &[String]| {
        log.client(number, &json!({"code": "x"}), 0);
        for id in ids {
            log.says(0, number, Channel::Iopub, kind, &content(id, text), false);
        }
    };
    let (long, one_more) = ("d".repeat(257), "d".repeat(256));
    cell(1, "display_data", "before", std::slice::from_ref(&long));
    for number in 2..=101 {
        let ids: Vec<String> = (0..100).map(|n| format!("{number} {n}")).collect();
        cell(number, "display_data", "before", &ids);
    }
    cell(102, "display_data", "before", std::slice::from_ref(&one_more));
    let ids = [long, "2 0".to_owned(), "101 99".to_owned(), one_more];
    cell(103, "update_display_data", "after", &ids);
    let (cells, _) = log.cells.in_order();
    let text = |cell: usize, output: usize| cells[cell].cell.outputs()[output]["data"]["text/plain"].clone();
    assert_eq!(
        [text(0, 0), text(1, 0), text(100, 99), text(101, 0)],
        ["before", "after", "after", "before"]
    );
}

#[test]
fn a_message_that_cannot_be_read_is_said_where_it_was() {
    let mut log = Log::new(Detail::Outputs);
    log.client(1, &json!({"code": "x"}), 0);
    let mut parts = build::message("kernel", "stream", None, &json!({}));
    parts.content = "[".into();
    let meta = RecordMeta {
        channel: Some(Channel::Iopub),
        ..meta(0, 1)
    };
    log.put(RecordKind::Message, &meta, v1::encode(Channel::Iopub, &parts));
    let (cells, _) = log.cells.in_order();
    assert_eq!(cells[0].cell.outputs()[0]["text"], himalia_outcome::UNREADABLE);
}
