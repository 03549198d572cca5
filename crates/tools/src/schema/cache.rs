//! Compiled schemas by the digest of their document.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::Schema;

const MAX_KEPT: usize = 256;
/// Bytes of them, about.
const MAX_BYTES: usize = 32 << 20;

type Key = [u8; 32];

/// Recently used schemas.
#[derive(Default)]
pub(super) struct Cache(Mutex<State>);

#[derive(Default)]
struct State {
    kept: HashMap<Key, (u64, Arc<Schema>)>,
    bytes: usize,
    clock: u64,
}

/// Cache for skills and workflows.
pub(super) fn of_authors() -> &'static Cache {
    static CACHE: OnceLock<Cache> = OnceLock::new();
    CACHE.get_or_init(Cache::default)
}

/// Cache for tool servers, which have other bounds.
pub(super) fn of_servers() -> &'static Cache {
    static CACHE: OnceLock<Cache> = OnceLock::new();
    CACHE.get_or_init(Cache::default)
}

impl Cache {
    /// The schema of a document, made if it is not kept.
    pub(super) fn get(
        &self,
        document: &Value,
        make: impl FnOnce(&Value) -> Result<Schema, String>,
    ) -> Result<Arc<Schema>, String> {
        let key: Key = Sha256::digest(document.to_string()).into();
        if let Some(found) = self.0.lock().find(&key) {
            return Ok(found);
        }
        // Without the lock: others need not wait for it.
        let made = Arc::new(make(document)?);
        self.0.lock().keep(key, &made);
        Ok(made)
    }
}

impl State {
    fn find(&mut self, key: &Key) -> Option<Arc<Schema>> {
        self.clock += 1;
        let (used, schema) = self.kept.get_mut(key)?;
        *used = self.clock;
        Some(Arc::clone(schema))
    }

    fn keep(&mut self, key: Key, schema: &Arc<Schema>) {
        self.clock += 1;
        self.bytes += schema.weight();
        let before = self.kept.insert(key, (self.clock, Arc::clone(schema)));
        self.bytes -= before.map_or(0, |(_, one)| one.weight());
        while self.kept.len() > MAX_KEPT || self.bytes > MAX_BYTES {
            let oldest = self.kept.iter().min_by_key(|(_, (used, _))| *used);
            let Some(key) = oldest.map(|(key, _)| *key) else {
                break;
            };
            self.bytes -= self.kept.remove(&key).map_or(0, |(_, one)| one.weight());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_compiled_once_and_the_oldest_goes() {
        let cache = Cache::default();
        let document = |number: usize| json!({"maximum": number});
        let never = |_: &Value| Err("made again".to_owned());
        cache.get(&document(0), Schema::new).unwrap();
        assert!(cache.get(&document(0), never).is_ok());
        for number in 1..=MAX_KEPT {
            cache.get(&document(number), Schema::new).unwrap();
        }
        assert!(cache.get(&document(0), never).is_err());
        assert!(cache.get(&document(MAX_KEPT), never).is_ok());
        let heavy = |number: usize| json!({"maximum": number, "enum": ["x".repeat(1 << 20)]});
        for number in 0..20 {
            cache.get(&heavy(number), Schema::new).unwrap();
        }
        let state = cache.0.lock();
        let weights: usize = state.kept.values().map(|(_, one)| one.weight()).sum();
        assert!(state.bytes <= MAX_BYTES && state.bytes == weights);
    }
}
