//! Entry of a tool: its description, its effects and its function.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value;

use crate::call::{Answer, Call};

pub(crate) struct ToolEntry {
    pub(crate) name: &'static str,
    /// Creates the description for clients, under this name.
    pub(super) describe: fn(&'static str) -> Tool,
    /// Does it.
    pub(crate) run: fn(Call) -> Pin<Box<dyn Future<Output = Answer> + Send>>,
}

impl ToolEntry {
    /// Description for clients.
    pub(crate) fn description(&self) -> Tool {
        (self.describe)(self.name)
    }
}

/// Effects of a tool, for clients that ask their user before a call.
#[expect(clippy::struct_excessive_bools, reason = "they are the protocol's four hints")]
pub(super) struct Effects {
    pub(super) read_only: bool,
    pub(super) destructive: bool,
    pub(super) idempotent: bool,
    pub(super) open_world: bool,
}

impl Effects {
    /// It changes nothing.
    pub(super) const READS: Self = Self {
        read_only: true,
        destructive: false,
        idempotent: true,
        open_world: false,
    };
    /// It runs code, or calls a tool of another server.
    pub(super) const ANY: Self = Self {
        read_only: false,
        destructive: true,
        idempotent: false,
        open_world: true,
    };
}

/// A description. `schema` is the JSON Schema of the arguments.
pub(super) fn tool(
    name: &'static str,
    title: &str,
    description: &'static str,
    schema: Value,
    effects: &Effects,
) -> Tool {
    let mut annotations = ToolAnnotations::new()
        .read_only(effects.read_only)
        .open_world(effects.open_world);
    // Only what a client would not assume: models read this too. For a tool that changes nothing they say nothing.
    if !effects.read_only && !effects.destructive {
        annotations = annotations.destructive(false);
    }
    if !effects.read_only && effects.idempotent {
        annotations = annotations.idempotent(true);
    }
    Tool::new(name, description, object(schema))
        .with_title(title)
        .with_annotations(annotations)
}

pub(super) fn object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(members) => Arc::new(members),
        _ => Arc::default(),
    }
}
