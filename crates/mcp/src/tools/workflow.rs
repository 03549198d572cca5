//! `workflow`: finds and runs workflows, and looks at their runs.

use std::fmt::Write as _;
use std::time::Duration;

use himalia_engine::{EngineError, PromptName, PromptState, StepPromptId};
use himalia_runs::{RunState, RunUntil, RunView, StartRun, StepState, StepView, Workflow, WorkflowInfo};
use rmcp::model::{CallToolResponse, CallToolResult, InputRequiredResult, Tool};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::entry::{Effects, ToolEntry, tool};
use super::versions::{self, Version};
use super::{TEXT_CHARS, cut};
use crate::call::{Answer, Call, answer};
use crate::failure::Failure;
use crate::input::{QuestionRef, Round, asks_for_approvals, step_question};
use crate::{arguments, limits};

pub(super) const TOOL: ToolEntry = ToolEntry {
    name: "workflow",
    describe,
    run: |call| Box::pin(run(call)),
};

/// Characters of the inputs of a step that asks a person.
const ASKED_CHARS: usize = 2_000;

fn describe(name: &'static str) -> Tool {
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
        "required": ["op"]
    });
    let description =
        "Saved chains of code skills: list, show one, run it. A run survives restarts; look at it by its id.";
    tool(name, "Workflows", description, schema, &Effects::ANY)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
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

impl Arguments {
    fn name(&self) -> Result<&str, Failure> {
        let name = self.name.as_deref();
        name.ok_or_else(|| Failure::argument("name", "is missing"))
    }
}

async fn run(mut call: Call) -> Answer {
    let wanted: Arguments = arguments::read(call.take_arguments())?;
    match wanted.op {
        Op::List => {
            let (text, body) = listed(call.runs.workflows(&call.principal).await?);
            Ok(answer(json!({ "workflows": body }), text).into())
        }
        Op::Show => {
            let found = call
                .runs
                .workflow(&call.principal, wanted.name()?, wanted.version.as_deref());
            let (info, workflow) = found.await?;
            let body =
                json!({ "name": info.name, "version": info.version.to_string(), "digest": info.digest });
            Ok(answer(body, shown(&info, &workflow)).into())
        }
        Op::Run | Op::Look => followed(call, &wanted).await,
    }
}

/// A run that is started or looked at: what became of it. If the client's user can be asked for an approval, what a step asks is asked.
async fn followed(mut call: Call, wanted: &Arguments) -> Answer {
    let starts = wanted.op == Op::Run;
    let wait = arguments::wait(wanted.wait_s, if starts { limits::WAIT } else { Duration::ZERO })?;
    let (id, note) = match Round::of(&mut call, TOOL.name, "")? {
        Round::First => (named(&call, wanted).await?, None),
        Round::Answered(asked, value) => {
            let step = step_of(asked)?;
            let note = answered(&call, &step, value).await?;
            (step.run, note)
        }
        Round::Unanswered(asked) => (step_of(asked)?.run, None),
        Round::Refused(asked) => {
            let run = look(&call, &step_of(asked)?.run, Duration::ZERO, RunUntil::Ended).await?;
            return Ok(told(&run, None).into());
        }
    };
    let asks = asks_for_approvals(&call) && !wait.is_zero();
    // Who cannot answer looks at a run to wait for who can.
    let until = if starts || asks {
        RunUntil::Asks
    } else {
        RunUntil::Ended
    };
    let run = look(&call, &id, wait, until).await?;
    // The result says that an answer did not count before another question is asked.
    if asks
        && note.is_none()
        && let Some(question) = question(&call, &run).await?
    {
        return Ok(CallToolResponse::InputRequired(question));
    }
    Ok(told(&run, note).into())
}

/// The id of the run that a call starts, or names.
async fn named(call: &Call, wanted: &Arguments) -> Result<String, Failure> {
    if wanted.op == Op::Look {
        let id = wanted.run.clone();
        return id.ok_or_else(|| Failure::argument("run", "is missing"));
    }
    let start = StartRun {
        version: wanted.version.clone(),
        inputs: wanted.inputs.clone(),
        ..StartRun::default()
    };
    let begun = call.runs.run_workflow(&call.principal, wanted.name()?, start);
    Ok(begun.await?.id)
}

fn step_of(asked: QuestionRef) -> Result<StepPromptId, Failure> {
    match asked {
        QuestionRef::Prompt(PromptName::Step(step)) => Ok(step),
        _ => Err(Failure::Arguments(
            "requestState names no step of a workflow".into(),
        )),
    }
}

