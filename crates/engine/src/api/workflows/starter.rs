//! The caller who started a run, as it is stored: what it is and may do, and by which token. A run ends with the rights of its token.

use std::time::Duration;

use himalia_model::{EngineError, Principal, Via};
use himalia_workflows::{Effect, Failure, Run};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::records;
use crate::api::Commands;
use crate::api::triggers::Holder;

/// How the row of a run names the gateway as the one who cancelled it. No caller has that name.
pub(super) const GATEWAY: &str = "gateway";
/// Until the gateway knows which tokens are valid, it looks again after this time.
const LOOK: Duration = Duration::from_millis(50);

/// The caller who started a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Starter {
    /// What the caller is and may do, not how its call came.
    pub(super) principal: Principal,
    holder: Holder,
}

impl Starter {
    /// As it is stored.
    pub(super) fn written(principal: &Principal) -> Result<String, EngineError> {
        let starter = Self {
            principal: principal.clone().until(None).came(Via::default()),
            holder: Holder::of(principal),
        };
        serde_json::to_string(&starter).map_err(|error| EngineError::internal("a principal", error))
    }

    /// What was written. Earlier versions wrote the principal alone, which is bound to no token.
    pub(super) fn read(text: &str) -> Result<Self, EngineError> {
        let alone = |error| match records::json_of::<Principal>(text) {
            Ok(principal) => Ok(Self {
                holder: Holder::of(&principal),
                principal,
            }),
            Err(_) => Err(error),
        };
        records::json_of(text).or_else(alone)
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

    /// Whether the caller who started a run may still run something. A start that showed no token is not bound to one.
    pub(super) fn may_continue(&self, starter: &Starter) -> bool {
        let owner = starter.principal.owner();
        !starter.holder.is_bound() || self.principal_of(owner, &starter.holder).is_ok()
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
        cancelling.await.map_err(super::stored)?;
        effects.retain(|effect| !matches!(effect, Effect::Start(..)));
        effects.extend(run.cancel(self.now_micros()));
        Ok(true)
    }
}
