//! Checks of a definition: names, bounds and order. `typing.rs` checks the types of wires.

use std::collections::{BTreeMap, BTreeSet};

use himalia_skills::{Invalid, check_name};
use himalia_tools::Schema;
use serde_json::Value;

use crate::definition::{Approval, Definition, Step};
use crate::wire::{Root, Wire};
use crate::{MAX_ANSWER_BYTES, MAX_DEFINITION_BYTES, MAX_PARALLEL, MAX_RETRIES, MAX_STEPS, MAX_WAIT_S};

/// Characters of a description.
const MAX_DESCRIPTION: usize = 1024;
/// Characters of what a person is asked.
const MAX_QUESTION: usize = 4000;
/// Options of an approval.
const MAX_OPTIONS: usize = 16;
/// Seconds that a person has.
const MAX_PATIENCE: u32 = 30 * 86_400;
/// Seconds of an attempt.
const MAX_TIMEOUT: u32 = 86_400;
/// Inputs of a step, and outputs of a workflow.
const MAX_NAMES: usize = 100;
/// Bytes of an id, and of a name of an input.
const MAX_ID: usize = 64;

/// Refuses what is no definition; gives the steps, each after those that it needs.
pub(crate) fn check(definition: &Definition) -> Result<Vec<usize>, Invalid> {
    check_name(&definition.name)?;
    let described = definition.description.chars().count();
    if definition.description.trim().is_empty() || described > MAX_DESCRIPTION {
        let reason = format!("must have 1 to {MAX_DESCRIPTION} characters");
        return Err(Invalid::new("description", reason));
    }
    if definition.inputs.get("type") != Some(&Value::from("object")) {
        return Err(Invalid::new(
            "inputs",
            "must be a JSON Schema with \"type\": \"object\"",
        ));
    }
    let bytes = serde_json::to_vec(definition).map_or(usize::MAX, |json| json.len());
    if bytes > MAX_DEFINITION_BYTES {
        let reason = format!("have, with all else, more than {MAX_DEFINITION_BYTES} bytes");
        return Err(Invalid::new("steps", reason));
    }
    if definition.steps.is_empty() || definition.steps.len() > MAX_STEPS {
        let reason = format!("are {}, 1 to {MAX_STEPS} are allowed", definition.steps.len());
        return Err(Invalid::new("steps", reason));
    }
    if definition.outputs.len() > MAX_NAMES {
        return Err(Invalid::new("outputs", format!("are more than {MAX_NAMES}")));
    }
    let mut ids = BTreeSet::new();
    for step in &definition.steps {
        let bad = |reason: String| Invalid::new("steps", format!("{}: {reason}", shown(&step.id)));
        if !is_id(&step.id) {
            return Err(bad(format!(
                "id: must be 1 to {MAX_ID} lower-case letters, digits, hyphens and _"
            )));
        }
        if !ids.insert(step.id.as_str()) {
            return Err(bad("id: two steps have it".to_owned()));
        }
        check_step(step).map_err(bad)?;
    }
    let known = |id: &str| {
        let there = ids.contains(id);
        there
            .then_some(())
            .ok_or_else(|| format!("no step has the id {}", shown(id)))
    };
    for step in &definition.steps {
        let bad = |reason: String| Invalid::new("steps", format!("{}: {reason}", step.id));
        step.needs().into_iter().try_for_each(known).map_err(bad)?;
    }
    for (name, given) in &definition.outputs {
        let bad = |reason: String| Invalid::new("outputs", format!("{}: {reason}", shown(name)));
        if !is_name(name) {
            return Err(bad(format!("a name has 1 to {MAX_ID} bytes and no dot")));
        }
        match given.wire().map(|wire| &wire.root) {
            Some(Root::Item) => return Err(bad("item is of a step with map".to_owned())),
            Some(Root::Step(id)) => known(id).map_err(bad)?,
            Some(Root::Inputs) | None => {}
        }
    }
    order(&definition.steps)
}

/// Refuses a schema of inputs that is none, or takes too much. That takes a processor for a while.
pub(crate) fn check_schema(definition: &Definition) -> Result<(), Invalid> {
    let schema = Schema::shared(&definition.inputs);
    schema.map(drop).map_err(|reason| Invalid::new("inputs", reason))
}

