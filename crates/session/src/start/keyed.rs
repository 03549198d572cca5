//! Starts with an idempotency key: the same start again is the same session, as long as it lives.
//!
//! A key belongs to its caller. It needs no table of its own: what is stored of it is a part of the session, and a session whose caller
//! gives it no name gets one that is made of the key, by which all replicas find it.

use himalia_model::{EngineError, Principal, StartKey, StartSession};
use sha2::{Digest, Sha256};

pub const MAX_START_KEY_BYTES: usize = 256;
/// Bytes of a hash that are used.
const HASH_BYTES: usize = 20;

fn hash(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digest: [u8; 32] = hash.finalize().into();
    hex::encode(&digest[..HASH_BYTES])
}

/// The name of a session whose start has this key and no name.
pub fn name_of_key(principal: &Principal, key: &str) -> String {
    format!("key-{}", hash(&[principal.name(), key]))
}

/// The name of the session of a run with this key.
pub fn name_of_run(principal: &Principal, key: &str) -> String {
    format!("run-{}", hash(&[principal.name(), key]))
}

/// Fingerprint of a start with a key, for the store. It leaves out the values of secrets.
///
/// # Errors
/// [`EngineError::BadRequest`] for a key that is empty or too long.
pub(crate) fn start_key(
    principal: &Principal,
    start: &StartSession,
) -> Result<Option<StartKey>, EngineError> {
    let Some(key) = &start.key else {
        return Ok(None);
    };
    if !(1..=MAX_START_KEY_BYTES).contains(&key.len()) {
        let reason = format!("must have 1 to {MAX_START_KEY_BYTES} bytes");
        return Err(EngineError::bad_request("idempotency_key", reason));
    }
    Ok(Some(StartKey {
        key: hash(&[principal.name(), key]),
        print: match &start.once {
            Some(asked) => hash(&[asked]),
            None => hash(&[&format!("{start:?}")]),
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_callers_and_a_print_is_of_all_but_secrets() {
        let caller = |name: &str| Principal::of_tenant("acme", name).unwrap();
        let (ada, bob) = (caller("ada"), caller("bob"));
        let start = |template: &str, secret: &str| StartSession {
            key: Some("k".to_owned()),
            name: Some(template.to_owned()),
            secrets: himalia_model::Secrets([("TOKEN".to_owned(), secret.to_owned())].into()),
            ..StartSession::default()
        };
        let stored = |who: &Principal, start: &StartSession| start_key(who, start).unwrap().unwrap();
        let first = stored(&ada, &start("small", "a"));
        assert_eq!(first, stored(&ada, &start("small", "b")));
        assert_ne!(first.key, stored(&bob, &start("small", "a")).key);
        let other = stored(&ada, &start("large", "a"));
        assert_eq!((&first.key, first.print == other.print), (&other.key, false));
        let empty = StartSession {
            key: Some(String::new()),
            ..StartSession::default()
        };
        assert!(start_key(&ada, &empty).is_err());
        assert!(start_key(&ada, &StartSession::default()).unwrap().is_none());
        let name = name_of_key(&ada, "k");
        assert!(name.len() <= crate::MAX_NAME_CHARS && name != name_of_key(&bob, "k"));
    }
}
