//! Credentials: where their values are, and which of them a session may use.
//!
//! A value is read for each request, from the store or from where the configuration says. So one that was set or deleted counts at
//! once, in all replicas.

pub(crate) mod certificates;
mod configured;
mod reach;
mod sealed;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use himalia_credentials::{
    Credential, CredentialSource, CredentialValue, FoundCredentials, KeyRing, SourceError,
};
use himalia_egress::CredentialAccess;
use himalia_model::credential::{
    ConfiguredCredential, CredentialDefinition, CredentialInfo, CredentialSettings, check_credential_name,
};
use himalia_model::{Clock, EngineError, OPERATOR, Session};
use himalia_store::{CredentialRecord, PutCredential, Store};

/// Credentials of one owner in the store.
pub const MAX_CREDENTIALS_OF_OWNER: usize = 256;

/// The credentials of a gateway.
pub struct Credentials {
    store: Arc<dyn Store>,
    keys: Option<KeyRing>,
    /// By owner and name.
    configured: BTreeMap<(String, String), ConfiguredCredential>,
    clock: Clock,
}

impl Credentials {
    /// Those of the configuration and the store.
    ///
    /// # Errors
    /// [`EngineError::BadRequest`] on `credentials_key_file`.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        settings: &CredentialSettings,
        clock: Clock,
    ) -> Result<Self, EngineError> {
        let keys = settings.keys.as_ref().map(|keys| KeyRing::parse(&keys.0));
        let keys = keys
            .transpose()
            .map_err(|error| EngineError::bad_request("credentials_key_file", error.to_string()))?;
        let configured = settings.configured.iter();
        let key = |one: &ConfiguredCredential| (one.owner.clone(), one.name.clone());
        Ok(Self {
            store,
            keys,
            configured: configured.map(|one| (key(one), one.clone())).collect(),
            clock,
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
        };
        let record = sealed::seal(self.keys()?, &info, value)?;
        let put = self.store.put_credential(record, PutCredential::Always).await;
        put.map_err(|error| EngineError::internal("cannot store a credential", error))?;
        Ok(info)
    }

    /// Those that an owner has, or of all owners; by owner and name. No value is read.
    pub async fn list(&self, owner: Option<&str>) -> Result<Vec<CredentialInfo>, EngineError> {
        let rows = self.store.credentials().await.map_err(not_read)?;
        let stored = rows.iter().filter(|row| !row.owner.is_empty()).filter_map(|row| {
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
        });
        let mut all: BTreeMap<(String, String), CredentialInfo> = BTreeMap::new();
        for info in stored.chain(configured) {
            all.insert((info.owner.clone(), info.name.clone()), info);
        }
        let mut all: Vec<_> = all.into_values().collect();
        all.retain(|info| owner.is_none_or(|owner| info.owner == owner));
        Ok(all)
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
        if deleted.map_err(|error| EngineError::internal("cannot delete a credential", error))? {
            return Ok(());
        }
        Err(EngineError::NotFound {
            what: "Credential",
            id: name.chars().take(64).flat_map(char::escape_debug).collect(),
        })
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
        self.keys.as_ref().ok_or_else(|| EngineError::Unsupported {
            reason: "this gateway stores no credentials: it has no credentials_key_file".to_owned(),
        })
    }

    /// What a session may use.
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
        for owner in [owner, OPERATOR] {
            if let Some(one) = self.configured.get(&(owner.to_owned(), name.to_owned())) {
                return configured::read(one).map(Some);
            }
            if let Some(row) = rows.iter().find(|row| row.owner == owner && row.name == name) {
                return sealed::open(self.keys.as_ref(), row).map(Some);
            }
        }
        Ok(None)
    }
}

impl CredentialSource for Credentials {
    fn find<'a>(&'a self, owner: &'a str, names: &'a [String]) -> FoundCredentials<'a> {
        Box::pin(async move {
            // What waits in a pool has no owner yet.
            let mut owners = vec![OPERATOR.to_owned()];
            if !owner.is_empty() && owner != OPERATOR {
                owners.push(owner.to_owned());
            }
            let rows = self.store.find_credentials(owners, names.to_vec()).await;
            let rows = rows.map_err(|error| {
                tracing::error!(%error, "cannot read credentials");
                SourceError
            })?;
            let chosen = names.iter().map(|name| self.choose(owner, name, &rows));
            chosen.filter_map(Result::transpose).collect()
        })
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
