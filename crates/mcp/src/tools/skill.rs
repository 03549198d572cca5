//! `skill`: finds, reads and runs skills.

use std::fmt::Write as _;
use std::time::Duration;

use himalia_runs::{
    RunSkill, RunState, RunUntil, RunView, SKILL_FILE, Skill, SkillInfo, SkillKind, id_of_run,
};
use rmcp::model::{CallToolResult, Tool};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::entry::{Effects, ToolEntry, tool};
use super::versions::{self, Version};
use super::{TEXT_CHARS, cut};
use crate::call::{Answer, Call, answer};
use crate::failure::Failure;
use crate::follow::{self, Patience};
use crate::{arguments, limits};

pub(super) const TOOL: ToolEntry = ToolEntry {
    name: "skill",
    describe,
    run: |call| Box::pin(run(call)),
};

fn describe(name: &'static str) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "op": {"enum": ["list", "show", "run"]},
            "name": {"type": "string"},
            "version": {"type": "string"},
            "file": {"type": "string", "description": "show: this file"},
            "inputs": {"type": "object"},
            "template": {"type": "string"}
        },
        "required": ["op"]
    });
    let description =
        "Saved instructions and code: list them, show one (how to use it), run code in a session of its own.";
    tool(name, "Skills", description, schema, &Effects::ANY)
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Op {
    List,
    Show,
    Run,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    op: Op,
    name: Option<String>,
    version: Option<String>,
    file: Option<String>,
    #[serde(default)]
    inputs: Map<String, Value>,
    template: Option<String>,
}

async fn run(mut call: Call) -> Answer {
    let wanted: Arguments = arguments::read(call.take_arguments())?;
    let name = || {
        let name = wanted.name.as_deref();
        name.ok_or_else(|| Failure::argument("name", "is missing"))
    };
    match wanted.op {
        Op::List => {
            let all = call.runs.skills(&call.principal, None).await?;
            let listed = listed(all);
            Ok(answer(json!({ "skills": listed.1 }), listed.0).into())
        }
        Op::Show => {
            let found = call
                .runs
                .skill(&call.principal, name()?, wanted.version.as_deref());
            let (info, skill) = found.await?;
            let text = match &wanted.file {
                Some(file) => file_of(&skill, file)?,
                None => shown(&info, &skill),
            };
            let body =
                json!({ "name": info.name, "version": info.version.to_string(), "digest": info.digest });
            Ok(answer(body, text).into())
        }
        Op::Run => {
            let run = RunSkill {
                version: wanted.version.clone(),
                template: wanted.template.clone(),
                inputs: wanted.inputs.clone(),
                client: call.client(),
                ..RunSkill::default()
            };
            let id = call.runs.run_skill(&call.principal, name()?, run).await?.id;
            follow::wait(&call, id, None, Patience::exact(limits::WAIT)).await?;
            let run = id_of_run(id.kernel.0);
            let run = call
                .runs
                .run(&call.principal, &run, Duration::ZERO, RunUntil::Ended);
            Ok(ended(&run.await?).into())
        }
    }
}

fn listed(all: Vec<SkillInfo>) -> (String, Vec<Value>) {
    let lines = all.into_iter().map(|info| Version {
        head: format!("{} {} ({})", info.name, info.version, info.kind),
        body: json!({ "name": info.name, "version": info.version.to_string(), "kind": info.kind }),
        description: info.description,
        name: info.name,
    });
    versions::listed(lines, "no skills")
}

/// Usage of a skill: the instructions, or the types of code.
pub(crate) fn shown(info: &SkillInfo, skill: &Skill) -> String {
    let manifest = skill.manifest();
    let mut text = format!("{} {}: {}\n", info.name, info.version, manifest.description);
    match manifest.kind {
        SkillKind::Code => {
            let json = |schema: &Option<Value>| schema.as_ref().map(Value::to_string).unwrap_or_default();
            let _ = writeln!(text, "inputs: {}", json(&manifest.inputs));
            let _ = writeln!(text, "outputs: {}", json(&manifest.outputs));
        }
        SkillKind::Instructions => {
            let instructions = skill
                .files()
                .get(SKILL_FILE)
                .map(Vec::as_slice)
                .unwrap_or_default();
            text.push_str(&String::from_utf8_lossy(instructions));
            text.push('\n');
        }
    }
    let mut text = cut(&text, TEXT_CHARS);
    let files: Vec<&str> = skill.files().keys().map(String::as_str).collect();
    let _ = write!(text, "\nfiles: {}", files.join(", "));
    text
}

fn file_of(skill: &Skill, path: &str) -> Result<String, Failure> {
    let content = skill.files().get(path);
    let content = content.ok_or_else(|| Failure::argument("file", "the skill has no such file"))?;
    match std::str::from_utf8(content) {
        Ok(text) => Ok(cut(text, TEXT_CHARS)),
        Err(_) => Err(Failure::argument(
            "file",
            "is not text: get it from GET /v1/skills/{skill}",
        )),
    }
}

fn ended(run: &RunView) -> CallToolResult {
    let (info, execution) = (&run.info, run.info.execution);
    let (text, failed) = match info.status {
        RunState::Succeeded => {
            let outputs = run.outputs.as_ref().map(Value::to_string).unwrap_or_default();
            (cut(&outputs, TEXT_CHARS), false)
        }
        RunState::Queued | RunState::Running => {
            let id = execution.map(|id| id.to_string()).unwrap_or_default();
            (
                format!("it runs: get_output with execution_id {id} waits for it"),
                false,
            )
        }
        _ => (why(run), true),
    };
    let shown = json!({
        "run": info.id, "execution_id": execution, "skill": info.name, "version": info.version,
        "status": info.status, "outputs": versions::small(run.outputs.as_ref()), "violations": run.violations,
    });
    versions::told(text, failed, shown)
}

fn why(run: &RunView) -> String {
    let message = run.info.error.as_ref().map(|error| error.message.as_str());
    let text = format!(
        "{}\n[{}: {}]",
        message.unwrap_or_default(),
        run.info.status.as_str(),
        run.info.id
    );
    cut(&text, TEXT_CHARS)
}
