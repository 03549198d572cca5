//! Answers by what was asked.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Bytes of all answers.
pub const CACHE_BYTES: usize = 64 << 20;
/// Bytes of one answer. A longer one is not kept.
pub const CACHE_ENTRY_BYTES: usize = 1 << 20;
/// Time that a response is kept.
pub const CACHE_TIME: Duration = Duration::from_hours(1);
/// Bytes that an entry takes in addition to its response.
const OVERHEAD: usize = 256;

/// An answer that was given before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedAnswer {
    pub body: Bytes,
    /// Text of the response, for a log.
    pub text: String,
}

/// Answers, each of one owner.
pub struct Cache {
    bytes: usize,
    kept: Mutex<CacheState>,
}

#[derive(Default)]
struct CacheState {
    /// By owner.
    owners: HashMap<String, OwnerCache>,
    bytes: usize,
    /// Counts uses.
    now: u64,
}

#[derive(Default)]
struct OwnerCache {
    answers: HashMap<[u8; 32], Entry>,
    bytes: usize,
}

struct Entry {
    answered: CachedAnswer,
    since: Instant,
    used: u64,
}

impl Entry {
    fn bytes(&self) -> usize {
        OVERHEAD + self.answered.body.len() + self.answered.text.len()
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self::with_bytes(CACHE_BYTES)
    }
}

impl Cache {
    fn with_bytes(bytes: usize) -> Self {
        Self {
            bytes,
            kept: Mutex::default(),
        }
    }

    /// The answer that this owner had to the same question.
    pub fn find(&self, owner: &str, key: &[u8; 32]) -> Option<CachedAnswer> {
        let kept = &mut *self.kept.lock();
        kept.now += 1;
        let owned = kept.owners.get_mut(owner)?;
        let entry = owned.answers.get_mut(key)?;
        if entry.since.elapsed() > CACHE_TIME {
            let gone = entry.bytes();
            owned.answers.remove(key);
            owned.bytes -= gone;
            kept.bytes -= gone;
            return None;
        }
        entry.used = kept.now;
        Some(entry.answered.clone())
    }

    /// Keeps an answer, in the place of those that the owner with the most bytes has not used for the longest time.
    pub fn keep(&self, owner: &str, key: [u8; 32], answered: CachedAnswer) {
        if answered.body.len() > CACHE_ENTRY_BYTES {
            return;
        }
        let kept = &mut *self.kept.lock();
        kept.now += 1;
        let entry = Entry {
            answered,
            since: Instant::now(),
            used: kept.now,
        };
        let bytes = entry.bytes();
        let owned = kept.owners.entry(owner.to_owned()).or_default();
        let before = owned
            .answers
            .insert(key, entry)
            .map_or(0, |before| before.bytes());
        owned.bytes = owned.bytes + bytes - before;
        kept.bytes = kept.bytes + bytes - before;
        while kept.bytes > self.bytes && kept.drop_one() {}
    }
}

impl CacheState {
    /// Drops one answer. Whether there was one.
    fn drop_one(&mut self) -> bool {
        let Some((name, owned)) = self.owners.iter_mut().max_by_key(|(_, owned)| owned.bytes) else {
            return false;
        };
        let name = name.clone();
        let oldest = owned.answers.iter().min_by_key(|(_, entry)| entry.used);
        if let Some(key) = oldest.map(|(key, _)| *key)
            && let Some(gone) = owned.answers.remove(&key)
        {
            owned.bytes -= gone.bytes();
            self.bytes -= gone.bytes();
        }
        if owned.answers.is_empty() {
            self.owners.remove(&name);
        }
        true
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cache({} bytes)", self.kept.lock().bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(length: usize) -> CachedAnswer {
        CachedAnswer {
            body: vec![0; length].into(),
            text: String::new(),
        }
    }

    fn key(number: u8) -> [u8; 32] {
        [number; 32]
    }

    #[test]
    fn an_answer_is_of_its_owner_and_of_its_question() {
        let cache = Cache::default();
        cache.keep("acme", key(1), answered(10));
        assert_eq!(cache.find("acme", &key(1)), Some(answered(10)));
        assert_eq!(cache.find("other", &key(1)), None);
        assert_eq!(cache.find("acme", &key(2)), None);
        cache.keep("acme", key(3), answered(CACHE_ENTRY_BYTES + 1));
        assert_eq!(cache.find("acme", &key(3)), None);
    }

    #[test]
    fn those_of_the_largest_owner_go_first_and_of_them_the_one_unused_for_longest() {
        let cache = Cache::with_bytes(6 * (OVERHEAD + 100));
        cache.keep("small", key(0), answered(100));
        for number in 1..6 {
            cache.keep("large", key(number), answered(100));
        }
        assert!(cache.find("large", &key(1)).is_some());
        cache.keep("large", key(6), answered(100));
        assert!(cache.find("small", &key(0)).is_some());
        assert!(cache.find("large", &key(1)).is_some());
        assert_eq!(cache.find("large", &key(2)), None);
        let kept = cache.kept.lock();
        assert_eq!(kept.bytes, 6 * (OVERHEAD + 100));
        assert_eq!(
            kept.owners.values().map(|owned| owned.bytes).sum::<usize>(),
            kept.bytes
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_kept_for_a_time() {
        let cache = Cache::default();
        cache.keep("acme", key(1), answered(10));
        tokio::time::advance(CACHE_TIME).await;
        assert!(cache.find("acme", &key(1)).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(cache.find("acme", &key(1)), None);
        assert_eq!(cache.kept.lock().bytes, 0);
    }
}