fn check_step(step: &Step) -> Result<(), String> {
    match (&step.skill, &step.approval) {
        (Some(_), None) => {}
        (None, Some(approval)) => {
            let other = [
                ("map", step.map.is_some()),
                ("retries", step.retries.is_some()),
                ("timeout_s", step.timeout_s.is_some()),
                ("template", step.template.is_some()),
            ];
            if let Some((name, _)) = other.iter().find(|(_, is_there)| *is_there) {
                return Err(format!("{name}: is for a step with a skill"));
            }
            check_approval(approval)?;
        }
        _ => return Err("must have either skill or approval".to_owned()),
    }
    if step.inputs.len() > MAX_NAMES || !step.inputs.keys().all(|name| is_name(name)) {
        return Err(format!(
            "inputs: at most {MAX_NAMES}, whose names have 1 to {MAX_ID} bytes and no dot"
        ));
    }
    let is_item = |wire: &&Wire| wire.root == Root::Item;
    let over = step.map.as_ref().and_then(|map| map.over.wire());
    if over.as_ref().is_some_and(is_item) || (step.map.is_none() && step.wires().any(|wire| is_item(&wire))) {
        return Err("item: is what the inputs of a step with map have".to_owned());
    }
    let within = |name: &str, value: Option<u32>, most: u32| match value {
        Some(value) if value == 0 || value > most => Err(format!("{name}: must be 1 to {most}")),
        _ => Ok(()),
    };
    let retries = step.retries.as_ref();
    within(
        "map.parallel",
        step.map.as_ref().map(|map| map.parallel),
        MAX_PARALLEL,
    )?;
    within("retries.limit", retries.map(|retries| retries.limit), MAX_RETRIES)?;
    within(
        "retries.wait_s",
        retries.map(|retries| retries.wait_s),
        MAX_WAIT_S,
    )?;
    within("timeout_s", step.timeout_s, MAX_TIMEOUT)
}

fn check_approval(approval: &Approval) -> Result<(), String> {
    if approval.text.trim().is_empty() || approval.text.chars().count() > MAX_QUESTION {
        return Err(format!("approval.text: must have 1 to {MAX_QUESTION} characters"));
    }
    let options: BTreeSet<&String> = approval.options.iter().collect();
    let plain = |option: &&String| !option.trim().is_empty() && option.len() <= MAX_ANSWER_BYTES;
    if !(2..=MAX_OPTIONS).contains(&options.len())
        || options.len() != approval.options.len()
        || !options.iter().all(plain)
    {
        return Err(format!(
            "approval.options: must be 2 to {MAX_OPTIONS} different texts of 1 to {MAX_ANSWER_BYTES} bytes"
        ));
    }
    if !approval.proceed.iter().all(|answer| options.contains(answer)) {
        return Err("approval.proceed: must be some of the options".to_owned());
    }
    if approval.timeout_s == 0 || approval.timeout_s > MAX_PATIENCE {
        return Err(format!("approval.timeout_s: must be 1 to {MAX_PATIENCE}"));
    }
    Ok(())
}

/// The steps, each after those that it needs, which are all there.
fn order(steps: &[Step]) -> Result<Vec<usize>, Invalid> {
    let mut open: BTreeMap<usize, BTreeSet<&str>> = steps.iter().map(Step::needs).enumerate().collect();
    let mut order = Vec::new();
    while !open.is_empty() {
        let ready = open.iter().find(|(_, needs)| needs.is_empty()).map(|(at, _)| *at);
        let Some(at) = ready else {
            let stuck: Vec<&str> = open
                .keys()
                .filter_map(|at| steps.get(*at))
                .map(|step| step.id.as_str())
                .collect();
            let reason = format!("there is a cycle among {}", stuck.join(", "));
            return Err(Invalid::new("steps", reason));
        };
        open.remove(&at);
        let id = steps.get(at).map_or("", |step| step.id.as_str());
        for needs in open.values_mut() {
            needs.remove(id);
        }
        order.push(at);
    }
    Ok(order)
}

fn is_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    (1..=MAX_ID).contains(&id.len()) && id.bytes().all(plain)
}

fn is_name(name: &str) -> bool {
    (1..=MAX_ID).contains(&name.len()) && !name.contains('.') && !name.chars().any(char::is_control)
}

fn shown(text: &str) -> String {
    text.chars().take(MAX_ID).flat_map(char::escape_debug).collect()
}
