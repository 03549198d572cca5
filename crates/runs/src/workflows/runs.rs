//! Runs of workflows: start, look, cancel, answer.

use std::time::Duration;

use himalia_engine::Object;
use himalia_journal::may_block;
use himalia_model::{Action, EngineError, Principal};
use himalia_skills::address;
use himalia_store::{
    NewCallback, RUNNING, WorkflowRunAdded, WorkflowRunBrief, WorkflowRunQuota, WorkflowRunRecord,
};
use himalia_workflows::{MAX_INPUT_BYTES, Workflow};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use uuid::Uuid;

use super::starter::Starter;
use super::view::{self, StepView};
use super::{invalid, records, stored, unknown};
use crate::Commands;
use crate::run::{RunInfo, RunView, id_of_run, uuid_of_run};
use crate::triggers::{CallbackSecret, ClientRun, RunTarget, no_callback};

/// Runs of an owner that have not ended.
pub const MAX_RUNS_IN_PROGRESS: u32 = 32;
/// Runs of an owner that are kept.
pub const MAX_RUNS: u32 = 10_000;
/// Bytes of the rows of the runs of an owner. For more, those that ended first are forgotten.
const MAX_RUNS_BYTES: i64 = 1 << 30;
const MAX_KEY_BYTES: usize = 256;
/// The time between two looks at a run that another replica may have changed.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// A run of a workflow that is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StartRun {
    /// The version; `None`: the latest one.
    pub version: Option<String>,
    /// The inputs.
    pub inputs: Map<String, Value>,
    /// The same key again is the same run, if it is the same start.
    pub key: Option<String>,
    /// The URL to which the result is posted.
    pub callback: Option<String>,
    /// The run of a schedule or webhook that it is: it is begun once, and found after that.
    pub trigger_run: Option<Uuid>,
}

/// A run that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedRun {
    /// The id.
    pub id: String,
    /// False if a start with the same key has begun it before.
    pub is_new: bool,
    /// With what its callback is signed, if it has one.
    pub callback_secret: Option<CallbackSecret>,
}

impl StartedRun {
    /// Without a callback.
    pub(crate) fn of(id: String, is_new: bool) -> Self {
        Self {
            id,
            is_new,
            callback_secret: None,
        }
    }
}

/// By what a run is found again, and what is added with it.
struct RunStart<'a> {
    id: Uuid,
    key: Option<String>,
    print: &'a str,
    callback: Option<NewCallback>,
}

/// The event that ends a wait for a run before its time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunUntil {
    /// The end of the run.
    Ended,
    /// The end of the run, or a step that waits for the answer of a person.
    Asks,
}

impl Commands {
    pub(crate) async fn run_workflow(
        &self,
        principal: &Principal,
        name: &str,
        wanted: StartRun,
    ) -> Result<StartedRun, EngineError> {
        self.allow(principal, Action::Execute, Object::Workflows)?;
        self.services.check_open()?;
        if let Some(of) = wanted.trigger_run {
            return self.run_workflow_once(principal, name, wanted, of).await;
        }
        let key = wanted.key.as_deref();
        if key.is_some_and(|key| !(1..=MAX_KEY_BYTES).contains(&key.len())) {
            let reason = format!("must have 1 to {MAX_KEY_BYTES} bytes");
            return Err(EngineError::bad_request("idempotency_key", reason));
        }
        let mut asked = json!({
            "workflow": name, "version": wanted.version, "inputs": wanted.inputs,
        });
        if let Some(url) = &wanted.callback {
            asked["callback"] = url.as_str().into();
        }
        let print = address(asked);
        let key = key.map(|key| address(json!([principal.name(), key])));
        let has_callback = wanted.callback.is_some();
        if let Some(key) = &key {
            // Before room, a turn or its workflow is asked for: it was begun.
            let known = self
                .services
                .store()
                .workflow_run_of(principal.owner().to_owned(), key.clone());
            if let Some(known) = known.await.map_err(stored)? {
                return self
                    .begun_before(known.brief.id, &known.start_print, &print, has_callback)
                    .await;
            }
        }
        let id = Uuid::new_v4();
        let (callback, secret) = match &wanted.callback {
            Some(url) => {
                let target = RunTarget::workflow(name);
                let run = ClientRun::Workflow(id);
                let (new, secret) = self.new_callback(principal, target, url.clone(), run).await?;
                (Some(new), Some(secret))
            }
            None => (None, None),
        };
        let start = RunStart {
            id,
            key,
            print: &print,
            callback,
        };
        let (id, held) = self.add_run(principal, name, wanted, start).await?;
        match held {
            None => {
                if secret.is_some() {
                    self.triggers.wake();
                }
                Ok(StartedRun {
                    id,
                    is_new: true,
                    callback_secret: secret,
                })
            }
            Some(held) => self.begun_before(id, &held, &print, has_callback).await,
        }
    }

