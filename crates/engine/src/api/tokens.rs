//! Access tokens.

use std::collections::BTreeSet;

use crate::access::Object;
use himalia_model::{AccessToken, Action, EngineError, NewToken, Principal};
use uuid::Uuid;

use super::Commands;
use crate::tokens::issued_mark;

/// An access token that was revoked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevokedToken {
    /// The workflow runs that were cancelled because the token had started them, at most as many as an owner may have in progress.
    pub workflow_runs: Vec<String>,
}

impl Commands {
    pub(crate) async fn create_token(
        &self,
        principal: &Principal,
        new: NewToken,
    ) -> Result<(AccessToken, String), EngineError> {
        self.allow(principal, Action::Create, Object::Tokens)?;
        let owner = self.tokens.owner(principal, new.tenant.as_deref())?;
        let bytes = new.caller.len() + new.description.len() + principal.name().len();
        let _room = self.room(&owner, bytes).await?;
        self.tokens.create(principal, new).await
    }

    pub(crate) fn tokens(&self, principal: &Principal) -> Result<Vec<AccessToken>, EngineError> {
        self.allow(principal, Action::Read, Object::Tokens)?;
        Ok(self.tokens.list(principal))
    }

    pub(crate) async fn revoke_token(
        &self,
        principal: &Principal,
        id: Uuid,
    ) -> Result<RevokedToken, EngineError> {
        self.allow(principal, Action::Delete, Object::Tokens)?;
        let (owner, mark) = (self.tokens.owner_of(principal, id)?, issued_mark(id));
        // Before and after: what the token starts meanwhile ends too, and runs that end at once are returned.
        let before = self.runs_of_token(&owner, &mark).await;
        self.tokens.revoke(principal, id).await?;
        let stopping = async {
            let mut runs: BTreeSet<String> = before?.into_iter().collect();
            runs.extend(self.runs_of_token(&owner, &mark).await?);
            self.stop_without_token(runs).await
        };
        let workflow_runs = stopping.await.unwrap_or_else(|error| {
            tracing::warn!(%id, %error, "the runs of a revoked token end before their next attempt");
            Vec::new()
        });
        Ok(RevokedToken { workflow_runs })
    }
}
