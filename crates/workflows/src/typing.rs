//! Types of wires: checks that each source exists and can fit.

use std::collections::BTreeMap;

use himalia_skills::Invalid;
use himalia_tools::{Schema, Steps};
use serde_json::{Map, Value, json};

use crate::definition::{Approval, Definition, InputValue, Step};
use crate::fit::{self, Member, Misfit, Target};
use crate::wire::{Root, Wire};
use crate::workflow::PinnedSkill;

/// The schemas of what wires can begin at, by step; `None`: nothing is known.
struct Sources<'a> {
    inputs: &'a Value,
    outputs: BTreeMap<&'a str, Option<Value>>,
    item: Member<Value>,
}

/// Steps of all checks of values together.
const STEPS: u64 = 2_000_000;

/// Refuses wires without a source, and those that carry what certainly does not fit. `order` has each step after those that it needs.
pub(crate) fn check(
    definition: &Definition,
    order: &[usize],
    skills: &BTreeMap<String, PinnedSkill>,
) -> Result<(), Invalid> {
    let mut sources = Sources {
        inputs: &definition.inputs,
        outputs: BTreeMap::new(),
        item: no_item(),
    };
    let mut steps = Steps::new(STEPS);
    for step in order.iter().filter_map(|at| definition.steps.get(*at)) {
        let bad = |reason: String| Invalid::new("steps", format!("{}.{reason}", step.id));
        let outputs = check_step(step, skills.get(&step.id), &mut sources, &mut steps).map_err(bad)?;
        sources.outputs.insert(&step.id, outputs);
    }
    sources.item = no_item();
    for (name, given) in &definition.outputs {
        if let Some(wire) = given.wire() {
            let bad = |reason: String| Invalid::new("outputs", format!("{name}: {reason}"));
            sources.of_wire(wire).map_err(bad)?;
        }
    }
    Ok(())
}

/// Gives the schema of its outputs.
fn check_step<'a>(
    step: &'a Step,
    skill: Option<&PinnedSkill>,
    sources: &mut Sources<'a>,
    steps: &mut Steps,
) -> Result<Option<Value>, String> {
    sources.item = no_item();
    if let Some(map) = &step.map {
        let list = match &map.over {
            InputValue::Value(Value::Array(_)) => Member::Unknown,
            InputValue::Value(_) => Member::Absent("the value is not a list".to_owned()),
            InputValue::From(wire) => match sources
                .of_wire(wire)
                .map_err(|reason| format!("map.over: {reason}"))?
            {
                Some(schema) => fit::items(schema),
                None => Member::Unknown,
            },
        };
        sources.item = match list {
            Member::Known(schema) => Member::Known(schema.clone()),
            Member::Unknown => Member::Unknown,
            Member::Absent(reason) => return Err(format!("map.over: {reason}")),
        };
    }
    let target = skill.map(|skill| &skill.inputs);
    let compiled = target
        .map(Schema::shared)
        .transpose()
        .map_err(|reason| format!("skill: its inputs: {reason}"))?;
    let wanted_inputs = target.zip(compiled.as_deref()).map(|(schema, compiled)| {
        let part = compiled.root();
        Target { schema, part }
    });
    for (name, given) in &step.inputs {
        let named = |reason: String| format!("inputs.{name}: {reason}");
        let wanted = wanted_inputs.map_or(Member::Unknown, |target| target.member(name));
        let wanted = match wanted {
            Member::Known(schema) => Some(schema),
            Member::Unknown => None,
            Member::Absent(reason) => return Err(named(format!("the skill has no such input; {reason}"))),
        };
        let source = match given {
            InputValue::From(wire) => sources.of_wire(wire).map_err(named)?,
            InputValue::Value(_) => None,
        };
        let found = match (wanted, given, source) {
            (Some(wanted), InputValue::Value(value), _) => fit::misfit_of_value(value, wanted, steps),
            (Some(wanted), InputValue::From(_), Some(source)) => fit::misfit(source, wanted, steps),
            _ => None,
        };
        if let Some(wrong) = found {
            return Err(named(told(&wrong, given)));
        }
    }
    let required = target
        .and_then(|schema| schema.get("required"))
        .and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !step.inputs.contains_key(name) {
            return Err(format!(
                "inputs.{name}: is required by the skill, and not given (required)"
            ));
        }
    }
    let one = match (&step.approval, skill) {
        (Some(approval), _) => Some(answer(approval)),
        (None, skill) => skill.map(|skill| skill.outputs.clone()),
    };
    Ok(match (&step.map, one) {
        (Some(_), Some(one)) => Some(json!({ "type": "array", "items": one })),
        (_, one) => one,
    })
}

