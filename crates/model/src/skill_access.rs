//! Skills that code in a session may run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Skills that code in a session may run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillAccess {
    /// No skills.
    #[default]
    None,
    /// All skills of its owner.
    All,
    /// These, each in the versions that a requirement permits: those that a skill declares which runs in the session.
    Named(BTreeMap<String, String>),
}

impl SkillAccess {
    /// Returns true if no skill is allowed.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}
