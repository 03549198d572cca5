//! The target of a trigger: a skill, or a workflow.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// The skill or workflow that a trigger starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WrittenTarget", into = "WrittenTarget")]
pub struct RunTarget {
    /// The skill or workflow.
    pub what: Runnable,
    /// The version; `None`: the latest one, at each run.
    pub version: Option<String>,
}

/// A skill or a workflow, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runnable {
    /// A skill that is code.
    Skill(String),
    /// A workflow.
    Workflow(String),
}

impl RunTarget {
    /// The latest version of a skill.
    #[must_use]
    pub fn skill(name: &str) -> Self {
        Self {
            what: Runnable::Skill(name.to_owned()),
            version: None,
        }
    }

    /// The latest version of a workflow.
    #[must_use]
    pub fn workflow(name: &str) -> Self {
        Self {
            what: Runnable::Workflow(name.to_owned()),
            version: None,
        }
    }
}

/// The started object: either a skill or a workflow.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WrittenTarget {
    /// The name of a skill that is code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    skill: Option<String>,
    /// The name of a workflow, in place of a skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workflow: Option<String>,
    /// Its version. Default: the latest one, at each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

impl TryFrom<WrittenTarget> for RunTarget {
    type Error = &'static str;

    fn try_from(written: WrittenTarget) -> Result<Self, Self::Error> {
        let what = match (written.skill, written.workflow) {
            (Some(name), None) => Runnable::Skill(name),
            (None, Some(name)) => Runnable::Workflow(name),
            _ => return Err("names a skill or a workflow, one of the two"),
        };
        Ok(Self {
            what,
            version: written.version,
        })
    }
}

impl From<RunTarget> for WrittenTarget {
    fn from(target: RunTarget) -> Self {
        let (skill, workflow) = match target.what {
            Runnable::Skill(name) => (Some(name), None),
            Runnable::Workflow(name) => (None, Some(name)),
        };
        Self {
            skill,
            workflow,
            version: target.version,
        }
    }
}

impl JsonSchema for RunTarget {
    fn schema_name() -> Cow<'static, str> {
        "RunTarget".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        WrittenTarget::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_target_is_a_skill_or_a_workflow() {
        for (json, wanted) in [
            (json!({"skill": "a"}), RunTarget::skill("a")),
            (json!({"workflow": "a"}), RunTarget::workflow("a")),
            (
                json!({"workflow": "a", "version": "1.0.0"}),
                RunTarget {
                    version: Some("1.0.0".to_owned()),
                    ..RunTarget::workflow("a")
                },
            ),
        ] {
            let read: RunTarget = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(read, wanted);
            assert_eq!(serde_json::to_value(&read).unwrap(), json);
        }
        for wrong in [
            json!({}),
            json!({"version": "1.0.0"}),
            json!({"skill": "a", "workflow": "b"}),
            json!({"skill": "a", "other": 1}),
        ] {
            assert!(
                serde_json::from_value::<RunTarget>(wrong.clone()).is_err(),
                "{wrong}"
            );
        }
    }
}
