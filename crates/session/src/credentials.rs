//! Credentials: where their values are, and which of them a session may use.
//!
//! A value is read for each request, from the store or from where the configuration says. So one that was set or deleted counts at
//! once, in all replicas. A token of an authorization server is a value that the gateway sets itself ([`tokens`]).

pub(crate) mod certificates;
mod configured;
mod reach;
mod sealed;
#[cfg(test)]
mod tests;
mod tokens;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use himalia_credentials::{
    Credential, CredentialSource, CredentialValue, FoundCredentials, KeyRing, NotedScope, ReadyCredential,
    RenewedCredential, SourceError, Unusable,
};
use himalia_egress::CredentialAccess;
use himalia_metrics::TokenRequests;
use himalia_model::credential::{
    ConfiguredCredential, CredentialDefinition, CredentialInfo, CredentialKind, CredentialSettings,
    check_credential_name,
};
use himalia_model::{Clock, EngineConfig, EngineError, OPERATOR, Session};
use himalia_store::{CredentialRecord, PutCredential, Store};

pub(crate) use tokens::FromHere;
pub use tokens::{GrantAnswer, StartedGrant};
use tokens::{Key, Parts, TokenKeeper, TokenRecord, Transports};

use crate::not_stored;

/// Credentials of one owner in the store.
pub const MAX_CREDENTIALS_OF_OWNER: usize = 256;

pub struct Credentials {
    store: Arc<dyn Store>,
    keys: Option<Arc<KeyRing>>,
    /// By owner and name.
    configured: Arc<BTreeMap<(String, String), ConfiguredCredential>>,
    clock: Clock,
    tokens: Arc<TokenKeeper>,
}

/// Settings for authorization servers, and for replicas that share their tokens.
pub(crate) struct TokenSettings {
    pub(crate) transports: Transports,
    pub(crate) metrics: TokenRequests,
    /// True if other replicas write to the store.
    pub(crate) is_shared: bool,
}

impl TokenSettings {
    pub(crate) fn new(config: &EngineConfig, metrics: TokenRequests, is_shared: bool) -> Self {
        Self {
            transports: Transports::new(config),
            metrics,
            is_shared,
        }
    }
}

