//! Bounds for the tools that a server lists.

use std::time::Duration;

use himalia_tools::{BadTools, MAX_SCHEMA_BYTES, RejectedTool, ServerTools, ToolDefinition};
use himalia_upstream::clip;

/// Bytes of all schemas and descriptions of a server. The tools behind them are left out.
pub(crate) const MAX_LIST_BYTES: usize = 32 << 20;
/// Tools that were left out and are named.
const MAX_NAMED: usize = 20;

/// The tools of a server, as it lists them.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    definitions: Vec<ToolDefinition>,
    bytes: usize,
    left_out: BadTools,
    /// Time for which the server does not change it; `None`: it does not say.
    fresh: Option<Duration>,
}

impl Listing {
    /// Notes for how long a page of the list stays as it is, as the server says. 0 says nothing.
    pub(crate) fn is_fresh_for(&mut self, time: Option<Duration>) {
        let time = time.filter(|time| !time.is_zero());
        self.fresh = self.fresh.into_iter().chain(time).min();
    }

    /// Time for which the server does not change the list, if it says so.
    pub(crate) fn fresh(&self) -> Option<Duration> {
        self.fresh
    }

    /// Takes a tool, if there is room for it. `bytes`: of its definition as JSON.
    pub(crate) fn add(&mut self, definition: ToolDefinition, bytes: usize) {
        if bytes > MAX_SCHEMA_BYTES * 2 + definition.description.len() {
            self.leave_out(&definition.name, "its schema is too long");
        } else if self.bytes.saturating_add(bytes) > MAX_LIST_BYTES {
            self.leave_out(&definition.name, "the list of its server is too long");
        } else {
            self.bytes += bytes;
            self.definitions.push(definition);
        }
    }

    /// Calls of all of its tools go below this address.
    pub(crate) fn place_below(&mut self, base: &str) {
        for definition in &mut self.definitions {
            definition.place = format!("{base} {}", definition.place);
        }
    }

    /// Notes a tool that cannot be used.
    pub(crate) fn leave_out(&mut self, name: &str, reason: &str) {
        self.left_out.count += 1;
        if self.left_out.first.len() < MAX_NAMED {
            self.left_out.first.push(RejectedTool {
                name: name.chars().take(128).collect(),
                reason: clip(reason),
            });
        }
    }

    /// Splits the list into valid tools and those that were left out.
    pub(crate) fn into_tools(self, name: &str, description: &str) -> (ServerTools, BadTools) {
        let (tools, invalid) = ServerTools::new(name, description, self.definitions);
        let mut left_out = self.left_out;
        left_out.count += invalid.count;
        left_out.first.extend(invalid.first);
        left_out.first.truncate(MAX_NAMED);
        (tools, left_out)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_has_a_bound_and_says_what_is_behind_it() {
        let mut listing = Listing::default();
        for number in 0..200 {
            let definition = ToolDefinition {
                name: format!("t{number}"),
                input_schema: json!({}),
                ..ToolDefinition::default()
            };
            listing.add(definition, MAX_SCHEMA_BYTES);
        }
        listing.leave_out("other", "no name");
        let (tools, left_out) = listing.into_tools("a", "");
        let room = MAX_LIST_BYTES / MAX_SCHEMA_BYTES;
        assert_eq!((tools.tools().len(), left_out.count), (room, 200 - room + 1));
        assert_eq!(left_out.first.len(), MAX_NAMED);
        assert_eq!(left_out.first[0].name, format!("t{room}"));
    }
}
