//! Caches of data that was read from logs: of executions and histories, within bounds. Entries of the owner with the most go first, so that no
//! owner's reading evicts the entries of others within their part.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use himalia_model::Principal;
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

/// Things that are remembered, and bytes of memory for all of them.
const MAX_KEPT: usize = 256;
const KEPT_BYTES: usize = 64 << 20;

/// Cached data of one execution or history; one request at a time reads on.
pub type SharedCache<T> = Arc<AsyncMutex<T>>;

/// Key of cached data: the directory of a log, which no other log ever has, and the number of the first record there.
type Key = (PathBuf, u64);

/// Cache for one kind of data.
#[derive(Debug)]
pub struct LogCache<T>(Mutex<CacheState<T>>);

#[derive(Debug)]
struct CacheState<T> {
    all: HashMap<Key, Entry<T>>,
    bytes: usize,
    /// Counts questions.
    now: u64,
}

#[derive(Debug)]
struct Entry<T> {
    known: SharedCache<T>,
    /// Owner that requested it first: a tenant, or the operator.
    owner: String,
    /// The oldest record that the log had then, if the beginning of the thing was gone; otherwise 0.
    first: u64,
    bytes: usize,
    used: u64,
}

impl<T> Default for LogCache<T> {
    fn default() -> Self {
        Self(Mutex::new(CacheState {
            all: HashMap::new(),
            bytes: 0,
            now: 0,
        }))
    }
}

impl<T> LogCache<T> {
    /// Cached data for the record `seq` of the log in `dir`. `first`: the log's oldest record, if that is a later one, else 0. `None` also if more of
    /// it has gone since: it has to be read again.
    pub fn get(&self, dir: &Path, seq: u64, first: u64) -> Option<SharedCache<T>> {
        let mut kept = self.0.lock();
        kept.now += 1;
        let now = kept.now;
        let entry = kept.all.get_mut(&(dir.to_owned(), seq))?;
        entry.used = now;
        (entry.first == first).then(|| Arc::clone(&entry.known))
    }

    /// Keeps what is begun to be known for a principal, and gives what is to be used: another caller may have begun.
    pub fn add(&self, principal: &Principal, dir: &Path, seq: u64, first: u64, known: T) -> SharedCache<T> {
        let known = Arc::new(AsyncMutex::new(known));
        let mut kept = self.0.lock();
        kept.now += 1;
        let entry = Entry {
            known: Arc::clone(&known),
            owner: principal.owner().to_owned(),
            first,
            bytes: 0,
            used: kept.now,
        };
        let key = (dir.to_owned(), seq);
        if let Some(other) = kept.all.get(&key).filter(|other| other.first == first) {
            return Arc::clone(&other.known);
        }
        if let Some(old) = kept.all.insert(key, entry) {
            kept.bytes -= old.bytes;
        }
        kept.fit();
        known
    }

    /// `known` takes so many bytes now.
    pub fn weigh(&self, dir: &Path, seq: u64, known: &SharedCache<T>, bytes: usize) {
        let mut kept = self.0.lock();
        let Some(entry) = kept.all.get_mut(&(dir.to_owned(), seq)) else {
            return;
        };
        if !Arc::ptr_eq(&entry.known, known) {
            return;
        }
        let before = std::mem::replace(&mut entry.bytes, bytes);
        kept.bytes = (kept.bytes + bytes) - before;
        kept.fit();
    }
}

impl<T> CacheState<T> {
    /// Next entry to drop: the least recently used one of the owner with the most.
    fn next_to_go(&self) -> Option<&Key> {
        let by_bytes = self.bytes > KEPT_BYTES;
        let mut amounts: HashMap<&str, usize> = HashMap::new();
        for entry in self.all.values() {
            *amounts.entry(&entry.owner).or_default() += if by_bytes { entry.bytes } else { 1 };
        }
        let most = amounts.values().copied().max()?;
        let of_most = |(_, entry): &(&Key, &Entry<T>)| amounts.get(entry.owner.as_str()) == Some(&most);
        let oldest = self
            .all
            .iter()
            .filter(of_most)
            .min_by_key(|(_, entry)| entry.used);
        oldest.map(|(key, _)| key)
    }

