//! Results of executions as text for models: what was printed, the values, the error; the last line says how it is.

use std::fmt::Write as _;

use himalia_engine::{
    ArtifactFile, ExecutionResult, ExecutionStatus, LostVariables, OmittedArtifacts, PromptInfo, PromptKind,
};
use serde_json::Value;

use crate::images::uri;

/// Names of lost variables in the text for models; the whole result has more.
const NAMES_SHOWN: usize = 30;
/// Files that are kept, that are left out, and that were written, in the text for models; the whole result has all.
const FILES_SHOWN: usize = 10;

/// True if a model should take the result for a failure of its call.
pub(crate) fn failed(status: ExecutionStatus) -> bool {
    status.is_over() && status != ExecutionStatus::Ok
}

/// The whole result. `images` has one line for each image; `memory`: the limit that was exceeded.
pub(crate) fn text(result: &ExecutionResult, images: &[String], memory: Option<u64>) -> String {
    let mut text = String::new();
    if let Some(replaced) = &result.kernel.replaced {
        let (now, before, cause) = (
            result.kernel.incarnation,
            replaced.incarnation,
            replaced.cause.as_deref().unwrap_or("unknown"),
        );
        let gone = gone(replaced.variables_lost.as_ref());
        line(
            &mut text,
            &format!("[new kernel process {now}: {gone}; process {before} ended: {cause}]"),
        );
    }
    // The way to the rest is a tool here.
    let printed = result.text.replace(
        &format!("GET /v1/executions/{}/output?cursor=", result.id),
        &format!("get_output {} cursor=", result.id),
    );
    line(&mut text, &printed);
    for output in &result.outputs {
        match (&output.summary, output.data.get("text/plain")) {
            (Some(summary), _) => line(&mut text, summary),
            (None, Some(Value::String(plain))) => line(&mut text, plain),
            _ => {}
        }
    }
    if result.outputs_omitted > 0 {
        line(
            &mut text,
            &format!("[{} outputs in the middle are left out]", result.outputs_omitted),
        );
    }
    for image in images {
        line(&mut text, image);
    }
    artifacts(&mut text, &result.artifacts, result.artifacts_omitted.as_ref());
    error(&mut text, result);
    notes(&mut text, result);
    text.push_str(&state(result, memory));
    text
}

/// A line for each file that is kept, and one for those that are not.
fn artifacts(text: &mut String, kept: &[ArtifactFile], omitted: Option<&OmittedArtifacts>) {
    for file in kept.iter().take(FILES_SHOWN) {
        let sha256 = file.artifact.trim_start_matches("sha256:");
        let (name, kind, bytes, uri) = (&file.name, &file.media_type, file.bytes, uri(sha256));
        line(text, &format!("[artifact {name}, {kind}, {bytes} bytes: {uri}]"));
    }
    if kept.len() > FILES_SHOWN {
        line(
            text,
            &format!(
                "[{} more artifacts: files(op=\"list\") in the directory artifacts]",
                kept.len().saturating_sub(FILES_SHOWN)
            ),
        );
    }
    let Some(omitted) = omitted else {
        return;
    };
    let shown = omitted.files.iter().take(FILES_SHOWN);
    let mut parts: Vec<_> = shown
        .map(|file| format!("{} ({}, {} bytes)", file.name, file.reason, file.bytes))
        .collect();
    let more = omitted.more + omitted.files.len().saturating_sub(FILES_SHOWN) as u64;
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    if omitted.truncated {
        parts.push("what was not looked at".to_owned());
    }
    line(text, &format!("[not kept as artifacts: {}]", parts.join(", ")));
}

