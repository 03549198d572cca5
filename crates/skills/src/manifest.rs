//! Manifest of a skill, as its author writes it.

use std::collections::BTreeMap;

use himalia_model::ToolPattern;
use himalia_model::network::AllowList;
use schemars::JsonSchema;
use semver::{Version, VersionReq};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Kind of a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Text for a model: `SKILL.md` and additional files.
    Instructions,
    /// A function in Python: `main` in `main.py`, and additional files.
    Code,
}

impl Kind {
    /// Name in manifests and in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Code => "code",
        }
    }
}

/// Manifest of a skill, as its author writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SkillManifest")]
pub struct Manifest {
    /// 1 to 64 lower-case letters, digits and hyphens; it begins with a letter and does not end with a hyphen.
    pub name: String,
    /// A semantic version: `1.2.0`.
    #[schemars(with = "String")]
    pub version: Version,
    /// Kind of the skill.
    pub kind: Kind,
    /// Purpose and use, for people and models; at most 1,024 characters.
    pub description: String,
    /// JSON Schema of the inputs, an object: the arguments of `main`. Code has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    /// JSON Schema of the value that `main` returns. Needed for code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Value>,
    /// The template of the session in which it runs. Default: the template that the caller names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The digest of the environment that it needs: of the lock file or the image. It does not run in another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// Hosts that the skill needs. A run reaches hosts that are both here and in the template.
    #[serde(default, skip_serializing_if = "AllowList::is_empty")]
    pub network: AllowList,
    /// Tools that a run may call: `SERVER`, or `SERVER.TOOL` with `*`. It can use the tools that the template and the caller have as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub tools: Vec<ToolPattern>,
    /// Names of models that a run may call. It can use the models that the template and the caller have as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Skills that it runs, each with a requirement of its version: `^1.2`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub skills: BTreeMap<String, VersionReq>,
    /// Seconds that a run may take. Default: 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_s: Option<u32>,
    /// Runs with a known result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<TestCase>,
}

/// A run with a known result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SkillTest")]
pub struct TestCase {
    /// Title of the test case.
    pub name: String,
    /// The inputs.
    #[serde(default)]
    pub inputs: Map<String, Value>,
    /// The outputs that it has then. Without them, any that fit the schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Value>,
    /// The name of the expected exception, in place of outputs: `ValueError`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Versions in the order of which the last is the latest one: those before a release come before all releases.
pub fn release_order(version: &Version) -> (bool, &Version) {
    (version.pre.is_empty(), version)
}
