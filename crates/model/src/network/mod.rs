//! Network targets that a session may reach through the gateway. Callers can only remove rules.

mod host;
mod private;
mod rule;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

pub use host::Host;
pub use private::PrivateAddresses;
pub use rule::{Access, Rule};

/// Most rules of a list.
pub const MAX_RULES: usize = 256;
/// Rules that a message names.
const SHOWN: usize = 8;

/// Rules of the network targets that a session may reach. Empty: no target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Rule>", into = "Vec<Rule>")]
pub struct AllowList(Vec<Rule>);

impl JsonSchema for AllowList {
    fn schema_name() -> Cow<'static, str> {
        "AllowList".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let rule = generator.subschema_for::<Rule>();
        json_schema!({ "type": "array", "items": rule, "maxItems": MAX_RULES, "description": "Hosts that a session may reach." })
    }
}

impl AllowList {
    /// Returns true if a rule allows the access.
    pub fn permits(&self, host: &Host, port: u16, access: Access<'_>) -> bool {
        self.0.iter().any(|rule| rule.permits(host, port, access))
    }

    /// The first rule of this list that allows more than `other` does.
    pub fn exceeds(&self, other: &Self) -> Option<&Rule> {
        self.0.iter().find(|rule| !rule.is_within(&other.0))
    }

    /// The rules of this list that allow no more than `other` does.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        Self(
            self.0
                .iter()
                .filter(|rule| rule.is_within(&other.0))
                .cloned()
                .collect(),
        )
    }

    /// The rules of both lists that allow no more than the other list does.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        let Self(mut both) = self.within(other);
        for rule in other.within(self).0 {
            if !both.contains(&rule) {
                both.push(rule);
            }
        }
        Self(both)
    }

    /// Returns true if there is no rule.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rules.
    pub fn rules(&self) -> &[Rule] {
        &self.0
    }
}

impl TryFrom<Vec<Rule>> for AllowList {
    type Error = String;

    fn try_from(rules: Vec<Rule>) -> Result<Self, String> {
        if rules.len() > MAX_RULES {
            return Err(format!("has more than {MAX_RULES} rules"));
        }
        Ok(Self(rules))
    }
}

impl From<AllowList> for Vec<Rule> {
    fn from(list: AllowList) -> Self {
        list.0
    }
}

/// As in messages: the first few rules.
impl fmt::Display for AllowList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        let shown: Vec<String> = self.0.iter().take(SHOWN).map(Rule::to_string).collect();
        f.write_str(&shown.join(", "))?;
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}