fn error(text: &mut String, result: &ExecutionResult) {
    if let Some(error) = &result.error {
        for one in &error.traceback {
            line(text, one);
        }
        if error.traceback.is_empty() {
            line(text, &format!("{}: {}", error.name, error.value));
        }
        if let Some(frame) = &error.frame {
            line(text, &format!("[failing line {}: {}]", frame.line, frame.source));
        }
        if let Some(hint) = &error.hint {
            line(text, &format!("[hint: {hint}]"));
        }
    }
    if result.failed_before > 0 {
        line(
            text,
            &format!("[this very code failed {} times before]", result.failed_before),
        );
    }
    if result.failures_in_a_row > 1 {
        let failures = result.failures_in_a_row;
        line(text, &format!("[{failures} executions in a row failed]"));
    }
    if let Some(stuck) = &result.stuck {
        line(text, &format!("[hint: {}]", stuck.hint));
    }
    if let Some(death) = &result.death {
        line(
            text,
            &format!(
                "[kernel process {} ended: {}; {}]",
                death.incarnation,
                death.cause,
                gone(death.variables_lost.as_ref())
            ),
        );
    }
}

/// Note that names lost variables.
fn gone(lost: Option<&LostVariables>) -> String {
    let Some(lost) = lost.filter(|lost| !lost.names.is_empty()) else {
        return "its variables are gone".to_owned();
    };
    let shown = lost.names.len().min(NAMES_SHOWN);
    let more = if lost.truncated || lost.names.len() > shown {
        ", …"
    } else {
        ""
    };
    format!("its variables are gone: {}{more}", lost.names[..shown].join(", "))
}

fn notes(text: &mut String, result: &ExecutionResult) {
    if let Some(changes) = &result.variables {
        let names = |names: &[String], sign: &str| -> Vec<String> {
            names.iter().map(|name| format!("{sign}{name}")).collect()
        };
        let all = [
            names(&changes.added, "+"),
            names(&changes.changed, "~"),
            names(&changes.removed, "-"),
        ]
        .concat();
        if !all.is_empty() {
            line(text, &format!("[variables: {}]", all.join(" ")));
        }
    }
    if let Some(written) = &result.files {
        files(text, &written.written, written.truncated, &result.artifacts);
    }
    if result.gaps > 0 {
        line(text, &format!("[output is missing in {} places]", result.gaps));
    }
}

/// The files that were written, but for those that have a line as artifacts.
fn files(text: &mut String, written: &[String], truncated: bool, kept: &[ArtifactFile]) {
    let is_kept = |path: &str| {
        let name = path.strip_prefix("artifacts/");
        name.is_some_and(|name| kept.iter().any(|file| file.name == name))
    };
    let others: Vec<_> = written.iter().filter(|path| !is_kept(path)).collect();
    let shown: Vec<_> = others
        .iter()
        .take(FILES_SHOWN)
        .map(|path| path.as_str())
        .collect();
    if !shown.is_empty() {
        let more = if truncated || others.len() > FILES_SHOWN {
            ", …"
        } else {
            ""
        };
        line(text, &format!("[files written: {}{more}]", shown.join(", ")));
    }
}

/// Describes an open prompt.
fn waits(prompt: &PromptInfo) -> String {
    let (id, text) = (&prompt.id, &prompt.text);
    let options = match prompt.options.as_slice() {
        [] => String::new(),
        options => format!(" ({})", options.join(" | ")),
    };
    match (prompt.kind, &prompt.tool) {
        (PromptKind::Approval, Some(tool)) => {
            format!("[waits for the approval of {tool} by a person: {text:?}{options}; {id}]")
        }
        _ => format!(
            "[asks: {text:?}{options}; answer with execute(session, code=<the answer>, input_for=\"{id}\")]"
        ),
    }
}

/// The last line.
fn state(result: &ExecutionResult, memory: Option<u64>) -> String {
    let id = result.id;
    if let Some(prompt) = result.prompts.first() {
        return waits(prompt);
    }
    let mut state = match (result.status, &result.input) {
        (ExecutionStatus::Running, Some(input)) => {
            let asked = input.id.clone().unwrap_or_else(|| id.to_string());
            return format!(
                "[waits for input: {:?}; answer with execute(session, code=<the answer>, input_for=\"{asked}\")]",
                input.prompt
            );
        }
        (ExecutionStatus::Queued, _) => match result.position {
            None | Some(0) => "[queued, next".to_owned(),
            Some(position) => format!("[queued behind {position}"),
        },
        (status, _) => format!("[{}", word(status)),
    };
    if let Some(limit) = memory {
        let _ = write!(state, " (the limit of the session is {} MiB)", limit >> 20);
    }
    if result.status != ExecutionStatus::Queued {
        let _ = write!(state, ", {} ms", result.duration_ms);
    }
    if result.status.is_over() {
        let _ = write!(state, ", {id}]");
    } else {
        let _ = write!(state, "; it continues: get_output(\"{id}\", wait_s=50)]");
    }
    state
}

