//! Folds messages into one result.

use himalia_wire::{Channel, MAX_JSON_MEMORY, Parts, exceeds_json_memory, header};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::bundle::Artifact;
use crate::excerpt::{Excerpt, ExcerptText};
use crate::failure::Failure;
use crate::kept::{ArtifactFile, ArtifactFiles, OmittedArtifacts};
use crate::mark::Mark;
use crate::outputs::{Output, Outputs};
use crate::prompt;
use crate::reply::{Notes, ReplyStatus};
use crate::screen::{Screen, Sink};

/// Stands in the text in place of a message that cannot be read.
pub const UNREADABLE: &str = "[himalia: a message of this kernel could not be read]\n";

/// Bytes of memory that the values of a message may take. One that takes more is not read.
const MAX_MEMORY: usize = 4 * MAX_JSON_MEMORY;

/// Request for input by the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Input {
    /// The question, at most [`crate::MAX_PROMPT_CHARS`] characters without control characters other than line feeds and tabs.
    pub prompt: String,
    /// The answer is a secret.
    pub password: bool,
    /// The prompt that it is, by which it is answered. The fold of messages does not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Outcome of an execution so far.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Standard output and standard error.
    pub text: ExcerptText,
    /// Displays and results.
    pub outputs: Vec<Output>,
    /// Outputs between the first and the last ones that were left out.
    pub outputs_omitted: u64,
    /// Exception that the code raised.
    pub error: Option<Failure>,
    /// The kernel's own count.
    pub execution_count: Option<u64>,
    /// The status of the reply, once there is one.
    pub replied: Option<ReplyStatus>,
    /// Variables and files, from kernels that say.
    pub notes: Notes,
    /// Open request for input.
    pub input: Option<Input>,
    /// Files that are kept.
    pub artifacts: Vec<ArtifactFile>,
    /// Files that were to be kept, and are not.
    pub artifacts_omitted: Option<OmittedArtifacts>,
    /// Messages that could not be read.
    pub unreadable: u64,
}

/// Folds the messages of one execution. `S` is what becomes of its text: an [`Excerpt`], or a [`crate::Page`].
#[derive(Clone, Debug)]
pub struct Fold<S = Excerpt> {
    text_chars: usize,
    pub(crate) screen: Screen<S>,
    pub(crate) outputs: Outputs,
    pub(crate) files: ArtifactFiles,
    /// True if all output is cleared as soon as new output comes.
    pub(crate) clear_next: bool,
    /// Number of times that the output was cleared.
    cleared: u64,
    error: Option<Failure>,
    execution_count: Option<u64>,
    replied: Option<ReplyStatus>,
    notes: Notes,
    input: Option<Input>,
    unreadable: u64,
}

impl Fold<Excerpt> {
    /// For at most `text_chars` characters of printed text, and as many of all `text/plain` outputs together.
    pub fn new(text_chars: usize) -> Self {
        Self::over(Excerpt::new(text_chars), text_chars)
    }

    /// Outcome so far.
    pub fn outcome(&self) -> Outcome {
        let (outputs, outputs_omitted) = self.outputs.shown(self.text_chars);
        let mut error = self.error.clone();
        if let (Some(error), Some(known)) = (&mut error, &self.notes.error) {
            error.annotate(known);
        }
        Outcome {
            text: self.screen.clone().finish().shown(),
            outputs,
            outputs_omitted,
            error,
            execution_count: self.execution_count,
            replied: self.replied,
            notes: self.notes.clone(),
            input: self.input.clone(),
            artifacts: self.files.shown(),
            artifacts_omitted: self.files.omitted(self.notes.artifacts.as_ref()),
            unreadable: self.unreadable,
        }
    }
}

impl<S: Sink> Fold<S> {
    /// With a sink of the caller's for the text.
    pub fn over(sink: S, text_chars: usize) -> Self {
        Self::of(Screen::new(sink), text_chars)
    }