impl Credentials {
    /// Credentials of the configuration and of the store.
    ///
    /// # Errors
    /// [`EngineError::BadRequest`] on `credentials_key_file`.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        settings: &CredentialSettings,
        clock: Clock,
        tokens: TokenSettings,
    ) -> Result<Self, EngineError> {
        let keys = settings.keys.as_ref().map(|keys| KeyRing::parse(&keys.0));
        let keys = keys
            .transpose()
            .map_err(|error| EngineError::bad_request("credentials_key_file", error.to_string()))?
            .map(Arc::new);
        let configured = settings.configured.iter();
        let key = |one: &ConfiguredCredential| (one.owner.clone(), one.name.clone());
        let configured = Arc::new(configured.map(|one| (key(one), one.clone())).collect());
        let tokens = TokenKeeper::new(Parts {
            store: Arc::clone(&store),
            keys: keys.clone(),
            configured: Arc::clone(&configured),
            clock: clock.clone(),
            transports: tokens.transports,
            metrics: tokens.metrics,
            is_shared: tokens.is_shared,
        });
        Ok(Self {
            store,
            keys,
            configured,
            clock,
            tokens: Arc::new(tokens),
        })
    }

    /// Sets one of an owner, in the place of the one of its name.
    ///
    /// # Errors
    /// [`EngineError::BadRequest`] on `name`; [`EngineError::Conflict`] for one of the configuration, and when there are too many;
    /// [`EngineError::Unsupported`] without a key.
    pub async fn set(
        &self,
        (owner, name): (&str, &str),
        definition: CredentialDefinition,
        value: &CredentialValue,
        set_by: &str,
    ) -> Result<CredentialInfo, EngineError> {
        check_credential_name(name).map_err(|reason| EngineError::bad_request("name", reason))?;
        self.check_not_configured(owner, name)?;
        let all = self.store.credentials().await.map_err(not_read)?;
        let others = all.iter().filter(|row| row.owner == owner && row.name != name);
        if others.count() >= MAX_CREDENTIALS_OF_OWNER {
            return Err(EngineError::Conflict {
                reason: format!("{owner} has {MAX_CREDENTIALS_OF_OWNER} credentials, as many as may be"),
            });
        }
        let info = CredentialInfo {
            name: name.to_owned(),
            owner: owner.to_owned(),
            definition,
            set_by: Some(set_by.to_owned()),
            set_micros: Some(self.clock.stored_micros()),
            tokens: None,
        };
        let record = if let CredentialKind::OAuth(_) = info.definition.kind() {
            let given = TokenRecord::given(value.value.clone(), value.client_secret.clone());
            self.tokens.sealed(&info, &given)?
        } else {
            sealed::seal(self.keys()?, &info, value)?
        };
        let put = self
            .store
            .put_credential(record.clone(), PutCredential::Always)
            .await;
        put.map_err(|error| not_stored("cannot store a credential", error))?;
        self.tokens.was_set(&Key {
            owner: owner.to_owned(),
            name: name.to_owned(),
        });
        Ok(self.with_tokens(info, Some(record)))
    }

    /// Credentials of an owner, or of all owners; by owner and name.
    pub async fn list(&self, owner: Option<&str>) -> Result<Vec<CredentialInfo>, EngineError> {
        let rows = self.store.credentials().await.map_err(not_read)?;
        let stored = rows.iter().filter(|row| is_set(row)).filter_map(|row| {
            sealed::info(row)
                .inspect_err(
                    |error| tracing::error!(owner = row.owner, name = row.name, %error, "a credential"),
                )
                .ok()
        });
        let configured = self.configured.values().map(|one| CredentialInfo {
            name: one.name.clone(),
            owner: one.owner.clone(),
            definition: one.definition.clone(),
            set_by: None,
            set_micros: None,
            tokens: None,
        });
        let mut all: BTreeMap<(String, String), CredentialInfo> = BTreeMap::new();
        for info in stored.chain(configured) {
            all.insert((info.owner.clone(), info.name.clone()), info);
        }
        let mut all: Vec<_> = all.into_values().collect();
        all.retain(|info| owner.is_none_or(|owner| info.owner == owner));
        let mut shown = Vec::with_capacity(all.len());
        for info in all {
            let is_same = |row: &&CredentialRecord| row.owner == info.owner && row.name == info.name;
            let row = rows.iter().find(is_same).cloned();
            shown.push(self.with_tokens(info, row));
        }
        Ok(shown)
    }

    /// With what is known of its tokens.
    fn with_tokens(&self, mut info: CredentialInfo, row: Option<CredentialRecord>) -> CredentialInfo {
        if matches!(info.definition.kind(), CredentialKind::OAuth(_)) {
            let key = Key {
                owner: info.owner.clone(),
                name: info.name.clone(),
            };
            let shown = self.tokens.info(&key, row);
            info.tokens = shown.unwrap_or_else(|error| {
                tracing::error!(owner = key.owner, name = key.name, %error, "the tokens of a credential");
                None
            });
        }
        info
    }

    /// Begins the grant of a person: the address that the browser goes to, from where it comes back to `redirect_uri`.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::BadRequest`] on `redirect_uri`; [`EngineError::Conflict`] if there is nothing to grant, or
    /// the authorization server cannot be used; [`EngineError::Unavailable`] if it is not reached.
    pub async fn begin_grant(
        &self,
        owner: &str,
        name: &str,
        by: &str,
        redirect_uri: &str,
    ) -> Result<StartedGrant, EngineError> {
        let key = self.existing(owner, name).await?;
        self.tokens.begin_grant(&key, by, redirect_uri).await
    }

    /// The owner of the credential that a grant is of.
    ///
    /// # Errors
    /// [`EngineError::BadRequest`] on `state`.
    pub fn owner_of_grant(&self, state: &str) -> Result<String, EngineError> {
        Ok(self.tokens.key_of_state(state)?.owner)
    }

    /// Finishes a grant, once.
    ///
    /// # Errors
    /// [`EngineError::BadRequest`] on `state`; [`EngineError::Conflict`] if the person or the server has refused;
    /// [`EngineError::Unavailable`] if the server is not reached.
    pub async fn finish_grant(&self, by: &str, answer: GrantAnswer) -> Result<CredentialInfo, EngineError> {
        self.tokens.finish_grant(by, answer).await
    }

    /// Ends a grant: the tokens are forgotten, and revoked at the server if it can.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::Conflict`] if there is nothing to grant.
    pub async fn end_grant(&self, owner: &str, name: &str) -> Result<(), EngineError> {
        let key = self.existing(owner, name).await?;
        self.tokens.end_grant(&key).await
    }

    async fn existing(&self, owner: &str, name: &str) -> Result<Key, EngineError> {
        let (owner, name) = (owner.to_owned(), name.to_owned());
        if !self.configured.contains_key(&(owner.clone(), name.clone())) {
            let found = self
                .store
                .find_credentials(vec![owner.clone()], vec![name.clone()]);
            if !found.await.map_err(not_read)?.iter().any(is_set) {
                return Err(not_found(&name));
            }
        }
        Ok(Key { owner, name })
    }

    /// Deletes one: the next request with it is refused.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::Conflict`] for one of the configuration.
    pub async fn delete(&self, owner: &str, name: &str) -> Result<(), EngineError> {
        self.check_not_configured(owner, name)?;
        let deleted = self
            .store
            .delete_credential(owner.to_owned(), name.to_owned())
            .await;
        if deleted.map_err(|error| not_stored("cannot delete a credential", error))? {
            self.tokens.forget(&Key {
                owner: owner.to_owned(),
                name: name.to_owned(),
            });
            return Ok(());
        }
        Err(not_found(name))
    }

    fn check_not_configured(&self, owner: &str, name: &str) -> Result<(), EngineError> {
        if self.configured.contains_key(&(owner.to_owned(), name.to_owned())) {
            return Err(EngineError::Conflict {
                reason: format!("the credential {name} is in the configuration, where it is changed"),
            });
        }
        Ok(())
    }

    fn keys(&self) -> Result<&KeyRing, EngineError> {
        self.keys.as_deref().ok_or_else(|| EngineError::Unsupported {
            reason: "this gateway stores no credentials: it has no credentials_key_file".to_owned(),
        })
    }

    /// Credentials that a session may use.
    pub(crate) fn access_of(self: &Arc<Self>, session: &Session) -> Option<CredentialAccess> {
        let sandbox = &session.sandbox;
        if sandbox.credentials.is_empty() && sandbox.intercept.is_none() {
            return None;
        }
        Some(CredentialAccess {
            owner: session.owner.clone(),
            names: sandbox.credentials.clone(),
            intercept: sandbox.intercept.clone(),
            source: Arc::clone(self) as Arc<dyn CredentialSource>,
        })
    }

    /// One of an owner, or else of the operator.
    fn choose(
        &self,
        owner: &str,
        name: &str,
        rows: &[CredentialRecord],
    ) -> Result<Option<Credential>, SourceError> {
        let Some((owner, definition)) = self.chosen(owner, name, rows)? else {
            return Ok(None);
        };
        let row = rows.iter().find(|row| row.owner == owner && row.name == name);
        if matches!(definition.kind(), CredentialKind::OAuth(_)) {
            let key = Key {
                owner: owner.to_owned(),
                name: name.to_owned(),
            };
            return self.tokens.found(&key, row.cloned());
        }
        match (self.configured.get(&(owner.to_owned(), name.to_owned())), row) {
            (Some(one), _) => configured::read(one).map(Some),
            (None, Some(row)) => sealed::open(self.keys.as_deref(), row).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Finds the owner of a credential with this name: the session's owner, or else the operator.
    fn chosen<'a>(
        &self,
        owner: &'a str,
        name: &str,
        rows: &[CredentialRecord],
    ) -> Result<Option<(&'a str, CredentialDefinition)>, SourceError> {
        for owner in [owner, OPERATOR] {
            if let Some(one) = self.configured.get(&(owner.to_owned(), name.to_owned())) {
                return Ok(Some((owner, one.definition.clone())));
            }
            let mut rows = rows.iter().filter(|row| is_set(row));
            if let Some(row) = rows.find(|row| row.owner == owner && row.name == name) {
                let info = sealed::info(row).map_err(|error| {
                    tracing::error!(owner, name, error, "a credential");
                    SourceError
                })?;
                return Ok(Some((owner, info.definition)));
            }
        }
        Ok(None)
    }

    /// The key of the credential that sessions of an owner use under a name.
    async fn key_of(&self, owner: &str, name: &str) -> Result<Option<Key>, SourceError> {
        let rows = self.rows(owner, &[name.to_owned()]).await?;
        Ok(self.chosen(owner, name, &rows)?.map(|(owner, _)| Key {
            owner: owner.to_owned(),
            name: name.to_owned(),
        }))
    }

    async fn rows(&self, owner: &str, names: &[String]) -> Result<Vec<CredentialRecord>, SourceError> {
        // What waits in a pool has no owner yet.
        let mut owners = vec![OPERATOR.to_owned()];
        if !owner.is_empty() && owner != OPERATOR {
            owners.push(owner.to_owned());
        }
        let rows = self.store.find_credentials(owners, names.to_vec()).await;
        rows.map_err(|error| {
            tracing::error!(%error, "cannot read credentials");
            SourceError
        })
    }
}

