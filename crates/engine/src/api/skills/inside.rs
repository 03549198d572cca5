//! Skills for code in sessions: a run is a session of its own, below the one whose code asks, and has no more rights than both.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use himalia_executions::{ExecutionId, WaitUntil};
use himalia_kernel::{Answer, Command};
use himalia_model::{
    EngineError, KernelId, Principal, SessionId, SkillAccess, Starter, Template, ToolError, ToolErrorCode,
};
use himalia_session::{RunOfSkill, SessionKernel, SessionManager, SessionSkills};
use himalia_skills::{Kind, SKILL_FILE, Version, VersionReq, release_order};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::run::{RunSkill, keyed};
use super::{Commands, SkillInfo};
use crate::api::prompt_turns::PromptTurns;
use crate::api::runs::{RunView, uuid_of_run};
use crate::api::{Drivers, Triggers};
use crate::jupyter_sessions::JupyterSessions;
use crate::tokens::AccessTokens;

/// Characters of the text about skills.
const LIST_CHARS: usize = 1500;
/// Characters of a description in it.
const DESCRIPTION_CHARS: usize = 200;
/// Characters of what a run has printed, of its end.
const TEXT_CHARS: usize = 4000;
/// Bytes of the key of a run.
const MAX_KEY: usize = 128;
/// Characters of what was not found.
const NAME_CHARS: usize = 64;

/// The engine, as long as it is there.
pub(crate) struct Inside {
    inner: Weak<SessionManager>,
    jupyter: Weak<JupyterSessions>,
    tokens: Weak<AccessTokens>,
    workflows: Weak<Drivers>,
    triggers: Weak<Triggers>,
    prompt_turns: Weak<PromptTurns>,
}

impl Inside {
    pub(crate) fn of(commands: &Commands) -> Self {
        Self {
            inner: Arc::downgrade(&commands.inner),
            jupyter: Arc::downgrade(&commands.jupyter),
            tokens: Arc::downgrade(&commands.tokens),
            workflows: Arc::downgrade(&commands.workflows),
            triggers: Arc::downgrade(&commands.triggers),
            prompt_turns: Arc::downgrade(&commands.prompt_turns),
        }
    }

    fn commands(&self) -> Result<Commands, EngineError> {
        let found = || {
            Some(Commands {
                inner: self.inner.upgrade()?,
                jupyter: self.jupyter.upgrade()?,
                tokens: self.tokens.upgrade()?,
                workflows: self.workflows.upgrade()?,
                triggers: self.triggers.upgrade()?,
                prompt_turns: self.prompt_turns.upgrade()?,
            })
        };
        found().ok_or_else(|| EngineError::unavailable("the gateway is stopping"))
    }
}

impl SessionSkills for Inside {
    fn list(&self, caller: Arc<SessionKernel>) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async move {
            let all = self.commands()?.skills_of(&caller, None).await?;
            let (mut text, mut left_out) = (String::new(), 0);
            for info in &all {
                if text.chars().count() > LIST_CHARS {
                    left_out += 1;
                    continue;
                }
                let description: String = info.description.chars().take(DESCRIPTION_CHARS).collect();
                let description = description.replace('\n', " ");
                let _ = writeln!(
                    text,
                    "{} {} ({}): {description}",
                    info.name, info.version, info.kind
                );
            }
            if left_out > 0 {
                let _ = writeln!(text, "{left_out} more are in the list");
            } else if all.is_empty() {
                text.push_str("there are no skills");
            }
            let skills: Vec<Value> = all.iter().map(brief).collect();
            Ok(json!({ "skills": skills, "text": text.trim_end() }))
        })
    }

    fn show(
        &self,
        caller: Arc<SessionKernel>,
        name: String,
        version: Option<String>,
    ) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async move {
            let commands = self.commands()?;
            let info = commands.skill_of(&caller, &name, version.as_deref()).await?;
            let principal = Principal::of_session(&caller.session());
            let version = info.version.to_string();
            let (_, skill) = commands.skill(&principal, &info.name, Some(&version)).await?;
            let (manifest, mut shown) = (skill.manifest(), brief(&info));
            shown["digest"] = skill.digest().into();
            shown["inputs"] = json!(manifest.inputs);
            shown["outputs"] = json!(manifest.outputs);
            let text = skill.files().get(SKILL_FILE);
            shown["instructions"] = json!(text.map(|text| String::from_utf8_lossy(text)));
            Ok(shown)
        })
    }

    fn run(
        &self,
        caller: Arc<SessionKernel>,
        name: String,
        wanted: RunOfSkill,
        wait: Duration,
    ) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async move {
            let commands = self.commands()?;
            let id = Box::pin(commands.run_for(&caller, &name, wanted)).await?;
            commands.run_shown(&caller, id, wait).await
        })
    }

    fn look(
        &self,
        caller: Arc<SessionKernel>,
        run: String,
        wait: Duration,
    ) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async move {
            let commands = self.commands()?;
            let id = commands.run_below(&caller, &run).await?;
            commands.run_shown(&caller, id, wait).await
        })
    }

    fn stop(&self, caller: Arc<SessionKernel>, run: String) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async move {
            let commands = self.commands()?;
            let id = commands.run_below(&caller, &run).await?;
            let principal = Principal::of_session(&caller.session());
            commands.interrupt_execution(&principal, id).await?;
            commands.run_shown(&caller, id, Duration::ZERO).await
        })
    }
}