    fn of(screen: Screen<S>, text_chars: usize) -> Self {
        Self {
            text_chars,
            screen,
            outputs: Outputs::default(),
            files: ArtifactFiles::default(),
            clear_next: false,
            cleared: 0,
            error: None,
            execution_count: None,
            replied: None,
            notes: Notes::default(),
            input: None,
            unreadable: 0,
        }
    }

    /// The text alone, from a place in it on. Outputs are not kept.
    pub(crate) fn resumed(mark: &Mark, sink: S) -> Self {
        let mut fold = Self::of(mark.screen.over(sink), 0);
        fold.clear_next = mark.clear_next;
        fold
    }

    /// Number of times that all output was cleared.
    pub fn cleared(&self) -> u64 {
        self.cleared
    }

    /// Sink of the text that can no longer change.
    pub fn text(&self) -> &S {
        self.screen.sink()
    }

    /// Notes of the reply, in addition to its status.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// The sink, with all text so far.
    pub fn into_text(self) -> S {
        self.screen.finish()
    }

    /// A question waits for its answer.
    pub fn asks(&self) -> bool {
        self.input.is_some()
    }

    /// The question, if there is one, has its answer.
    pub fn answered(&mut self) {
        self.input = None;
    }

    /// Text of the gateway's own, such as a note on messages that are missing, on standard error.
    pub fn note(&mut self, text: &str) {
        self.screen.write(true, text);
    }

