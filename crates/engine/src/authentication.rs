//! Access tokens and sign-ins for those that authenticate callers, before there is a principal.

use std::sync::Arc;

use himalia_model::{AccessToken, EngineError, NewToken};
use tokio::sync::watch;

use crate::{Engine, IssuedTokens};

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
