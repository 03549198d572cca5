//! Commands on workflows: publish, find, delete; their runs are in `runs.rs`, what drives these in `driver.rs` and `step.rs`.

mod definitions;
mod driver;
mod drivers;
mod prompts;
mod records;
mod rights;
mod runs;
mod starter;
mod step;
mod view;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use himalia_budget::work;
use himalia_engine::Object;
use himalia_model::{Action, EngineError, Principal};
use himalia_session::not_stored;
use himalia_skills::{Kind, Version};
use himalia_store::{
    StoreError, VersionAdded, VersionQuota, WorkflowBrief, WorkflowRecord, WorkflowRunBrief,
};
use himalia_workflows::{Definition, Invalid, PinnedSkill, Workflow, wanted_version};

use crate::Commands;
pub(crate) use drivers::Drivers;
pub(super) use prompts::info as step_prompt_info;
pub use runs::{MAX_RUNS, MAX_RUNS_IN_PROGRESS, RunUntil, StartRun, StartedRun};
pub(super) use view::info as workflow_run_info;
pub use view::{StepState, StepView};

/// Versions of workflows of an owner.
pub const MAX_WORKFLOW_VERSIONS: usize = 1000;
/// Bytes of all definitions of an owner.
pub const MAX_WORKFLOWS_BYTES: usize = 32 << 20;

/// A workflow in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowInfo {
    /// The name.
    pub name: String,
    /// The version.
    pub version: Version,
    /// The description.
    pub description: String,
    /// The address of its content.
    pub digest: String,
    /// The name of the caller who published it.
    pub published_by: String,
    /// When, microseconds since 1970.
    pub published_micros: i64,
}

impl Commands {
    pub(crate) async fn publish_workflow(
        &self,
        principal: &Principal,
        definition: Definition,
    ) -> Result<(WorkflowInfo, Workflow, bool), EngineError> {
        self.allow(principal, Action::Create, Object::Workflows)?;
        self.services.check_open()?;
        let _turn = self.services.turn(principal).await?;
        work(usize::MAX, || Workflow::check(&definition).map_err(invalid))?;
        let skills = self.pinned(principal, &definition).await?;
        let workflow = work(usize::MAX, || Workflow::new(definition, &skills).map_err(invalid))?;
        let definition = workflow.definition();
        let json = serde_json::to_string(definition)
            .map_err(|error| EngineError::internal("a definition", error))?;
        let brief = WorkflowBrief {
            owner: principal.owner().to_owned(),
            name: definition.name.clone(),
            version: definition.version.to_string(),
            description: definition.description.clone(),
            digest: workflow.digest().to_owned(),
            bytes: i64::try_from(json.len()).unwrap_or(i64::MAX),
            published_by: principal.name().to_owned(),
            published_micros: self.services.now_micros(),
        };
        let _room = self.room(principal.owner(), json.len()).await?;
        let record = WorkflowRecord {
            brief: brief.clone(),
            definition: json,
        };
        let quota = VersionQuota {
            versions: i64::try_from(MAX_WORKFLOW_VERSIONS).unwrap_or(i64::MAX),
            bytes: i64::try_from(MAX_WORKFLOWS_BYTES).unwrap_or(i64::MAX),
        };
        let conflict = |reason: String| Err(EngineError::Conflict { reason });
        match self
            .services
            .store()
            .add_workflow(record, quota)
            .await
            .map_err(stored)?
        {
            VersionAdded::Added => Ok((info(brief)?, workflow, true)),
            VersionAdded::Present(digest) if digest == workflow.digest() => {
                let (name, version) = (brief.name, brief.version);
                let (info, workflow) = self.stored_workflow(principal.owner(), &name, &version).await?;
                Ok((info, workflow, false))
            }
            VersionAdded::Present(_) => conflict(format!(
                "version {} of {} is published with another content, or with other versions of its skills; a change needs another version",
                brief.version, brief.name
            )),
            VersionAdded::Full => conflict(format!(
                "there are {MAX_WORKFLOW_VERSIONS} versions of workflows, or {MAX_WORKFLOWS_BYTES} bytes of them: delete some"
            )),
        }
    }

    pub(crate) async fn workflows(&self, principal: &Principal) -> Result<Vec<WorkflowInfo>, EngineError> {
        self.allow(principal, Action::Read, Object::Workflows)?;
        let owner = principal.owner().to_owned();
        let all = self
            .services
            .store()
            .workflows(owner, None)
            .await
            .map_err(stored)?;
        let mut all = all.into_iter().map(info).collect::<Result<Vec<_>, _>>()?;
        all.sort_by(|one, other| (&one.name, &other.version).cmp(&(&other.name, &one.version)));
        Ok(all)
    }

    pub(crate) async fn workflow(
        &self,
        principal: &Principal,
        name: &str,
        version: Option<&str>,
    ) -> Result<(WorkflowInfo, Workflow), EngineError> {
        self.allow(principal, Action::Read, Object::Workflows)?;
        let _turn = self.services.turn(principal).await?;
        let version = if let Some(version) = version {
            version.to_owned()
        } else {
            let owner = principal.owner().to_owned();
            let there = self.services.store().workflows(owner, Some(name.to_owned()));
            let there = there.await.map_err(stored)?;
            let versions = there
                .into_iter()
                .map(|brief| Ok(info(brief)?.version))
                .collect::<Result<Vec<_>, EngineError>>()?;
            let latest = wanted_version(None, &versions).map_err(|_| unknown(name, None))?;
            latest.to_string()
        };
        self.stored_workflow(principal.owner(), name, &version).await
    }

