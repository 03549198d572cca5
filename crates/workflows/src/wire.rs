//! Wires: references to values of a run.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Names in one wire.
const MAX_DEPTH: usize = 16;
/// Bytes of a wire.
const MAX_BYTES: usize = 500;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    Inputs,
    /// The outputs of a step.
    Step(String),
    /// The item of the list that a `map` runs for.
    Item,
}

/// Reference to a value: `inputs.month`, `steps.fetch.outputs.rows`, `item.id`. Names after the root are members of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    pub root: Root,
    /// Names of members, one inside of the other.
    pub path: Vec<String>,
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.root {
            Root::Inputs => f.write_str("inputs")?,
            Root::Step(id) => write!(f, "steps.{id}.outputs")?,
            Root::Item => f.write_str("item")?,
        }
        self.path.iter().try_for_each(|name| write!(f, ".{name}"))
    }
}

impl FromStr for Wire {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut names = text.split('.');
        let root = match (names.next(), text.len() <= MAX_BYTES) {
            (Some("inputs"), true) => Some(Root::Inputs),
            (Some("item"), true) => Some(Root::Item),
            (Some("steps"), true) => {
                let id = names.next().filter(|id| !id.is_empty());
                let id = id.filter(|_| names.next() == Some("outputs"));
                id.map(|id| Root::Step(id.to_owned()))
            }
            _ => None,
        };
        let path: Vec<String> = names.map(str::to_owned).collect();
        let named = path.len() <= MAX_DEPTH && path.iter().all(|name| !name.is_empty());
        root.filter(|_| named)
            .map(|root| Self { root, path })
            .ok_or_else(|| {
                let shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
                format!("{shown:?} must be one of inputs.NAME, steps.ID.outputs.NAME, item.NAME")
            })
    }
}

impl Serialize for Wire {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Wire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Wire {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Wire".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^(inputs|item|steps\\.[a-z0-9_-]+\\.outputs)(\\..+)?$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wire_is_read_as_it_is_written_and_nothing_else_is_one() {
        for text in [
            "inputs",
            "inputs.month",
            "steps.a-b.outputs",
            "steps.a.outputs.rows.first",
            "item",
            "item.id",
        ] {
            assert_eq!(text.parse::<Wire>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "input.a",
            "steps",
            "steps.a",
            "steps.a.inputs.x",
            "steps..outputs",
            "inputs.",
            "inputs..a",
            "item.a.",
        ] {
            assert!(text.parse::<Wire>().is_err(), "{text}");
        }
        assert!(format!("inputs{}", ".a".repeat(17)).parse::<Wire>().is_err());
    }
}