fn word(status: ExecutionStatus) -> &'static str {
    match status {
        ExecutionStatus::Queued => "queued",
        ExecutionStatus::Running => "running",
        ExecutionStatus::Ok => "ok",
        ExecutionStatus::Error => "error",
        ExecutionStatus::Timeout => "timeout: it was interrupted",
        ExecutionStatus::Interrupted => "interrupted",
        ExecutionStatus::KernelDied => "kernel died",
        ExecutionStatus::OomKilled => "kernel was killed: out of memory",
    }
}

fn line(text: &mut String, line: &str) {
    if !line.is_empty() {
        text.push_str(line);
        if !line.ends_with('\n') {
            text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use himalia_engine::OmittedArtifact;

    use super::*;

    #[test]
    fn files_that_are_kept_have_a_line_and_those_that_are_not_are_said() {
        let file = |n: usize| ArtifactFile {
            name: format!("{n}.csv"),
            media_type: "text/csv".into(),
            bytes: 3,
            artifact: format!("sha256:{n:064}"),
        };
        let mut text = String::new();
        artifacts(&mut text, &[file(7)], None);
        let line = format!(
            "[artifact 7.csv, text/csv, 3 bytes: himalia://artifacts/{:064}]\n",
            7
        );
        assert_eq!(text, line);
        text.clear();
        let omitted = |n: usize| OmittedArtifact {
            name: format!("{n}.bin"),
            bytes: 9,
            reason: "too_large".into(),
        };
        let omitted = OmittedArtifacts {
            files: (0..12).map(omitted).collect(),
            more: 4,
            truncated: true,
        };
        artifacts(&mut text, &(0..12).map(file).collect::<Vec<_>>(), Some(&omitted));
        assert_eq!(text.lines().count(), FILES_SHOWN + 2);
        assert!(text.contains("[2 more artifacts: files("));
        assert!(text.contains("[not kept as artifacts: 0.bin (too_large, 9 bytes), "));
        assert!(text.ends_with("6 more, what was not looked at]\n"), "{text}");
    }

    #[test]
    fn files_that_were_written_are_named_once() {
        let kept = ArtifactFile {
            name: "deep/a.csv".into(),
            media_type: "text/csv".into(),
            bytes: 3,
            artifact: format!("sha256:{:064}", 1),
        };
        let written = ["artifacts/deep/a.csv".to_owned(), "plot.png".to_owned()];
        let mut text = String::new();
        files(&mut text, &written, false, &[kept]);
        assert_eq!(text, "[files written: plot.png]\n");
        text.clear();
        let many: Vec<_> = (0..12).map(|n| format!("{n}.png")).collect();
        files(&mut text, &many, false, &[]);
        assert!(text.ends_with("8.png, 9.png, …]\n"), "{text}");
        text.clear();
        files(&mut text, &[], true, &[]);
        assert_eq!(text, "");
    }

    #[test]
    fn lost_variables_are_named_as_far_as_a_model_wants_them() {
        let lost = |names: usize| LostVariables {
            names: (0..names).map(|n| format!("v{n}")).collect(),
            truncated: false,
        };
        assert_eq!(gone(None), "its variables are gone");
        assert_eq!(gone(Some(&lost(0))), "its variables are gone");
        assert_eq!(gone(Some(&lost(2))), "its variables are gone: v0, v1");
        assert!(gone(Some(&lost(100))).ends_with("v28, v29, …"));
    }
}
