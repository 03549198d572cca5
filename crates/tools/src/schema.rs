//! Schemas that others wrote: of tools, skills and workflows. Any of them, on any value, takes a bounded time and memory.
//!
//! ```text
//! compile   compile.rs: each part of the document once, as a node (node.rs) with its rules; size.rs: no part may apply too many others
//! patterns  pattern.rs: linear ones alone, by an automaton with a bound
//! check     run.rs: rules against a value, in steps that are counted (steps.rs), until the eighth violation; equal.rs, number.rs, text.rs
//! names     names.rs: names of arguments of which a schema says nothing
//! cache.rs  compiled once for each document
//! ```

mod cache;
mod compile;
mod equal;
mod names;
mod node;
mod number;
mod part;
mod pattern;
mod run;
mod size;
mod steps;
mod text;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use node::Nodes;

pub use part::Part;
pub use steps::Steps;

/// Violation of a schema by a part of some arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Position as a JSON Pointer. Empty: all arguments.
    pub path: String,
    /// The keyword of the schema: `required`, `type`, `enum`. `steps`: the check was given up.
    pub rule: String,
    /// Expected value, in words.
    pub text: String,
}

/// A JSON Schema, to check values against.
///
/// Keywords of all drafts from 4 to 2020-12 are known. `format`, `contentEncoding` and `contentMediaType` are notes, which nothing is
/// refused for. Within a schema whose `$schema` is of draft 7 or older, a `$ref` excludes the keywords beside it.
pub struct Schema(Nodes);

impl Schema {
    /// References to other documents are refused, and nothing is read for them; so are patterns that cannot be checked in linear time.
    ///
    /// # Errors
    /// The reason, with the place in the schema.
    pub fn new(schema: &Value) -> Result<Self, String> {
        let nodes = compile::compile(schema)?;
        nodes.patterns.build()?;
        Ok(Self(nodes))
    }

    /// The same, compiled once for all that ask for the same document in a while.
    ///
    /// # Errors
    /// As [`Schema::new`].
    pub fn shared(schema: &Value) -> Result<Arc<Self>, String> {
        cache::of_authors().get(schema, Self::new)
    }

    /// A schema that a server checks too: a pattern that cannot be checked here is left to it.
    pub(crate) fn of_server(schema: &Value) -> Result<Self, String> {
        compile::compile(schema).map(Self)
    }

    /// The same, compiled once for all that ask for the same document in a while.
    pub(crate) fn shared_of_server(schema: &Value) -> Result<Arc<Self>, String> {
        cache::of_servers().get(schema, Self::of_server)
    }

    /// Violations of a value, at most eight, or one of the rule `steps` if there is too much to check. Nothing, if it fits.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        run::violations(&self.0, self.0.root, value, &mut Steps::of(value))
    }

    /// As [`Schema::violations`], and arguments must have names that the schema knows, if it names some and says nothing of others.
    pub(crate) fn violations_of_arguments(&self, arguments: &Value, steps: &mut Steps) -> Vec<Violation> {
        let mut found = run::violations(&self.0, self.0.root, arguments, steps);
        found.extend(names::unknown(&self.0, arguments));
        found.truncate(run::MAX_VIOLATIONS);
        found
    }

    /// True if a value fits.
    #[cfg(test)]
    pub(crate) fn is_valid(&self, value: &Value) -> bool {
        self.violations(value).is_empty()
    }

    /// All of it, as a part.
    pub fn root(&self) -> Part<'_> {
        Part::new(&self.0, self.0.root)
    }

    /// Bytes that it takes, about.
    fn weight(&self) -> usize {
        self.0.weight()
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}
