//! Commands on what starts runs: schedules and webhooks. What they start, and when, is in `runner`.

mod answers;
mod asked;
mod callbacks;
mod definition;
mod of_run;
mod places;
mod prompts;
mod runner;
mod target;
mod teller;
mod webhooks;
mod workflows;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use himalia_journal::may_block;
use himalia_model::{Action, EngineError, KernelId, Object, Principal, SessionId};
use himalia_store::{TriggerAdded, TriggerRecord, TriggerRun, TriggerRunFilter, TriggerRunsOf};
use serde_json::{Map, Value};
use tokio::sync::Notify;
use uuid::Uuid;

use super::runs::{RunInfo, RunKind, RunOrigin, RunOriginKind, RunState, RunView, id_of_run};
use super::{Commands, RunSkill};
use crate::Engine;
pub use answers::AnswerSigner;
pub use asked::AskedRun;
pub use callbacks::{
    DeliveriesOf, DeliveryAttempt, DeliveryInfo, DeliveryState, MAX_CALLBACK_URL, MAX_DELIVERIES,
};
pub(super) use definition::Holder;
pub(super) use definition::stored;
use definition::{Definition, Detail, definition, detail, write};
pub use definition::{Times, TriggerKind};
pub use of_run::{CallbackSecret, MAX_CALLBACKS, MAX_OPEN_CALLBACKS};
pub(super) use of_run::{ClientRun, no_callback};
pub use target::{RunTarget, Runnable};
pub use webhooks::{MAX_WEBHOOK_BYTES, WebhookMessage};
use webhooks::{Secrets, new_secret};

/// What the store calls all kinds of triggers.
const STORED_KINDS: [&str; 4] = [
    TriggerKind::Schedule.as_str(),
    TriggerKind::Webhook.as_str(),
    TriggerKind::Prompts.as_str(),
    of_run::KIND,
];
/// Triggers of one kind of an owner.
pub const MAX_TRIGGERS: usize = 100;
/// Characters of the name of a trigger.
pub const MAX_TRIGGER_NAME: usize = 64;
/// Runs of a trigger that are kept at least.
pub(super) const MAX_TRIGGER_RUNS: usize = 100;
/// Runs of a trigger that have not ended.
pub const MAX_OPEN_RUNS: usize = 16;
/// How often a change is tried again that another one was quicker than.
const TRIES: usize = 8;

/// Whom a mark of a token stands for, as long as that counts.
type Marked = Box<dyn Fn(&str) -> Option<Principal> + Send + Sync>;

/// What commands and the task that starts runs share.
#[derive(Default)]
pub(crate) struct Triggers {
    marked: OnceLock<Marked>,
    wake: Notify,
    /// Persons are asked something, or a webhook is there that does not know what.
    pub(super) asks: Notify,
    /// Whether there may be something to do.
    any: AtomicBool,
}

impl std::fmt::Debug for Triggers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Triggers")
    }
}

impl Triggers {
    /// Whether it is known which tokens are valid: once the gateway listens.
    pub(super) fn knows_tokens(&self) -> bool {
        self.marked.get().is_some()
    }

    /// Something changed.
    pub(super) fn wake(&self) {
        self.any.store(true, Ordering::Release);
        self.wake.notify_one();
    }
}

/// A trigger that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTrigger {
    /// Lower-case letters, digits and hyphens; one of its owner and kind.
    pub name: String,
    /// What it starts; `None` for a webhook of prompts, which starts nothing.
    pub target: Option<RunTarget>,
    /// The inputs of each run.
    pub inputs: Map<String, Value>,
    /// The template of the sessions of runs.
    pub template: Option<String>,
    /// How long a run may take, if that is less than its target says.
    pub timeout: Option<Duration>,
    /// When it is due; `None` for a webhook.
    pub times: Option<Times>,
    /// Whether it starts runs.
    pub enabled: bool,
    /// Where the result of each run is posted.
    pub callback: Option<String>,
}

/// The secrets of a new trigger, which are shown once.
#[derive(Clone, Default)]
pub struct NewSecrets {
    /// With which senders of a webhook sign.
    pub incoming: Option<String>,
    /// With which results are signed that are posted to a callback.
    pub outgoing: Option<String>,
}

impl std::fmt::Debug for NewSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NewSecrets")
    }
}

