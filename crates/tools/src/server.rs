//! The tools of one server, as it listed them.

use std::collections::HashMap;
use std::fmt;

use serde_json::Value;

use crate::index::Index;
use crate::schema::Schema;
use crate::tool::{Tool, ToolDefinition};

/// Tools of one server. The next ones are left out.
pub const MAX_TOOLS: usize = 20_000;
/// Bytes of a schema of a tool, as JSON. A tool with a longer one is left out.
pub const MAX_SCHEMA_BYTES: usize = 256 * 1024;
/// Characters of the name of a tool. A tool with a longer one is left out.
const MAX_NAME: usize = 128;
/// Characters of a description that are kept.
const MAX_DESCRIPTION: usize = 8 * 1024;
/// Tools that were left out and are named.
const MAX_REJECTED: usize = 20;

/// A tool that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedTool {
    /// Name of the tool, cut.
    pub name: String,
    /// Reason for the rejection.
    pub reason: String,
}

/// Tools of a server that were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadTools {
    /// Number of rejected tools.
    pub count: usize,
    /// The first ones.
    pub first: Vec<RejectedTool>,
}

impl BadTools {
    fn add(&mut self, name: &str, reason: impl fmt::Display) {
        self.count += 1;
        if self.first.len() < MAX_REJECTED {
            self.first.push(RejectedTool {
                name: name.chars().take(MAX_NAME).collect(),
                reason: reason.to_string(),
            });
        }
    }
}

pub struct ServerTools {
    name: String,
    description: String,
    tools: Vec<Tool>,
    by_name: HashMap<String, u32>,
    index: Index,
}

impl ServerTools {
    /// Keeps the valid definitions, and notes the errors of the others.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        definitions: impl IntoIterator<Item = ToolDefinition>,
    ) -> (Self, BadTools) {
        let mut bad = BadTools::default();
        let mut made = Self {
            name: name.into(),
            description: description.into(),
            tools: Vec::new(),
            by_name: HashMap::new(),
            index: Index::default(),
        };
        for definition in definitions {
            let tool_name = definition.name.clone();
            if let Err(reason) = made.add(definition) {
                bad.add(&tool_name, reason);
            }
        }
        made.index = Index::of(made.tools.iter().map(Tool::definition));
        (made, bad)
    }

    fn add(&mut self, mut definition: ToolDefinition) -> Result<(), String> {
        if self.tools.len() >= MAX_TOOLS {
            return Err(format!("a server has at most {MAX_TOOLS} tools"));
        }
        let bad_letter = |letter: char| letter.is_control() || letter.is_whitespace();
        if definition.name.is_empty() || definition.name.contains(bad_letter) {
            return Err("a name has at least one character, and no spaces".to_owned());
        }
        if definition.name.chars().count() > MAX_NAME {
            return Err(format!("a name has at most {MAX_NAME} characters"));
        }
        if self.by_name.contains_key(&definition.name) {
            return Err("there is one of this name already".to_owned());
        }
        for schema in [Some(&definition.input_schema), definition.output_schema.as_ref()] {
            if schema.is_some_and(|schema| length(schema) > MAX_SCHEMA_BYTES) {
                return Err(format!("a schema has at most {MAX_SCHEMA_BYTES} bytes"));
            }
        }
        // Compiled again when it is used: few of many tools are called.
        Schema::of_server(&definition.input_schema).map_err(|error| format!("its schema {error}"))?;
        if let Some((end, _)) = definition.description.char_indices().nth(MAX_DESCRIPTION) {
            definition.description.truncate(end);
        }
        let number = u32::try_from(self.tools.len()).unwrap_or(u32::MAX);
        self.by_name.insert(definition.name.clone(), number);
        self.tools.push(Tool::new(definition));
        Ok(())
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Purpose of the server, for a model.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// All of them, in the order of the server.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.at(*self.by_name.get(name)?)
    }

    pub(crate) fn at(&self, number: u32) -> Option<&Tool> {
        self.tools.get(usize::try_from(number).ok()?)
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }
}

impl fmt::Debug for ServerTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {} tools", self.name, self.tools.len())
    }
}

fn length(schema: &Value) -> usize {
    serde_json::to_vec(schema).map_or(usize::MAX, |text| text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(name: &str, input_schema: Value) -> ToolDefinition {
        ToolDefinition {
            name: name.to_owned(),
            input_schema,
            ..ToolDefinition::default()
        }
    }

    #[test]
    fn what_cannot_be_called_is_left_out_and_named() {
        let huge = json!({"description": "x".repeat(MAX_SCHEMA_BYTES)});
        let given = [
            definition("good", json!({})),
            definition("good", json!({})),
            definition("two words", json!({})),
            definition("remote", json!({"$ref": "https://example.org/x.json"})),
            definition("huge", huge),
            definition(&"n".repeat(MAX_NAME + 1), json!({})),
        ];
        let (tools, bad) = ServerTools::new("one", "", given);
        assert_eq!((tools.tools().len(), bad.count), (1, 5));
        let names: Vec<_> = bad.first.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names[..4], ["good", "two words", "remote", "huge"]);
        assert!(tools.get("good").is_some() && tools.get("huge").is_none());
    }
}
