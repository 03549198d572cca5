//! Runs of code skills: a session that ends with its execution, and the outputs in its log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use himalia_executions::{
    Death, Execute, ExecutionFeed, ExecutionId, ExecutionResult, ExecutionStatus, SubmittedExecution,
    WaitUntil,
};
use himalia_journal::may_block;
use himalia_kernel::{OnTimeout, TIMED_OUT, ToolOutcome};
use himalia_model::network::AllowList;
use himalia_model::{
    Action, EngineError, KernelId, Object, Origin, Principal, Session, SessionInfo, SkillAccess,
    StartSession, Starter, Template, common_tools,
};
use himalia_outcome::ArtifactReference;
use himalia_sandbox::Network;
use himalia_session::{OpenCall, SessionKernel, name_of_run};
use himalia_skills::{MAX_OUTPUT_BYTES, Manifest, OUTPUT_TYPE, Skill, Violation, code as run_code, outputs};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Commands, invalid};
use crate::api::triggers::{CallbackSecret, TriggerKind};

/// Seconds of a run that says nothing.
const TIMEOUT: Duration = Duration::from_mins(10);
/// How long a session of a run lives when its gateway was killed meanwhile, and nothing ended it.
const LEFT: Duration = Duration::from_mins(1);
/// The member of an execution's metadata that names the skill.
const MEMBER: &str = "skill";
/// The member of an execution's metadata that says of which step of a workflow it is, by [`SkillStep::key`].
pub(in crate::api) const STEP_MEMBER: &str = "workflow_step";
/// The label of a session of a step of a workflow.
pub(in crate::api) const RUN_LABEL: &str = "himalia.workflow_run";
/// The label of a session of a run.
pub(in crate::api) const LABEL: &str = "himalia.skill";

/// A run of a skill that is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSkill {
    /// Its version; `None`: the latest one.
    pub version: Option<String>,
    /// The template of its session; `None`: that of the skill, or the default.
    pub template: Option<String>,
    /// Arguments of `main`.
    pub inputs: Map<String, Value>,
    /// How long it may take, if that is less than the skill says.
    pub timeout: Option<Duration>,
    /// What the client calls itself.
    pub client: Option<String>,
    /// A request with the same key is this run, if it is the same request, as long as the run's log is kept.
    pub key: Option<String>,
    /// The step of a workflow that it is.
    pub step: Option<SkillStep>,
    /// The schedule or webhook that has asked for it.
    pub trigger: Option<(TriggerKind, Uuid)>,
    /// Where its result is posted.
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

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::api) enum SkillRunStatus {
    /// It waits or runs.
    Running,
    /// It has returned outputs that fit the schema.
    Succeeded,
    /// It has not.
    Failed,
}

/// A run of a skill.
#[derive(Clone, Debug)]
pub(in crate::api) struct SkillRun {
    /// The skill: name, version, digest.
    pub skill: Value,
    /// How far it is.
    pub status: SkillRunStatus,
    /// What it returned.
    pub outputs: Option<Value>,
    /// What is wrong with that.
    pub violations: Vec<Violation>,
    /// The execution that it is.
    pub execution: ExecutionResult,
}

impl SkillRun {
    /// Returns true if the metadata of an execution are those of a run.
    pub(in crate::api) fn is_of(metadata: &Map<String, Value>) -> bool {
        metadata.contains_key(MEMBER)
    }

    /// The run that an execution is, without its outputs.
    pub(in crate::api) fn unchecked(execution: ExecutionResult, status: SkillRunStatus) -> Self {
        Self {
            skill: execution.metadata.get(MEMBER).cloned().unwrap_or_default(),
            status,
            outputs: None,
            violations: Vec::new(),
            execution,
        }
    }

    /// Why it failed: a stable code, and a text.
    pub(in crate::api) fn failure(&self) -> Option<(&'static str, String)> {
        if self.status != SkillRunStatus::Failed {
            return None;
        }
        if !self.violations.is_empty() {
            let wrong = self.violations.iter();
            let texts = wrong.map(|one| format!("outputs{}: {} ({})", one.path, one.text, one.rule));
            return Some(("bad_outputs", texts.collect::<Vec<_>>().join("; ")));
        }
        let (code, otherwise) = end_without_outputs(&self.execution);
        let text = match &self.execution.error {
            Some(error) => format!("{}: {}", error.name, error.value),
            None => otherwise.to_owned(),
        };
        Some((code, text))
    }
}