/// What is to change of a trigger; `None`: it stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TriggerChange {
    /// What it starts.
    pub target: Option<RunTarget>,
    /// The inputs of each run.
    pub inputs: Option<Map<String, Value>>,
    /// The template; empty: none.
    pub template: Option<String>,
    /// How long a run may take.
    pub timeout: Option<Duration>,
    /// The cron expression.
    pub cron: Option<String>,
    /// The time zone.
    pub time_zone: Option<String>,
    /// What becomes of missed due times.
    pub missed: Option<himalia_schedules::MissedPolicy>,
    /// What becomes of due times while a run is in progress.
    pub overlap: Option<himalia_schedules::Overlap>,
    /// Whether it starts runs.
    pub enabled: Option<bool>,
}

impl TriggerChange {
    /// Whether it only says whether runs are started.
    fn only_switches(&self) -> bool {
        let switch = Self {
            enabled: self.enabled,
            ..Self::default()
        };
        *self == switch
    }
}

/// A trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct TriggerInfo {
    /// Its id.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// A tenant, or the operator.
    pub owner: String,
    /// As whom runs are started.
    pub caller: String,
    /// What it starts; `None` for a webhook of prompts, which starts nothing.
    pub target: Option<RunTarget>,
    /// The inputs of each run.
    pub inputs: Map<String, Value>,
    /// The template of the sessions of runs.
    pub template: Option<String>,
    /// Seconds that a run may take.
    pub timeout_s: Option<u64>,
    /// When it is due.
    pub times: Option<Times>,
    /// Whether it starts runs.
    pub enabled: bool,
    /// Where the result of each run is posted: the origin of the URL.
    pub callback: Option<String>,
    /// Why the gateway has stopped it.
    pub stopped: Option<String>,
    /// When it is due next, microseconds since 1970.
    pub next_micros: Option<i64>,
    /// When it was made, microseconds since 1970.
    pub created_micros: i64,
    /// The latest run.
    pub last_run: Option<RunInfo>,
}

impl Engine {
    /// Starts runs of triggers, from now on and until the gateway stops. `marked` says whom the mark of a token stands for, as long as
    /// the token counts. A second call does nothing.
    pub fn start_triggers(&self, marked: impl Fn(&str) -> Option<Principal> + Send + Sync + 'static) {
        let triggers = &self.commands.triggers;
        if triggers.marked.set(Box::new(marked)).is_ok() {
            let background = &self.commands.inner.background;
            background.spawn(runner::Runner::new(self.clone()).run());
            background.spawn(teller::Teller::new(self.commands.clone()).run());
        }
    }
}

impl Commands {
    pub(crate) async fn create_trigger(
        &self,
        principal: &Principal,
        kind: TriggerKind,
        new: NewTrigger,
    ) -> Result<(TriggerInfo, NewSecrets), EngineError> {
        self.allow(principal, Action::Create, Object::Schedules)?;
        self.inner.check_open()?;
        check_name(&new.name)?;
        let field = if kind == TriggerKind::Prompts {
            "url"
        } else {
            "callback"
        };
        if let Some(url) = &new.callback {
            callbacks::check_url(field, url)?;
        }
        let definition = Definition {
            target: new.target,
            inputs: new.inputs,
            template: new.template,
            timeout_s: new.timeout.map(|time| time.as_secs()),
            enabled: new.enabled,
            times: new.times,
            callback: new.callback,
            holder: Holder::of(principal),
            stopped: None,
        };
        let now = self.trigger_time().await?;
        self.allow_kind(principal, kind)?;
        let next_micros = if kind == TriggerKind::Prompts {
            None
        } else {
            self.check_trigger(principal, &definition, now).await?
        };
        let mut record = TriggerRecord {
            id: Uuid::new_v4(),
            kind: kind.as_str().to_owned(),
            owner: principal.owner().to_owned(),
            name: new.name,
            definition: write(&definition)?,
            key_id: String::new(),
            sealed: Vec::new(),
            next_micros,
            version: 1,
            created_micros: now,
        };
        let secret = |wanted: bool| {
            let made = wanted.then(new_secret).transpose()?;
            Ok::<_, EngineError>(made.map(|secret| secret.text().to_string()))
        };
        let secrets = Secrets {
            incoming: secret(kind != TriggerKind::Schedule)?,
            outgoing: secret(definition.callback.is_some())?,
        };
        if secrets.incoming.is_some() || secrets.outgoing.is_some() {
            self.seal_secrets(&mut record, &secrets)?;
        }
        let _room = self.room(&record.owner, record.definition.len()).await?;
        let most = i64::try_from(MAX_TRIGGERS).unwrap_or(i64::MAX);
        let added = self.inner.store().insert_trigger(record.clone(), most).await;
        let conflict = |reason: String| Err(EngineError::Conflict { reason });
        match added.map_err(stored)? {
            TriggerAdded::Added => {
                self.triggers.wake();
                self.triggers.asks.notify_one();
                let shown = NewSecrets {
                    incoming: secrets.incoming,
                    outgoing: secrets.outgoing,
                };
                Ok((info(&record, None)?, shown))
            }
            TriggerAdded::Taken => conflict(format!(
                "there is a {} of this name: {}",
                kind.as_str(),
                record.name
            )),
            TriggerAdded::Full => conflict(format!("there are {MAX_TRIGGERS} of this kind: delete some")),
        }
    }

