//! `himalia skill`: skills of a running gateway, and their folders.

mod folder;
mod test;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};
use himalia_skills::{SKILL_FILE, Skill};
use serde_json::{Map, Value, json};

use super::http::Client;
use super::runs::path as path_of_run;
use super::{show, versions};
use crate::args::gateway::GatewayArgs;
use crate::support::{array, connect, delete, expect, print};
use crate::values::Seconds;

pub(crate) const EXAMPLES: &str = "\
Examples:
  himalia skill new reconcile         a folder with a manifest, code and a test, to be edited
  himalia skill test reconcile        run its tests in a session
  himalia skill publish reconcile     add this version to those of the gateway
  himalia skill run reconcile --input month=2026-10
  himalia skill publish ./pdf-forms   a folder with a SKILL.md of an agent

A version never changes: publish a change as another version.";

/// Kind of a new skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NewKind {
    /// A function in Python
    Code,
    /// Text for a model
    Instructions,
}

#[derive(Debug, Subcommand)]
pub enum SkillCommand {
    /// Make a folder of a new skill
    New {
        /// Lower-case letters, digits and hyphens
        name: String,
        /// The folder [default: one of the name of the skill, in this directory]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        /// Kind of the skill
        #[arg(long, value_name = "KIND", default_value = "code")]
        kind: NewKind,
    },
    /// Check a folder and run the tests of its manifest in a session. The exit code is 1 if a test fails
    Test {
        /// The folder of the skill
        folder: PathBuf,
        /// Template of the session [default: that of the skill, or the gateway's default kernelspec]
        #[arg(long, value_name = "NAME")]
        template: Option<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Publish the folder of a skill. The same content again changes nothing
    Publish {
        /// The folder of the skill
        folder: PathBuf,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// List skills
    #[command(name = "ls")]
    List(GatewayArgs),
    /// Show a skill: its manifest and its text
    Show {
        /// Name of the skill
        name: String,
        /// Version of the skill [default: the latest]
        #[arg(long, value_name = "VERSION")]
        version: Option<String>,
        /// Write its folder to this directory, which must not exist
        #[arg(long, short, value_name = "DIR")]
        output: Option<PathBuf>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Run a skill in a session of its own, and print its outputs as JSON
    Run(Box<SkillRunArgs>),
    /// Delete a version of a skill, or all versions
    #[command(name = "rm")]
    Remove {
        /// Name of the skill
        name: String,
        /// Version of the skill [default: all versions]
        #[arg(long, value_name = "VERSION")]
        version: Option<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}

/// A run of a skill.
#[derive(Debug, Args)]
pub struct SkillRunArgs {
    /// Name of the skill
    pub(crate) name: String,
    /// Version of the skill [default: the latest]
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// An argument; a value that is not JSON is text; may be repeated
    #[arg(long = "input", value_name = "NAME=VALUE")]
    pub(crate) inputs: Vec<String>,
    /// Template of the session [default: that of the skill, or the gateway's default kernelspec]
    #[arg(long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// The time that it may take, if that is less than the skill says
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<Seconds>,
    /// URL to which the result is posted
    #[arg(long, value_name = "URL")]
    pub(crate) callback: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

const LIST: &str = "/v1/skills";
/// Seconds that one response waits.
const WAIT_S: u64 = 300;

pub(super) async fn call(command: SkillCommand) -> anyhow::Result<ExitCode> {
    match command {
        SkillCommand::New { name, dir, kind } => folder::new(&name, dir, kind),
        SkillCommand::Test {
            folder,
            template,
            gateway,
        } => {
            let skill = folder::read(&folder)?;
            test::test(&gateway, &skill, template).await
        }
        SkillCommand::Publish { folder, gateway } => {
            let skill = folder::read(&folder)?;
            versions::publish(&gateway, LIST, &body(&skill)).await
        }
        SkillCommand::List(gateway) => {
            let body = connect(&gateway)?.list(LIST, "skills").await?;
            print(gateway.json, &body, |body| show::skills(array(&body["skills"])))
        }
        SkillCommand::Show {
            name,
            version,
            output,
            gateway,
        } => {
            let reply = connect(&gateway)?
                .get(&versions::path(LIST, &name, version.as_deref()))
                .await?;
            let shown = expect(&reply, 200)?;
            match output {
                Some(dir) => folder::write(&dir, &shown),
                None => print(gateway.json, &shown, text),
            }
        }
        SkillCommand::Run(args) => run(*args).await,
        SkillCommand::Remove {
            name,
            version,
            gateway,
        } => delete(&gateway, &versions::path(LIST, &name, version.as_deref()), &name).await,
    }
}

fn body(skill: &Skill) -> Value {
    let files: Map<String, Value> = skill
        .files()
        .iter()
        .map(|(path, content)| (path.clone(), folder::as_json(content)))
        .collect();
    json!({ "manifest": skill.manifest(), "files": files })
}

/// For people: the manifest, and the text of instructions or the code.
fn text(skill: &Value) -> String {
    let main = if skill["manifest"]["kind"] == "code" {
        himalia_skills::MAIN_FILE
    } else {
        SKILL_FILE
    };
    let text = skill["files"][main]["text"].as_str().unwrap_or_default();
    let files = skill["files"].as_object();
    let others = files
        .into_iter()
        .flat_map(|files| files.keys())
        .filter(|path| *path != main);
    let others: Vec<String> = others.map(|path| show::clean(path)).collect();
    let others = if others.is_empty() {
        String::new()
    } else {
        format!("files: {}\n", others.join(", "))
    };
    let lines: Vec<String> = text.lines().map(show::clean).collect();
    let lines = lines.join("\n");
    format!(
        "{}\n{}\n{others}--- {main}\n{lines}\n",
        show::clean(skill["digest"].as_str().unwrap_or_default()),
        serde_json::to_string_pretty(&skill["manifest"]).unwrap_or_default()
    )
}

/// Reads the values of `--input NAME=VALUE`: JSON, or else text.
pub(super) fn inputs_of(given: &[String]) -> anyhow::Result<Map<String, Value>> {
    let pair = |given: &String| {
        let (name, value) = given
            .split_once('=')
            .with_context(|| format!("--input {given:?}: expected NAME=VALUE"))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        Ok((name.to_owned(), value))
    };
    given.iter().map(pair).collect()
}

async fn run(args: SkillRunArgs) -> anyhow::Result<ExitCode> {
    let mut body = json!({ "inputs": inputs_of(&args.inputs)?, "wait_s": WAIT_S });
    for (member, given) in [
        ("version", args.version.map(Value::from)),
        ("template", args.template.map(Value::from)),
        ("timeout_s", args.timeout.map(|time| time.0.into())),
        ("callback", args.callback.map(Value::from)),
    ] {
        if let Some(value) = given {
            body[member] = value;
        }
    }
    let client = connect(&args.gateway)?;
    let run = versions::start(&client, LIST, &args.name, &body).await?;
    let run = ended(&client, run).await?;
    if args.gateway.json {
        print(true, &run, |_| String::new())?;
    } else if run["status"] == "succeeded" {
        print(true, &run["outputs"], |_| String::new())?;
    }
    let mut stderr = std::io::stderr();
    let kept = run["result"]["artifacts"]
        .as_array()
        .filter(|_| !args.gateway.json);
    for file in kept.into_iter().flatten() {
        let text = |member: &str| show::clean(file[member].as_str().unwrap_or_default());
        let (name, artifact) = (text("name"), text("artifact"));
        writeln!(stderr, "artifact {name} ({} bytes): {artifact}", file["bytes"])?;
    }
    if run["status"] == "succeeded" {
        return Ok(ExitCode::SUCCESS);
    }
    for line in why(&run) {
        writeln!(stderr, "{line}")?;
    }
    Ok(ExitCode::FAILURE)
}

/// Waits until it has ended.
async fn ended(client: &Client, mut run: Value) -> anyhow::Result<Value> {
    while run["status"] == "running" {
        let id = run["id"].as_str().unwrap_or_default();
        let path = format!("{}?wait_s={WAIT_S}", path_of_run(id));
        run = expect(&client.get(&path).await?, 200)?;
    }
    Ok(run)
}

/// Reason why a run has failed.
fn why(run: &Value) -> Vec<String> {
    let text = |value: &Value| show::clean(value.as_str().unwrap_or_default());
    let wrong = run["violations"].as_array().into_iter().flatten();
    let mut lines: Vec<String> = wrong
        .map(|wrong| format!("outputs{}: {}", text(&wrong["path"]), text(&wrong["text"])))
        .collect();
    let error = &run["result"]["error"];
    if error.is_object() {
        lines.push(format!("{}: {}", text(&error["name"]), text(&error["value"])));
    }
    if lines.is_empty() {
        lines.push(format!("the run has failed: {}", text(&run["error"]["message"])));
    }
    lines
}