    pub(crate) async fn delete_workflow(
        &self,
        principal: &Principal,
        name: &str,
        version: Option<&str>,
    ) -> Result<usize, EngineError> {
        self.allow(principal, Action::Delete, Object::Workflows)?;
        let owner = principal.owner().to_owned();
        let deleting =
            self.services
                .store()
                .delete_workflow(owner, name.to_owned(), version.map(str::to_owned));
        match deleting.await.map_err(stored)? {
            0 => Err(unknown(name, version)),
            deleted => Ok(deleted),
        }
    }

    async fn stored_workflow(
        &self,
        owner: &str,
        name: &str,
        version: &str,
    ) -> Result<(WorkflowInfo, Workflow), EngineError> {
        let found = self
            .services
            .store()
            .workflow(owner.to_owned(), name.to_owned(), version.to_owned());
        let record = found
            .await
            .map_err(stored)?
            .ok_or_else(|| unknown(name, Some(version)))?;
        let workflow = self.workflow_in(&record.brief.digest, &record.definition)?;
        Ok((info(record.brief)?, Workflow::clone(&workflow)))
    }

    /// The workflow that a run runs, as it was published.
    pub(super) async fn workflow_of(&self, run: &WorkflowRunBrief) -> Result<Arc<Workflow>, EngineError> {
        let found = self.workflows.definitions.get(&run.digest);
        if let Some(found) = found {
            return Ok(found);
        }
        let store = self.services.store();
        let reading = store.workflow_definition(run.owner.clone(), run.digest.clone());
        let definition = reading.await.map_err(stored)?;
        let definition =
            definition.ok_or_else(|| EngineError::internal("reading a run", "it has no definition"))?;
        self.workflow_in(&run.digest, &definition)
    }

    /// The workflow of a definition that was read.
    pub(super) fn workflow_in(&self, digest: &str, definition: &str) -> Result<Arc<Workflow>, EngineError> {
        let definitions = &self.workflows.definitions;
        if let Some(found) = definitions.get(digest) {
            return Ok(found);
        }
        let workflow = Arc::new(records::workflow(definition)?);
        definitions.put(Arc::clone(&workflow), definition.len());
        Ok(workflow)
    }

    /// All versions of the owner's skill of this name.
    async fn skill_versions(&self, owner: &str, name: &str) -> Result<Vec<Version>, EngineError> {
        let all = self
            .services
            .store()
            .skills(owner.to_owned(), Some(name.to_owned()));
        let all = all.await.map_err(stored)?;
        Ok(all
            .iter()
            .filter_map(|brief| Version::parse(&brief.version).ok())
            .collect())
    }

    /// The skills of a definition, by the ids of its steps. A step without one is left out.
    async fn pinned(
        &self,
        principal: &Principal,
        definition: &Definition,
    ) -> Result<BTreeMap<String, PinnedSkill>, EngineError> {
        let mut versions: BTreeMap<&str, Vec<Version>> = BTreeMap::new();
        let mut read: BTreeMap<(String, String), PinnedSkill> = BTreeMap::new();
        let mut pinned = BTreeMap::new();
        for step in &definition.steps {
            let Some(wanted) = &step.skill else {
                continue;
            };
            let bad = |reason: String| {
                EngineError::bad_request("steps", format!("{}.skill: {}: {reason}", step.id, wanted.name))
            };
            let there = match versions.entry(&wanted.name) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    place.insert(self.skill_versions(principal.owner(), &wanted.name).await?)
                }
            };
            if there.is_empty() {
                return Err(bad("there is no such skill".to_owned()));
            }
            let version = wanted_version(wanted.version.as_deref(), there).map_err(bad)?;
            let key = (wanted.name.clone(), version.to_string());
            if let Some(known) = read.get(&key) {
                pinned.insert(step.id.clone(), known.clone());
                continue;
            }
            let (_, skill) = self.stored_skill(principal.owner(), &key.0, &key.1).await?;
            let manifest = skill.manifest();
            if manifest.kind != Kind::Code {
                return Err(bad("is instructions, which do not run".to_owned()));
            }
            let made = PinnedSkill {
                version,
                digest: skill.digest().to_owned(),
                inputs: manifest.inputs.clone().unwrap_or_default(),
                outputs: manifest.outputs.clone().unwrap_or_default(),
            };
            pinned.insert(step.id.clone(), made.clone());
            read.insert(key, made);
        }
        Ok(pinned)
    }
}

fn info(brief: WorkflowBrief) -> Result<WorkflowInfo, EngineError> {
    let version = Version::parse(&brief.version)
        .map_err(|error| EngineError::internal("reading the version of a workflow", error))?;
    Ok(WorkflowInfo {
        name: brief.name,
        version,
        description: brief.description,
        digest: brief.digest,
        published_by: brief.published_by,
        published_micros: brief.published_micros,
    })
}

fn invalid(wrong: Invalid) -> EngineError {
    EngineError::bad_request(wrong.field, wrong.reason)
}

fn unknown(name: &str, version: Option<&str>) -> EngineError {
    let id = version.map_or_else(|| name.to_owned(), |version| format!("{name} {version}"));
    EngineError::NotFound {
        what: "Workflow",
        id: id.chars().take(128).collect(),
    }
}

fn stored(error: StoreError) -> EngineError {
    not_stored("workflows in the store", error)
}
