//! Skills, workflows and their runs.

use serde_json::Value;

use super::table::{Column, clean, cut, listed, since, table, word};

/// A table of skills.
pub(crate) fn skills(skills: &[Value]) -> String {
    listed(skills, &SKILLS, "no skills")
}

/// A table of workflows.
pub(crate) fn workflows(workflows: &[Value]) -> String {
    listed(workflows, &WORKFLOWS, "no workflows")
}

/// A table of runs of workflows.
pub(crate) fn runs(runs: &[Value]) -> String {
    listed(runs, &RUNS, "no runs")
}

/// A run of a workflow with its steps.
pub(crate) fn run(run: &Value) -> String {
    let steps = run["steps"].as_array().map_or(&[][..], Vec::as_slice);
    format!(
        "{}\n{}",
        table(std::slice::from_ref(run), &RUNS),
        table(steps, &STEPS)
    )
}

const SKILLS: [Column; 6] = [
    ("NAME", |skill| word(skill, "name")),
    ("VERSION", |skill| word(skill, "version")),
    ("KIND", |skill| word(skill, "kind")),
    ("AGE", |skill| since(&skill["published"])),
    ("PUBLISHED BY", |skill| word(skill, "published_by")),
    ("DESCRIPTION", |skill| cut(word(skill, "description"), 60)),
];

const WORKFLOWS: [Column; 5] = [
    ("NAME", |workflow| word(workflow, "name")),
    ("VERSION", |workflow| word(workflow, "version")),
    ("AGE", |workflow| since(&workflow["published"])),
    ("PUBLISHED BY", |workflow| word(workflow, "published_by")),
    ("DESCRIPTION", |workflow| cut(word(workflow, "description"), 60)),
];

const RUNS: [Column; 6] = [
    ("ID", |run| word(run, "id")),
    ("WORKFLOW", |run| word(run, "workflow")),
    ("VERSION", |run| word(run, "version")),
    ("STATUS", |run| word(run, "status")),
    ("AGE", |run| since(&run["created"])),
    ("STARTED BY", |run| word(run, "started_by")),
];

const STEPS: [Column; 5] = [
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
