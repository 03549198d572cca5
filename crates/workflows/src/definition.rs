//! Definition of a workflow, as its author writes it.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire::{Root, Wire};

/// A workflow: steps that are runs of skills, wired output to input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WorkflowDefinition")]
pub struct Definition {
    /// 1 to 64 lower-case letters, digits and hyphens; it begins with a letter and does not end with a hyphen.
    pub name: String,
    /// A semantic version: `1.2.0`.
    #[schemars(with = "String")]
    pub version: Version,
    /// Purpose and use, for people and models; at most 1,024 characters.
    pub description: String,
    /// JSON Schema of the inputs of a run, an object.
    pub inputs: Value,
    /// Steps, at most 100. A step begins when all steps to which it is wired, or after which it comes, have succeeded; other steps run in
    /// parallel.
    pub steps: Vec<Step>,
    /// Outputs of a run, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, InputValue>,
}

/// A step: a skill that runs, or a person who approves. One of the two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WorkflowStep")]
pub struct Step {
    /// 1 to 64 lower-case letters, digits, hyphens and `_`; one of the workflow.
    pub id: String,
    /// The code skill that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<SkillRef>,
    /// Question to a person, instead of a skill. The outputs are `answer`, one of the options, and `by`, the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// Inputs of the skill, or values that the person sees, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, InputValue>,
    /// Runs the skill once for each item of a list. The outputs of the step are the list of their outputs, in its order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<Map>,
    /// Tries again after a failure. Without it a failure ends the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<Retries>,
    /// Seconds that one attempt may run, if that is less than the skill says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_s: Option<u32>,
    /// The template of its sessions. Default: the template of the skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Ids of steps that it comes after without a wire.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// Reference to a skill. In a published workflow the version is exact, and the digest is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WorkflowSkill")]
pub struct SkillRef {
    /// Name of the skill.
    pub name: String,
    /// A version, or a range of versions of which the latest is taken when the workflow is published: `1.2.0`, `^1.2`, `>=1, <3`. Default:
    /// the latest one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The address of its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// A value of an input or an output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "WorkflowValue")]
pub enum InputValue {
    /// Value of an input or output: `inputs.month`, `steps.fetch.outputs.rows`, and in a `map` `item` or `item.id`.
    From(Wire),
    /// This value.
    Value(Value),
}

/// For each item of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WorkflowMap")]
pub struct Map {
    /// The list, of at most 1,000 items. An item is `item` in the inputs of the step.
    pub over: InputValue,
    /// Number of items that run at the same time.
    #[serde(default = "four")]
    #[schemars(range(min = 1, max = 16))]
    pub parallel: u32,
}

fn four() -> u32 {
    4
}

/// Retries after a failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WorkflowRetries")]
pub struct Retries {
    /// Number of attempts after the first one.
    #[schemars(range(min = 1, max = 10))]
    pub limit: u32,
    /// Seconds before the first of them. Before each other one it is twice as long as before the last, at most an hour.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 3600))]
    pub wait_s: u32,
}

fn one() -> u32 {
    1
}

/// Question to a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WorkflowApproval")]
pub struct Approval {
    /// Text for the person; at most 4,000 characters.
    pub text: String,
    /// The answers that can be chosen, 2 to 16.
    #[serde(default = "approve_or_reject")]
    pub options: Vec<String>,
    /// The answers with which the run continues; any other ends it. Default: the first option.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proceed: Vec<String>,
    /// Seconds to wait for an answer, at most 30 days. Default: 7 days.
    #[serde(default = "week")]
    #[schemars(range(min = 1, max = 2_592_000))]
    pub timeout_s: u32,
}

fn approve_or_reject() -> Vec<String> {
    vec!["approve".to_owned(), "reject".to_owned()]
}

fn week() -> u32 {
    7 * 86_400
}

impl Approval {
    /// The answers with which the run continues.
    pub fn proceeds(&self) -> &[String] {
        if self.proceed.is_empty() {
            self.options.get(..1).unwrap_or_default()
        } else {
            &self.proceed
        }
    }
}

impl InputValue {
    /// Wire to the source of the value, if it is not a constant.
    pub fn wire(&self) -> Option<&Wire> {
        match self {
            Self::From(wire) => Some(wire),
            Self::Value(_) => None,
        }
    }
}

impl Step {
    /// All wires of its inputs and of its map.
    pub(crate) fn wires(&self) -> impl Iterator<Item = &Wire> {
        let over = self.map.iter().map(|map| &map.over);
        self.inputs.values().chain(over).filter_map(InputValue::wire)
    }

    /// The ids of the steps that have to succeed before it begins.
    pub fn needs(&self) -> BTreeSet<&str> {
        let wired = self.wires().filter_map(|wire| match &wire.root {
            Root::Step(id) => Some(id.as_str()),
            Root::Inputs | Root::Item => None,
        });
        wired.chain(self.after.iter().map(String::as_str)).collect()
    }
}
