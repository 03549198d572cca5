//! Access tokens.

use std::collections::BTreeSet;
use std::sync::Arc;

use himalia_model::{AccessToken, Action, EngineError, NewToken, Object, Principal};
use tokio::sync::watch;
use uuid::Uuid;

use super::Commands;
use crate::tokens::issued_mark;
use crate::{Engine, IssuedTokens};

/// An access token that was revoked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevokedToken {
    /// The workflow runs that were cancelled because the token had started them, at most as many as an owner may have in progress.
    pub workflow_runs: Vec<String>,
}

impl Engine {
    /// The time by which tokens expire, microseconds since 1970.
    pub fn now_micros(&self) -> i64 {
        self.commands.inner.config.clock.stored_micros()
    }

    /// The access tokens that count, for those that authenticate. Each change is a new value.
    pub fn issued_tokens(&self) -> watch::Receiver<Arc<IssuedTokens>> {
        self.commands.tokens.issued()
    }

    /// Signs a person in, for whom the caller of this vouches: makes a token whose holder is a browser, and gives its text. It has no
    /// principal yet, and is noted by the one who calls.
    pub async fn sign_in(&self, person: NewToken) -> Result<(AccessToken, String), EngineError> {
        self.commands.tokens.sign_in(person).await
    }

    /// Ends the sign-in of a person whose token has this SHA-256, and the connections that showed it. Other tokens stay.
    pub async fn sign_out(&self, hash: &[u8; 32]) -> Result<(), EngineError> {
        self.commands.tokens.sign_out(hash).await
    }

    /// Waits until tokens are known that other replicas had made before. Bounded, and at once where this gateway is the only one.
    pub async fn read_tokens_again(&self) -> Result<(), EngineError> {
        self.commands.tokens.read_again().await
    }
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
