//! Runs of code skills: a session that ends with its execution, and the outputs in its log.

use std::collections::BTreeMap;
use std::time::Duration;

use himalia_engine::Object;
use himalia_engine::{ExecutionTarget, FeedStart};
use himalia_executions::{Execute, ExecutionFeed, ExecutionId, SubmittedExecution, WaitUntil};
use himalia_kernel::{OnTimeout, ToolOutcome};
use himalia_model::{
    Action, EngineError, KernelId, Origin, Principal, SessionInfo, StartSession, Starter, common_tools,
};
use himalia_session::{OpenCall, SkillCaller, name_of_run};
use himalia_skills::{Manifest, Skill, code as run_code};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::result::{SkillRun, SkillRunStatus};
use super::rights::{check_environment, network_of, skills_of};
use super::{Commands, invalid};
use crate::triggers::{CallbackSecret, TriggerKind};

/// Seconds of a run that says nothing.
const TIMEOUT: Duration = Duration::from_mins(10);
/// Lifetime of the session of a run when its gateway was killed meanwhile, and nothing ended it.
const LEFT: Duration = Duration::from_mins(1);
/// The member of an execution's metadata that names the skill.
pub(super) const MEMBER: &str = "skill";
/// The member of an execution's metadata that says of which step of a workflow it is, by [`SkillStep::key`].
pub(crate) const STEP_MEMBER: &str = "workflow_step";
/// The label of a session of a step of a workflow.
pub(crate) const RUN_LABEL: &str = "himalia.workflow_run";
/// The label of a session of a run.
pub(crate) const LABEL: &str = "himalia.skill";

/// A run of a skill that is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSkill {
    /// The version; `None`: the latest one.
    pub version: Option<String>,
    /// The template of its session; `None`: that of the skill, or the default.
    pub template: Option<String>,
    /// Arguments of `main`.
    pub inputs: Map<String, Value>,
    /// The time that it may take, if that is less than the skill says.
    pub timeout: Option<Duration>,
    /// The name of the client, as the client gives it.
    pub client: Option<String>,
    /// A request with the same key is this run, if it is the same request, as long as the run's log is kept.
    pub key: Option<String>,
    /// The step of a workflow that it is.
    pub step: Option<SkillStep>,
    /// The schedule or webhook that has asked for it.
    pub trigger: Option<(TriggerKind, Uuid)>,
    /// The URL to which the result is posted.
    pub callback: Option<String>,
}

/// A run of a skill that is a step of a workflow: it is found again by these.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SkillStep {
    /// The name of its session.
    pub session: String,
    /// The key of its execution.
    pub key: String,
    /// The run of the workflow.
    pub run: String,
}

/// A run that was begun.
#[derive(Clone, Debug, PartialEq)]
pub struct BegunRun {
    /// The execution that it is.
    pub id: ExecutionId,
    /// The session that it runs in, or ran in.
    pub session: SessionInfo,
    /// It was there already, under the same key.
    pub repeated: bool,
    /// With what its callback is signed, if it has one.
    pub callback_secret: Option<CallbackSecret>,
}

impl Commands {
    pub(crate) async fn run_skill(
        &self,
        principal: &Principal,
        name: &str,
        wanted: RunSkill,
    ) -> Result<BegunRun, EngineError> {
        self.allow(principal, Action::Execute, Object::Skills)?;
        self.services.check_open()?;
        let keyed = keyed(principal, name, &wanted);
        let callback = wanted.callback.clone();
        let begun = self.run_before(principal, keyed.as_ref()).await?;
        let run = if let Some(run) = begun {
            run
        } else {
            let (_, skill) = self.skill(principal, name, wanted.version.as_deref()).await?;
            if let Some(url) = &callback {
                self.check_callback(principal, url).await?;
            }
            Box::pin(self.begin_run(principal, keyed, &skill, wanted, None)).await?
        };
        match callback {
            // A request that is repeated finds it, or adds it if the first one was not answered.
            Some(url) => self.with_callback(principal, name, url, run).await,
            None => Ok(run),
        }
    }

