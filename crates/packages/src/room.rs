//! Room for files on their way into the cache: places and bytes, which the owners of sessions share.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::blobs::Blobs;

/// Files that are fetched at the same time.
const FETCHES: usize = 32;
/// Fetches of one owner at the same time.
pub(crate) const FETCHES_OF_OWNER: usize = 24;

/// Slots for files that are fetched.
#[derive(Debug)]
pub(crate) struct Slots {
    all: Arc<Semaphore>,
    /// Semaphores of owners with a running or waiting fetch.
    owners: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    _all: OwnedSemaphorePermit,
    _of_owner: OwnedSemaphorePermit,
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(FETCHES)),
            owners: Mutex::default(),
        }
    }
}

impl Slots {
    /// Waits for a place, first among those of the owner. `None`: there will be none.
    pub(crate) async fn take(&self, owner: &str) -> Option<Slot> {
        let of_owner = self.of_owner(owner).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Slot {
            _all: all,
            _of_owner: of_owner,
        })
    }

    fn of_owner(&self, owner: &str) -> Arc<Semaphore> {
        let mut owners = self.owners.lock();
        owners.retain(|_, places| places.strong_count() > 0);
        if let Some(places) = owners.get(owner).and_then(Weak::upgrade) {
            return places;
        }
        let places = Arc::new(Semaphore::new(FETCHES_OF_OWNER));
        owners.insert(owner.to_owned(), Arc::downgrade(&places));
        places
    }
}

/// Bytes of the cache for one file that is written. They are free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    blobs: Arc<Blobs>,
    owner: String,
    bytes: u64,
}

impl Room {
    /// For a file that a session of this owner wants first.
    pub(crate) fn new(blobs: &Arc<Blobs>, owner: &str) -> Self {
        Self {
            blobs: Arc::clone(blobs),
            owner: owner.to_owned(),
            bytes: 0,
        }
    }

    /// The bytes are free again. Returns the owner, who keeps the file.
    pub(crate) fn end(self) -> String {
        self.owner.clone()
    }

    /// Has room for so many bytes in all. Files that are kept may go for it. Blocks.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn grow(&mut self, to: u64) -> Result<(), String> {
        if to > self.bytes {
            self.blobs.reserve(&self.owner, self.bytes, to)?;
            self.bytes = to;
        }
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.blobs.release(&self.owner, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn an_owner_leaves_a_quarter_of_the_cache_to_files_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Arc::new(Blobs::open(dir.path(), 100).unwrap());
        let room = |owner: &str, bytes: u64| {
            let mut room = Room::new(&blobs, owner);
            room.grow(bytes).map(|()| room)
        };
        drop(room("acme", 75).unwrap());
        assert!(
            room("acme", 76)
                .unwrap_err()
                .contains("larger than three quarters")
        );
        let first = room("acme", 50).unwrap();
        let mut second = room("acme", 25).unwrap();
        assert!(second.grow(26).unwrap_err().contains("of this owner"));
        let _other = room("other", 25).unwrap();
        assert!(room("third", 1).unwrap_err().contains("no room"));
        drop(first);
        second.grow(75).unwrap();
    }

    #[test]
    fn partial_files_are_within_the_limit_of_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Arc::new(Blobs::open(dir.path(), 100).unwrap());
        for number in 0..3_u8 {
            let mut file = blobs.begin().unwrap();
            file.write_all(&[number; 30]).unwrap();
            blobs.keep(file, "acme", hex::encode([number; 32]), 30).unwrap();
        }
        let mut room = Room::new(&blobs, "acme");
        room.grow(45).unwrap();
        assert_eq!(blobs.bytes(), 30);
        let mut file = blobs.begin().unwrap();
        file.write_all(&[9; 45]).unwrap();
        drop(room);
        blobs.keep(file, "acme", hex::encode([9; 32]), 45).unwrap();
        assert_eq!(blobs.bytes(), 75);
    }

    #[tokio::test]
    async fn an_owner_leaves_places_to_others() {
        let slots = Slots::default();
        let mut taken = Vec::new();
        for _ in 0..FETCHES_OF_OWNER {
            taken.push(slots.take("acme").await.unwrap());
        }
        let next = tokio::time::timeout(std::time::Duration::ZERO, slots.take("acme")).await;
        assert!(next.is_err());
        for _ in FETCHES_OF_OWNER..FETCHES {
            taken.push(slots.take("other").await.unwrap());
        }
        taken.clear();
        drop(slots.take("acme").await.unwrap());
        drop(slots.of_owner("third"));
        slots.of_owner("fourth");
        assert!(!slots.owners.lock().contains_key("acme"));
    }
}
