//! Credentials in the store: the value is sealed for its owner, its name and its definition, so that none of the three can be
//! exchanged there.

use himalia_credentials::{Credential, CredentialValue, KeyRing, SealedValue, SourceError};
use himalia_egress::InterceptKey;
use himalia_model::EngineError;
use himalia_model::credential::{CredentialDefinition, CredentialInfo};
use himalia_store::{CredentialRecord, PutCredential, Store};
use zeroize::Zeroizing;

use super::{Credentials, not_read};
use crate::not_stored;

/// The owner of what is the gateway's own. No tenant has this name.
const GATEWAY: &str = "";
/// The name of the authority for interception, which no credential can have.
const AUTHORITY: &str = "interception.authority";

/// A row for the store.
pub(super) fn seal(
    keys: &KeyRing,
    info: &CredentialInfo,
    value: &CredentialValue,
) -> Result<CredentialRecord, EngineError> {
    let plain = serde_json::to_vec(value).map(Zeroizing::new);
    let plain = plain.map_err(|error| EngineError::internal("cannot write a credential", error))?;
    seal_bytes(keys, info, &plain)
}

/// A row with this value, as it is written.
pub(super) fn seal_bytes(
    keys: &KeyRing,
    info: &CredentialInfo,
    plain: &[u8],
) -> Result<CredentialRecord, EngineError> {
    let definition = serde_json::to_string(&info.definition)
        .map_err(|error| EngineError::internal("cannot write a credential", error))?;
    let record = CredentialRecord {
        owner: info.owner.clone(),
        name: info.name.clone(),
        definition,
        key_id: String::new(),
        sealed: Vec::new(),
        set_by: info.set_by.clone().unwrap_or_default(),
        set_micros: info.set_micros.unwrap_or_default(),
    };
    with_value(keys, record, plain)
}

fn with_value(
    keys: &KeyRing,
    record: CredentialRecord,
    plain: &[u8],
) -> Result<CredentialRecord, EngineError> {
    let sealed = keys.seal(&bound(&record), plain);
    let SealedValue { key_id, bytes } =
        sealed.map_err(|error| EngineError::internal("cannot seal a credential", error))?;
    Ok(CredentialRecord {
        key_id,
        sealed: bytes,
        ..record
    })
}

fn bound(record: &CredentialRecord) -> [&str; 3] {
    [&record.owner, &record.name, &record.definition]
}

/// The value of a row, as it was written.
///
/// # Errors
/// It cannot be opened.
pub(super) fn plain(keys: &KeyRing, row: &CredentialRecord) -> Result<Zeroizing<Vec<u8>>, String> {
    let sealed = SealedValue {
        key_id: row.key_id.clone(),
        bytes: row.sealed.clone(),
    };
    keys.open(&bound(row), &sealed).map_err(|error| error.to_string())
}

/// Reads the public fields of a row.
///
/// # Errors
/// What is wrong with it.
pub(super) fn info(row: &CredentialRecord) -> Result<CredentialInfo, String> {
    let definition: CredentialDefinition =
        serde_json::from_str(&row.definition).map_err(|error| error.to_string())?;
    Ok(CredentialInfo {
        name: row.name.clone(),
        owner: row.owner.clone(),
        definition,
        set_by: Some(row.set_by.clone()),
        set_micros: Some(row.set_micros),
        tokens: None,
    })
}

/// A credential with its value.
pub(super) fn open(keys: Option<&KeyRing>, row: &CredentialRecord) -> Result<Credential, SourceError> {
    let read = || {
        let keys = keys.ok_or("the gateway has no credentials_key_file")?;
        let info = info(row)?;
        let plain = plain(keys, row)?;
        // The text of an error could have a part of the value.
        let value = serde_json::from_slice(&plain).map_err(|_| "its value is not well-formed")?;
        Ok(Credential::new(info.name, info.definition, value))
    };
    read().map_err(|error: String| {
        tracing::error!(
            owner = row.owner,
            name = row.name,
            error,
            "cannot open a credential"
        );
        SourceError
    })
}

impl Credentials {
    /// Seals what is no credential, for these texts.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] without a key.
    pub fn seal_for(&self, bound: &[&str], plain: &[u8]) -> Result<SealedValue, EngineError> {
        let sealed = self.keys()?.seal(bound, plain);
        sealed.map_err(|error| EngineError::internal("cannot seal a secret", error))
    }

    /// Checks that texts can be sealed.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] without a key.
    pub fn check_key(&self) -> Result<(), EngineError> {
        self.keys().map(drop)
    }

    /// Opens what was sealed for these texts.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] without a key; its key is missing, or it was changed.
    pub fn open_for(
        &self,
        bound: &[&str],
        key_id: String,
        bytes: Vec<u8>,
    ) -> Result<Zeroizing<Vec<u8>>, EngineError> {
        let opened = self.keys()?.open(bound, &SealedValue { key_id, bytes });
        opened.map_err(|error| EngineError::internal("cannot open a secret", error))
    }

    /// The id of the key that seals, if there is one.
    pub fn current_key(&self) -> Option<&str> {
        self.keys.as_deref().map(KeyRing::current)
    }

    /// Seals all values with the current key that were sealed with an earlier one. Those whose key is missing stay.
    pub(crate) async fn seal_again(&self) -> Result<(), EngineError> {
        let Some(keys) = &self.keys else { return Ok(()) };
        for row in self.store.credentials().await.map_err(not_read)? {
            if row.key_id == keys.current() {
                continue;
            }
            let opened = match plain(keys, &row) {
                Ok(opened) => opened,
                Err(error) => {
                    tracing::error!(
                        owner = row.owner,
                        name = row.name,
                        error,
                        "cannot open a credential"
                    );
                    continue;
                }
            };
            let held = PutCredential::Holding(row.sealed.clone());
            let record = with_value(keys, row, &opened)?;
            // Another replica may do the same.
            put(&*self.store, record, held).await?;
        }
        Ok(())
    }

    /// The authority for interception, which is made once for all replicas.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] without a key.
    pub(crate) async fn authority(&self) -> Result<InterceptKey, EngineError> {
        let keys = self.keys()?;
        let damaged =
            |error: String| EngineError::internal("cannot open the authority for interception", error);
        for _ in 0..2 {
            let found = self
                .store
                .find_credentials(vec![GATEWAY.to_owned()], vec![AUTHORITY.to_owned()]);
            if let Some(row) = found.await.map_err(not_read)?.first() {
                let key = plain(keys, row).map_err(damaged)?;
                return Ok(InterceptKey {
                    certificate: row.definition.clone(),
                    key: String::from_utf8(key.to_vec()).map_err(|_| damaged("no text".to_owned()))?,
                });
            }
            let made = InterceptKey::generate().map_err(|error| {
                EngineError::internal("cannot make the authority for interception", error)
            })?;
            let record = CredentialRecord {
                owner: GATEWAY.to_owned(),
                name: AUTHORITY.to_owned(),
                definition: made.certificate,
                key_id: String::new(),
                sealed: Vec::new(),
                set_by: String::new(),
                set_micros: self.clock.stored_micros(),
            };
            let record = with_value(keys, record, made.key.as_bytes())?;
            put(&*self.store, record, PutCredential::Absent).await?;
        }
        Err(damaged("it is not stored".to_owned()))
    }
}

async fn put(store: &dyn Store, record: CredentialRecord, when: PutCredential) -> Result<bool, EngineError> {
    let put = store.put_credential(record, when).await;
    put.map_err(|error| not_stored("cannot store a credential", error))
}
