//! Callbacks of runs that a client starts.
//!
//! Such a callback is a trigger that starts nothing, with the one run that it tells of. Both are added when the run has begun: with the row
//! of a run of a workflow, or before the start of a run of a skill is answered. The task that starts runs follows it until it has ended, and
//! its delivery is one like all others. No list of triggers has it. It is kept as long as its run.

use himalia_model::{EngineError, Principal};
use himalia_store::{CallbackAdded, NewCallback, TriggerRecord};
use serde_json::Map;

use super::callbacks::check_url;
use super::client_run::{CallbackSecret, ClientRun, KIND, QUOTA, no_callback};
use super::definition::{Definition, Detail, stored, write};
use super::holder::Holder;
use super::start::{self, Outcome, WatchedRun};
use super::target::RunTarget;
use super::webhooks::{Secrets, new_secret};
use super::{new_run, workflows};
use crate::Commands;
use crate::run::{RunError, RunState};
use crate::skills::BegunRun;

impl Commands {
    /// Checks a callback before a run begins that cannot be added together with it.
    pub(crate) async fn check_callback(&self, principal: &Principal, url: &str) -> Result<(), EngineError> {
        check_url("callback", url)?;
        self.services.check_sealing_key()?;
        let owner = principal.owner().to_owned();
        let store = self.services.store();
        let has_room = store.has_callback_room(owner, KIND.to_owned(), QUOTA);
        if has_room.await.map_err(stored)? {
            return Ok(());
        }
        Err(no_callback())
    }

    /// The callback of a run, which is to be added.
    pub(crate) async fn new_callback(
        &self,
        principal: &Principal,
        target: RunTarget,
        url: String,
        run: ClientRun,
    ) -> Result<(NewCallback, CallbackSecret), EngineError> {
        check_url("callback", &url)?;
        let now = self.trigger_time().await?;
        let definition = Definition {
            target: Some(target),
            inputs: Map::new(),
            template: None,
            timeout_s: None,
            enabled: true,
            times: None,
            holder: Holder::of(principal),
            callback: Some(url),
            stopped: None,
        };
        let mut trigger = TriggerRecord {
            id: run.id(),
            kind: KIND.to_owned(),
            owner: principal.owner().to_owned(),
            name: run.name(),
            definition: write(&definition)?,
            key_id: String::new(),
            sealed: Vec::new(),
            next_micros: None,
            version: 1,
            created_micros: now,
        };
        let secret = new_secret()?.text().to_string();
        let secrets = Secrets {
            incoming: None,
            outgoing: Some(secret.clone()),
        };
        self.seal_secrets(&mut trigger, &secrets)?;
        let mut detail = Detail::new(RunState::Running);
        detail.started_micros = Some(now);
        match run {
            ClientRun::Skill(id) => detail.execution = Some(id.to_string()),
            ClientRun::Workflow(_) => detail.workflow_run = Some(run.name()),
        }
        let run = new_run(&trigger, trigger.id, trigger.name.clone(), now, &detail)?;
        let new = NewCallback {
            trigger,
            run,
            quota: QUOTA,
        };
        Ok((new, CallbackSecret(secret)))
    }

    /// Adds the callback of a run of a skill that has begun. A run that was begun by this request ends if that fails.
    pub(crate) async fn with_callback(
        &self,
        principal: &Principal,
        skill: &str,
        url: String,
        mut run: BegunRun,
    ) -> Result<BegunRun, EngineError> {
        let adding = async {
            let id = ClientRun::Skill(run.id);
            if run.repeated
                && let Some(secret) = self.callback_secret(id).await?
            {
                return Ok(Some(secret));
            }
            let (new, secret) = self
                .new_callback(principal, RunTarget::skill(skill), url, id)
                .await?;
            let _room = self
                .room(&new.trigger.owner, new.trigger.definition.len())
                .await?;
            match self.services.store().add_callback(new).await.map_err(stored)? {
                CallbackAdded::Added => Ok(Some(secret)),
                CallbackAdded::Present => self.callback_secret(id).await,
                CallbackAdded::Full => Err(no_callback()),
            }
        };
        match adding.await {
            Ok(secret) => {
                self.triggers.wake();
                run.callback_secret = secret;
                Ok(run)
            }
            Err(error) => {
                if !run.repeated {
                    self.end_of_run(principal, run.id.kernel).await;
                }
                Err(error)
            }
        }
    }

    /// With what the callback of a run is signed, for who has started that.
    pub(crate) async fn callback_secret(
        &self,
        run: ClientRun,
    ) -> Result<Option<CallbackSecret>, EngineError> {
        let Some(record) = self.callback_of(run).await? else {
            return Ok(None);
        };
        Ok(self.open_secrets(&record)?.outgoing.map(CallbackSecret))
    }

    async fn callback_of(&self, run: ClientRun) -> Result<Option<TriggerRecord>, EngineError> {
        let found = self.services.store().trigger(run.id()).await.map_err(stored)?;
        let name = run.name();
        Ok(found.filter(|record| record.kind == KIND && record.name == name))
    }
}

/// Waits for the end of a run.
pub(super) async fn follow(
    commands: &Commands,
    owner: &str,
    detail: &mut Detail,
) -> Result<Outcome, EngineError> {
    if let Some(id) = detail.workflow_run.clone() {
        return workflows::watch(commands, owner, &id, detail).await;
    }
    // It continues whatever becomes of the token that started it.
    let reader = Principal::operator().read_only().in_place_of(owner);
    let Some(id) = detail.execution() else {
        let error = RunError::new("unknown", "it is not known which run it is");
        return start::over(commands, detail, Err(error)).await;
    };
    match start::watch(commands, &reader, id, detail).await? {
        WatchedRun::Outcome(outcome) => Ok(outcome),
        // Its client has got its id, and can ask for another one.
        WatchedRun::Lost(error) => start::over(commands, detail, Err(start::error_of(&error))).await,
    }
}