    /// The run that an earlier request with the same key has begun.
    async fn begun_before(
        &self,
        id: String,
        held: &str,
        print: &str,
        has_callback: bool,
    ) -> Result<StartedRun, EngineError> {
        if held != print {
            return Err(EngineError::KeyReused);
        }
        // Its caller may not have got the first response.
        let callback_secret = match uuid_of_run(&id).filter(|_| has_callback) {
            Some(run) => self.callback_secret(ClientRun::Workflow(run)).await?,
            None => None,
        };
        Ok(StartedRun {
            id,
            is_new: false,
            callback_secret,
        })
    }

    /// The run of a workflow that is another run, with this id: it is begun once, and found after that.
    async fn run_workflow_once(
        &self,
        principal: &Principal,
        name: &str,
        wanted: StartRun,
        of: Uuid,
    ) -> Result<StartedRun, EngineError> {
        // Its workflow may have been deleted since it began.
        if let Ok(there) = self.seen_run(principal, &id_of_run(of)).await {
            return Ok(StartedRun::of(there.brief.id, false));
        }
        let start = RunStart {
            id: of,
            // No caller's key is that: they come with a name.
            key: Some(address(json!([of.to_string()]))),
            print: "",
            callback: None,
        };
        let (id, held) = self.add_run(principal, name, wanted, start).await?;
        Ok(StartedRun::of(id, held.is_none()))
    }

    /// A run of a workflow that the principal sees, as lists have it.
    pub(crate) async fn workflow_run_info(
        &self,
        principal: &Principal,
        id: &str,
    ) -> Result<RunInfo, EngineError> {
        view::info(self.seen_run(principal, id).await?.brief)
    }

    /// Checks what a run gets before it begins; `None`: its inputs are not known yet.
    pub(crate) async fn check_workflow_run(
        &self,
        principal: &Principal,
        name: &str,
        version: Option<&str>,
        inputs: Option<&Map<String, Value>>,
    ) -> Result<(), EngineError> {
        let (_, workflow) = self.workflow(principal, name, version).await?;
        match inputs {
            Some(inputs) => self.in_turn(principal, || check_inputs(&workflow, inputs)).await,
            None => Ok(()),
        }
    }

    /// A new run, or the one that was begun with the key before, and then what it was begun with.
    async fn add_run(
        &self,
        principal: &Principal,
        name: &str,
        wanted: StartRun,
        start: RunStart<'_>,
    ) -> Result<(String, Option<String>), EngineError> {
        let (info, workflow) = self.workflow(principal, name, wanted.version.as_deref()).await?;
        self.in_turn(principal, || check_inputs(&workflow, &wanted.inputs))
            .await?;
        let inputs = Value::Object(wanted.inputs).to_string();
        let id = id_of_run(start.id);
        let record = WorkflowRunRecord {
            brief: WorkflowRunBrief {
                id: id.clone(),
                owner: principal.owner().to_owned(),
                workflow: info.name,
                version: info.version.to_string(),
                digest: info.digest,
                status: RUNNING.to_owned(),
                error: None,
                started_by: principal.name().to_owned(),
                cancelled_by: None,
                created_micros: self.services.now_micros(),
                ended_micros: None,
            },
            principal: Starter::written(principal)?,
            start_key: start.key,
            start_print: start.print.to_owned(),
            inputs,
            outputs: None,
        };
        let quota = WorkflowRunQuota {
            running: MAX_RUNS_IN_PROGRESS.into(),
            kept: MAX_RUNS.into(),
            bytes: MAX_RUNS_BYTES,
        };
        let _room = self.room(principal.owner(), record.inputs.len()).await?;
        let adding = self
            .services
            .store()
            .add_workflow_run(record, quota, start.callback);
        match adding.await.map_err(stored)? {
            WorkflowRunAdded::Added => {
                self.drive(&id);
                Ok((id, None))
            }
            WorkflowRunAdded::Present { id, print } => Ok((id, Some(print))),
            WorkflowRunAdded::NoCallback => Err(no_callback()),
            WorkflowRunAdded::NoDefinition => Err(unknown(name, wanted.version.as_deref())),
            WorkflowRunAdded::Full => Err(EngineError::OverBudget {
                what: "workflow runs",
                reason: format!(
                    "{MAX_RUNS_IN_PROGRESS} runs of workflows are in progress, or {MAX_RUNS} are kept"
                ),
                gateways: false,
                retry_after: 10,
            }),
        }
    }