    pub(crate) async fn triggers(
        &self,
        principal: &Principal,
        kind: TriggerKind,
    ) -> Result<Vec<TriggerInfo>, EngineError> {
        self.allow(principal, Action::Read, Object::Schedules)?;
        let owner = (!principal.is_operator()).then(|| principal.owner().to_owned());
        let kind = kind.as_str().to_owned();
        let store = self.inner.store();
        let all = store
            .triggers(owner.clone(), kind.clone())
            .await
            .map_err(stored)?;
        let runs = store.last_trigger_runs(owner, kind).await.map_err(stored)?;
        let last = |record: &TriggerRecord| runs.iter().find(|run| run.trigger == record.id);
        all.iter().map(|record| info(record, last(record))).collect()
    }

    pub(crate) async fn trigger(
        &self,
        principal: &Principal,
        kind: TriggerKind,
        text: &str,
    ) -> Result<TriggerInfo, EngineError> {
        self.allow(principal, Action::Read, Object::Schedules)?;
        let record = self.find_trigger(principal, kind, text).await?;
        let latest = TriggerRunFilter {
            of: TriggerRunsOf::Trigger(record.id),
            after: None,
            limit: 1,
        };
        let runs = self.inner.store().trigger_runs(latest).await;
        info(&record, runs.map_err(stored)?.first())
    }

    /// A webhook of prompts answers as its maker, and tells persons of prompts. A caller who runs code may not approve what that code does,
    /// nor silence it.
    fn allow_kind(&self, principal: &Principal, kind: TriggerKind) -> Result<(), EngineError> {
        if kind == TriggerKind::Prompts {
            self.allow(principal, Action::Approve, Object::Workflows)?;
        }
        Ok(())
    }

    pub(crate) async fn change_trigger(
        &self,
        principal: &Principal,
        kind: TriggerKind,
        text: &str,
        change: TriggerChange,
    ) -> Result<TriggerInfo, EngineError> {
        self.allow(principal, Action::Update, Object::Schedules)?;
        self.allow_kind(principal, kind)?;
        self.inner.check_open()?;
        let switches = change.only_switches();
        for _ in 0..TRIES {
            let mut record = self.find_trigger(principal, kind, text).await?;
            let mut definition = definition(&record)?;
            let own = record.owner == principal.owner();
            if !own && !switches {
                return Err(EngineError::Forbidden {
                    action: "change what is started for another tenant",
                });
            }
            change.clone().apply(&mut definition);
            // Who decides what is started, or that it is started again, is whom it runs as.
            if own && change.enabled != Some(false) {
                definition.holder = Holder::of(principal);
            }
            let now = self.trigger_time().await?;
            definition.stopped = definition.stopped.filter(|_| !definition.enabled);
            record.next_micros = if switches {
                next_due(&definition, now)?
            } else {
                self.check_trigger(principal, &definition, now).await?
            };
            let written = write(&definition)?;
            // One that only gets smaller, or is switched off, needs none.
            let more = written.len().saturating_sub(record.definition.len());
            let _room = if switches || more == 0 {
                None
            } else {
                Some(self.room(&record.owner, more).await?)
            };
            record.definition = written;
            let changed = self.inner.store().change_trigger(record, None).await;
            if changed.map_err(stored)? {
                self.triggers.wake();
                return self.trigger(principal, kind, text).await;
            }
        }
        Err(busy())
    }

