//! The caller who started a run, as it is stored: what it is and may do, and by which token. A run ends with the rights of its token.

use std::collections::BTreeSet;
use std::time::Duration;

use himalia_model::{CallOrigin, EngineError, Principal};
use himalia_store::{RUNNING, WorkflowRunFilter};
use himalia_workflows::{Effect, Failure, Run};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::records::json_of;
use super::{MAX_RUNS_IN_PROGRESS, stored};
use crate::api::Commands;
use crate::api::triggers::Holder;

/// The name of the gateway in the row of a run that it cancelled. No caller has that name.
pub(super) const GATEWAY: &str = "gateway";
/// Until the gateway knows which tokens are valid, it looks again after this time.
const LOOK: Duration = Duration::from_millis(50);

/// The caller who started a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Starter {
    /// The identity and the rights of the caller, without the way in which its call came.
    pub(super) principal: Principal,
    holder: Holder,
}

impl Starter {
    /// As it is stored.
    pub(super) fn written(principal: &Principal) -> Result<String, EngineError> {
        let starter = Self {
            principal: principal.clone().until(None).came(CallOrigin::default()),
            holder: Holder::of(principal),
        };
        serde_json::to_string(&starter).map_err(|error| EngineError::internal("a principal", error))
    }

    /// What was written.
    pub(super) fn read(text: &str) -> Result<Self, EngineError> {
        json_of(text)
    }
}

/// Why a run ended whose token is not valid any more.
pub(super) fn token_ended() -> Failure {
    Failure::new(
        "token_revoked",
        "its token was revoked, has expired, or may run nothing any more",
    )
}

impl Commands {
    /// Waits until it is known which tokens are valid, if that matters for a run.
    pub(super) async fn tokens_known(&self, starter: &Starter) {
        while starter.holder.is_bound() && !self.triggers.knows_tokens() {
            sleep(LOOK).await;
        }
    }

    /// Returns true if the caller who started a run may still run something. A start that showed no token is not bound to one.
    pub(super) fn may_continue(&self, starter: &Starter) -> bool {
        let owner = starter.principal.owner();
        !starter.holder.is_bound() || self.principal_of(owner, &starter.holder).is_ok()
    }

    /// The runs in progress of an owner that end with a token, by its mark.
    pub(in crate::api) async fn runs_of_token(
        &self,
        owner: &str,
        mark: &str,
    ) -> Result<Vec<String>, EngineError> {
        let store = self.inner.store();
        let filter = WorkflowRunFilter {
            workflow: None,
            status: Some(RUNNING.to_owned()),
            after: None,
            limit: MAX_RUNS_IN_PROGRESS.into(),
        };
        let running = store.workflow_runs(owner.to_owned(), filter).await;
        let mut found = Vec::new();
        for run in running.map_err(stored)? {
            if let Some(record) = store.workflow_run(run.id).await.map_err(stored)? {
                let starter: Starter = json_of(&record.principal)?;
                if starter.holder.ends_with(mark) {
                    found.push(record.brief.id);
                }
            }
        }
        Ok(found)
    }

    /// Cancels runs whose token was revoked; those that the gateway has cancelled for that, now or a moment before.
    pub(in crate::api) async fn stop_without_token(
        &self,
        runs: BTreeSet<String>,
    ) -> Result<Vec<String>, EngineError> {
        let store = self.inner.store();
        let mut stopped = Vec::new();
        for id in runs {
            let cancelling = store.cancel_workflow_run(id.clone(), GATEWAY.to_owned());
            cancelling.await.map_err(stored)?;
            self.workflows.wake(&id);
            let record = store.workflow_run(id).await.map_err(stored)?;
            let by_gateway = record.filter(|one| one.brief.cancelled_by.as_deref() == Some(GATEWAY));
            stopped.extend(by_gateway.map(|record| record.brief.id));
        }
        Ok(stopped)
    }

    /// Cancels a run whose starter may run nothing any more, in the store and in what is done next. Whether it did.
    pub(super) async fn end_without_rights(
        &self,
        id: &str,
        starter: &Starter,
        run: &mut Run,
        effects: &mut Vec<Effect>,
    ) -> Result<bool, EngineError> {
        let ends = effects.iter().any(|effect| matches!(effect, Effect::End(_)));
        if ends || self.may_continue(starter) {
            return Ok(false);
        }
        tracing::warn!(
            run = id,
            caller = starter.principal.name(),
            "a run of a workflow ends: its token is not valid any more"
        );
        let cancelling = self
            .inner
            .store()
            .cancel_workflow_run(id.to_owned(), GATEWAY.to_owned());
        cancelling.await.map_err(stored)?;
        effects.retain(|effect| !matches!(effect, Effect::Start(..)));
        effects.extend(run.cancel(self.now_micros()));
        Ok(true)
    }
}
