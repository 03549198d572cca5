//! A workflow: a valid definition whose skills are pinned.

use std::collections::BTreeMap;

use himalia_skills::{Invalid, Violation, address, release_order};
use himalia_tools::Schema;
use semver::{Version, VersionReq};
use serde_json::{Map, Value};

use crate::check;
use crate::definition::{Definition, SkillRef, Step};
use crate::typing;

/// A version of a skill that a step runs.
#[derive(Clone, Debug, PartialEq)]
pub struct PinnedSkill {
    pub version: Version,
    /// The address of its content.
    pub digest: String,
    /// JSON Schema of its inputs.
    pub inputs: Value,
    /// JSON Schema of its outputs.
    pub outputs: Value,
}

/// A valid workflow. It never changes: a change is another version.
#[derive(Clone, Debug, PartialEq)]
pub struct Workflow {
    definition: Definition,
    order: Vec<usize>,
    digest: String,
}

impl Workflow {
    /// A workflow to be published, with the skills of its steps by the ids of these.
    ///
    /// # Errors
    /// The first thing that is wrong, with the field: what [`Workflow::check`] says, and what wires carry.
    pub fn new(mut definition: Definition, skills: &BTreeMap<String, PinnedSkill>) -> Result<Self, Invalid> {
        Self::check(&definition)?;
        for step in &mut definition.steps {
            let Some(wanted) = &step.skill else {
                continue;
            };
            let bad = |reason: String| Invalid::new("steps", format!("{}.skill: {reason}", step.id));
            let found = skills.get(&step.id);
            let pinned = found.ok_or_else(|| bad(format!("there is no skill {}", wanted.name)))?;
            if wanted
                .digest
                .as_ref()
                .is_some_and(|digest| *digest != pinned.digest)
            {
                return Err(bad(format!(
                    "{} {} is {}",
                    wanted.name, pinned.version, pinned.digest
                )));
            }
            step.skill = Some(SkillRef {
                name: wanted.name.clone(),
                version: Some(pinned.version.to_string()),
                digest: Some(pinned.digest.clone()),
            });
        }
        let made = Self::stored(definition)?;
        typing::check(&made.definition, &made.order, skills)?;
        Ok(made)
    }

    /// One that was published. The schema of its inputs was checked then.
    ///
    /// # Errors
    /// It is none.
    pub fn stored(definition: Definition) -> Result<Self, Invalid> {
        let order = check::check(&definition)?;
        let digest = address(serde_json::to_value(&definition).unwrap_or_default());
        Ok(Self {
            definition,
            order,
            digest,
        })
    }

    /// Checks a definition, except for the types of its wires.
    ///
    /// # Errors
    /// The first problem, with its field.
    pub fn check(definition: &Definition) -> Result<(), Invalid> {
        check::check(definition)?;
        check::check_schema(definition)
    }

    /// Checks the inputs of a run; an empty list: the run may start.
    ///
    /// # Errors
    /// The schema is invalid.
    pub fn check_inputs(&self, inputs: &Map<String, Value>) -> Result<Vec<Violation>, Invalid> {
        let schema = Schema::shared(&self.definition.inputs);
        let schema = schema.map_err(|reason| Invalid::new("inputs", reason))?;
        Ok(schema.violations(&Value::Object(inputs.clone())))
    }

    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Steps of the workflow, each after the steps that it needs.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.order.iter().filter_map(|at| self.definition.steps.get(*at))
    }

    pub fn step(&self, id: &str) -> Option<&Step> {
        self.definition.steps.iter().find(|step| step.id == id)
    }

    /// The address of its content: `sha256:` and 64 hexadecimal digits. It covers the digests of its skills.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// The version that a step wants: exact, or the latest of a range.
///
/// # Errors
/// Why there is none.
pub fn wanted_version(wanted: Option<&str>, there: &[Version]) -> Result<Version, String> {
    let latest = |fits: &dyn Fn(&Version) -> bool| {
        let fitting = there.iter().filter(|version| fits(version));
        fitting
            .max_by(|one, other| release_order(one).cmp(&release_order(other)))
            .cloned()
    };
    let Some(text) = wanted else {
        return latest(&|_| true).ok_or_else(|| "there is no version of it".to_owned());
    };
    let found = if let Ok(exact) = Version::parse(text) {
        there.iter().find(|version| **version == exact).cloned()
    } else {
        let range = VersionReq::parse(text)
            .map_err(|error| format!("{text:?} must be a version or a range: {error}"))?;
        latest(&|version| range.matches(version))
    };
    found.ok_or_else(|| {
        let names: Vec<String> = there.iter().take(10).map(Version::to_string).collect();
        format!("no version is {text}; there are: {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_schema_of_a_published_workflow_is_not_compiled_again() {
        let definition = json!({
            "name": "asks", "version": "1.0.0", "description": "d", "steps": [{"id": "ask", "approval": {"text": "?"}}],
            "inputs": {"type": "object", "properties": {"a": {"pattern": "(?=a)b"}}},
        });
        let definition: Definition = serde_json::from_value(definition).unwrap();
        let refused = Workflow::check(&definition).unwrap_err().to_string();
        assert!(refused.contains("looks around"), "{refused}");
        assert!(Workflow::new(definition.clone(), &BTreeMap::new()).is_err());
        assert!(Workflow::stored(definition).is_ok());
    }

    #[test]
    fn a_range_takes_its_latest_version() {
        let there: Vec<Version> = ["1.0.0", "1.2.0", "2.0.0-rc.1", "1.10.0"]
            .into_iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let found = |wanted: Option<&str>| wanted_version(wanted, &there).map(|version| version.to_string());
        assert_eq!(found(None).unwrap(), "1.10.0");
        assert_eq!(found(Some("1.2.0")).unwrap(), "1.2.0");
        assert_eq!(found(Some("^1.1")).unwrap(), "1.10.0");
        assert_eq!(found(Some("<1.10")).unwrap(), "1.2.0");
        assert_eq!(found(Some("2.0.0-rc.1")).unwrap(), "2.0.0-rc.1");
        assert!(found(Some("3")).unwrap_err().contains("there are: 1.0.0"));
        assert!(found(Some("one")).unwrap_err().contains("or a range"));
        assert!(wanted_version(None, &[]).is_err());
    }
}