impl CredentialSource for Credentials {
    fn find<'a>(&'a self, owner: &'a str, names: &'a [String]) -> FoundCredentials<'a> {
        Box::pin(async move {
            let rows = self.rows(owner, names).await?;
            let chosen = names.iter().map(|name| self.choose(owner, name, &rows));
            chosen.filter_map(Result::transpose).collect()
        })
    }

    fn ready<'a>(&'a self, owner: &'a str, credential: Credential) -> ReadyCredential<'a> {
        Box::pin(async move {
            if !credential.has_tokens() {
                return Ok(credential);
            }
            let key = self.key_of(owner, &credential.name).await?;
            let ready = match key {
                Some(key) => self.tokens.ready(&key).await?,
                None => None,
            };
            Ok(ready.unwrap_or_else(|| Credential {
                unusable: Some(Unusable::NoToken("it does not exist any more".to_owned())),
                ..credential
            }))
        })
    }

    fn renewed<'a>(&'a self, owner: &'a str, refused: &'a Credential) -> RenewedCredential<'a> {
        Box::pin(async move {
            if !refused.has_tokens() {
                return None;
            }
            let key = self.key_of(owner, &refused.name).await.ok()??;
            self.tokens.renewed(&key, refused).await
        })
    }

    fn lacks_scope<'a>(&'a self, owner: &'a str, refused: &'a Credential, scope: &'a str) -> NotedScope<'a> {
        Box::pin(async move {
            if let Ok(Some(key)) = self.key_of(owner, &refused.name).await {
                self.tokens.lacks_scope(&key, scope).await;
            }
        })
    }
}

/// True if a row is a credential that a caller has set. The other rows are internal.
fn is_set(row: &CredentialRecord) -> bool {
    !row.owner.is_empty() && !row.set_by.is_empty()
}

fn not_found(name: &str) -> EngineError {
    EngineError::NotFound {
        what: "Credential",
        id: name.chars().take(64).flat_map(char::escape_debug).collect(),
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

fn not_read(error: himalia_store::StoreError) -> EngineError {
    EngineError::internal("cannot read credentials", error)
}
