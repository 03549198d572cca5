//! Commands on what starts runs: schedules and webhooks. What they start, and when, is in `runner`.

mod answers;
mod asked;
mod callbacks;
mod client_run;
mod definition;
mod holder;
mod kind;
mod models;
mod of_run;
mod places;
mod prompts;
mod runner;
mod start;
mod state;
mod target;
mod teller;
mod view;
mod webhooks;
mod workflows;

use std::sync::Arc;
use std::time::Duration;

use himalia_engine::Object;
use himalia_journal::may_block;
use himalia_model::{Action, EngineError, KernelId, Principal};
use himalia_store::{TriggerAdded, TriggerRecord, TriggerRun, TriggerRunFilter, TriggerRunsOf};
use uuid::Uuid;

use crate::Runs;
use crate::run::RunState;
use crate::{Commands, RunSkill};
pub use answers::AnswerSigner;
pub use asked::AskedRun;
pub use callbacks::{
    DeliveriesOf, DeliveryAttempt, DeliveryInfo, DeliveryState, MAX_CALLBACK_URL, MAX_DELIVERIES,
};
pub use client_run::{CallbackSecret, MAX_CALLBACKS, MAX_OPEN_CALLBACKS};
pub(super) use client_run::{ClientRun, no_callback};
pub use definition::Times;
pub(super) use definition::stored;
use definition::{Definition, Detail, definition, write};
pub(super) use holder::Holder;
pub use kind::TriggerKind;
pub use models::{NewSecrets, NewTrigger, TriggerChange, TriggerInfo};
pub(crate) use state::Triggers;
pub use target::{RunTarget, Runnable};
use view::info;
pub(super) use view::{run_info, starts_runs};
pub use webhooks::{MAX_WEBHOOK_BYTES, WebhookMessage};
use webhooks::{Secrets, new_secret};

/// The names of all kinds of triggers in the store.
const STORED_KINDS: [&str; 4] = [
    TriggerKind::Schedule.as_str(),
    TriggerKind::Webhook.as_str(),
    TriggerKind::Prompts.as_str(),
    client_run::KIND,
];
/// Triggers of one kind of an owner.
pub const MAX_TRIGGERS: usize = 100;
/// Characters of the name of a trigger.
pub const MAX_TRIGGER_NAME: usize = 64;
/// Runs of a trigger that are kept at least.
pub(super) const MAX_TRIGGER_RUNS: usize = 100;
/// Runs of a trigger that have not ended.
pub const MAX_OPEN_RUNS: usize = 16;
/// Tries of a change while others change the same trigger.
const TRIES: usize = 8;

impl Runs {
    /// Starts runs of triggers, from now on and until the gateway stops. `marked` says whom the mark of a token stands for, as long as
    /// the token counts. A second call does nothing.
    pub fn start_triggers(&self, marked: impl Fn(&str) -> Option<Principal> + Send + Sync + 'static) {
        let triggers = &self.commands.triggers;
        if triggers.marked.set(Box::new(marked)).is_ok() {
            let services = &self.commands.services;
            services.spawn(runner::Runner::new(self.clone()).run());
            services.spawn(teller::Teller::new(Arc::clone(&self.commands)).run());
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
        self.services.check_open()?;
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
        let added = self.services.store().insert_trigger(record.clone(), most).await;
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
        let store = self.services.store();
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
        let runs = self.services.store().trigger_runs(latest).await;
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
        self.services.check_open()?;
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
            let changed = self.services.store().change_trigger(record, None).await;
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
        let deleted = self.services.store().delete_trigger(record.id).await;
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
        let store = self.services.store();
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
        let shared = self.services.store().shared_time().await.map_err(stored)?;
        Ok(shared.unwrap_or_else(|| self.services.now_micros()))
    }

    /// By its id, or by its name among those of the principal's own.
    pub(super) async fn find_trigger(
        &self,
        principal: &Principal,
        kind: TriggerKind,
        text: &str,
    ) -> Result<TriggerRecord, EngineError> {
        let store = self.services.store();
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

    /// Checks what can be known of a run before it begins; also its inputs, if they are known.
    async fn check_target(
        &self,
        principal: &Principal,
        definition: &Definition,
        detail: &Detail,
        has_inputs: bool,
    ) -> Result<(), EngineError> {
        let target = definition.target()?;
        let wanted = run_skill(definition, detail)?;
        match &target.what {
            Runnable::Skill(name) => self.check_run(principal, name, &wanted, has_inputs).await,
            Runnable::Workflow(name) => {
                for (member, given) in [
                    ("template", definition.template.is_some()),
                    ("timeout_s", definition.timeout_s.is_some()),
                ] {
                    if given {
                        let reason = "is that of each step of a workflow";
                        return Err(EngineError::bad_request(member, reason));
                    }
                }
                let inputs = has_inputs.then_some(&wanted.inputs);
                self.check_workflow_run(principal, name, wanted.version.as_deref(), inputs)
                    .await
            }
        }
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
            && !self.services.config().templates.contains_key(name)
        {
            match self.services.kernelspec(name).await {
                Err(EngineError::NoSuchKernelspec { name }) => {
                    return Err(self.services.no_such_template(name).await);
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

/// The request of a run of a trigger to its skill or its workflow.
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

fn unknown(kind: TriggerKind, text: &str) -> EngineError {
    EngineError::NotFound {
        what: kind.noun(),
        id: text.chars().take(128).collect(),
    }
}

fn busy() -> EngineError {
    EngineError::unavailable("it is being changed by others")
}
