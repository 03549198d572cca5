//! Executions as a page of history, as a notebook, as a script.

use std::borrow::Cow;
use std::fmt::Write as _;

use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::cells::{Cells, Ran};
use crate::kernel::{Language, from_micros};
use crate::model::KernelSpec;
use crate::{ExecutionId, KernelId};

/// Entries of a page, at most.
pub const MAX_HISTORY_PAGE: usize = 1000;

/// What became of something that was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistoryStatus {
    /// The kernel has not begun with it.
    Queued,
    /// The kernel works on it.
    Running,
    /// It ran to its end.
    Ok,
    /// It raised.
    Error,
    /// It was interrupted because its time was over.
    Timeout,
    /// It was interrupted.
    Interrupted,
    /// It never ran: an earlier one had failed, and the kernel dropped what was queued by then.
    Aborted,
    /// Its process ended.
    KernelDied,
    /// Its process ended for want of memory.
    OomKilled,
}

impl HistoryStatus {
    /// The spelling in replies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Interrupted => "interrupted",
            Self::Aborted => "aborted",
            Self::KernelDied => "kernel_died",
            Self::OomKilled => "oom_killed",
        }
    }
}

/// Something that was run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HistoryEntry {
    /// The native execution that it was; `None` when a Jupyter client ran it.
    pub id: Option<ExecutionId>,
    /// Who asked for it: `operator`, or tenant and caller as `tenant/caller`; `None` when a Jupyter client ran it, which the log does
    /// not tell.
    pub caller: Option<String>,
    /// Number of its first record in the log.
    pub seq: u64,
    /// When it was taken.
    pub at: String,
    /// The code.
    pub code: String,
    /// `bash`; left out where it is the kernel's own.
    #[serde(skip_serializing_if = "Language::is_kernels")]
    pub language: Language,
    /// What became of it.
    pub status: HistoryStatus,
    /// The kernel's own count, once it is known.
    pub execution_count: Option<u64>,
    /// The kernel process that it was for.
    pub incarnation: u32,
}

/// A page of what was run, in the order in which the kernel came to it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct History {
    /// The newest last.
    pub history: Vec<HistoryEntry>,
    /// Entries before the page.
    pub offset: u64,
    /// Entries in all.
    pub total: u64,
    /// Older ones that are not listed: their records are gone, or there are too many.
    pub omitted: u64,
}

/// A page: `limit` entries from `offset` on, or the latest ones.
pub(crate) fn history(kernel: KernelId, cells: Cells, offset: Option<u64>, limit: usize) -> History {
    let (ran, omitted) = cells.finish();
    let last = ran.len().saturating_sub(limit);
    let from = offset.map_or(last, |offset| {
        usize::try_from(offset).unwrap_or(usize::MAX).min(ran.len())
    });
    let entries = ran.iter().skip(from).take(limit);
    History {
        history: entries.map(|ran| entry(kernel, ran)).collect(),
        offset: from as u64,
        total: ran.len() as u64,
        omitted,
    }
}

fn entry(kernel: KernelId, ran: &Ran) -> HistoryEntry {
    HistoryEntry {
        id: execution(kernel, ran),
        caller: ran.caller.clone(),
        seq: ran.seq,
        at: timestamp(from_micros(ran.at_micros)),
        code: ran.code.clone(),
        language: ran.language,
        status: ran.status(),
        execution_count: ran.cell.execution_count(),
        incarnation: ran.incarnation,
    }
}

fn execution(kernel: KernelId, ran: &Ran) -> Option<ExecutionId> {
    ran.native.then_some(ExecutionId { kernel, seq: ran.seq })
}

/// A notebook, nbformat 4.5.
pub(crate) fn notebook(kernel: KernelId, cells: Cells, spec: Option<&KernelSpec>) -> Value {
    let gaps = cells.gaps;
    let (ran, omitted) = cells.finish();
    let mut all = Vec::with_capacity(ran.len() + 1);
    if omitted > 0 || gaps > 0 {
        let text = format!(
            "*Himalia: {omitted} earlier cells are left out, and at {gaps} places output is missing that is no longer kept.*"
        );
        all.push(json!({ "cell_type": "markdown", "id": "left-out", "metadata": {}, "source": text }));
    }
    all.extend(ran.iter().map(|ran| cell(kernel, ran)));
    let mut metadata = json!({ "himalia": { "session": kernel, "cells_omitted": omitted, "gaps": gaps } });
    if let Some(spec) = spec {
        let language = &spec.spec.language;
        metadata["kernelspec"] = json!({
            "name": spec.name, "display_name": spec.spec.display_name, "language": language,
        });
        metadata["language_info"] = json!({ "name": language });
    }
    json!({ "nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": all })
}

