//! `workflow`: finds and runs workflows, and looks at their runs.

use std::fmt::Write as _;
use std::time::Duration;

use himalia_engine::{RunStatus, RunView, StartRun, StepState, StepView, Workflow, WorkflowInfo};
use rmcp::model::{CallToolResult, Tool};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::entry::{Effects, ToolEntry, tool};
use super::versions::{self, Version};
use super::{TEXT_CHARS, cut};
use crate::call::{Answer, Call, answer};
use crate::failure::Failure;
use crate::{arguments, limits};

pub(super) const TOOL: ToolEntry = ToolEntry {
    name: "workflow",
    describe,
    run: |call| Box::pin(run(call)),
};

/// Characters of the inputs of a step that asks a person.
const ASKED_CHARS: usize = 2_000;

fn describe(name: &'static str) -> Tool {
    let effects = Effects {
        read_only: false,
        destructive: true,
        idempotent: false,
        open_world: true,
    };
    let schema = json!({
        "type": "object",
        "properties": {
            "op": {"enum": ["list", "show", "run", "look"]},
            "name": {"type": "string"},
            "version": {"type": "string"},
            "inputs": {"type": "object"},
            "run": {"type": "string", "description": "look: this run"},
            "wait_s": {"type": "number"}
        },
        "required": ["op"],
        "additionalProperties": false
    });
    let description =
        "Saved chains of code skills: list, show one, run it. A run survives restarts; look at it by its id.";
    tool(name, "Workflows", description, schema, &effects)
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Op {
    List,
    Show,
    Run,
    Look,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    op: Op,
    name: Option<String>,
    version: Option<String>,
    #[serde(default)]
    inputs: Map<String, Value>,
    run: Option<String>,
    wait_s: Option<f64>,
}

async fn run(mut call: Call) -> Answer {
    let wanted: Arguments = arguments::read(call.take_arguments())?;
    let name = || {
        let name = wanted.name.as_deref();
        name.ok_or_else(|| Failure::argument("name", "is missing"))
    };
    match wanted.op {
        Op::List => {
            let (text, body) = listed(call.engine.workflows(&call.principal).await?);
            Ok(answer(json!({ "workflows": body }), text).into())
        }
        Op::Show => {
            let found = call
                .engine
                .workflow(&call.principal, name()?, wanted.version.as_deref());
            let (info, workflow) = found.await?;
            let body =
                json!({ "name": info.name, "version": info.version.to_string(), "digest": info.digest });
            Ok(answer(body, shown(&info, &workflow)).into())
        }
        Op::Run => {
            let wait = arguments::wait(wanted.wait_s, limits::WAIT)?;
            let start = StartRun {
                version: wanted.version.clone(),
                inputs: wanted.inputs.clone(),
                key: None,
            };
            let (id, _) = call.engine.run_workflow(&call.principal, name()?, start).await?;
            Ok(told(&at_its_end(&call, &id, wait).await?).into())
        }
        Op::Look => {
            let wait = arguments::wait(wanted.wait_s, Duration::ZERO)?;
            let id = wanted.run.as_deref();
            let id = id.ok_or_else(|| Failure::argument("run", "is missing"))?;
            Ok(told(&at_its_end(&call, id, wait).await?).into())
        }
    }
}

/// A run when it has ended or the time has passed; or as it is, when the client has left or the gateway stops.
async fn at_its_end(call: &Call, id: &str, wait: Duration) -> Result<RunView, Failure> {
    tokio::select! {
        biased;
        () = call.context.ct.cancelled() => {}
        () = call.shutdown.cancelled() => {}
        run = call.engine.workflow_run(&call.principal, id, wait) => return Ok(run?),
    }
    Ok(call
        .engine
        .workflow_run(&call.principal, id, Duration::ZERO)
        .await?)
}

fn listed(all: Vec<WorkflowInfo>) -> (String, Vec<Value>) {
    let lines = all.into_iter().map(|info| Version {
        head: format!("{} {}", info.name, info.version),
        body: json!({ "name": info.name, "version": info.version.to_string() }),
        description: info.description,
        name: info.name,
    });
    versions::listed(lines, "no workflows")
}

/// What it takes, and its steps.
fn shown(info: &WorkflowInfo, workflow: &Workflow) -> String {
    let definition = workflow.definition();
    let mut text = format!("{} {}: {}\n", info.name, info.version, definition.description);
    let _ = writeln!(text, "inputs: {}", definition.inputs);
    for step in &definition.steps {
        let what = match (&step.skill, &step.approval) {
            (Some(skill), _) => format!("{} {}", skill.name, skill.version.as_deref().unwrap_or_default()),
            (None, Some(approval)) => format!("a person: {}", approval.text),
            (None, None) => String::new(),
        };
        let needs = step.needs().into_iter().collect::<Vec<_>>().join(", ");
        let after = if needs.is_empty() {
            String::new()
        } else {
            format!(" after {needs}")
        };
        let _ = writeln!(text, "step {}: {what}{after}", step.id);
    }
    let outputs: Vec<&str> = definition.outputs.keys().map(String::as_str).collect();
    let _ = write!(text, "outputs: {}", outputs.join(", "));
    cut(&text, TEXT_CHARS)
}

/// A run for the model: what it returned, or where it is.
fn told(run: &RunView) -> CallToolResult {
    let id = &run.info.id;
    let (text, failed) = match run.info.status {
        RunStatus::Succeeded => {
            let outputs = run.outputs.as_ref().map(Value::to_string).unwrap_or_default();
            (outputs, false)
        }
        RunStatus::Running => {
            let mut text = String::new();
            for step in &run.steps {
                let _ = writeln!(text, "{}", state_of(step));
            }
            let _ = write!(text, "[running: op look with run {id} and wait_s waits for it]");
            (text, false)
        }
        RunStatus::Failed => {
            let step = run.info.failed_step.as_deref().unwrap_or_default();
            let failure = run.info.failure.as_ref();
            let why = failure.map_or_else(String::new, |why| format!("{} ({})", why.message, why.code));
            (format!("step {step}: {why}\n[failed: {id}]"), true)
        }
        RunStatus::Cancelled => {
            let by = run.info.cancelled_by.as_deref().unwrap_or_default();
            (format!("[cancelled by {by}: {id}]"), true)
        }
    };
    let steps = run.steps.iter().map(|step| (step.id.clone(), word(step).into()));
    let shown = json!({
        "run": id, "workflow": run.info.workflow, "version": run.info.version, "status": run.info.status.as_str(),
        "outputs": versions::small(run.outputs.as_ref()), "steps": steps.collect::<Map<_, _>>(),
    });
    versions::told(cut(&text, TEXT_CHARS), failed, shown)
}

fn word(step: &StepView) -> &'static str {
    match step.state {
        StepState::Pending => "pending",
        StepState::Skipped => "skipped",
        StepState::Of(status) => status.as_str(),
    }
}

/// A step in a line; with what a person is asked.
fn state_of(step: &StepView) -> String {
    let mut text = format!("{}: {}", step.id, word(step));
    if let Some(items) = step.items {
        let _ = write!(text, " ({} of {items})", step.succeeded);
    }
    if let (Some(approval), "waiting") = (&step.approval, word(step)) {
        let _ = write!(
            text,
            " for a person: {} [{}]",
            approval.text,
            approval.options.join(", ")
        );
        if let Some(inputs) = &step.inputs {
            let _ = write!(text, " {}", cut(&inputs.to_string(), ASKED_CHARS));
        }
    }
    text
}
