//! The displays and results of an execution, as a notebook would keep them.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::bundle::{self, Artifact, Bundle, Value};
use crate::described;
use crate::display_id::display_id;
use crate::excerpt::Excerpt;

/// Outputs that are kept: half of them the first ones, half the last ones.
pub const MAX_OUTPUTS: usize = 64;

/// One output, in the form of nbformat.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Output {
    /// `display_data` or `execute_result`.
    pub output_type: &'static str,
    /// By MIME type: text, JSON, or where the content is.
    #[schemars(with = "std::collections::BTreeMap<String, described::Content>")]
    pub data: Map<String, Json>,
    /// Head of a frame or series, from kernels that send it: `{shape, columns, columns_total, index, rows}`, or a reference to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<described::TableOrArtifact>")]
    pub table: Option<Json>,
    /// Data of a figure, from kernels that send it: its lines, scatters and bars as `{axes}`, or a reference to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<described::PlotOrArtifact>")]
    pub plot: Option<Json>,
    /// Text of a display without a useful `text/plain` (Markdown, HTML, a styled frame, a figure of plotly), from kernels that send it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Reference to a smaller copy of an image with more than 2,000 pixels on a side, from kernels that send it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<described::Reference>")]
    pub preview: Option<Json>,
    /// Size of a text that is shown in part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<TruncatedText>,
}

/// Size of a text, and of its shown part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TruncatedText {
    /// UTF-8 bytes of the whole.
    pub bytes_total: u64,
    /// UTF-8 bytes of it that are shown.
    pub bytes_shown: u64,
}

#[derive(Clone, Debug)]
struct OutputEntry {
    kind: &'static str,
    shown: OutputExcerpt,
    display_id: Option<String>,
}

#[derive(Clone, Debug)]
struct OutputExcerpt {
    bundle: Bundle,
    table: Option<Value>,
    plot: Option<Value>,
    summary: Option<Excerpt>,
    preview: Option<Value>,
}

impl OutputExcerpt {
    fn read(content: &mut Map<String, Json>, text_chars: usize, artifacts: &mut Vec<Artifact>) -> Self {
        let mut told = match content.get_mut("metadata").and_then(|all| all.get_mut("himalia")) {
            Some(Json::Object(told)) => std::mem::take(told),
            _ => Map::new(),
        };
        let bundle = bundle::read(take_data(content), text_chars, artifacts);
        let mut take = |name: &str| {
            let told = told.remove(name).filter(Json::is_object)?;
            Some(bundle::json(told, artifacts))
        };
        let (table, plot) = (take("table"), take("plot"));
        let mut text = |name: &str| match told.remove(name) {
            Some(Json::String(text)) if !text.is_empty() => Some(text),
            _ => None,
        };
        let summary = text("summary").map(|text| bundle::excerpt(&text, text_chars));
        let preview = text("preview").and_then(|image| bundle::png(&image, artifacts));
        Self {
            bundle,
            table,
            plot,
            summary,
            preview,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Outputs {
    first: Vec<OutputEntry>,
    last: VecDeque<OutputEntry>,
    omitted: u64,
}

impl Outputs {
    /// A further output; `content` is that of a `display_data` or `execute_result`.
    pub(crate) fn add(
        &mut self,
        kind: &'static str,
        content: &mut Map<String, Json>,
        text_chars: usize,
        artifacts: &mut Vec<Artifact>,
    ) {
        let display_id = display_id(content);
        let kept = OutputEntry {
            kind,
            shown: OutputExcerpt::read(content, text_chars, artifacts),
            display_id,
        };
        if self.first.len() < MAX_OUTPUTS / 2 {
            self.first.push(kept);
            return;
        }
        self.last.push_back(kept);
        if self.last.len() > MAX_OUTPUTS / 2 {
            self.last.pop_front();
            self.omitted += 1;
        }
    }

    /// Another content for the outputs with this display id. One of an earlier execution is shown as one of this.
    pub(crate) fn update(
        &mut self,
        content: &mut Map<String, Json>,
        text_chars: usize,
        artifacts: &mut Vec<Artifact>,
    ) {
        let id = display_id(content);
        let known = |kept: &&mut OutputEntry| kept.display_id.is_some() && kept.display_id == id;
        let mut mine: Vec<_> = self
            .first
            .iter_mut()
            .chain(&mut self.last)
            .filter(known)
            .collect();
        if mine.is_empty() {
            self.add("display_data", content, text_chars, artifacts);
            return;
        }
        let shown = OutputExcerpt::read(content, text_chars, artifacts);
        for kept in &mut mine {
            kept.shown.clone_from(&shown);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Approximate memory, in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.first.iter().chain(&self.last).map(weight).sum()
    }

    /// All of them, their texts together within the budget, and how many were left out.
    pub(crate) fn shown(&self, text_chars: usize) -> (Vec<Output>, u64) {
        let all = || self.first.iter().chain(&self.last);
        let texts = all()
            .flat_map(|kept| &kept.shown.bundle)
            .filter(|(_, value)| matches!(value, Value::Text(_)))
            .count();
        let texts = texts + all().filter(|kept| kept.shown.summary.is_some()).count();
        let share = text_chars / texts.max(1);
        (all().map(|kept| show(kept, share)).collect(), self.omitted)
    }
}

fn weight(kept: &OutputEntry) -> usize {
    let values = kept
        .shown
        .bundle
        .iter()
        .map(|(name, value)| name.len() + value.weight());
    let told = kept.shown.table.iter().chain(&kept.shown.plot).map(Value::weight);
    let told = told.chain(kept.shown.preview.iter().map(Value::weight));
    let summary = kept.shown.summary.as_ref().map_or(0, Excerpt::weight);
    size_of::<OutputEntry>() + values.chain(told).sum::<usize>() + summary
}

fn show(kept: &OutputEntry, share: usize) -> Output {
    let mut truncated = None;
    let data = kept.shown.bundle.iter().map(|(name, value)| {
        let json = match value {
            Value::Inline(_) | Value::Artifact(_) => told(value),
            Value::Text(excerpt) => {
                let shown = excerpt.shown_within(share);
                if shown.bytes_omitted > 0 {
                    truncated = Some(TruncatedText {
                        bytes_total: shown.bytes_total,
                        bytes_shown: shown.bytes_shown(),
                    });
                }
                shown.text("").into()
            }
        };
        (name.clone(), json)
    });
    let data = data.collect();
    let summary = kept.shown.summary.as_ref();
    Output {
        output_type: kept.kind,
        data,
        table: kept.shown.table.as_ref().map(told),
        plot: kept.shown.plot.as_ref().map(told),
        summary: summary.map(|text| text.shown_within(share).text("")),
        preview: kept.shown.preview.as_ref().map(told),
        truncated,
    }
}

/// A value that has no text.
fn told(value: &Value) -> Json {
    match value {
        Value::Inline(json) => json.clone(),
        Value::Artifact(known) => serde_json::to_value(known).unwrap_or_default(),
        Value::Text(_) => Json::Null,
    }
}

fn take_data(content: &mut Map<String, Json>) -> Map<String, Json> {
    match content.remove("data") {
        Some(Json::Object(data)) => data,
        _ => Map::new(),
    }
}
