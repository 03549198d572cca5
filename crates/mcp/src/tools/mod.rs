//! The tools. Each is one file: a [`ToolEntry`] with its description and what it does; this list names them.

mod execute;
pub(crate) mod files;
mod get_output;
mod inspect_variables;
mod interrupt;
mod session;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value;

use crate::call::{Answer, Call};

/// One tool.
pub(crate) struct ToolEntry {
    name: &'static str,
    /// Its description for clients, under this name.
    describe: fn(&'static str) -> Tool,
    /// Does it.
    pub(crate) run: fn(Call) -> Pin<Box<dyn Future<Output = Answer> + Send>>,
}

impl ToolEntry {
    /// Its description for clients.
    pub(crate) fn description(&self) -> Tool {
        (self.describe)(self.name)
    }
}

/// All tools, in the order in which clients see them.
const TOOLS: &[ToolEntry] = &[
    execute::TOOL,
    files::TOOL,
    get_output::TOOL,
    inspect_variables::TOOL,
    interrupt::TOOL,
    session::TOOL,
];

/// A tool by its name.
pub(crate) fn find(name: &str) -> Option<&'static ToolEntry> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// The descriptions of all tools.
pub(crate) fn all() -> Vec<Tool> {
    TOOLS.iter().map(ToolEntry::description).collect()
}

/// What a tool does to the world, for clients that ask their user before a call.
#[expect(clippy::struct_excessive_bools, reason = "they are the protocol's four hints")]
struct Effects {
    read_only: bool,
    destructive: bool,
    idempotent: bool,
    open_world: bool,
}

/// A description. `schema` is the JSON Schema of the arguments.
fn tool(
    name: &'static str,
    title: &str,
    description: &'static str,
    schema: Value,
    effects: &Effects,
) -> Tool {
    let annotations = ToolAnnotations::new()
        .read_only(effects.read_only)
        .destructive(effects.destructive)
        .idempotent(effects.idempotent)
        .open_world(effects.open_world);
    Tool::new(name, description, object(schema))
        .with_title(title)
        .with_annotations(annotations)
}

fn object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(members) => Arc::new(members),
        _ => Arc::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four characters a token are what English and JSON come to, roughly; tokenisers differ.
    #[test]
    fn all_descriptions_together_are_small() {
        let listed = serde_json::to_string(&all()).unwrap();
        let tokens = listed.chars().count() / 4;
        assert!(tokens < 1500, "{tokens} tokens: {listed}");
    }

    #[test]
    fn names_of_later_tools_are_free() {
        for reserved in ["list_api_servers", "tools_search", "get_tool_info"] {
            assert!(find(reserved).is_none(), "{reserved}");
        }
    }

    #[test]
    fn each_tool_is_told_in_full() {
        for tool in all() {
            assert!(
                tool.title.is_some() && tool.description.is_some(),
                "{}",
                tool.name
            );
            let hints = tool.annotations.unwrap();
            assert!(hints.read_only_hint.is_some() && hints.open_world_hint.is_some());
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
            assert_eq!(tool.input_schema["additionalProperties"], false, "{}", tool.name);
        }
    }
}
