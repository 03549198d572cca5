//! One code cell of a notebook: the outputs of an execution as nbformat 4.5 keeps them, in their order.
//!
//! Unlike [`Fold`](crate::Fold) this keeps images and other values within the outputs. A stream is one output for each name between
//! two displays, as a terminal leaves it ([`Screen`]). The format is that of
//! [nbformat](https://nbformat.readthedocs.io/en/latest/format_description.html): what a kernel sends in another shape is brought
//! into it, or left out.

use std::collections::VecDeque;

use himalia_wire::{Channel, Parts, header};
use serde_json::{Map, Value as Json, json};

use crate::display_id::display_id;
use crate::excerpt::Excerpt;
use crate::failure::Failure;
use crate::fold::UNREADABLE;
use crate::reply::ReplyStatus;
use crate::screen::Screen;

/// Outputs of a cell that are kept: half of them the first ones, half the last ones.
pub const MAX_CELL_OUTPUTS: usize = 200;
/// Characters of one stream that are kept: the first half and the last half.
pub const CELL_STREAM_CHARS: usize = 100_000;
/// Bytes of one output, as JSON; a larger one is replaced by a note.
pub const CELL_OUTPUT_BYTES: usize = 16 << 20;

/// The outputs of one execution.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    first: Vec<CellOutput>,
    last: VecDeque<CellOutput>,
    omitted: u64,
    bytes: usize,
    clear_next: bool,
    count: Option<u64>,
    replied: Option<ReplyStatus>,
    dropped: bool,
}

#[derive(Clone, Debug)]
enum CellOutput {
    Stream(bool, Box<Screen<Excerpt>>),
    Output {
        json: Json,
        display_id: Option<String>,
        bytes: usize,
    },
}

impl CellOutput {
    fn bytes(&self) -> usize {
        match self {
            Self::Stream(..) => 0,
            Self::Output { bytes, .. } => *bytes,
        }
    }
}

impl Cell {
    /// The kernel's own count.
    pub fn execution_count(&self) -> Option<u64> {
        self.count
    }

    /// The status of the reply, once there is one.
    pub fn replied(&self) -> Option<ReplyStatus> {
        self.replied
    }

    /// Bytes of what is kept, streams left aside: those are bounded by [`CELL_STREAM_CHARS`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets all outputs, those to come included, and says so where they were.
    pub fn drop_outputs(&mut self) {
        self.clear();
        self.dropped = true;
    }

    /// Text of the gateway's own, on standard error.
    pub fn note(&mut self, text: &str) {
        self.stream(true, text);
    }

    /// The next message of the execution.
    pub fn message(&mut self, channel: Channel, parts: &Parts) {
        let content = serde_json::from_slice::<Map<String, Json>>(&parts.content);
        let (Ok(header), Ok(mut content)) = (header::peek(&parts.header), content) else {
            if channel == Channel::Iopub {
                self.note(UNREADABLE);
            }
            return;
        };
        match (channel, &*header.msg_type) {
            (Channel::Iopub, "execute_input") => self.count(&content),
            (Channel::Shell, "execute_reply") => {
                let status = content.get("status").and_then(Json::as_str).unwrap_or_default();
                let replied = ReplyStatus::from_status(status);
                if replied == ReplyStatus::Error && !self.has_error() {
                    self.push(error(&content), None);
                }
                self.replied = Some(replied);
                self.count(&content);
            }
            _ if self.dropped => {}
            (Channel::Iopub, "stream") => {
                self.clear_if_due();
                let is_stderr = content.get("name").and_then(Json::as_str) == Some("stderr");
                self.stream(
                    is_stderr,
                    content.get("text").and_then(Json::as_str).unwrap_or_default(),
                );
            }
            (Channel::Iopub, kind @ ("display_data" | "execute_result")) => {
                self.clear_if_due();
                self.count(&content);
                let result = (kind == "execute_result").then_some(self.count.into());
                let id = display_id(&content);
                self.push(display(&mut content, result), id);
            }
            (Channel::Iopub, "update_display_data") => self.update(&mut content),
            (Channel::Iopub, "clear_output") => {
                self.clear_next = true;
                if content.get("wait") != Some(&Json::Bool(true)) {
                    self.clear_if_due();
                }
            }
            (Channel::Iopub, "error") => {
                self.clear_if_due();
                self.push(error(&content), None);
            }
            _ => {}
        }
    }

    /// All outputs, in nbformat's form.
    pub fn outputs(&self) -> Vec<Json> {
        let show = |kept: &CellOutput| match kept {
            CellOutput::Output { json, .. } => json.clone(),
            CellOutput::Stream(is_stderr, screen) => {
                let text = screen.as_ref().clone().finish().shown().text("");
                stream(*is_stderr, &text)
            }
        };
        let mut out: Vec<Json> = self.first.iter().map(show).collect();
        if self.omitted > 0 {
            let text = format!("[himalia: {} outputs are left out here]\n", self.omitted);
            out.push(stream(true, &text));
        }
        out.extend(self.last.iter().map(show));
        if self.dropped {
            let text = "[himalia: the outputs of this cell are left out: the notebook would be too large]\n";
            out.push(stream(true, text));
        }
        out
    }

