//! Credentials whose value is a token that an authorization server gives.
//!
//! ```text
//! for a request   ready, renewed (here) -> Need (record.rs): the token is good, or Flights (flights.rs): one request for tokens at a time
//! new tokens      refresh (refresh.rs): claimed in the store, got, written, and only then used
//! a person        begin_grant, finish_grant, end_grant (grant.rs)
//! what is kept    TokenRecord (record.rs), sealed in the row of the credential (kept.rs)
//! where to        Transports: who wrote the addresses decides -> FromHere (transport.rs) -> Outbound (crate egress);  the protocol is crate oauth
//! ```

mod flights;
mod grant;
mod kept;
mod record;
mod refresh;
#[cfg(test)]
mod tests;
mod transport;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use himalia_credentials::{Credential, KeyRing, KnownSecrets, SourceError, Unusable};
use himalia_metrics::TokenRequests;
use himalia_model::credential::{ConfiguredCredential, OAuthGrant, TokenInfo};
use himalia_model::{Clock, EngineError};
use himalia_store::{CredentialRecord, Store};
use parking_lot::Mutex;
use tokio::time::timeout;

pub use grant::{GrantAnswer, StartedGrant};
pub(super) use record::TokenRecord;
pub(crate) use transport::{FromHere, Transports};

use flights::Flights;
use kept::StoredTokens;
use record::{Need, Reason};

/// Time that a request waits for a token.
const WAIT_TIME: Duration = Duration::from_mins(1);

/// A credential of an owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) owner: String,
    pub(super) name: String,
}

/// Keeps tokens, and gets them.
pub(super) struct TokenKeeper {
    store: Arc<dyn Store>,
    keys: Option<Arc<KeyRing>>,
    configured: Arc<BTreeMap<(String, String), ConfiguredCredential>>,
    clock: Clock,
    transports: Transports,
    metrics: TokenRequests,
    /// Identifies this process in claims.
    process: String,
    /// True if other replicas write to the store.
    is_shared: bool,
    flights: Flights,
    known: Mutex<HashMap<Key, KnownSecrets>>,
}

/// Inputs of a keeper.
pub(super) struct Parts {
    pub(super) store: Arc<dyn Store>,
    pub(super) keys: Option<Arc<KeyRing>>,
    pub(super) configured: Arc<BTreeMap<(String, String), ConfiguredCredential>>,
    pub(super) clock: Clock,
    pub(super) transports: Transports,
    pub(super) metrics: TokenRequests,
    pub(super) is_shared: bool,
}

impl TokenKeeper {
    pub(super) fn new(parts: Parts) -> Self {
        Self {
            store: parts.store,
            keys: parts.keys,
            configured: parts.configured,
            clock: parts.clock,
            transports: parts.transports,
            metrics: parts.metrics,
            process: uuid::Uuid::new_v4().to_string(),
            is_shared: parts.is_shared,
            flights: Flights::default(),
            known: Mutex::default(),
        }
    }

    fn keys(&self) -> Result<&KeyRing, EngineError> {
        self.keys.as_deref().ok_or_else(|| EngineError::Unsupported {
            reason: "this gateway stores no credentials: it has no credentials_key_file".to_owned(),
        })
    }

    fn now(&self) -> i64 {
        self.clock.stored_micros()
    }

    /// The secrets of a credential that were seen in this process.
    fn known(&self, key: &Key) -> KnownSecrets {
        self.known.lock().entry(key.clone()).or_default().clone()
    }

    /// The credential does not exist any more.
    pub(super) fn forget(&self, key: &Key) {
        self.known.lock().remove(key);
        self.flights.forget(key);
    }

    /// The credential was set anew.
    pub(super) fn was_set(&self, key: &Key) {
        self.flights.forget(key);
    }

    /// Public state of a credential's tokens.
    pub(super) fn info(
        &self,
        key: &Key,
        row: Option<CredentialRecord>,
    ) -> Result<Option<TokenInfo>, EngineError> {
        let kept = self.open(key, row)?;
        Ok(kept.and_then(|kept| kept.info(self.now()).tokens))
    }

