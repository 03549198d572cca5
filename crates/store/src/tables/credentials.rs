//! Sealed secrets.

use crate::StoreError;
use crate::failure::Failure;
use crate::part::part;
use crate::sql::{Param, Record as _, Sql, any, changed, record};

/// One row of `credentials`. The value is sealed with a key that is not in the store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CredentialRecord {
    /// A tenant, the operator, or empty for the gateway itself.
    pub owner: String,
    /// The name, one of that owner.
    pub name: String,
    /// The description of the credential without its value.
    pub definition: String,
    /// The id of the key that has sealed it.
    pub key_id: String,
    pub sealed: Vec<u8>,
    /// The principal that set it.
    pub set_by: String,
    /// The time when it was set, in microseconds since the Unix epoch.
    pub set_micros: i64,
}

/// The condition for writing a credential.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PutCredential {
    /// In any case.
    Always,
    /// If there is none of its name.
    Absent,
    /// If the one of its name has this sealed value.
    Holding(Vec<u8>),
}

record!(CredentialRecord in "credentials" { owner, name, definition, key_id, sealed, set_by, set_micros });

part! {
    /// Credentials.
    CredentialStore {
        /// Writes a credential in the place of the one of its owner and name, if there is one; `false` when it was not written.
        write fn put_credential(record: CredentialRecord, when: PutCredential) -> bool;

        /// Forgets a credential; `false` when there was none.
        write fn delete_credential(owner: String, name: String) -> bool =
            changed("DELETE FROM himalia.credentials WHERE owner = $1 AND name = $2 AND {member}", owner, name);

        /// The credentials of these names that these owners have, in any order.
        read fn find_credentials(owners: Vec<String>, names: Vec<String>) -> Vec<CredentialRecord> = list(FIND, owners, names);

        /// Every credential, by owner and name.
        read fn credentials() -> Vec<CredentialRecord> = list("SELECT * FROM himalia.credentials ORDER BY owner, name");
    }
}

/// Adds a credential, or does something else if there is one of its name.
macro_rules! insert {
    ($conflict:literal) => {
        concat!(
            "INSERT INTO himalia.credentials (owner, name, definition, key_id, sealed, set_by, set_micros)
SELECT $1, $2, $3, $4, $5, $6, $7 WHERE {member} ON CONFLICT (owner, name) DO ",
            $conflict
        )
    };
}

const PUT: &str = insert!(
    "UPDATE SET definition = excluded.definition, key_id = excluded.key_id,
    sealed = excluded.sealed, set_by = excluded.set_by, set_micros = excluded.set_micros"
);

const PUT_ABSENT: &str = insert!("NOTHING");

const PUT_HOLDING: &str = "
UPDATE himalia.credentials SET definition = $3, key_id = $4, sealed = $5, set_by = $6, set_micros = $7
WHERE owner = $1 AND name = $2 AND sealed = $8 AND {member}";

const FIND: &str = concat!(
    "SELECT * FROM himalia.credentials WHERE owner ",
    any!("$1"),
    " AND name ",
    any!("$2")
);

async fn put_credential(
    sql: &impl Sql,
    record: CredentialRecord,
    when: PutCredential,
) -> Result<bool, Failure> {
    let mut params = record.values();
    match &when {
        PutCredential::Always if changed(sql, PUT, &params).await? => Ok(true),
        PutCredential::Always => Err(StoreError::LeaseLost.into()),
        PutCredential::Absent => changed(sql, PUT_ABSENT, &params).await,
        PutCredential::Holding(held) => {
            params.push(Param::Bytes(held));
            changed(sql, PUT_HOLDING, &params).await
        }
    }
}