    fn all(&mut self) -> impl DoubleEndedIterator<Item = &mut CellOutput> {
        self.first.iter_mut().chain(&mut self.last)
    }

    fn has_error(&mut self) -> bool {
        self.all()
            .any(|kept| matches!(kept, CellOutput::Output { json, .. } if json["output_type"] == "error"))
    }

    fn stream(&mut self, is_stderr: bool, text: &str) {
        // The one of this name since the latest display.
        for kept in self.all().rev() {
            match kept {
                CellOutput::Stream(name, screen) if *name == is_stderr => {
                    screen.write(is_stderr, text);
                    return;
                }
                CellOutput::Stream(..) => {}
                CellOutput::Output { .. } => break,
            }
        }
        let mut screen = Screen::new(Excerpt::new(CELL_STREAM_CHARS));
        screen.write(is_stderr, text);
        self.keep(CellOutput::Stream(is_stderr, Box::new(screen)));
    }

    fn push(&mut self, json: Json, display_id: Option<String>) {
        if self.dropped {
            return;
        }
        let (json, bytes) = bounded(json);
        self.keep(CellOutput::Output {
            json,
            display_id,
            bytes,
        });
    }

    fn keep(&mut self, kept: CellOutput) {
        self.bytes += kept.bytes();
        if self.first.len() < MAX_CELL_OUTPUTS / 2 {
            self.first.push(kept);
            return;
        }
        self.last.push_back(kept);
        if self.last.len() > MAX_CELL_OUTPUTS / 2
            && let Some(oldest) = self.last.pop_front()
        {
            self.bytes -= oldest.bytes();
            self.omitted += 1;
        }
    }

    /// Replaces the content of the outputs with this display id, which keep their type.
    fn update(&mut self, content: &mut Map<String, Json>) {
        let Some(id) = display_id(content) else { return };
        let (new, size) = bounded(display(content, None));
        let mut change = 0_usize;
        let mut gone = 0_usize;
        for kept in self.all() {
            if let CellOutput::Output {
                json,
                display_id: Some(known),
                bytes,
            } = kept
                && *known == id
            {
                for member in ["data", "metadata"] {
                    json[member] = new[member].clone();
                }
                gone += std::mem::replace(bytes, size);
                change += size;
            }
        }
        self.bytes = (self.bytes + change).saturating_sub(gone);
    }

    fn count(&mut self, content: &Map<String, Json>) {
        let count = content.get("execution_count").and_then(Json::as_u64);
        self.count = count.or(self.count);
    }