impl Commands {
    /// The skills that a session may run or read, or those of one name, each in the version that it gets.
    async fn skills_of(
        &self,
        caller: &SessionKernel,
        name: Option<&str>,
    ) -> Result<Vec<SkillInfo>, EngineError> {
        let session = caller.session();
        let all = self.skills(&Principal::of_session(&session), name).await?;
        let mut found: BTreeMap<String, SkillInfo> = BTreeMap::new();
        for info in all {
            if !permits(&session.sandbox.skills, &info.name, &info.version) {
                continue;
            }
            let later = |known: &SkillInfo| release_order(&info.version) > release_order(&known.version);
            if found.get(&info.name).is_none_or(later) {
                found.insert(info.name.clone(), info);
            }
        }
        Ok(found.into_values().collect())
    }

    /// A skill of a session: of this version, or of the one that it gets.
    async fn skill_of(
        &self,
        caller: &SessionKernel,
        name: &str,
        version: Option<&str>,
    ) -> Result<SkillInfo, EngineError> {
        let found = match version {
            None => self.skills_of(caller, Some(name)).await?.into_iter().next(),
            Some(version) => {
                let session = caller.session();
                let all = self.skills(&Principal::of_session(&session), Some(name)).await?;
                let permitted =
                    |info: &SkillInfo| permits(&session.sandbox.skills, &info.name, &info.version);
                all.into_iter()
                    .find(|info| info.version.to_string() == version && permitted(info))
            }
        };
        if let Some(found) = found {
            return Ok(found);
        }
        let shown: String = name
            .chars()
            .take(NAME_CHARS)
            .flat_map(char::escape_debug)
            .collect();
        let of_version = version.map(|version| {
            let version: String = version
                .chars()
                .take(NAME_CHARS)
                .flat_map(char::escape_debug)
                .collect();
            format!(" in version {version}")
        });
        let message = format!(
            "this session has no skill {shown}{}",
            of_version.unwrap_or_default()
        );
        let names = self.skills_of(caller, None).await?;
        let names: Vec<&str> = names.iter().take(20).map(|info| info.name.as_str()).collect();
        let hint = if names.is_empty() {
            "It has no skills.".to_owned()
        } else {
            format!("There are: {}.", names.join(", "))
        };
        let error = ToolError::new(ToolErrorCode::UnknownSkill, message).with_hint(hint);
        Err(EngineError::tool(error))
    }

    /// Begins a run for code, or finds the one with the same key.
    async fn run_for(
        &self,
        caller: &Arc<SessionKernel>,
        name: &str,
        wanted: RunOfSkill,
    ) -> Result<ExecutionId, EngineError> {
        let session = caller.session();
        let principal = Principal::of_session(&session);
        let id = SessionId::of_first_kernel(caller.id());
        let key = match wanted.key {
            Some(key) if key.is_empty() || key.len() > MAX_KEY => {
                let reason = format!("must have 1 to {MAX_KEY} bytes");
                return Err(EngineError::bad_request("key", reason));
            }
            // The key of this session, not that of its caller.
            key => key.map(|key| format!("{id}/{key}")),
        };
        let timeout = match wanted.timeout_s {
            None => None,
            Some(seconds) => {
                let time = Duration::try_from_secs_f64(seconds).ok();
                let time = time.filter(|time| !time.is_zero());
                Some(time.ok_or_else(|| EngineError::bad_request("timeout_s", "is no time above 0"))?)
            }
        };
        let mut run = RunSkill {
            version: wanted.version,
            inputs: wanted.inputs,
            timeout,
            key,
            ..RunSkill::default()
        };
        let keyed = keyed(&principal, name, &run);
        if let Some(begun) = self.run_before(&principal, keyed.as_ref()).await? {
            return Ok(begun.id);
        }
        let version = self
            .skill_of(caller, name, run.version.as_deref())
            .await?
            .version
            .to_string();
        let (_, skill) = self.skill(&principal, name, Some(&version)).await?;
        if skill.manifest().kind == Kind::Code {
            let checked = self.in_turn(&principal, || {
                skill.check_inputs(&run.inputs).map_err(super::invalid)
            });
            let violations = checked.await?;
            if !violations.is_empty() {
                let message = format!("the inputs do not fit {name} {version}; nothing was started");
                let mut error = ToolError::new(ToolErrorCode::InvalidArguments, message);
                error.violations = violations.into_iter().map(super::violation).collect();
                return Err(EngineError::tool(error));
            }
        }
        let starter = Starter::new(id, &session, self.running(caller).await?);
        let named = skill.manifest().template.as_deref();
        self.check_mounts(&session.template, named.unwrap_or(&session.template))?;
        // A skill that names no template runs in that of its caller.
        run.template = Some(named.unwrap_or(&session.template).to_owned());
        let begun = self
            .begin_run(&principal, keyed, &skill, run, Some((caller, starter)))
            .await?;
        Ok(begun.id)
    }