    /// Begins a run that was not begun yet. `keyed` says what identifies it, `code` is the kernel whose code asks for it.
    pub(super) async fn begin_run(
        &self,
        principal: &Principal,
        keyed: Option<StartSession>,
        skill: &Skill,
        wanted: RunSkill,
        code: Option<(&SkillCaller, Starter)>,
    ) -> Result<BegunRun, EngineError> {
        let text = self.checked_code(principal, skill, &wanted).await?;
        let (caller, starter) = match code {
            Some((caller, starter)) => (Some(caller), Some(Box::new(starter))),
            None => (None, None),
        };
        let start = StartSession {
            session_name: keyed.as_ref().and_then(|start| start.session_name.clone()),
            key: wanted.key.clone(),
            once: keyed.as_ref().and_then(|start| start.once.clone()),
            starter,
            ..self.start_of(skill.manifest(), &wanted)?
        };
        let noted = match caller {
            Some(caller) => Some(self.note_run(caller, skill.manifest(), &wanted).await?),
            None => None,
        };
        match self.begin_once(principal, skill, wanted, text, start).await {
            Ok((run, feed)) => {
                self.watch(principal, run.id, feed, noted, caller.cloned());
                Ok(run)
            }
            Err(error) => {
                if let Some(noted) = noted {
                    noted.not_begun(&error).await;
                }
                match error {
                    // It has begun and ended since.
                    EngineError::NameEnded { .. } => self.run_of_key(principal, keyed.as_ref()).await,
                    other => Err(other),
                }
            }
        }
    }

    /// The session of a run, and its execution. A session that was started for nothing is ended.
    async fn begin_once(
        &self,
        principal: &Principal,
        skill: &Skill,
        wanted: RunSkill,
        code: String,
        start: StartSession,
    ) -> Result<(BegunRun, ExecutionFeed), EngineError> {
        let (session, started) = self.engine.start_run_session(principal, start).await?;
        let kernel = session.kernel.id;
        let begun = async {
            let execute = self.execution_of(skill, &session, wanted, code).await?;
            let target = ExecutionTarget::Kernel(kernel);
            let submitted = self.engine.submit(principal, target, execute, FeedStart::Now);
            let (SubmittedExecution { id, repeated }, feed) = submitted.await?;
            let run = BegunRun {
                id,
                session,
                repeated,
                callback_secret: None,
            };
            Ok((run, feed))
        };
        let begun = begun.await;
        if begun.is_err() && started {
            self.end_of_run(principal, kernel).await;
        }
        begun
    }

    /// Ends the session of a run with the run, or with the session whose code runs it.
    pub(super) fn watch(
        &self,
        principal: &Principal,
        id: ExecutionId,
        mut feed: ExecutionFeed,
        noted: Option<NotedRun>,
        caller: Option<SkillCaller>,
    ) {
        let (commands, principal) = (self.clone(), principal.clone());
        self.services.spawn(async move {
            let settled = tokio::select! {
                settled = feed.wait(WaitUntil::Settled) => settled.is_ok().then_some(true),
                () = ended(caller) => Some(false),
            };
            // When the gateway stops, the run continues in its sandbox, which then ends when it is idle.
            let Some(settled) = settled.filter(|_| commands.services.check_open().is_ok()) else {
                return;
            };
            if let Some(noted) = noted {
                let run = commands.skill_run(&principal, id).await;
                noted.ended(run.ok().filter(|_| settled)).await;
            }
            commands.end_of_run(&principal, id.kernel).await;
        });
    }

