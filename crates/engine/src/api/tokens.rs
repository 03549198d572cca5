//! Access tokens.

use std::sync::Arc;

use himalia_model::{AccessToken, Action, EngineError, NewToken, Object, Principal};
use tokio::sync::watch;
use uuid::Uuid;

use super::Engine;
use crate::IssuedTokens;

impl Engine {
    /// Makes an access token, of the principal's tenant, or for the operator of any: with its text, which is nowhere else. Its scope and
    /// its expiry are within those of the principal. [`EngineError::Forbidden`], [`EngineError::BadRequest`] on `tenant`, `caller`,
    /// `description` or `expires_in_s`; [`EngineError::Conflict`] when there are too many.
    pub async fn create_token(
        &self,
        principal: &Principal,
        new: NewToken,
    ) -> Result<(AccessToken, String), EngineError> {
        self.allow(principal, Action::Create, Object::Tokens)?;
        self.tokens.create(principal, new).await
    }

    /// The access tokens of the principal's tenant, or for the operator all, oldest first.
    pub fn tokens(&self, principal: &Principal) -> Result<Vec<AccessToken>, EngineError> {
        self.allow(principal, Action::Read, Object::Tokens)?;
        Ok(self.tokens.list(principal))
    }

    /// Revokes an access token: its next request is refused, and what its holder has open is ended.
    pub async fn revoke_token(&self, principal: &Principal, id: Uuid) -> Result<(), EngineError> {
        self.allow(principal, Action::Delete, Object::Tokens)?;
        self.tokens.revoke(principal, id).await
    }

    /// The time by which tokens expire, microseconds since 1970.
    pub fn now_micros(&self) -> i64 {
        self.inner.config.clock.stored_micros()
    }

    /// The access tokens that count, for those that authenticate. Each change is a new value.
    pub fn issued_tokens(&self) -> watch::Receiver<Arc<IssuedTokens>> {
        self.tokens.issued()
    }
}
