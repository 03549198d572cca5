//! Runs of code skills: a session that ends with its execution, and the outputs in its log.

use std::collections::BTreeMap;
use std::time::Duration;

use himalia_executions::{Execute, ExecutionId, ExecutionResult, Until};
use himalia_journal::may_block;
use himalia_model::network::AllowList;
use himalia_model::{
    Action, EngineError, KernelId, Object, Origin, Principal, Session, SessionInfo, StartSession, Template,
};
use himalia_outcome::ArtifactReference;
use himalia_sandbox::Network;
use himalia_skills::{MAX_OUTPUT_BYTES, Manifest, OUTPUT_TYPE, Skill, Violation, code, outputs};
use serde_json::{Map, Value, json};

use super::{Commands, invalid};

/// Seconds of a run that says nothing.
const TIMEOUT: Duration = Duration::from_mins(10);
/// How long a session of a run lives when its gateway was killed meanwhile, and nothing ended it.
const LEFT: Duration = Duration::from_mins(1);
/// The member of an execution's metadata that names the skill.
const MEMBER: &str = "skill";
/// The label of a session of a run.
const LABEL: &str = "himalia.skill";

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
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkillRunStatus {
    /// It waits or runs.
    Running,
    /// It has returned outputs that fit the schema.
    Succeeded,
    /// It has not.
    Failed,
}

/// A run of a skill.
#[derive(Clone, Debug)]
pub struct SkillRun {
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

impl Commands {
    pub(crate) async fn run_skill(
        &self,
        principal: &Principal,
        name: &str,
        wanted: RunSkill,
    ) -> Result<(ExecutionId, SessionInfo), EngineError> {
        self.allow(principal, Action::Execute, Object::Skills)?;
        self.inner.check_open()?;
        let (_, skill) = self.skill(principal, name, wanted.version.as_deref()).await?;
        let code = may_block(|| {
            check_inputs(&skill, &wanted.inputs)?;
            code(&skill, &wanted.inputs).map_err(invalid)
        })?;
        let start = self.start_of(skill.manifest(), &wanted)?;
        let session = self.start_session(principal, start).await?;
        let kernel = session.kernel.id;
        match self
            .begin(principal, &skill, &session.session, wanted, code, kernel)
            .await
        {
            Ok(id) => Ok((id, session)),
            Err(error) => {
                self.end_of_run(principal, kernel).await;
                Err(error)
            }
        }
    }

    pub(crate) async fn skill_run(
        &self,
        principal: &Principal,
        id: ExecutionId,
    ) -> Result<SkillRun, EngineError> {
        let execution = self.execution(principal, id).await?;
        let unknown = || EngineError::NotFound {
            what: "Run of a skill",
            id: id.to_string(),
        };
        let named = execution.metadata.get(MEMBER).cloned().ok_or_else(unknown)?;
        let text = |member: &str| named.get(member).and_then(Value::as_str).unwrap_or_default();
        let mut run = SkillRun {
            skill: named.clone(),
            status: SkillRunStatus::Running,
            outputs: None,
            violations: Vec::new(),
            execution,
        };
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
        run.violations = may_block(|| skill.check_outputs(&shown)).map_err(invalid)?;
        if run.violations.is_empty() {
            run.status = SkillRunStatus::Succeeded;
        }
        run.outputs = Some(shown);
        Ok(run)
    }

    /// The execution of a run, in a session that ends with it.
    async fn begin(
        &self,
        principal: &Principal,
        skill: &Skill,
        session: &Session,
        wanted: RunSkill,
        code: String,
        kernel: KernelId,
    ) -> Result<ExecutionId, EngineError> {
        let manifest = skill.manifest();
        self.check_python(&session.kernelspec).await?;
        check_environment(manifest, session)?;
        let of_skill = manifest
            .timeout_s
            .map_or(TIMEOUT, |seconds| Duration::from_secs(seconds.into()));
        let named = json!({
            "name": manifest.name, "version": manifest.version.to_string(), "digest": skill.digest(),
        });
        let execute = Execute {
            code,
            timeout: Some(wanted.timeout.map_or(of_skill, |time| time.min(of_skill))),
            client: wanted.client,
            metadata: [(MEMBER.to_owned(), named)].into_iter().collect(),
            ..Execute::default()
        };
        let id = self.execute(principal, kernel, execute).await?.id;
        let mut feed = self.watch_execution(principal, id).await?;
        let (commands, principal) = (self.clone(), principal.clone());
        self.inner.background.spawn(async move {
            // When the gateway stops, the run continues in its sandbox, which then ends when it is idle.
            if feed.wait(Until::Settled).await.is_ok() {
                commands.end_of_run(&principal, kernel).await;
            }
        });
        Ok(id)
    }

    async fn end_of_run(&self, principal: &Principal, kernel: KernelId) {
        match self.shutdown_kernel(principal, kernel).await {
            Ok(()) | Err(EngineError::NotFound { .. } | EngineError::SessionEnded(_)) => {}
            Err(error) => tracing::warn!(%kernel, %error, "cannot end the session of a skill's run"),
        }
    }

    /// The session of a run: within what the template gives, and what the skill says that it needs.
    fn start_of(&self, manifest: &Manifest, wanted: &RunSkill) -> Result<StartSession, EngineError> {
        let name = match (&wanted.template, &manifest.template) {
            (Some(of_caller), Some(of_skill)) if of_caller != of_skill => {
                let reason = format!("the skill runs in template {of_skill} only");
                return Err(EngineError::bad_request("template", reason));
            }
            (of_caller, of_skill) => of_caller.clone().or_else(|| of_skill.clone()),
        };
        let config = &self.inner.config;
        let template = name.as_ref().and_then(|name| config.templates.get(name));
        let template = template.unwrap_or(&config.defaults);
        let (network, allow) = network_of(template, manifest);
        Ok(StartSession {
            name,
            origin: Origin::V1,
            network,
            allow,
            idle_timeout: Some(template.idle_timeout.map_or(LEFT, |time| time.min(LEFT))),
            labels: BTreeMap::from([(
                LABEL.to_owned(),
                format!("{} {}", manifest.name, manifest.version),
            )]),
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

fn check_inputs(skill: &Skill, inputs: &Map<String, Value>) -> Result<(), EngineError> {
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