    /// The run that an earlier request with this key has begun.
    pub(super) async fn run_before(
        &self,
        principal: &Principal,
        keyed: Option<&StartSession>,
    ) -> Result<Option<BegunRun>, EngineError> {
        let Some(keyed) = keyed else {
            return Ok(None);
        };
        let name = keyed.session_name.as_deref().unwrap_or_default();
        let Some(kernel) = self.engine.session_started_once(principal, name, keyed)? else {
            return Ok(None);
        };
        let run = self.execution_of_run(principal, kernel).await?;
        let session = self.engine.session_info(principal, kernel)?;
        Ok(run.map(|id| BegunRun {
            id,
            session,
            repeated: true,
            callback_secret: None,
        }))
    }

    /// The same where there has been a session.
    async fn run_of_key(
        &self,
        principal: &Principal,
        keyed: Option<&StartSession>,
    ) -> Result<BegunRun, EngineError> {
        let found = self.run_before(principal, keyed).await?;
        found.ok_or_else(|| EngineError::Conflict {
            reason: "the session of the run with this key has ended before the run began; use another key"
                .into(),
        })
    }

    /// The execution of a run, for a session that ends with it.
    pub(super) async fn execution_of(
        &self,
        skill: &Skill,
        info: &SessionInfo,
        wanted: RunSkill,
        code: String,
    ) -> Result<Execute, EngineError> {
        let (manifest, session) = (skill.manifest(), &info.session);
        self.check_python(&session.kernelspec).await?;
        check_environment(manifest, session)?;
        let of_skill = manifest
            .timeout_s
            .map_or(TIMEOUT, |seconds| Duration::from_secs(seconds.into()));
        let named = json!({
            "name": manifest.name, "version": manifest.version.to_string(), "digest": skill.digest(),
        });
        let mut metadata = Map::from_iter([(MEMBER.to_owned(), named)]);
        if let Some(step) = &wanted.step {
            metadata.insert(STEP_MEMBER.to_owned(), step.key.as_str().into());
        }
        Ok(Execute {
            code,
            timeout: Some(wanted.timeout.map_or(of_skill, |time| time.min(of_skill))),
            // Code that ignores interrupts does not keep its caller waiting: the session is of this run only.
            on_timeout: OnTimeout::Restart,
            client: wanted.client,
            // The session is of one run.
            key: wanted
                .step
                .map(|step| step.key)
                .or(wanted.key.map(|_| MEMBER.to_owned())),
            metadata,
            ..Execute::default()
        })
    }

    /// Writes into the log of the session whose code runs a skill that it does, within its limits of calls.
    async fn note_run(
        &self,
        caller: &SkillCaller,
        manifest: &Manifest,
        wanted: &RunSkill,
    ) -> Result<NotedRun, EngineError> {
        let tool = format!("skill:{}@{}", manifest.name, manifest.version);
        let inputs = Value::Object(wanted.inputs.clone());
        let schema = manifest.inputs.as_ref();
        let call = self.services.begin_call_of_code(caller, tool, &inputs, schema);
        Ok(NotedRun(call.await?))
    }

    pub(crate) async fn end_of_run(&self, principal: &Principal, kernel: KernelId) {
        match self.engine.shutdown_kernel(principal, kernel).await {
            Ok(()) | Err(EngineError::NotFound { .. } | EngineError::SessionEnded(_)) => {}
            Err(error) => tracing::warn!(%kernel, %error, "cannot end the session of a skill's run"),
        }
    }