    fn fit(&mut self) {
        while self.all.len() > MAX_KEPT || self.bytes > KEPT_BYTES {
            let Some(key) = self.next_to_go().cloned() else {
                return;
            };
            if let Some(gone) = self.all.remove(&key) {
                self.bytes -= gone.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use himalia_executions::{CachedExecution, ExecutionId, Follower};
    use himalia_kernel::Language;
    use himalia_model::KernelId;
    use himalia_outcome::Excerpt;

    use super::*;

    fn of(tenant: &str) -> Principal {
        Principal::of_tenant(tenant, "x").unwrap()
    }

    fn known(seq: u64) -> CachedExecution {
        let id = ExecutionId {
            kernel: KernelId(uuid::Uuid::nil()),
            seq,
        };
        let follower = Follower::new(id, Language::Kernel, String::new(), 10, Excerpt::new(10));
        CachedExecution::new(id, follower)
    }

    #[test]
    fn the_one_that_was_asked_for_least_lately_goes() {
        let (kept, dir) = (LogCache::default(), Path::new("x"));
        for seq in 1..=3 {
            let shared = kept.add(&of("acme"), dir, seq, 0, known(seq));
            kept.weigh(dir, seq, &shared, KEPT_BYTES / 3);
        }
        assert!(kept.get(dir, 1, 0).is_some());
        let shared = kept.add(&of("acme"), dir, 4, 0, known(4));
        kept.weigh(dir, 4, &shared, KEPT_BYTES / 3);
        let there = |seq| kept.get(dir, seq, 0).is_some();
        assert_eq!([1, 2, 3, 4].map(there), [true, false, true, true]);
        // One that takes too much for itself is not kept.
        kept.weigh(dir, 4, &shared, KEPT_BYTES + 1);
        assert!(kept.0.lock().bytes <= KEPT_BYTES && kept.get(dir, 4, 0).is_none());
        for seq in 10..20 + MAX_KEPT as u64 {
            kept.add(&of("acme"), dir, seq, 0, known(seq));
        }
        assert_eq!(kept.0.lock().all.len(), MAX_KEPT);
    }

    #[test]
    fn the_owner_that_has_the_most_makes_room() {
        let (kept, dir) = (LogCache::default(), Path::new("x"));
        let add = |tenant: &str, seq: u64, bytes: usize| {
            let shared = kept.add(&of(tenant), dir, seq, 0, known(seq));
            kept.weigh(dir, seq, &shared, bytes);
        };
        let there = |seq| kept.0.lock().all.contains_key(&(dir.to_owned(), seq));
        // Hers are older, and the other one reads on and on.
        add("acme", 1, KEPT_BYTES / 4);
        add("acme", 2, KEPT_BYTES / 4);
        for seq in 10..20 {
            add("evil", seq, KEPT_BYTES / 4);
        }
        assert_eq!([1, 2, 17, 18, 19].map(there), [true, true, false, true, true]);
        add("evil", 20, KEPT_BYTES);
        assert_eq!([1, 2, 18, 19, 20].map(there), [true, true, false, false, false]);
        // Alone, one may have all.
        let alone = LogCache::default();
        for seq in 0..MAX_KEPT as u64 {
            alone.add(&of("evil"), dir, seq, 0, known(seq));
        }
        assert_eq!(alone.0.lock().all.len(), MAX_KEPT);
        // The number counts as the bytes do.
        for seq in 1000..1000 + MAX_KEPT as u64 {
            add("evil", seq, 0);
        }
        assert!(there(1) && there(2) && !there(1000) && kept.0.lock().all.len() == MAX_KEPT);
    }

    #[test]
    fn one_of_which_more_has_gone_is_read_again() {
        let (kept, dir) = (LogCache::default(), Path::new("x"));
        let one = kept.add(&of("acme"), dir, 1, 0, known(1));
        assert!(
            Arc::ptr_eq(&one, &kept.add(&of("acme"), dir, 1, 0, known(1))),
            "two that begin at once"
        );
        assert!(kept.get(dir, 1, 7).is_none());
        let other = kept.add(&of("acme"), dir, 1, 7, known(1));
        assert!(!Arc::ptr_eq(&one, &other));
        kept.weigh(dir, 1, &one, KEPT_BYTES + 1);
        assert!(kept.get(dir, 1, 7).is_some(), "the old one has no say");
    }
}