/// The end of an execution that gave no outputs: the code of a step's failure, and its text.
fn end_without_outputs(execution: &ExecutionResult) -> (&'static str, &'static str) {
    let timed_out = |death: &Death| death.cause == TIMED_OUT;
    match execution.status {
        ExecutionStatus::Error => ("error", "the skill has raised an exception"),
        ExecutionStatus::Timeout => ("timeout", "it took longer than its timeout_s"),
        ExecutionStatus::KernelDied if execution.death.as_ref().is_some_and(timed_out) => (
            "timeout",
            "it took longer than its timeout_s and ignored interrupts, so that its process was ended; let code that catches \
             exceptions raise KeyboardInterrupt",
        ),
        ExecutionStatus::Interrupted => ("interrupted", "it was interrupted"),
        ExecutionStatus::KernelDied => ("kernel_died", "the process of its kernel has ended"),
        ExecutionStatus::OomKilled => ("out_of_memory", "it needed more memory than it may have"),
        ExecutionStatus::Ok | ExecutionStatus::Queued | ExecutionStatus::Running => {
            ("no_outputs", "it has returned nothing that can be read")
        }
    }
}

impl Commands {
    pub(crate) async fn run_skill(
        &self,
        principal: &Principal,
        name: &str,
        wanted: RunSkill,
    ) -> Result<BegunRun, EngineError> {
        self.allow(principal, Action::Execute, Object::Skills)?;
        self.inner.check_open()?;
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
        code: Option<(&Arc<SessionKernel>, Starter)>,
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
                self.watch(principal, run.id, feed, noted, caller.map(Arc::clone));
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
        let (session, started) = self.start_session_once(principal, start).await?;
        let kernel = session.kernel.id;
        let begun = async {
            let SubmittedExecution { id, repeated } =
                self.begin(principal, skill, &session, wanted, code).await?;
            let feed = self.watch_execution(principal, id).await?;
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
        caller: Option<Arc<SessionKernel>>,
    ) {
        let (commands, principal) = (self.clone(), principal.clone());
        self.inner.background.spawn(async move {
            let settled = tokio::select! {
                settled = feed.wait(WaitUntil::Settled) => settled.is_ok().then_some(true),
                () = ended(caller) => Some(false),
            };
            // When the gateway stops, the run continues in its sandbox, which then ends when it is idle.
            let Some(settled) = settled.filter(|_| commands.inner.check_open().is_ok()) else {
                return;
            };
            if let Some(noted) = noted {
                let run = commands.skill_run(&principal, id).await;
                noted.ended(run.ok().filter(|_| settled)).await;
            }
            commands.end_of_run(&principal, id.kernel).await;
        });
    }

    /// The session of a run; `true`: it was started now.
    async fn start_session_once(
        &self,
        principal: &Principal,
        start: StartSession,
    ) -> Result<(SessionInfo, bool), EngineError> {
        self.allow(principal, Action::Create, Object::Kernels)?;
        let (handle, started) = match start.session_name {
            None => (self.inner.start_kernel(principal, start).await?, true),
            Some(_) => self.inner.start_named(principal, start, false).await?,
        };
        Ok((handle.info(), started))
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
        let Some(kernel) = self.inner.started_once(principal, name, keyed)? else {
            return Ok(None);
        };
        let run = self.execution_of_run(principal, kernel).await?;
        let session = self.session_info(principal, kernel)?;
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

    pub(in crate::api) async fn skill_run(
        &self,
        principal: &Principal,
        id: ExecutionId,
    ) -> Result<SkillRun, EngineError> {
        let execution = self.execution(principal, id).await?;
        let unknown = || EngineError::NotFound {
            what: "Run",
            id: id.to_string(),
        };
        let named = execution.metadata.get(MEMBER).cloned().ok_or_else(unknown)?;
        let text = |member: &str| named.get(member).and_then(Value::as_str).unwrap_or_default();
        let mut run = SkillRun::unchecked(execution, SkillRunStatus::Running);
        if !run.execution.status.is_over() {
            return Ok(run);
        }
        run.status = SkillRunStatus::Failed;
        let Some(shown) = self.shown_outputs(principal, id, &run.execution).await? else {
            return Ok(run);
        };
        let owner = self.log(principal, id.kernel)?.owner();
        let stored = self.stored_skill(&owner, text("name"), text("version")).await;
        let skill = match stored {
            Ok((_, skill)) if skill.digest() == text("digest") => skill,
            Ok(_) | Err(EngineError::NotFound { .. }) => {
                return Err(EngineError::Gone {
                    reason:
                        "the skill was deleted, so that its outputs cannot be checked; the execution has them"
                            .into(),
                });
            }
            Err(other) => return Err(other),
        };
        let checked = self.in_turn(principal, || skill.check_outputs(&shown).map_err(invalid));
        run.violations = checked.await?;
        if run.violations.is_empty() {
            run.status = SkillRunStatus::Succeeded;
        }
        run.outputs = Some(shown);
        Ok(run)
    }

    /// The execution of a run, in a session that ends with it.
    pub(super) async fn begin(
        &self,
        principal: &Principal,
        skill: &Skill,
        info: &SessionInfo,
        wanted: RunSkill,
        code: String,
    ) -> Result<SubmittedExecution, EngineError> {
        let (manifest, session, kernel) = (skill.manifest(), &info.session, info.kernel.id);
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
        let execute = Execute {
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
        };
        self.execute(principal, kernel, execute).await
    }

    /// Writes into the log of the session whose code runs a skill that it does, within its limits of calls.
    async fn note_run(
        &self,
        caller: &Arc<SessionKernel>,
        manifest: &Manifest,
        wanted: &RunSkill,
    ) -> Result<NotedRun, EngineError> {
        let tool = format!("skill:{}@{}", manifest.name, manifest.version);
        let inputs = Value::Object(wanted.inputs.clone());
        let call = self
            .inner
            .tools
            .begin_other(caller, tool, &inputs, manifest.inputs.as_ref());
        Ok(NotedRun(call.await?))
    }

    pub(in crate::api) async fn end_of_run(&self, principal: &Principal, kernel: KernelId) {
        match self.shutdown_kernel(principal, kernel).await {
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
        let config = &self.inner.config;
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

    /// What a run displayed as its outputs, last.
    async fn shown_outputs(
        &self,
        principal: &Principal,
        id: ExecutionId,
        execution: &ExecutionResult,
    ) -> Result<Option<Value>, EngineError> {
        let shown = execution
            .outputs
            .iter()
            .rev()
            .find_map(|output| output.data.get(OUTPUT_TYPE));
        let Some(shown) = shown else {
            return Ok(None);
        };
        let Some(stored) = ArtifactReference::read(OUTPUT_TYPE, shown) else {
            return Ok(outputs(shown).cloned());
        };
        let artifact = self.execution_artifact(principal, id, stored.sha256).await?;
        // The code of the skill can display what it wants.
        if artifact.size() > 2 * MAX_OUTPUT_BYTES as u64 {
            return Ok(None);
        }
        let bytes = artifact.read(0, 2 * MAX_OUTPUT_BYTES).await?;
        let shown: Option<Value> = may_block(|| serde_json::from_slice(&bytes).ok());
        Ok(shown.as_ref().and_then(outputs).cloned())
    }
}

/// What identifies a run with a key: the name of its session, and what was asked for.
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

/// What a run asks of the network: what both the template and the skill have.
fn network_of(template: &Template, manifest: &Manifest) -> (Option<Network>, Option<AllowList>) {
    match template.network {
        Network::Allow => (None, Some(manifest.network.within(&template.allow))),
        // What it says that it needs are hosts; that network knows none.
        Network::Open(_) => (Some(Network::None), None),
        Network::None => (None, None),
    }
}

/// The skills that a run may run: those that it declares.
fn skills_of(name: &str, template: &Template, manifest: &Manifest) -> Result<SkillAccess, EngineError> {
    if manifest.skills.is_empty() {
        return Ok(SkillAccess::None);
    }
    if !template.skills {
        let reason =
            format!("the skill runs other skills, and sessions of the template {name} may not (skills)");
        return Err(EngineError::bad_request("template", reason));
    }
    let named = manifest.skills.iter();
    Ok(SkillAccess::Named(
        named
            .map(|(name, required)| (name.clone(), required.to_string()))
            .collect(),
    ))
}

/// The end of a session, if there is one.
async fn ended(session: Option<Arc<SessionKernel>>) {
    match session {
        Some(session) => session.gone().await,
        None => std::future::pending().await,
    }
}

/// A run in the log of the session whose code runs it.
pub(super) struct NotedRun(OpenCall);

impl NotedRun {
    /// It was not begun.
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

/// A skill that names an environment runs in no other one.
fn check_environment(manifest: &Manifest, session: &Session) -> Result<(), EngineError> {
    let Some(wanted) = &manifest.environment else {
        return Ok(());
    };
    let has = [&session.sandbox.lock_hash, &session.sandbox.image_digest];
    if has.into_iter().flatten().any(|one| one == wanted) {
        return Ok(());
    }
    Err(EngineError::Conflict {
        reason: format!(
            "the skill needs the environment {wanted}, which is not that of the template {}",
            session.template
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(network: &[&str]) -> Manifest {
        let json =
            json!({"name": "a", "version": "1.0.0", "kind": "code", "description": "d", "network": network});
        serde_json::from_value(json).unwrap()
    }

    fn template(network: Network, allow: &[&str]) -> Template {
        Template {
            network,
            allow: serde_json::from_value(json!(allow)).unwrap(),
            ..Template::default()
        }
    }

    #[test]
    fn a_run_reaches_what_both_the_template_and_the_skill_have() {
        let wide = template(Network::Allow, &["api.example.org", "*.example.com"]);
        let asked = |names: &[&str]| network_of(&wide, &manifest(names));
        let list = |names: &[&str]| (None, Some(serde_json::from_value(json!(names)).unwrap()));
        assert_eq!(asked(&["a.example.com", "other.net"]), list(&["a.example.com"]));
        assert_eq!(asked(&["*.net"]), list(&[]));
        assert_eq!(asked(&[]), list(&[]));
        let open = template(Network::Open("lab".into()), &[]);
        assert_eq!(
            network_of(&open, &manifest(&["a.net"])),
            (Some(Network::None), None)
        );
        let none = template(Network::None, &[]);
        assert_eq!(network_of(&none, &manifest(&["a.net"])), (None, None));
    }
}