    /// The session of a run: within what the template gives, and what the skill says that it needs.
    pub(super) fn start_of(
        &self,
        manifest: &Manifest,
        wanted: &RunSkill,
    ) -> Result<StartSession, EngineError> {
        let name = match (&wanted.template, &manifest.template) {
            (Some(of_caller), Some(of_skill)) if of_caller != of_skill => {
                let reason = format!("the skill runs in template {of_skill} only");
                return Err(EngineError::bad_request("template", reason));
            }
            (of_caller, of_skill) => of_caller.clone().or_else(|| of_skill.clone()),
        };
        let config = self.services.config();
        let chosen = name.as_ref().unwrap_or(&config.default_kernel);
        let template = config.templates.get(chosen).unwrap_or(&config.defaults);
        let (network, allow) = network_of(template, manifest);
        let skills = skills_of(chosen, template, manifest)?;
        let skill = format!("{} {}", manifest.name, manifest.version);
        let mut labels = BTreeMap::from([(LABEL.to_owned(), skill)]);
        if let Some(step) = &wanted.step {
            labels.insert(RUN_LABEL.to_owned(), step.run.clone());
        }
        if let Some((kind, id)) = wanted.trigger {
            labels.insert(kind.label().to_owned(), id.to_string());
        }
        Ok(StartSession {
            name,
            origin: Origin::V1,
            network,
            allow,
            tools: Some(common_tools(&template.tools.tools, &manifest.tools)),
            models: Some(manifest.models.clone()),
            skills: Some(skills),
            idle_timeout: Some(template.idle_timeout.map_or(LEFT, |time| time.min(LEFT))),
            labels,
            session_name: wanted.step.as_ref().map(|step| step.session.clone()),
            ..StartSession::default()
        })
    }
}

/// The identity of a run with a key: the name of its session, and the request.
pub(super) fn keyed(principal: &Principal, name: &str, wanted: &RunSkill) -> Option<StartSession> {
    let key = wanted.key.clone()?;
    let mut asked = json!({
        "skill": name, "version": wanted.version, "template": wanted.template, "inputs": wanted.inputs,
        "timeout_ms": wanted.timeout.map(|time| time.as_millis().to_string()),
    });
    if let Some(url) = &wanted.callback {
        asked["callback"] = url.as_str().into();
    }
    Some(StartSession {
        session_name: Some(name_of_run(principal, &key)),
        key: Some(key),
        once: Some(asked.to_string()),
        ..StartSession::default()
    })
}

impl Commands {
    /// The code of a run whose inputs fit.
    pub(super) async fn checked_code(
        &self,
        principal: &Principal,
        skill: &Skill,
        wanted: &RunSkill,
    ) -> Result<String, EngineError> {
        let checked = self.in_turn(principal, || {
            check_inputs(skill, &wanted.inputs)?;
            run_code(skill, &wanted.inputs).map_err(invalid)
        });
        checked.await
    }
}

pub(super) fn check_inputs(skill: &Skill, inputs: &Map<String, Value>) -> Result<(), EngineError> {
    let wrong = skill.check_inputs(inputs).map_err(invalid)?;
    if wrong.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = wrong
        .iter()
        .map(|one| format!("{}: {} ({})", one.path, one.text, one.rule))
        .map(|text| text.trim_start_matches(": ").to_owned())
        .collect();
    Err(EngineError::bad_request("inputs", texts.join("; ")))
}

/// The end of a session, if there is one.
async fn ended(session: Option<SkillCaller>) {
    match session {
        Some(session) => session.gone().await,
        None => std::future::pending().await,
    }
}

/// A run in the log of the session whose code runs it.
pub(super) struct NotedRun(OpenCall);

impl NotedRun {
    async fn not_begun(self, error: &EngineError) {
        self.0
            .end(ToolOutcome::NotDone, Some(error.to_string()), None)
            .await;
    }

    /// It has ended. `None`: its session has ended before.
    async fn ended(self, run: Option<SkillRun>) {
        let Some(run) = run else {
            let reason = "the run was ended with the session whose code ran it".to_owned();
            self.0.end(ToolOutcome::Failed, Some(reason), None).await;
            return;
        };
        let outcome = match run.status {
            SkillRunStatus::Succeeded => ToolOutcome::Done,
            SkillRunStatus::Running | SkillRunStatus::Failed => ToolOutcome::Failed,
        };
        let reason = run.failure().map(|(_, text)| text);
        self.0.end(outcome, reason, run.outputs.as_ref()).await;
    }
}