    pub(crate) async fn delete_trigger(
        &self,
        principal: &Principal,
        kind: TriggerKind,
        text: &str,
    ) -> Result<(), EngineError> {
        self.allow(principal, Action::Delete, Object::Schedules)?;
        self.allow_kind(principal, kind)?;
        let record = self.find_trigger(principal, kind, text).await?;
        let deleted = self.inner.store().delete_trigger(record.id).await;
        if deleted.map_err(stored)? {
            return Ok(());
        }
        Err(unknown(kind, text))
    }

    /// A run of a trigger of any kind that the principal sees, and its trigger.
    pub(super) async fn trigger_run(
        &self,
        principal: &Principal,
        id: Uuid,
    ) -> Result<Option<(Arc<TriggerRecord>, TriggerRun)>, EngineError> {
        let store = self.inner.store();
        let Some(run) = store.trigger_run(id).await.map_err(stored)? else {
            return Ok(None);
        };
        if !principal.sees(&run.owner) {
            return Ok(None);
        }
        let record = store.trigger(run.trigger).await.map_err(stored)?;
        Ok(record.map(|record| (Arc::new(record), run)))
    }

    /// The time by which triggers are due: that of the store, if replicas share it.
    async fn trigger_time(&self) -> Result<i64, EngineError> {
        let shared = self.inner.store().shared_time().await.map_err(stored)?;
        Ok(shared.unwrap_or_else(|| self.inner.config.clock.stored_micros()))
    }

    /// By its id, or by its name among those of the principal's own.
    pub(super) async fn find_trigger(
        &self,
        principal: &Principal,
        kind: TriggerKind,
        text: &str,
    ) -> Result<TriggerRecord, EngineError> {
        let store = self.inner.store();
        let found = if let Ok(id) = Uuid::try_parse(text) {
            store.trigger(id).await.map_err(stored)?
        } else {
            let owner = principal.owner().to_owned();
            let all = store.triggers(Some(owner), kind.as_str().to_owned()).await;
            all.map_err(stored)?
                .into_iter()
                .find(|record| record.name == text)
        };
        found
            .filter(|record| record.kind == kind.as_str() && principal.sees(&record.owner))
            .ok_or_else(|| unknown(kind, text))
    }

    /// Checks what can be known before a run, and says when it is due.
    async fn check_trigger(
        &self,
        principal: &Principal,
        definition: &Definition,
        now: i64,
    ) -> Result<Option<i64>, EngineError> {
        let table = definition.times.as_ref().map(Times::table).transpose()?;
        if let Some(table) = &table {
            // The search for due times of a rare expression takes a moment.
            may_block(|| table.check(now))
                .map_err(|wrong| EngineError::bad_request(wrong.field, wrong.reason))?;
        }
        if let Some(name) = &definition.template
            && !self.inner.config.templates.contains_key(name)
        {
            match self.inner.catalog.get(name).await {
                Err(EngineError::NoSuchKernelspec { name }) => {
                    return Err(self.inner.templates.no_such(&self.inner.catalog, name).await);
                }
                found => drop(found?),
            }
        }
        // The inputs of a webhook come with its messages.
        let has_inputs = definition.times.is_some();
        let detail = Detail::new(RunState::Queued);
        self.check_target(principal, definition, &detail, has_inputs)
            .await?;
        next_due(definition, now)
    }
}

/// When it is due after now.
fn next_due(definition: &Definition, now: i64) -> Result<Option<i64>, EngineError> {
    let table = definition.times.as_ref().map(Times::table).transpose()?;
    let table = table.filter(|_| definition.enabled);
    Ok(table.and_then(|table| table.next_after(now)))
}

impl TriggerChange {
    fn apply(self, definition: &mut Definition) {
        fn set<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        if let Some(target) = self.target {
            if matches!(target.what, Runnable::Workflow(_)) {
                // Those are of the sessions of a skill.
                (definition.template, definition.timeout_s) = (None, None);
            }
            definition.target = Some(target);
        }
        set(&mut definition.inputs, self.inputs);
        set(&mut definition.enabled, self.enabled);
        if let Some(template) = self.template {
            definition.template = Some(template).filter(|name| !name.is_empty());
        }
        if let Some(time) = self.timeout {
            definition.timeout_s = Some(time.as_secs());
        }
        if let Some(times) = &mut definition.times {
            set(&mut times.cron, self.cron);
            set(&mut times.time_zone, self.time_zone);
            set(&mut times.missed, self.missed);
            set(&mut times.overlap, self.overlap);
        }
    }
}

