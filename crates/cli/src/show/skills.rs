//! Skills, workflows and runs.

use serde_json::Value;

use super::table::{Column, clean, cut, listed, since, table, word};

pub(crate) fn skills(skills: &[Value]) -> String {
    listed(skills, SKILLS, "no skills")
}

pub(crate) fn workflows(workflows: &[Value]) -> String {
    listed(workflows, WORKFLOWS, "no workflows")
}

pub(crate) fn runs(runs: &[Value]) -> String {
    listed(runs, RUNS, "no runs")
}

/// A state of a run in a line, with how far its steps are.
pub(crate) fn run_state(event: &Value) -> String {
    let steps = event["steps"].as_object().into_iter().flatten();
    let steps: Vec<String> = steps
        .map(|(id, status)| format!("{} {}", clean(id), clean(status.as_str().unwrap_or_default())))
        .collect();
    format!("{}  {}\n", word(event, "status"), steps.join(", "))
}

/// A run, with the steps of a workflow.
pub(crate) fn run(run: &Value) -> String {
    let steps = run["steps"].as_array().map_or(&[][..], Vec::as_slice);
    let mut text = table(std::slice::from_ref(run), RUNS);
    if let Some(message) = run["error"]["message"].as_str() {
        text = format!("{text}{}: {}\n", word(&run["error"], "code"), clean(message));
    }
    if steps.is_empty() {
        return text;
    }
    format!("{text}\n{}", table(steps, STEPS))
}

const SKILLS: &[Column] = &[
    ("NAME", |skill| word(skill, "name")),
    ("VERSION", |skill| word(skill, "version")),
    ("KIND", |skill| word(skill, "kind")),
    ("AGE", |skill| since(&skill["published"])),
    ("PUBLISHED BY", |skill| word(skill, "published_by")),
    ("DESCRIPTION", |skill| cut(word(skill, "description"), 60)),
];

const WORKFLOWS: &[Column] = &[
    ("NAME", |workflow| word(workflow, "name")),
    ("VERSION", |workflow| word(workflow, "version")),
    ("AGE", |workflow| since(&workflow["published"])),
    ("PUBLISHED BY", |workflow| word(workflow, "published_by")),
    ("DESCRIPTION", |workflow| cut(word(workflow, "description"), 60)),
];

const RUNS: &[Column] = &[
    ("ID", |run| word(run, "id")),
    ("KIND", |run| word(run, "kind")),
    ("NAME", |run| word(run, "name")),
    ("VERSION", |run| word(run, "version")),
    ("STATUS", |run| word(run, "status")),
    ("ORIGIN", |run| word(&run["origin"], "kind")),
    ("AGE", |run| since(&run["created"])),
    ("STARTED BY", |run| word(run, "started_by")),
];

const STEPS: &[Column] = &[
    ("STEP", |step| word(step, "id")),
    ("STATUS", |step| word(step, "status")),
    ("ITEMS", |step| match step["items"].as_u64() {
        Some(items) => format!("{}/{items}", step["succeeded"]),
        None => String::new(),
    }),
    ("SESSION", |step| {
        let last = step["attempts"].as_array().and_then(|attempts| attempts.last());
        last.map_or_else(String::new, |attempt| word(attempt, "session"))
    }),
    ("WHAT", |step| match step["approval"]["options"].as_array() {
        Some(options) => {
            let options: Vec<&str> = options.iter().filter_map(Value::as_str).collect();
            format!("asks: {}", clean(&options.join(", ")))
        }
        None => format!(
            "{} {}",
            word(&step["skill"], "name"),
            word(&step["skill"], "version")
        ),
    }),
];