    /// The native execution that runs in a kernel.
    async fn running(&self, kernel: &SessionKernel) -> Result<Option<u64>, EngineError> {
        match self.command(kernel, Command::ListExecutions).await? {
            // They run one after the other; the first one may not have said yet that it runs.
            Answer::Executions(all) => Ok(all.iter().find(|one| one.end.is_none()).map(|one| one.seq)),
            _ => Ok(None),
        }
    }

    /// Refuses a template that shares with its sessions what that of the caller does not.
    fn check_mounts(&self, of_caller: &str, of_run: &str) -> Result<(), EngineError> {
        let config = &self.inner.config;
        let template = |name: &str| config.templates.get(name).unwrap_or(&config.defaults);
        let (has, wants): (&Template, &Template) = (template(of_caller), template(of_run));
        let Some(more) = wants.mounts.iter().find(|name| !has.mounts.contains(name)) else {
            return Ok(());
        };
        let message = format!(
            "the skill was not run: its template {of_run} has the mount {more}, which this session has not"
        );
        Err(EngineError::tool(ToolError::new(ToolErrorCode::Denied, message)))
    }

    /// A run that this session has begun.
    async fn run_below(&self, caller: &SessionKernel, run: &str) -> Result<ExecutionId, EngineError> {
        let unknown = || EngineError::NotFound {
            what: "Run",
            id: run.chars().take(NAME_CHARS).collect(),
        };
        let kernel = KernelId(uuid_of_run(run).ok_or_else(unknown)?);
        let principal = Principal::of_session(&caller.session());
        if self.parent_of(&principal, kernel) != Some(SessionId::of_first_kernel(caller.id())) {
            return Err(unknown());
        }
        let found = self.execution_of_run(&principal, kernel).await?;
        found.ok_or_else(unknown)
    }

    fn parent_of(&self, principal: &Principal, kernel: KernelId) -> Option<SessionId> {
        let info = self.session_info(principal, kernel).ok()?;
        info.session.tree.map(|place| place.parent)
    }

    /// A run for code, when it has ended or after this time.
    async fn run_shown(
        &self,
        caller: &SessionKernel,
        id: ExecutionId,
        wait: Duration,
    ) -> Result<Value, EngineError> {
        let principal = Principal::of_session(&caller.session());
        if !wait.is_zero() {
            let mut feed = self.watch_execution(&principal, id).await?;
            // Late: it is shown as it is.
            let _ = timeout(wait, feed.wait(WaitUntil::Settled)).await;
        }
        Ok(shown(&self.skill_view(&principal, id).await?))
    }
}

fn permits(access: &SkillAccess, name: &str, version: &Version) -> bool {
    match access {
        SkillAccess::None => false,
        SkillAccess::All => true,
        SkillAccess::Named(all) => all
            .get(name)
            .and_then(|text| VersionReq::parse(text).ok())
            .is_some_and(|required| required.matches(version)),
    }
}

fn brief(info: &SkillInfo) -> Value {
    json!({
        "name": info.name, "version": info.version.to_string(), "kind": info.kind, "description": info.description,
    })
}

/// A run as its code sees it: the members of `GET /v1/runs/{id}` that it needs.
fn shown(run: &RunView) -> Value {
    let info = &run.info;
    let violations = run.violations.iter();
    let violations = violations.map(|one| json!({ "path": one.path, "rule": one.rule, "text": one.text }));
    let mut shown = json!({
        "id": info.id, "kind": info.kind, "name": info.name, "version": info.version, "digest": info.digest,
        "status": info.status, "error": info.error, "session": info.session, "execution": info.execution,
        "outputs": run.outputs, "violations": violations.collect::<Vec<_>>(),
    });
    if let Some(result) = &run.result {
        let text = &result.text;
        let from = text.char_indices().rev().nth(TEXT_CHARS - 1);
        let exception = result.error.as_ref().map(
            |error| json!({ "name": error.name, "value": error.value, "traceback": error.traceback.join("\n") }),
        );
        shown["execution_status"] = json!(result.status);
        shown["exception"] = json!(exception);
        shown["text"] = text[from.map_or(0, |(at, _)| at)..].into();
        shown["artifacts"] = json!(result.artifacts);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_runs_what_it_was_given() {
        let version = |text: &str| Version::parse(text).unwrap();
        let named = SkillAccess::Named([("fetch".to_owned(), "^1.2".to_owned())].into());
        for (access, name, of, wanted) in [
            (&SkillAccess::None, "fetch", "1.2.0", false),
            (&SkillAccess::All, "fetch", "0.0.1", true),
            (&named, "fetch", "1.3.0", true),
            (&named, "fetch", "2.0.0", false),
            (&named, "fetch", "1.3.0-rc.1", false),
            (&named, "other", "1.3.0", false),
        ] {
            assert_eq!(
                permits(access, name, &version(of)),
                wanted,
                "{access:?} {name} {of}"
            );
        }
    }
}