    /// A credential as it is, whatever its token is.
    pub(super) fn found(
        &self,
        key: &Key,
        row: Option<CredentialRecord>,
    ) -> Result<Option<Credential>, SourceError> {
        let kept = self.open(key, row).map_err(|error| not_opened(&error))?;
        Ok(kept.map(|kept| self.credential(&kept)))
    }

    /// A credential with a token that is good, or with the reason why there is none.
    pub(super) async fn ready(self: &Arc<Self>, key: &Key) -> Result<Option<Credential>, SourceError> {
        let Some(kept) = self.read(key).await.map_err(|error| not_opened(&error))? else {
            return Ok(None);
        };
        let Some(oauth) = kept.oauth() else {
            return Ok(None);
        };
        let unusable = |kept: &StoredTokens, reason: Unusable| {
            let mut credential = self.credential(kept);
            credential.unusable = Some(reason);
            Ok(Some(credential))
        };
        match kept.record.need(&key.name, oauth, self.now()) {
            Need::No => Ok(Some(self.credential(&kept))),
            Need::Soon => {
                // This request does not wait for it.
                drop(self.flights.join(self, key, Reason::Expiry));
                Ok(Some(self.credential(&kept)))
            }
            Need::Never(reason) => unusable(&kept, Unusable::NoGrant(reason)),
            Need::Now => {
                let got = timeout(WAIT_TIME, self.flights.join(self, key, Reason::Expiry)).await;
                let got = got.unwrap_or_else(|_| Err("the authorization server does not answer".to_owned()));
                let Some(kept) = self.read(key).await.map_err(|error| not_opened(&error))? else {
                    return Ok(None);
                };
                let Some(oauth) = kept.oauth() else {
                    return Ok(None);
                };
                match (kept.record.need(&key.name, oauth, self.now()), got) {
                    (Need::No | Need::Soon, _) => Ok(Some(self.credential(&kept))),
                    (Need::Never(reason), _) => unusable(&kept, Unusable::NoGrant(reason)),
                    (Need::Now, Err(reason)) => unusable(&kept, Unusable::NoToken(reason)),
                    (Need::Now, Ok(())) => {
                        let reason = "its token has expired already".to_owned();
                        unusable(&kept, Unusable::NoToken(reason))
                    }
                }
            }
        }
    }

    /// After a host has refused a token: the credential with another one, if there is one.
    pub(super) async fn renewed(self: &Arc<Self>, key: &Key, refused: &Credential) -> Option<Credential> {
        let value = &refused.value.value;
        let reason = Reason::Refused(value.clone());
        // What it failed of is in the log; the host has answered already.
        let _ = timeout(WAIT_TIME, self.flights.join(self, key, reason))
            .await
            .ok()?;
        let kept = self.read(key).await.ok()??;
        let credential = self.credential(&kept);
        let is_other = credential.value.value != *value && !credential.value.value.expose().is_empty();
        is_other.then_some(credential)
    }

    /// After a host has refused a request because the token lacks these scopes: the next grant asks for them. It is tried once: a grant
    /// that is being written is not of the token that was refused.
    pub(super) async fn lacks_scope(&self, key: &Key, scope: &str) {
        let Ok(Some(mut kept)) = self.read(key).await else {
            return;
        };
        let is_code = kept
            .oauth()
            .is_some_and(|oauth| oauth.grant() == OAuthGrant::AuthorizationCode);
        if is_code
            && kept.record.note_missing(scope)
            && let Err(error) = self.write(&mut kept).await
        {
            tracing::warn!(owner = key.owner, name = key.name, %error, "the scopes that a token lacks were not noted");
        }
    }
}

fn not_opened(error: &EngineError) -> SourceError {
    tracing::error!(%error, "cannot read the tokens of a credential");
    SourceError
}