/// What a run of a trigger asks of its skill or its workflow.
fn run_skill(definition: &Definition, detail: &Detail) -> Result<RunSkill, EngineError> {
    let target = definition.target()?;
    Ok(RunSkill {
        version: detail.version.clone().or_else(|| target.version.clone()),
        template: definition.template.clone(),
        inputs: detail.inputs.clone().unwrap_or_else(|| definition.inputs.clone()),
        timeout: definition.timeout_s.map(Duration::from_secs),
        ..RunSkill::default()
    })
}

/// A run that is to be stored. The session that it starts has its id.
fn new_run(
    record: &TriggerRecord,
    id: Uuid,
    key: String,
    due_micros: i64,
    detail: &Detail,
) -> Result<TriggerRun, EngineError> {
    Ok(TriggerRun {
        id,
        trigger: record.id,
        owner: record.owner.clone(),
        key,
        due_micros,
        state: detail.status.stored(),
        not_before_micros: 0,
        detail: write(detail)?,
        claim: String::new(),
    })
}

/// The session of a run.
fn session_of(run: &TriggerRun) -> KernelId {
    KernelId(run.id)
}

fn check_name(name: &str) -> Result<(), EngineError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=MAX_TRIGGER_NAME).contains(&name.len())
        && name.bytes().all(plain)
        && Uuid::try_parse(name).is_err()
    {
        return Ok(());
    }
    let reason = format!("has 1 to {MAX_TRIGGER_NAME} lower-case letters, digits and hyphens");
    Err(EngineError::bad_request("name", reason))
}

fn info(record: &TriggerRecord, last: Option<&TriggerRun>) -> Result<TriggerInfo, EngineError> {
    let definition = definition(record)?;
    Ok(TriggerInfo {
        id: record.id,
        name: record.name.clone(),
        owner: record.owner.clone(),
        caller: definition.holder.name,
        target: definition.target,
        inputs: definition.inputs,
        template: definition.template,
        timeout_s: definition.timeout_s,
        times: definition.times,
        enabled: definition.enabled,
        callback: definition.callback.as_deref().map(callbacks::shown_url),
        stopped: definition.stopped,
        next_micros: record.next_micros,
        created_micros: record.created_micros,
        last_run: last
            .map(|run| run_info(record, run))
            .transpose()?
            .map(|run| run.info),
    })
}

/// Returns true for schedules and webhooks: the runs of other triggers start nothing.
pub(super) fn starts_runs(record: &TriggerRecord) -> bool {
    [TriggerKind::Schedule, TriggerKind::Webhook]
        .into_iter()
        .any(|kind| record.kind == kind.as_str())
}

/// A run as its row has it.
pub(super) fn run_info(record: &TriggerRecord, run: &TriggerRun) -> Result<RunView, EngineError> {
    let (definition, detail) = (definition(record)?, detail(run)?);
    let execution = detail.execution();
    let origin = match record.kind.as_str() {
        "schedule" => RunOrigin::trigger(RunOriginKind::Schedule, record.id),
        "webhook" => RunOrigin::trigger(RunOriginKind::Webhook, record.id),
        _ => RunOrigin::CLIENT,
    };
    let (kind, name) = match detail.target.or(definition.target).map(|target| target.what) {
        Some(Runnable::Workflow(name)) => (RunKind::Workflow, name),
        Some(Runnable::Skill(name)) => (RunKind::Skill, name),
        None => (RunKind::Skill, String::new()),
    };
    let missed_before = (origin.kind == RunOriginKind::Schedule).then_some(detail.missed_before);
    let info = RunInfo {
        id: id_of_run(run.id),
        kind,
        name,
        version: detail.version,
        digest: None,
        status: detail.status,
        error: detail.error,
        origin,
        started_by: definition.holder.name,
        asked_by: detail.asked_by,
        cancelled_by: None,
        missed_before,
        session: execution.map(|id| SessionId::of_first_kernel(id.kernel)),
        execution,
        created_micros: run.due_micros,
        started_micros: detail.started_micros,
        ended_micros: detail.ended_micros,
    };
    Ok(RunView::of(info, detail.outputs))
}

fn unknown(kind: TriggerKind, text: &str) -> EngineError {
    EngineError::NotFound {
        what: kind.noun(),
        id: text.chars().take(128).collect(),
    }
}

fn busy() -> EngineError {
    EngineError::unavailable("it is being changed by others")
}