    fn clear_if_due(&mut self) {
        if std::mem::take(&mut self.clear_next) {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.first.clear();
        self.last.clear();
        (self.omitted, self.bytes) = (0, 0);
    }
}

fn stream(is_stderr: bool, text: &str) -> Json {
    let name = if is_stderr { "stderr" } else { "stdout" };
    json!({ "output_type": "stream", "name": name, "text": text })
}

/// A display; with a count, which may be null, a result.
fn display(content: &mut Map<String, Json>, count: Option<Json>) -> Json {
    let mut out = json!({ "output_type": "display_data", "data": {}, "metadata": {} });
    if let Some(count) = count {
        out["output_type"] = "execute_result".into();
        out["execution_count"] = count;
    }
    if let Some(Json::Object(data)) = content.remove("data") {
        out["data"] = data
            .into_iter()
            .map(|(kind, value)| (kind.clone(), text_of(&kind, value)))
            .collect();
    }
    if let Some(metadata @ Json::Object(_)) = content.remove("metadata") {
        out["metadata"] = metadata;
    }
    out
}

/// A value of a bundle: all types but JSON are text, or a list of its lines.
fn text_of(kind: &str, value: Json) -> Json {
    let is_json = kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"));
    let lines = |value: &Json| {
        value
            .as_array()
            .is_some_and(|all| all.iter().all(Json::is_string))
    };
    if is_json || value.is_string() || lines(&value) {
        value
    } else {
        value.to_string().into()
    }
}

fn error(content: &Map<String, Json>) -> Json {
    let failure = Failure::read(content);
    json!({
        "output_type": "error", "ename": failure.name, "evalue": failure.value, "traceback": failure.traceback,
    })
}

/// An output and its length; a note in place of one that is too large.
fn bounded(json: Json) -> (Json, usize) {
    let bytes = serde_json::to_string(&json).map_or(0, |text| text.len());
    if bytes <= CELL_OUTPUT_BYTES {
        return (json, bytes);
    }
    let text = format!("[himalia: an output of {bytes} bytes is left out here]");
    let mut note =
        json!({ "output_type": json["output_type"], "data": { "text/plain": text }, "metadata": {} });
    if let Some(count) = json.get("execution_count") {
        note["execution_count"] = count.clone();
    }
    (note, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use himalia_wire::build;

    fn put(cell: &mut Cell, channel: Channel, msg_type: &str, content: &Json) {
        cell.message(channel, &build::message("kernel", msg_type, None, content));
    }

    fn say(cell: &mut Cell, name: &str, text: &str) {
        put(
            cell,
            Channel::Iopub,
            "stream",
            &json!({ "name": name, "text": text }),
        );
    }

    #[test]
    fn outputs_stand_in_their_order_and_streams_are_folded() {
        let mut cell = Cell::default();
        say(&mut cell, "stdout", "one\n");
        say(&mut cell, "stderr", "\r 1%");
        say(&mut cell, "stdout", "two\n");
        say(&mut cell, "stderr", "\r99%\n");
        let picture = json!({"data": {"image/png": "aGk=", "text/plain": 3}, "metadata": {"a": 1}});
        put(&mut cell, Channel::Iopub, "display_data", &picture);
        say(&mut cell, "stdout", "three\n");
        let result =
            json!({"data": {"text/plain": "42", "application/json": {"a": 1}}, "execution_count": 7});
        put(&mut cell, Channel::Iopub, "execute_result", &result);
        put(
            &mut cell,
            Channel::Shell,
            "execute_reply",
            &json!({"status": "ok", "execution_count": 7}),
        );
        assert_eq!(
            Json::from(cell.outputs()),
            json!([
                {"output_type": "stream", "name": "stdout", "text": "one\ntwo\n"},
                {"output_type": "stream", "name": "stderr", "text": "99%\n"},
                {"output_type": "display_data", "data": {"image/png": "aGk=", "text/plain": "3"}, "metadata": {"a": 1}},
                {"output_type": "stream", "name": "stdout", "text": "three\n"},
                {"output_type": "execute_result", "data": {"text/plain": "42", "application/json": {"a": 1}},
                 "metadata": {}, "execution_count": 7},
            ])
        );
        assert_eq!(
            (cell.execution_count(), cell.replied()),
            (Some(7), Some(ReplyStatus::Ok))
        );
    }

    #[test]
    fn updates_clears_and_errors() {
        let mut cell = Cell::default();
        let shown = |text: &str| json!({"data": {"text/plain": text}, "transient": {"display_id": "d"}});
        put(&mut cell, Channel::Iopub, "display_data", &shown("a"));
        put(&mut cell, Channel::Iopub, "update_display_data", &shown("bb"));
        assert_eq!(cell.outputs()[0]["data"]["text/plain"], "bb");
        let bytes = cell.bytes();
        assert_eq!(bytes, serde_json::to_string(&cell.outputs()[0]).unwrap().len());
        put(&mut cell, Channel::Iopub, "clear_output", &json!({"wait": true}));
        assert_eq!(cell.outputs().len(), 1);
        let failed = json!({"status": "error", "ename": "E", "evalue": "x", "traceback": ["t"]});
        put(&mut cell, Channel::Iopub, "error", &failed);
        put(&mut cell, Channel::Shell, "execute_reply", &failed);
        let outputs = cell.outputs();
        assert_eq!((outputs.len(), &outputs[0]["ename"]), (1, &json!("E")));
        // A kernel that says it in its reply alone.
        let mut silent = Cell::default();
        put(&mut silent, Channel::Shell, "execute_reply", &failed);
        assert_eq!(silent.outputs()[0]["output_type"], "error");
    }

    #[test]
    fn everything_is_bounded_and_says_so() {
        let mut cell = Cell::default();
        for number in 0..1000 {
            put(
                &mut cell,
                Channel::Iopub,
                "display_data",
                &json!({"data": {"text/plain": number.to_string()}}),
            );
        }
        let outputs = cell.outputs();
        assert_eq!(outputs.len(), MAX_CELL_OUTPUTS + 1);
        assert!(
            outputs[MAX_CELL_OUTPUTS / 2]["text"]
                .as_str()
                .unwrap()
                .contains("800 outputs")
        );
        let mut cell = Cell::default();
        let large = "x".repeat(CELL_OUTPUT_BYTES);
        put(
            &mut cell,
            Channel::Iopub,
            "display_data",
            &json!({"data": {"text/plain": large}}),
        );
        assert!(cell.outputs()[0].to_string().len() < 200 && cell.bytes() == 0);
        cell.drop_outputs();
        say(&mut cell, "stdout", "more");
        put(
            &mut cell,
            Channel::Shell,
            "execute_reply",
            &json!({"status": "error"}),
        );
        assert_eq!(cell.outputs().len(), 1);
    }
}