fn no_item() -> Member<Value> {
    Member::Absent("there is no item without map".to_owned())
}

/// The schema of the outputs of an approval.
fn answer(approval: &Approval) -> Value {
    json!({
        "type": "object",
        "properties": {
            "answer": { "type": "string", "enum": approval.proceeds() },
            "by": { "type": "string" },
        },
        "required": ["answer", "by"],
        "additionalProperties": false,
    })
}

fn told(wrong: &Misfit, given: &InputValue) -> String {
    let from = given
        .wire()
        .map_or_else(|| "the value".to_owned(), Wire::to_string);
    let place = if wrong.path.is_empty() {
        String::new()
    } else {
        format!(" at {}", wrong.path)
    };
    format!("{from}{place}: {} ({})", wrong.text, wrong.rule)
}

impl Sources<'_> {
    /// The schema of what a wire carries; `None`: nothing is known of it.
    fn of_wire(&self, wire: &Wire) -> Result<Option<&Value>, String> {
        let (begins, mut schema) = match &wire.root {
            Root::Inputs => ("inputs".to_owned(), Some(self.inputs)),
            Root::Step(id) => {
                let outputs = self
                    .outputs
                    .get(id.as_str())
                    .ok_or_else(|| format!("no step {id} comes before"))?;
                (format!("steps.{id}.outputs"), outputs.as_ref())
            }
            Root::Item => {
                let item = match &self.item {
                    Member::Known(schema) => Some(schema),
                    Member::Unknown => None,
                    Member::Absent(reason) => return Err(reason.clone()),
                };
                ("item".to_owned(), item)
            }
        };
        let mut at = begins;
        for name in &wire.path {
            let Some(known) = schema else {
                return Ok(None);
            };
            schema = match fit::member(rooted(known, self.root_of(&wire.root)), name) {
                Member::Known(member) => Some(member),
                Member::Unknown => return Ok(None),
                Member::Absent(reason) => return Err(format!("{at} has no {name}: {reason}")),
            };
            at = format!("{at}.{name}");
        }
        Ok(schema)
    }

    fn root_of(&self, root: &Root) -> Option<&Map<String, Value>> {
        let schema = match root {
            Root::Inputs => Some(self.inputs),
            Root::Step(id) => self.outputs.get(id.as_str()).and_then(Option::as_ref),
            Root::Item => None,
        };
        schema.and_then(Value::as_object)
    }
}

