//! One tool.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::example::example;
use crate::schema::{Schema, Steps, Violation};

/// Steps of a check that waits for nothing.
const AT_ONCE: u64 = 5_000;

/// Definition of a tool by its server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolDefinition {
    /// Name, unique in its server.
    pub name: String,
    /// Description for a model.
    pub description: String,
    /// JSON Schema of its arguments, which are an object.
    pub input_schema: Value,
    /// JSON Schema of what it returns, if the server says it.
    pub output_schema: Option<Value>,
    pub effect: Effect,
    /// Address of its calls, if a list of tools gives it.
    pub place: String,
}

/// Effect of a call, as far as the server declares it. From the annotations of MCP (2025-06-18, `ToolAnnotations`), whose defaults these are, or from
/// the method of an HTTP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Effect {
    pub read_only: bool,
    /// True if the tool may delete or overwrite data.
    pub destructive: bool,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: bool,
}

impl Default for Effect {
    fn default() -> Self {
        Self {
            read_only: false,
            destructive: true,
            idempotent: false,
        }
    }
}

/// A tool by its server and its name: `server.name`. The name of a server has no dot, that of a tool may have some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ToolId<'a> {
    pub server: &'a str,
    pub tool: &'a str,
}

impl<'a> ToolId<'a> {
    /// From `server.name`.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (server, tool) = text.split_once('.')?;
        (!server.is_empty() && !tool.is_empty()).then_some(Self { server, tool })
    }
}

impl fmt::Display for ToolId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.server, self.tool)
    }
}

/// A tool that can be called: its schema is valid.
pub struct Tool {
    definition: ToolDefinition,
}

impl Tool {
    /// Creates the tool of a definition whose schema was checked.
    pub(crate) fn new(definition: ToolDefinition) -> Self {
        Self { definition }
    }

    /// Definition by its server.
    pub fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    /// Violations of the arguments of a call: of the schema, and names that it does not know, if it names some and says nothing of others.
    /// Nothing, if the call may be sent. This may take a processor for a while.
    pub fn check(&self, arguments: &Value) -> Vec<Violation> {
        self.check_within(arguments, &mut Steps::of(arguments))
    }

    /// The same for small arguments, if it takes about a millisecond at most. Nothing, if it takes longer.
    pub fn check_at_once(&self, arguments: &Value) -> Option<Vec<Violation>> {
        let mut steps = Steps::new(AT_ONCE);
        let found = self.check_within(arguments, &mut steps);
        (!steps.are_spent()).then_some(found)
    }

    fn check_within(&self, arguments: &Value, steps: &mut Steps) -> Vec<Violation> {
        match self.schema() {
            Ok(schema) => schema.violations_of_arguments(arguments, steps),
            Err(reason) => vec![Violation {
                path: String::new(),
                rule: "schema".to_owned(),
                text: reason,
            }],
        }
    }

    fn schema(&self) -> Result<Arc<Schema>, String> {
        Schema::shared_of_server(&self.definition.input_schema)
    }

    /// Arguments that show the form of a call. Those that the schema names as an example, if they fit.
    pub fn example(&self) -> Value {
        let named = self
            .definition
            .input_schema
            .get("examples")
            .and_then(|all| all.get(0));
        match named {
            Some(named) if self.check_at_once(named).is_some_and(|found| found.is_empty()) => named.clone(),
            _ => example(&self.definition.input_schema),
        }
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tool").field(&self.definition.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_dot_ends_the_name_of_the_server() {
        let id = ToolId::parse("files.read.all").unwrap();
        assert_eq!((id.server, id.tool), ("files", "read.all"));
        assert_eq!(id.to_string(), "files.read.all");
        for bad in ["files", ".read", "files.", ""] {
            assert_eq!(ToolId::parse(bad), None);
        }
    }
}