    /// A run of a workflow with its steps, when that has happened which is waited for, or at this time.
    pub(crate) async fn workflow_run(
        &self,
        principal: &Principal,
        id: &str,
        due: Instant,
        until: RunUntil,
    ) -> Result<RunView, EngineError> {
        let record = self.await_run(principal, id, Some(due), until).await?;
        // What its steps returned is read into memory, whatever of it is shown.
        let _turn = self.services.turn(principal).await?;
        let steps = self.services.store().workflow_steps(id.to_owned());
        let workflow = self.workflow_of(&record.brief).await?;
        let steps = steps.await.map_err(stored)?;
        may_block(|| view::run(workflow, record, steps))
    }

    /// A run that has ended, and what it returned.
    pub(crate) async fn ended_workflow_run(
        &self,
        principal: &Principal,
        id: &str,
    ) -> Result<(RunInfo, Option<Value>), EngineError> {
        let record = self.await_run(principal, id, None, RunUntil::Ended).await?;
        let outputs = record.outputs.as_deref().map(records::json_of).transpose()?;
        Ok((view::info(record.brief)?, outputs))
    }

    /// A run when that has happened which is waited for, or at this time.
    async fn await_run(
        &self,
        principal: &Principal,
        id: &str,
        due: Option<Instant>,
        until: RunUntil,
    ) -> Result<WorkflowRunRecord, EngineError> {
        loop {
            // Before the row is read: what changes afterwards is not missed.
            let changed = self.workflows.changed(id);
            let record = self.seen_run(principal, id).await?;
            if record.brief.status != RUNNING || due.is_some_and(|due| Instant::now() >= due) {
                return Ok(record);
            }
            if until == RunUntil::Asks {
                let asks = self.services.store().run_asks(id.to_owned());
                if asks.await.map_err(stored)? {
                    return Ok(record);
                }
            }
            self.until_changed(changed, due).await?;
        }
    }

    /// Waits until a run may have changed, or this time.
    pub(crate) async fn until_changed(
        &self,
        changed: Option<watch::Receiver<()>>,
        until: Option<Instant>,
    ) -> Result<(), EngineError> {
        let look = Instant::now() + LOOK;
        match (changed, until) {
            (Some(mut changed), Some(until)) => {
                let _ = timeout_at(until, changed.changed()).await;
            }
            (Some(mut changed), None) => {
                let _ = changed.changed().await;
            }
            (None, until) => sleep_until(until.map_or(look, |until| until.min(look))).await,
        }
        self.services.check_open()
    }

    pub(crate) async fn workflow_step(
        &self,
        principal: &Principal,
        id: &str,
        step: &str,
        item: u32,
    ) -> Result<StepView, EngineError> {
        self.allow(principal, Action::Read, Object::Workflows)?;
        let record = self.seen_run(principal, id).await?;
        let _turn = self.services.turn(principal).await?;
        let steps = self.services.store().workflow_steps(id.to_owned());
        let workflow = self.workflow_of(&record.brief).await?;
        let steps = steps.await.map_err(stored)?;
        let found = may_block(|| view::step(workflow, &record, steps, step, item))?;
        found.ok_or_else(|| no_step(step))
    }

    /// Ends a run that the principal sees.
    pub(crate) async fn cancel_workflow_run(
        &self,
        principal: &Principal,
        id: &str,
    ) -> Result<(), EngineError> {
        let by = principal.name().to_owned();
        let cancelling = self.services.store().cancel_workflow_run(id.to_owned(), by);
        if cancelling.await.map_err(stored)? {
            self.workflows.wake(id);
        }
        Ok(())
    }

    pub(crate) async fn answer_workflow_step(
        &self,
        principal: &Principal,
        id: &str,
        step: &str,
        value: String,
    ) -> Result<RunView, EngineError> {
        self.answer_step(principal, id, step, value).await?;
        self.run(principal, id, Duration::ZERO, RunUntil::Ended).await
    }

    /// A run of the principal's tenant; for the operator any.
    pub(crate) async fn seen_run(
        &self,
        principal: &Principal,
        id: &str,
    ) -> Result<WorkflowRunRecord, EngineError> {
        let found = self
            .services
            .store()
            .workflow_run(id.to_owned())
            .await
            .map_err(stored)?;
        let found = found.filter(|record| principal.sees(&record.brief.owner));
        found.ok_or_else(|| EngineError::NotFound {
            what: "Run",
            id: id.chars().take(64).collect(),
        })
    }
}

pub(super) fn no_step(step: &str) -> EngineError {
    EngineError::NotFound {
        what: "Step",
        id: step.chars().take(64).collect(),
    }
}

fn check_inputs(workflow: &Workflow, inputs: &Map<String, Value>) -> Result<(), EngineError> {
    let bytes = serde_json::to_vec(inputs).map_or(usize::MAX, |json| json.len());
    if bytes > MAX_INPUT_BYTES {
        let reason = format!("have {bytes} bytes as JSON, at most {MAX_INPUT_BYTES} are allowed");
        return Err(EngineError::bad_request("inputs", reason));
    }
    let wrong = workflow.check_inputs(inputs).map_err(invalid)?;
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
