//! What a trigger starts: a skill, or a workflow.

use std::borrow::Cow;

use himalia_model::{EngineError, Principal};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::definition::{Definition, Detail};
use super::run_skill;
use crate::api::Commands;

/// What is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct RunTarget {
    /// What runs.
    pub what: Runnable,
    /// Its version; `None`: the latest one, at each run.
    pub version: Option<String>,
}

/// What runs, by its name.
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
struct Written {
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

impl TryFrom<Written> for RunTarget {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
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

impl From<RunTarget> for Written {
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
        Written::json_schema(generator)
    }
}

impl Commands {
    /// Checks what can be known of a run before it begins; also its inputs, if they are known.
    pub(super) async fn check_target(
        &self,
        principal: &Principal,
        definition: &Definition,
        detail: &Detail,
        has_inputs: bool,
    ) -> Result<(), EngineError> {
        let target = definition.target()?;
        let wanted = run_skill(definition, detail)?;
        match &target.what {
            Runnable::Skill(name) => self.check_run(principal, name, &wanted, has_inputs).await,
            Runnable::Workflow(name) => {
                for (member, given) in [
                    ("template", definition.template.is_some()),
                    ("timeout_s", definition.timeout_s.is_some()),
                ] {
                    if given {
                        let reason = "is that of each step of a workflow";
                        return Err(EngineError::bad_request(member, reason));
                    }
                }
                let inputs = has_inputs.then_some(&wanted.inputs);
                self.check_workflow_run(principal, name, wanted.version.as_deref(), inputs)
                    .await
            }
        }
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
