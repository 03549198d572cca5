//! Sealed secrets.

/// One row of `credentials`. The value is sealed with a key that is not in the store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CredentialRecord {
    /// A tenant, the operator, or empty for the gateway itself.
    pub owner: String,
    /// Its name, one of that owner.
    pub name: String,
    /// What is known of it beside its value.
    pub definition: String,
    /// Which key has sealed it.
    pub key_id: String,
    /// The sealed value.
    pub sealed: Vec<u8>,
    /// The principal that set it.
    pub set_by: String,
    /// When it was set, in microseconds since the Unix epoch.
    pub set_micros: i64,
}

/// When a credential is written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PutCredential {
    /// In any case.
    Always,
    /// If there is none of its name.
    Absent,
    /// If the one of its name has this sealed value.
    Holding(Vec<u8>),
}