fn cell(kernel: KernelId, ran: &Ran) -> Value {
    let mut cell = json!({
        "cell_type": "code",
        // Unique in the log, and the same whenever the notebook is made.
        "id": format!("c{}", ran.seq),
        "metadata": { "himalia": {
            "execution": execution(kernel, ran),
            "status": ran.status(),
            "incarnation": ran.incarnation,
            "at": timestamp(from_micros(ran.at_micros)),
        } },
        "execution_count": ran.cell.execution_count(),
        "source": match ran.language {
            Language::Kernel => Cow::Borrowed(&*ran.code),
            Language::Bash => Cow::Owned(format!("%%bash\n{}", ran.code)),
        },
        "outputs": ran.cell.outputs(),
    });
    if !ran.language.is_kernels() {
        cell["metadata"]["himalia"]["language"] = json!(ran.language);
    }
    cell
}

/// The code as one Python file with a `# %%` line above each cell. What did not run to its end is there as comments.
pub(crate) fn script(kernel: KernelId, cells: Cells) -> String {
    let (ran, omitted) = cells.finish();
    let mut out = format!("# Session {kernel}, as its kernel ran it.\n");
    if omitted > 0 {
        let _ = writeln!(out, "# {omitted} earlier cells are left out.");
    }
    let mut incarnation = 0;
    for ran in &ran {
        if incarnation != 0 && incarnation != ran.incarnation {
            out.push_str("\n# The kernel's process was replaced here: all variables were gone.\n");
        }
        incarnation = ran.incarnation;
        let (status, count) = (ran.status(), ran.cell.execution_count());
        let count = count.map_or_else(|| " ".to_owned(), |count| count.to_string());
        let runs = status == HistoryStatus::Ok;
        let note = if runs {
            String::new()
        } else {
            format!(" {}", status.as_str())
        };
        let _ = writeln!(out, "\n# %% [{count}]{note}");
        for line in in_python(ran.language, &ran.code).lines() {
            out.push_str(if runs { "" } else { "# " });
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// Code as Python runs it outside of a kernel.
fn in_python(language: Language, code: &str) -> Cow<'_, str> {
    match language {
        Language::Kernel => Cow::Borrowed(code),
        Language::Bash => {
            // As a user would write it, where that can be.
            let plain =
                !code.contains(['\\', '\r', '\0']) && !code.contains("\"\"\"") && !code.ends_with('"');
            let text = if plain {
                format!("\"\"\"{code}\"\"\"")
            } else {
                // Strings of JSON are strings of Python.
                json!(code).to_string()
            };
            Cow::Owned(format!(
                "import subprocess\nsubprocess.run([\"bash\", \"-c\", {text}], check=True)"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use himalia_journal::{NewRecord, Record};
    use himalia_wire::{Channel, build, v1};

    use super::super::cells::Detail;
    use super::*;
    use crate::kernel::{
        End, ExecutionRecord, OnTimeout, RecordKind, RecordMeta, RequestKind, Submission, owner_of, word,
    };

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
            };
            let record = ExecutionRecord::Submitted { submission, ahead: 0 };
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
        let all = history(kernel(), filled(Detail::Code).cells, None, 10);
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
        let latest = history(kernel(), filled(Detail::Code).cells, None, 1);
        assert_eq!(
            (latest.offset, latest.total, latest.history[0].seq),
            (2, 3, all.history[2].seq)
        );
        let page = history(kernel(), filled(Detail::Code).cells, Some(1), 1);
        assert_eq!(page.history[0], all.history[1]);
        assert!(
            history(kernel(), filled(Detail::Code).cells, Some(9), 1)
                .history
                .is_empty()
        );
    }

    #[test]
    fn a_notebook_has_cells_with_their_outputs() {
        let book = notebook(kernel(), filled(Detail::Outputs).cells, None);
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
        let text = script(kernel(), filled(Detail::Code).cells);
        assert!(
            text.ends_with(
                "\n# %% [1]\nprint('hi')\n\n# %% [2]\n1 + 1\n\n# %% [ ] kernel_died\n# 1/0\n# more\n"
            ),
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
        let page = history(kernel(), filled().cells, None, 10);
        assert_eq!(
            (page.history[1].code.as_str(), page.history[1].language),
            ("printf 'a\\n'", Language::Bash)
        );
        assert_eq!(json!(page.history[1])["language"], "bash");
        let book = notebook(kernel(), filled().cells, None);
        assert_eq!(book["cells"][0]["source"], "%%bash\nls -l\necho \"$HOME\" ");
        assert_eq!(book["cells"][0]["metadata"]["himalia"]["language"], "bash");
        let text = script(kernel(), filled().cells);
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
        let page = history(kernel(), log.cells, None, 1000);
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
        let book = notebook(kernel(), log.cells, None);
        let kept = |cell: &&Value| cell["outputs"][0]["output_type"] == "display_data";
        assert_eq!(book["cells"].as_array().unwrap().iter().filter(kept).count(), 4);
    }
}