/// Gives the answer of the client's user; why it does not count, if another one came before it, or the step has ended.
async fn answered(call: &Call, step: &StepPromptId, value: String) -> Result<Option<String>, Failure> {
    let id = PromptName::Step(step.clone());
    match call.engine.answer(&call.principal, &id, value).await {
        Ok(_) => Ok(None),
        Err(EngineError::Conflict { reason }) => Ok(Some(format!("[the answer was not accepted: {reason}]"))),
        Err(error) => Err(error.into()),
    }
}

/// A run when that has happened which is waited for or the time has passed; or as it is, when the client has left or the gateway stops.
async fn look(call: &Call, id: &str, wait: Duration, until: RunUntil) -> Result<RunView, Failure> {
    tokio::select! {
        biased;
        () = call.context.ct.cancelled() => {}
        () = call.shutdown.cancelled() => {}
        run = call.runs.run(&call.principal, id, wait, until) => return Ok(run?),
    }
    let now = call
        .runs
        .run(&call.principal, id, Duration::ZERO, RunUntil::Ended);
    Ok(now.await?)
}

/// The question of the first step that waits for a person.
async fn question(call: &Call, run: &RunView) -> Result<Option<InputRequiredResult>, Failure> {
    for step in waiting(run) {
        let prompt = call
            .engine
            .prompt(&call.principal, &prompt_of(run, step), Duration::ZERO)
            .await?;
        if prompt.state == PromptState::Open {
            let version = run.info.version.as_deref().unwrap_or_default();
            let workflow = format!("{} {version}", run.info.name);
            return Ok(step_question(&call.states, &call.principal, &workflow, &prompt));
        }
    }
    Ok(None)
}

/// The steps that wait for a person.
fn waiting(run: &RunView) -> impl Iterator<Item = &StepView> {
    let running = run.info.status == RunState::Running;
    let waits = move |step: &&StepView| running && step.approval.is_some() && word(step) == "waiting";
    run.steps.iter().filter(waits)
}

fn prompt_of(run: &RunView, step: &StepView) -> PromptName {
    PromptName::Step(StepPromptId {
        run: run.info.id.clone(),
        step: step.id.clone(),
    })
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

/// Inputs and steps of a workflow.
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

/// A run for the model: what it returned, or where it is, and a note about the call.
fn told(run: &RunView, note: Option<String>) -> CallToolResult {
    let id = &run.info.id;
    let (text, failed) = match run.info.status {
        RunState::Succeeded => {
            let outputs = run.outputs.as_ref().map(Value::to_string).unwrap_or_default();
            (outputs, false)
        }
        RunState::Queued | RunState::Running => {
            let mut text = String::new();
            for step in &run.steps {
                let _ = writeln!(text, "{}", state_of(step));
            }
            for step in waiting(run) {
                let id = prompt_of(run, step);
                let _ = writeln!(
                    text,
                    "[{} waits for a person: `himalia prompts answer {id}`, the viewer, or POST /v1/prompts/{id}/answer]",
                    step.id
                );
            }
            let _ = write!(text, "[running: op look with run {id} and wait_s waits for it]");
            (text, false)
        }
        RunState::Cancelled => {
            let by = run.info.cancelled_by.as_deref().unwrap_or_default();
            (format!("[cancelled by {by}: {id}]"), true)
        }
        RunState::Failed | RunState::Skipped | RunState::Missed => {
            let error = run.info.error.as_ref();
            let step = error.and_then(|error| error.step.as_deref());
            let step = step.map_or_else(String::new, |step| format!("step {step}: "));
            let why = error.map_or_else(String::new, |why| format!("{} ({})", why.message, why.code));
            (format!("{step}{why}\n[{}: {id}]", run.info.status.as_str()), true)
        }
    };
    let text = match note {
        Some(note) => format!("{note}\n{text}"),
        None => text,
    };
    let steps = run.steps.iter().map(|step| (step.id.clone(), word(step).into()));
    let mut shown = json!({
        "run": id, "workflow": run.info.name, "version": run.info.version, "status": run.info.status.as_str(),
        "outputs": versions::small(run.outputs.as_ref()), "steps": steps.collect::<Map<_, _>>(),
    });
    let prompts: Vec<Value> = waiting(run)
        .filter_map(|step| {
            let asked = step.approval.as_ref()?;
            let id = prompt_of(run, step).to_string();
            Some(json!({ "id": id, "step": step.id, "text": asked.text, "options": asked.options }))
        })
        .collect();
    if !prompts.is_empty() {
        shown["prompts"] = prompts.into();
    }
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
