//! Reading and writing what is kept of tokens. A write counts only if nothing was written since it was read: the store decides between
//! replicas.

use himalia_credentials::{Credential, CredentialValue};
use himalia_model::EngineError;
use himalia_model::credential::{CredentialDefinition, CredentialInfo, CredentialKind, OAuth};
use himalia_oauth::Transport;
use himalia_store::{CredentialRecord, PutCredential};
use zeroize::Zeroizing;

use super::record::TokenRecord;
use super::{Key, TokenKeeper};
use crate::credentials::{configured, not_read, sealed};
use crate::not_stored;

/// The tokens of one credential as they were read.
pub(super) struct StoredTokens {
    pub(super) key: Key,
    definition: CredentialDefinition,
    pub(super) record: TokenRecord,
    row: Option<CredentialRecord>,
    set_by: String,
}

impl StoredTokens {
    /// OAuth settings of its tokens.
    pub(super) fn oauth(&self) -> Option<&OAuth> {
        match self.definition.kind() {
            CredentialKind::OAuth(oauth) => Some(oauth),
            _ => None,
        }
    }

    pub(super) fn info(&self, now: i64) -> CredentialInfo {
        let row = self.row.as_ref().filter(|row| !row.set_by.is_empty());
        CredentialInfo {
            name: self.key.name.clone(),
            owner: self.key.owner.clone(),
            definition: self.definition.clone(),
            set_by: row.map(|row| row.set_by.clone()),
            set_micros: row.map(|row| row.set_micros),
            tokens: self
                .oauth()
                .map(|oauth| self.record.info(&self.key.name, oauth, now)),
        }
    }
}

impl TokenKeeper {
    /// The transport to the authorization server of a credential.
    pub(super) fn transport(&self, kept: &StoredTokens) -> &dyn Transport {
        self.transports.of(&kept.set_by)
    }

    /// Reads the stored tokens of a credential; `None`: there is no such credential.
    pub(super) async fn read(&self, key: &Key) -> Result<Option<StoredTokens>, EngineError> {
        let found = self
            .store
            .find_credentials(vec![key.owner.clone()], vec![key.name.clone()]);
        let row = found.await.map_err(not_read)?.pop();
        self.open(key, row)
    }

    /// The same of a row that was read.
    pub(super) fn open(
        &self,
        key: &Key,
        row: Option<CredentialRecord>,
    ) -> Result<Option<StoredTokens>, EngineError> {
        let damaged = |error: String| EngineError::internal("cannot open a credential", error);
        let keys = self.keys()?;
        let Some(one) = self.configured.get(&(key.owner.clone(), key.name.clone())) else {
            let Some(row) = row.filter(|row| !row.set_by.is_empty()) else {
                return Ok(None);
            };
            let info = sealed::info(&row).map_err(damaged)?;
            if !matches!(info.definition.kind(), CredentialKind::OAuth(_)) {
                return Ok(None);
            }
            let record = record(&sealed::plain(keys, &row).map_err(damaged)?).map_err(damaged)?;
            return Ok(Some(StoredTokens {
                key: key.clone(),
                definition: info.definition,
                record,
                set_by: row.set_by.clone(),
                row: Some(row),
            }));
        };
        if !matches!(one.definition.kind(), CredentialKind::OAuth(_)) {
            return Ok(None);
        }
        let value = configured::value(one);
        let CredentialValue {
            value: refresh,
            client_secret,
            ..
        } = value.map_err(|reason| damaged(format!("{}: {reason}", one.name)))?;
        let given = TokenRecord::given(refresh, client_secret);
        // Tokens of another definition, or of another refresh token, are not those of this one.
        let same = |row: &CredentialRecord| {
            let held = sealed::info(row).ok()?;
            (held.definition == one.definition).then_some(())?;
            let kept = record(&sealed::plain(keys, row).ok()?).ok()?;
            (kept.given_refresh == given.given_refresh).then_some(kept)
        };
        let record = match row.as_ref().and_then(same) {
            Some(kept) => TokenRecord {
                client_secret: given.client_secret,
                ..kept
            },
            None => given,
        };
        Ok(Some(StoredTokens {
            key: key.clone(),
            definition: one.definition.clone(),
            record,
            row,
            set_by: String::new(),
        }))
    }

    /// Writes it, if it is as it was read.
    pub(super) async fn write(&self, kept: &mut StoredTokens) -> Result<bool, EngineError> {
        let info = CredentialInfo {
            name: kept.key.name.clone(),
            owner: kept.key.owner.clone(),
            definition: kept.definition.clone(),
            set_by: Some(kept.set_by.clone()),
            set_micros: kept.row.as_ref().map(|row| row.set_micros),
            tokens: None,
        };
        let row = self.sealed(&info, &kept.record)?;
        let when = match &kept.row {
            Some(row) => PutCredential::Holding(row.sealed.clone()),
            None => PutCredential::Absent,
        };
        let written = self.store.put_credential(row.clone(), when).await;
        let written = written.map_err(|error| not_stored("cannot store tokens", error))?;
        if written {
            kept.row = Some(row);
        }
        Ok(written)
    }

    /// A row for the store.
    pub(in crate::credentials) fn sealed(
        &self,
        info: &CredentialInfo,
        record: &TokenRecord,
    ) -> Result<CredentialRecord, EngineError> {
        let plain = serde_json::to_vec(record).map(Zeroizing::new);
        let plain = plain.map_err(|error| EngineError::internal("cannot write a credential", error))?;
        sealed::seal_bytes(self.keys()?, info, &plain)
    }

    /// A credential with the token that it has now.
    pub(super) fn credential(&self, kept: &StoredTokens) -> Credential {
        let value = CredentialValue {
            value: kept
                .record
                .access
                .as_ref()
                .map(|access| access.value.clone())
                .unwrap_or_default(),
            session_token: None,
            client_secret: None,
        };
        let known = self.known(&kept.key);
        known.add(kept.record.secrets());
        let mut credential = Credential::new(kept.key.name.clone(), kept.definition.clone(), value);
        credential.known = known;
        credential
    }
}

/// The text of an error could have a part of a secret.
fn record(plain: &[u8]) -> Result<TokenRecord, String> {
    serde_json::from_slice(plain).map_err(|_| "its tokens are not well-formed".to_owned())
}