/// A schema that is only a reference to a definition of its document is that definition.
fn rooted<'a>(schema: &'a Value, root: Option<&'a Map<String, Value>>) -> &'a Value {
    let reference = schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|text| text.strip_prefix("#/$defs/"));
    let found = reference.and_then(|name| root?.get("$defs")?.get(name));
    found.unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workflow;

    fn skill(inputs: Value, outputs: Value) -> PinnedSkill {
        PinnedSkill {
            version: "1.0.0".parse().unwrap(),
            digest: "sha256:x".to_owned(),
            inputs,
            outputs,
        }
    }

    fn skills() -> BTreeMap<String, PinnedSkill> {
        let fetch = skill(
            json!({"type": "object", "properties": {"month": {"type": "string"}, "limit": {"type": "integer", "maximum": 5}},
                "required": ["month"], "additionalProperties": false}),
            json!({"type": "object", "required": ["rows"], "properties": {
                "rows": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}},
                "meta": {"$ref": "#/$defs/meta"}},
                "$defs": {"meta": {"type": "object", "properties": {"pages": {"type": "integer"}}}}}),
        );
        let check = skill(
            json!({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}),
            json!({"type": "object", "properties": {"ok": {"type": "boolean"}}}),
        );
        let report = skill(
            json!({"type": "object", "properties": {"all": {"type": "array", "items": {"type": "object"}}, "by": {"type": "string"}, "pages": {}},
                "required": ["all"]}),
            json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        );
        [("fetch", fetch), ("check", check), ("report", report)]
            .map(|(name, skill)| (name.to_owned(), skill))
            .into()
    }

    fn definition() -> Value {
        json!({
            "name": "monthly", "version": "1.0.0", "description": "d",
            "inputs": {"type": "object", "properties": {"month": {"type": "string"}}, "required": ["month"]},
            "steps": [
                {"id": "report", "skill": {"name": "report"}, "inputs": {
                    "all": {"from": "steps.check.outputs"}, "by": {"from": "steps.sign.outputs.by"},
                    "pages": {"from": "steps.fetch.outputs.meta.pages"}}},
                {"id": "fetch", "skill": {"name": "fetch"}, "inputs": {"month": {"from": "inputs.month"}, "limit": {"value": 5}}},
                {"id": "check", "skill": {"name": "check"}, "map": {"over": {"from": "steps.fetch.outputs.rows"}},
                    "inputs": {"id": {"from": "item.id"}}},
                {"id": "sign", "approval": {"text": "Good?"}, "after": ["check"], "inputs": {"rows": {"from": "steps.fetch.outputs.rows"}}},
            ],
            "outputs": {"path": {"from": "steps.report.outputs.path"}},
        })
    }

    fn made(definition: Value) -> Result<Workflow, String> {
        let definition = serde_json::from_value(definition).map_err(|error| error.to_string())?;
        Workflow::new(definition, &skills()).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn a_workflow_is_pinned_and_its_address_is_of_its_skills_too() {
        let one = made(definition()).unwrap();
        let pinned = one.step("fetch").unwrap().skill.clone().unwrap();
        assert_eq!(
            (pinned.version.as_deref(), pinned.digest.as_deref()),
            (Some("1.0.0"), Some("sha256:x"))
        );
        assert_eq!(
            one.steps().map(|step| step.id.as_str()).collect::<Vec<_>>(),
            ["fetch", "check", "sign", "report"]
        );
        let mut other = skills();
        other.get_mut("fetch").unwrap().digest = "sha256:y".to_owned();
        let other = Workflow::new(serde_json::from_value(definition()).unwrap(), &other).unwrap();
        assert_ne!(one.digest(), other.digest());
        // What is stored is the same one, and is published again as it is.
        let stored = Workflow::stored(one.definition().clone()).unwrap();
        assert_eq!(stored, one);
        assert_eq!(Workflow::new(one.definition().clone(), &skills()).unwrap(), one);
    }

    #[test]
    fn an_error_names_the_step_and_the_rule() {
        let changed = |pointer: &str, value: Value| {
            let mut all = definition();
            *all.pointer_mut(pointer).unwrap() = value;
            made(all).unwrap_err()
        };
        for (pointer, value, wanted) in [
            ("/name", json!("A"), "name: must be 1 to 64"),
            ("/description", json!(""), "description: must have"),
            (
                "/inputs",
                json!({"type": "array"}),
                "inputs: must be a JSON Schema",
            ),
            ("/steps", json!([]), "steps: are 0"),
            (
                "/steps/0/id",
                json!("fetch"),
                "steps: fetch: id: two steps have it",
            ),
            ("/steps/0/id", json!("A b"), "steps: A b: id: must be"),
            (
                "/steps/3/approval",
                json!({"text": ""}),
                "steps: sign: approval.text",
            ),
            (
                "/steps/3/approval",
                json!({"text": "a", "options": ["x", "x"]}),
                "steps: sign: approval.options",
            ),
            (
                "/steps/3/approval",
                json!({"text": "a", "proceed": ["x"]}),
                "steps: sign: approval.proceed",
            ),
            (
                "/steps/3/after",
                json!(["nothing"]),
                "steps: sign: no step has the id nothing",
            ),
            (
                "/steps/3/after",
                json!(["report"]),
                "steps: there is a cycle among report, sign",
            ),
            (
                "/steps/1/inputs/month",
                json!({"from": "item.x"}),
                "steps: fetch: item: is what",
            ),
            (
                "/steps/1/inputs/month",
                json!({"from": "inputs.mont"}),
                "steps: fetch.inputs.month: inputs has no mont: its members are: month",
            ),
            (
                "/steps/1/inputs/month",
                json!({"value": 5}),
                "steps: fetch.inputs.month: the value: 5 is not of type \"string\" (type)",
            ),
            (
                "/steps/1/inputs/limit",
                json!({"value": 6}),
                "steps: fetch.inputs.limit: the value: 6 is greater",
            ),
            (
                "/steps/1/inputs/limit",
                json!({"from": "inputs.month"}),
                "steps: fetch.inputs.limit: inputs.month: string where integer is expected (type)",
            ),
            (
                "/steps/1/inputs",
                json!({}),
                "steps: fetch.inputs.month: is required by the skill",
            ),
            (
                "/steps/1/inputs",
                json!({"month": {"value": "x"}, "day": {"value": 1}}),
                "steps: fetch.inputs.day: the skill has no such input",
            ),
            (
                "/steps/2/map/over",
                json!({"from": "inputs.month"}),
                "steps: check.map.over: it is string, no list",
            ),
            (
                "/steps/2/map/over",
                json!({"value": {}}),
                "steps: check.map.over: the value is not a list",
            ),
            (
                "/steps/2/map/over",
                json!({"from": "steps.fetch.outputs.row"}),
                "steps: check.map.over: steps.fetch.outputs has no row",
            ),
            (
                "/steps/2/inputs/id",
                json!({"from": "item.name"}),
                "steps: check.inputs.id: item has no name",
            ),
            (
                "/steps/0/inputs/all",
                json!({"from": "steps.check.outputs.x"}),
                "steps: report.inputs.all: steps.check.outputs has no x: it is array, no object",
            ),
            (
                "/steps/0/inputs/all",
                json!({"from": "steps.fetch.outputs"}),
                "steps: report.inputs.all: steps.fetch.outputs: object where array is expected (type)",
            ),
            (
                "/steps/0/inputs/by",
                json!({"from": "steps.fetch.outputs.meta.pages"}),
                "steps: report.inputs.by: steps.fetch.outputs.meta.pages: integer",
            ),
            (
                "/outputs/path",
                json!({"from": "steps.report.outputs.file"}),
                "outputs: path: steps.report.outputs has no file",
            ),
            (
                "/outputs/path",
                json!({"from": "steps.x.outputs"}),
                "outputs: path: no step has the id x",
            ),
            (
                "/outputs/path",
                json!({"from": "item"}),
                "outputs: path: item is of a step",
            ),
        ] {
            let wrong = changed(pointer, value);
            assert!(wrong.starts_with(wanted), "{pointer}: {wrong}\nwanted {wanted}");
        }
        let mut without = skills();
        without.remove("check");
        let wrong = Workflow::new(serde_json::from_value(definition()).unwrap(), &without).unwrap_err();
        assert_eq!(wrong.to_string(), "steps: check.skill: there is no skill check");
        let mut both = definition();
        both["steps"][0]["approval"] = json!({"text": "a"});
        assert!(made(both).unwrap_err().contains("either skill or approval"));
        let mut digest = definition();
        digest["steps"][1]["skill"]["digest"] = json!("sha256:z");
        assert!(made(digest).unwrap_err().contains("fetch 1.0.0 is sha256:x"));
    }
}