    /// The next message of the execution. What is returned is to be kept: the outcome refers to it.
    pub fn message(&mut self, channel: Channel, parts: &Parts) -> Vec<Artifact> {
        let mut artifacts = Vec::new();
        let content = (!exceeds_json_memory(&parts.content, MAX_MEMORY))
            .then(|| serde_json::from_slice::<Map<String, Json>>(&parts.content).ok())
            .flatten();
        let (Ok(header), Some(mut content)) = (header::peek(&parts.header), content) else {
            self.unreadable += 1;
            if channel == Channel::Iopub {
                self.note(UNREADABLE);
            }
            return artifacts;
        };
        let text = |content: &Map<String, Json>, name: &str| {
            content
                .get(name)
                .and_then(Json::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        match (channel, &*header.msg_type) {
            (Channel::Iopub, "stream") => {
                self.clear_if_due();
                self.screen
                    .write(text(&content, "name") == "stderr", &text(&content, "text"));
            }
            (Channel::Iopub, "display_data") => {
                self.clear_if_due();
                self.outputs
                    .add("display_data", &mut content, self.text_chars, &mut artifacts);
            }
            (Channel::Iopub, "execute_result") => {
                self.clear_if_due();
                self.outputs
                    .add("execute_result", &mut content, self.text_chars, &mut artifacts);
            }
            (Channel::Iopub, "update_display_data") => {
                self.outputs.update(&mut content, self.text_chars, &mut artifacts);
            }
            (Channel::Iopub, "clear_output") => {
                self.clear_next = true;
                if content.get("wait") != Some(&Json::Bool(true)) {
                    self.clear_if_due();
                }
            }
            (Channel::Iopub, "error") => {
                self.clear_if_due();
                self.error = Some(Failure::read(&content));
            }
            (Channel::Iopub, "himalia_artifact") => self.files.add(&content, &parts.buffers, &mut artifacts),
            (Channel::Iopub, "execute_input") => self.count(&content),
            (Channel::Shell, "execute_reply") => {
                let replied = ReplyStatus::from_status(&text(&content, "status"));
                if replied == ReplyStatus::Error && self.error.is_none() {
                    self.error = Some(Failure::read(&content));
                }
                self.replied = Some(replied);
                self.input = None;
                self.count(&content);
                let mut metadata = serde_json::from_slice(&parts.metadata).unwrap_or_default();
                self.notes = Notes::read(&mut metadata);
            }
            (Channel::Stdin, "input_request") => {
                let password = content.get("password") == Some(&Json::Bool(true));
                self.input = Some(Input {
                    prompt: prompt::shown(&text(&content, "prompt")),
                    password,
                    id: None,
                });
            }
            _ => {}
        }
        artifacts
    }

    fn count(&mut self, content: &Map<String, Json>) {
        self.execution_count = content
            .get("execution_count")
            .and_then(Json::as_u64)
            .or(self.execution_count);
    }

    fn clear_if_due(&mut self) {
        if std::mem::take(&mut self.clear_next) {
            self.screen.clear();
            self.outputs.clear();
            self.cleared += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use himalia_wire::build;
    use serde_json::json;

    fn put(fold: &mut Fold, channel: Channel, msg_type: &str, content: &Json) {
        fold.message(channel, &build::message("kernel", msg_type, None, content));
    }

    fn stream(fold: &mut Fold, text: &str) {
        put(
            fold,
            Channel::Iopub,
            "stream",
            &json!({"name": "stdout", "text": text}),
        );
    }

    #[test]
    fn a_message_that_takes_far_more_memory_than_bytes_is_not_read() {
        let shown = |item: &str, count| {
            let mut fold = Fold::new(100);
            let mut message = build::message("kernel", "display_data", None, &json!({}));
            let list = vec![item; count].join(",");
            message.content =
                format!(r#"{{"data": {{"application/json": [{list}]}}, "metadata": {{}}}}"#).into();
            fold.message(Channel::Iopub, &message);
            (fold.outcome().text.head, fold.outcome().outputs.len())
        };
        assert_eq!(shown("0.25", 100_000), (String::new(), 1));
        assert_eq!(shown(r#"{"a":0}"#, 400_000), (UNREADABLE.to_owned(), 0));
    }

    #[test]
    fn an_execution_from_its_input_to_its_reply() {
        let mut fold = Fold::new(100);
        put(
            &mut fold,
            Channel::Iopub,
            "execute_input",
            &json!({"code": "x", "execution_count": 7}),
        );
        stream(&mut fold, "hello\n");
        put(
            &mut fold,
            Channel::Iopub,
            "execute_result",
            &json!({"data": {"text/plain": "42"}, "execution_count": 7}),
        );
        put(
            &mut fold,
            Channel::Stdin,
            "input_request",
            &json!({"prompt": "name?", "password": false}),
        );
        assert_eq!(fold.outcome().input.unwrap().prompt, "name?");
        let mut reply = build::message(
            "kernel",
            "execute_reply",
            None,
            &json!({"status": "ok", "execution_count": 7}),
        );
        reply.metadata =
            json!({"himalia": {"variables": {"added": ["df"]}, "files": {"written": ["a.csv"]}, "exit_code": 0, "later": 1,
                "usage": {"cpu_ms": 7, "peak_memory_bytes": null}, "packages": "0a"}})
                .to_string()
                .into();
        fold.message(Channel::Shell, &reply);
        let outcome = fold.outcome();
        assert_eq!(
            (outcome.text.head.as_str(), outcome.execution_count),
            ("hello\n", Some(7))
        );
        assert_eq!(
            (outcome.replied, outcome.error, outcome.input),
            (Some(ReplyStatus::Ok), None, None)
        );
        assert_eq!(outcome.outputs[0].data["text/plain"], "42");
        assert_eq!(outcome.notes.variables.unwrap().added, ["df"]);
        assert_eq!(outcome.notes.exit_code, Some(0));
        assert_eq!(
            (outcome.notes.usage.cpu_ms, outcome.notes.usage.peak_memory_bytes),
            (Some(7), None)
        );
        assert_eq!(outcome.notes.packages.as_deref(), Some("0a"));
        assert_eq!(outcome.notes.files.unwrap().written, ["a.csv"]);
    }

    #[test]
    fn an_error_has_the_kernels_own_knowledge_of_it() {
        let mut fold = Fold::new(100);
        let content = json!({"ename": "KeyError", "evalue": "'x'", "traceback": [], "status": "error"});
        put(&mut fold, Channel::Iopub, "error", &content);
        let mut reply = build::message("kernel", "execute_reply", None, &content);
        reply.metadata =
            json!({"himalia": {"error": {"line": 3, "source": "df['x']", "hint": "columns: a"}}})
                .to_string()
                .into();
        fold.message(Channel::Shell, &reply);
        let error = fold.outcome().error.unwrap();
        assert_eq!(
            (
                error.name.as_str(),
                error.frame.unwrap().line,
                error.hint.as_deref()
            ),
            ("KeyError", 3, Some("columns: a"))
        );
    }

    #[test]
    fn clear_output_takes_back_at_once_or_with_the_next_output() {
        let mut fold = Fold::new(100);
        stream(&mut fold, "one\n");
        put(&mut fold, Channel::Iopub, "clear_output", &json!({"wait": true}));
        assert_eq!(fold.outcome().text.head, "one\n");
        stream(&mut fold, "two\n");
        assert_eq!(fold.outcome().text.head, "two\n");
        put(&mut fold, Channel::Iopub, "clear_output", &json!({"wait": false}));
        assert_eq!(fold.outcome().text.bytes_total, 0);
    }

    #[test]
    fn a_display_is_updated_where_it_stands() {
        let mut fold = Fold::new(100);
        let display =
            |text: &str, id: &str| json!({"data": {"text/plain": text}, "transient": {"display_id": id}});
        put(&mut fold, Channel::Iopub, "display_data", &display("0", "a"));
        put(&mut fold, Channel::Iopub, "display_data", &display("x", "b"));
        put(
            &mut fold,
            Channel::Iopub,
            "update_display_data",
            &display("1", "a"),
        );
        put(
            &mut fold,
            Channel::Iopub,
            "update_display_data",
            &display("elsewhere", "c"),
        );
        let texts: Vec<_> = fold
            .outcome()
            .outputs
            .iter()
            .map(|output| output.data["text/plain"].clone())
            .collect();
        assert_eq!(texts, ["1", "x", "elsewhere"]);
    }

    #[test]
    fn outputs_are_bounded_in_number_and_text() {
        let mut fold = Fold::new(640);
        for number in 0..1000 {
            let text = format!("{number:04}{}", "x".repeat(100));
            put(
                &mut fold,
                Channel::Iopub,
                "display_data",
                &json!({"data": {"text/plain": text}}),
            );
        }
        let outcome = fold.outcome();
        assert_eq!((outcome.outputs.len() as u64, outcome.outputs_omitted), (64, 936));
        let text = |at: usize| outcome.outputs[at].data["text/plain"].as_str().unwrap()[..4].to_owned();
        assert_eq!((text(0).as_str(), text(63).as_str()), ("0000", "0999"));
        assert_eq!(outcome.outputs[0].truncated.unwrap().bytes_total, 104);
        assert_eq!(outcome.outputs[0].truncated.unwrap().bytes_shown, 10);
    }

    #[test]
    fn a_kernel_tells_a_summary_and_a_smaller_copy_of_an_image() {
        const PIXEL: &str =
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=";
        let mut fold = Fold::new(20);
        let told = |metadata: Json| json!({"data": {"text/plain": "<x>"}, "metadata": {"himalia": metadata}});
        let shown = [
            told(json!({"summary": "\u{1b}[31mred", "preview": PIXEL})),
            told(json!({"summary": "x".repeat(100), "preview": "aGk="})),
            told(json!({"summary": 3, "preview": 4})),
        ];
        let mut kept = Vec::new();
        for content in &shown {
            let parts = build::message("kernel", "display_data", None, content);
            kept.extend(fold.message(Channel::Iopub, &parts));
        }
        let outputs = fold.outcome().outputs;
        assert_eq!(outputs[0].summary.as_deref(), Some("red"));
        let preview = outputs[0].preview.as_ref().unwrap();
        assert_eq!(preview["artifact"], format!("sha256:{}", kept[0].sha256));
        assert_eq!(
            (kept.len(), &preview["width"]),
            (1, &json!(1)),
            "what is no PNG is not kept"
        );
        let cut = outputs[1].summary.as_ref().unwrap();
        assert!(cut.len() < 100 && outputs[1].preview.is_none(), "{cut}");
        assert!(outputs[2].summary.is_none() && outputs[2].preview.is_none());
    }

    #[test]
    fn a_kernel_tells_of_tables_and_plots() {
        let mut fold = Fold::new(100);
        let told = |id: &str, metadata: Json| json!({"data": {"text/plain": "x"}, "metadata": {"himalia": metadata}, "transient": {"display_id": id}});
        let table = json!({"shape": [2, 1], "rows": [[1], [2]]});
        let large = json!({"axes": ["x".repeat(3000)]});
        let shown = [
            told("a", json!({"table": table, "figure": {"width": 1}})),
            told("b", json!({"plot": large})),
            told("c", json!({"table": 3})),
            json!({"data": {}, "metadata": {"himalia": []}}),
        ];
        let mut kept = Vec::new();
        for content in &shown {
            let parts = build::message("kernel", "display_data", None, content);
            kept.extend(fold.message(Channel::Iopub, &parts));
        }
        let outputs = fold.outcome().outputs;
        assert_eq!(
            (outputs[0].table.as_ref(), &outputs[0].plot),
            (Some(&table), &None)
        );
        let plot = outputs[1].plot.as_ref().unwrap();
        assert_eq!(plot["artifact"], format!("sha256:{}", kept[0].sha256));
        assert_eq!((kept.len(), kept[0].media_type.as_str()), (1, "application/json"));
        assert!(
            outputs[2..]
                .iter()
                .all(|one| one.table.is_none() && one.plot.is_none())
        );

        assert!(
            outputs
                .iter()
                .all(|one| one.summary.is_none() && one.preview.is_none())
        );

        // With another content come other facts.
        put(
            &mut fold,
            Channel::Iopub,
            "update_display_data",
            &told("a", json!({})),
        );
        assert_eq!(fold.outcome().outputs[0].table, None);
    }

    #[test]
    fn a_file_that_is_kept_is_an_artifact_and_what_is_left_out_is_said() {
        let mut fold = Fold::new(100);
        let said = json!({"name": "a.csv", "media_type": "text/csv"});
        let mut parts = build::message("kernel", "himalia_artifact", None, &said);
        parts.buffers.push("1,2".into());
        let kept = fold.message(Channel::Iopub, &parts);
        // What the code has displayed, and takes back, is something else.
        put(&mut fold, Channel::Iopub, "clear_output", &json!({}));
        let files = json!([{"name": "b\n.bin", "bytes": 9, "reason": "too_large"}]);
        let metadata = json!({"himalia": {"artifacts": {"files": files, "more": 2, "truncated": true}}});
        let mut reply = build::message("kernel", "execute_reply", None, &json!({"status": "ok"}));
        reply.metadata = metadata.to_string().into();
        fold.message(Channel::Shell, &reply);
        let outcome = fold.outcome();
        let shown: Vec<_> = outcome
            .artifacts
            .iter()
            .map(|file| (&*file.name, file.bytes))
            .collect();
        assert_eq!(shown, [("a.csv", 3)]);
        assert_eq!(
            outcome.artifacts[0].artifact,
            format!("sha256:{}", kept[0].sha256)
        );
        assert!(outcome.outputs.is_empty());
        let omitted = outcome.artifacts_omitted.unwrap();
        assert_eq!(omitted.files[0].name, "b\u{fffd}.bin");
        assert_eq!((omitted.more, omitted.truncated), (2, true));
    }

    #[test]
    fn what_cannot_be_read_is_counted() {
        let mut fold = Fold::new(100);
        let mut parts = build::message("kernel", "stream", None, &json!({}));
        parts.content = "[".into();
        fold.message(Channel::Iopub, &parts);
        put(
            &mut fold,
            Channel::Iopub,
            "stream",
            &json!({"name": 1, "text": []}),
        );
        put(
            &mut fold,
            Channel::Iopub,
            "display_data",
            &json!({"data": 3, "transient": 1}),
        );
        put(
            &mut fold,
            Channel::Shell,
            "execute_reply",
            &json!({"status": "strange"}),
        );
        let outcome = fold.outcome();
        assert_eq!(
            (outcome.unreadable, outcome.replied),
            (1, Some(ReplyStatus::Error))
        );
        assert_eq!(outcome.text.head, UNREADABLE);
    }
}
