//! Executions as a page of history, as a notebook, as a script.

use std::borrow::Cow;
use std::fmt::Write as _;

use himalia_kernel::Language;
use himalia_model::{KernelId, KernelSpec, from_micros};
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::cells::{Cells, RanCell};
use crate::ExecutionId;

/// Entries of a page, at most.
pub const MAX_HISTORY_PAGE: usize = 1000;
/// Approximate size of an entry in addition to its code, in bytes.
const ENTRY_BYTES: usize = 256;

/// Status of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistoryStatus {
    /// The kernel has not begun with it.
    Queued,
    /// The kernel works on it.
    Running,
    /// The code completed.
    Ok,
    /// The code raised an exception.
    Error,
    /// It was interrupted because its time had expired.
    Timeout,
    /// It was interrupted.
    Interrupted,
    /// It never ran: an earlier one had failed, and the kernel dropped what was queued by then.
    Aborted,
    /// The process ended.
    KernelDied,
    /// The process ended because it ran out of memory.
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

/// One entry of the history: code that was run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HistoryEntry {
    /// The native execution that it was; `None` when a Jupyter client ran it.
    pub id: Option<ExecutionId>,
    /// Caller: `operator`, or tenant and caller as `tenant/caller`; `None` when a Jupyter client ran it, which the log does not have.
    pub caller: Option<String>,
    /// Name that the client gave itself, if it did. It is not verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Data that the caller stored with the execution.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Number of its first record in the log.
    pub seq: u64,
    /// When it was taken.
    pub at: String,
    /// The code.
    pub code: String,
    /// `bash`; left out where it is the kernel's own.
    #[serde(skip_serializing_if = "Language::is_kernels")]
    pub language: Language,
    /// Status of the entry.
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

impl History {
    /// Approximate size as JSON, in bytes.
    pub fn about_bytes(&self) -> usize {
        self.history
            .iter()
            .map(|entry| entry.code.len() + ENTRY_BYTES)
            .sum()
    }
}

/// Position of a page of history. Entries that are omitted are counted, so that a position stays what it is when more of them are omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryPosition {
    /// It begins with the entry of this number, from 0.
    From(u64),
    /// It ends before the entry of this number.
    Before(u64),
}

/// A page of at most `limit` entries; without a position that of the latest ones.
pub fn history(kernel: KernelId, cells: &Cells, position: Option<HistoryPosition>, limit: usize) -> History {
    let (ran, omitted) = cells.in_order();
    let listed = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).min(ran.len());
    let ending_at = |end: usize| (end.saturating_sub(limit), end);
    let beginning_at = |from: usize| (from, from.saturating_add(limit).min(ran.len()));
    let (from, end) = match position {
        None => ending_at(ran.len()),
        Some(HistoryPosition::From(number)) => beginning_at(listed(number.saturating_sub(omitted))),
        Some(HistoryPosition::Before(number)) => ending_at(listed(number.saturating_sub(omitted))),
    };
    let entries = ran.iter().skip(from).take(end - from);
    History {
        history: entries.map(|ran| entry(kernel, cells, ran)).collect(),
        offset: from as u64,
        total: ran.len() as u64,
        omitted,
    }
}

fn entry(kernel: KernelId, cells: &Cells, ran: &RanCell) -> HistoryEntry {
    HistoryEntry {
        id: execution(kernel, ran),
        caller: ran.caller.clone(),
        client: ran.client.clone(),
        metadata: ran.metadata.clone(),
        seq: ran.seq,
        at: timestamp(from_micros(ran.at_micros)),
        code: ran.code.clone(),
        language: ran.language,
        status: cells.status(ran),
        execution_count: ran.cell.execution_count(),
        incarnation: ran.incarnation,
    }
}

fn execution(kernel: KernelId, ran: &RanCell) -> Option<ExecutionId> {
    ran.native.then_some(ExecutionId { kernel, seq: ran.seq })
}

/// A notebook, nbformat 4.5.
pub fn notebook(kernel: KernelId, cells: &Cells, spec: Option<&KernelSpec>) -> Value {
    let gaps = cells.gaps;
    let (ran, omitted) = cells.in_order();
    let mut all = Vec::with_capacity(ran.len() + 1);
    if omitted > 0 || gaps > 0 {
        let text = format!(
            "*Himalia: {omitted} earlier cells are left out, and at {gaps} places output is missing that is no longer kept.*"
        );
        all.push(json!({ "cell_type": "markdown", "id": "left-out", "metadata": {}, "source": text }));
    }
    all.extend(ran.iter().map(|ran| cell(kernel, cells, ran)));
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

fn cell(kernel: KernelId, cells: &Cells, ran: &RanCell) -> Value {
    let mut cell = json!({
        "cell_type": "code",
        // Unique in the log, and the same whenever the notebook is made.
        "id": format!("c{}", ran.seq),
        "metadata": { "himalia": {
            "execution": execution(kernel, ran),
            "status": cells.status(ran),
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
pub fn script(kernel: KernelId, cells: &Cells) -> String {
    let (ran, omitted) = cells.in_order();
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
        let (status, count) = (cells.status(ran), ran.cell.execution_count());
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
mod tests;
