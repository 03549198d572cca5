//! A part of a compiled schema, for those that go down in it.

use serde_json::Value;

use super::node::{Id, Node, Nodes, Rule};
use super::run;
use super::{Steps, Violation};

/// A part of a schema that is a schema.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    nodes: &'a Nodes,
    id: Id,
}

impl<'a> Part<'a> {
    pub(super) fn new(nodes: &'a Nodes, id: Id) -> Self {
        Self { nodes, id }
    }

    /// The one under `properties` with this name.
    pub fn property(self, name: &str) -> Option<Self> {
        self.find(|rule| match rule {
            Rule::Members(members) => members.named.get(name).copied(),
            _ => None,
        })
    }

    /// The one under `additionalProperties`.
    pub fn more(self) -> Option<Self> {
        self.find(|rule| match rule {
            Rule::Members(members) => members.more,
            _ => None,
        })
    }

    /// The one under `items`.
    pub fn items(self) -> Option<Self> {
        self.find(|rule| match rule {
            Rule::Items(items) => items.rest,
            _ => None,
        })
    }

    /// As [`Schema::violations`](super::Schema::violations), with steps that several checks share.
    pub fn violations(self, value: &Value, steps: &mut Steps) -> Vec<Violation> {
        run::violations(self.nodes, self.id, value, steps)
    }

    fn find(self, id: impl Fn(&Rule) -> Option<Id>) -> Option<Self> {
        let Some(Node::Words(rules)) = self.nodes.get(self.id) else {
            return None;
        };
        let id = rules.iter().find_map(id)?;
        Some(Self::new(self.nodes, id))
    }
}
