//! Files by their digests, on disk. The least recently used file goes when there are too many bytes. If the owner who needs room has more
//! than its share, its own files go first, so that the files of others stay.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use parking_lot::Mutex;
use tempfile::NamedTempFile;

use crate::page::digest;

/// Files that are kept. Nothing is in it under a digest that is not its own, as long as no other program writes in the directory.
#[derive(Debug)]
pub(crate) struct Blobs {
    dir: PathBuf,
    limit: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: u64,
    all: HashMap<String, Blob>,
    /// Bytes of files that are written and not kept yet, by owner.
    coming: HashMap<String, u64>,
    /// Counts uses.
    clock: u64,
}

#[derive(Debug)]
struct Blob {
    size: u64,
    used: u64,
    /// The only owner whose sessions have used it since the gateway started. `None`: there are several, or none is known.
    owner: Option<String>,
}

/// Bytes of a cache of this size that one owner may have if others need room.
fn share(limit: u64) -> u64 {
    limit / 4 * 3
}

impl Blobs {
    /// Opens the store in this directory, which it creates. Blocks.
    pub(crate) fn open(dir: &Path, limit: u64) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(dir)? {
            let (entry, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
            let meta = entry.symlink_metadata()?;
            match name.to_str().and_then(digest) {
                Some(name) if meta.is_file() => {
                    found.push((
                        meta.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                        name,
                        meta.len(),
                    ));
                }
                // What a gateway that was killed was writing.
                _ if meta.is_file() => fs::remove_file(entry)?,
                _ => {}
            }
        }
        found.sort();
        let this = Self {
            dir: dir.to_owned(),
            limit,
            state: Mutex::default(),
        };
        let mut state = this.state.lock();
        for (_, name, size) in found {
            state.insert(name, size, None);
        }
        let gone = state.shrink(limit, "", limit);
        drop(state);
        this.remove(gone);
        Ok(this)
    }

    /// Total of the kept bytes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    /// The file with this digest, and its size, for a session of this owner. Blocks.
    pub(crate) fn open_file(&self, owner: &str, digest: &str) -> Option<(File, u64)> {
        let size = {
            let mut state = self.state.lock();
            state.clock += 1;
            let now = state.clock;
            let blob = state.all.get_mut(digest)?;
            blob.used = now;
            blob.owner.take_if(|known| known != owner);
            blob.size
        };
        let file = File::open(self.dir.join(digest));
        if let Ok(file) = file
            && file.metadata().is_ok_and(|meta| meta.len() == size)
        {
            // The order of use outlives this process, if the file system does it.
            let _ = file.set_modified(SystemTime::now());
            return Some((file, size));
        }
        self.state.lock().forget(digest);
        self.remove(vec![digest.to_owned()]);
        None
    }

    /// Has room for a file that grows, of which there was room for `from` bytes: kept files go for it. Blocks.
    ///
    /// # Errors
    /// There is no room, or the files of the owner that are coming would have more than three quarters of the cache.
    pub(crate) fn reserve(&self, owner: &str, from: u64, to: u64) -> Result<(), String> {
        let limit = self.limit;
        let share = share(limit);
        let mut state = self.state.lock();
        let of_owner = state.coming.get(owner).copied().unwrap_or_default();
        let others = of_owner.saturating_sub(from);
        let all = state.coming().saturating_sub(from).saturating_add(to);
        if to > share {
            return Err(format!(
                "is larger than three quarters of the cache, {share} bytes"
            ));
        }
        if others.saturating_add(to) > share {
            return Err(format!(
                "the files of this owner that are being fetched have three quarters of the cache, {share} bytes; try again later"
            ));
        }
        if all > limit {
            return Err(
                "the cache has no room beside the files that are being fetched; try again later".to_owned(),
            );
        }
        state.coming.insert(owner.to_owned(), others.saturating_add(to));
        let gone = state.shrink(limit.saturating_sub(all), owner, share);
        drop(state);
        self.remove(gone);
        Ok(())
    }

    /// A file is not written any more.
    pub(crate) fn release(&self, owner: &str, bytes: u64) {
        let mut state = self.state.lock();
        if let Some(coming) = state.coming.get_mut(owner) {
            *coming = coming.saturating_sub(bytes);
            if *coming == 0 {
                state.coming.remove(owner);
            }
        }
    }

    /// A file that is written, and not kept yet. Blocks.
    pub(crate) fn begin(&self) -> io::Result<NamedTempFile> {
        NamedTempFile::with_prefix_in("new-", &self.dir)
    }

    /// Keeps a file, whose digest was computed from what was written. Blocks.
    pub(crate) fn keep(&self, file: NamedTempFile, owner: &str, digest: String, size: u64) -> io::Result<()> {
        // After a loss of power the file is whole, or not there.
        file.as_file().sync_all()?;
        let gone = {
            let mut state = self.state.lock();
            let others = state.coming();
            let room = self.limit.saturating_sub(size).saturating_sub(others);
            state.shrink(room, owner, share(self.limit).saturating_sub(size))
        };
        self.remove(gone);
        file.persist(self.dir.join(&digest))
            .map_err(|error| error.error)?;
        self.state.lock().insert(digest, size, Some(owner.to_owned()));
        Ok(())
    }

    fn remove(&self, digests: Vec<String>) {
        for digest in digests {
            let path = self.dir.join(digest);
            if let Err(error) = fs::remove_file(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(path = %path.display(), %error, "cannot remove a file of the package cache");
            }
        }
    }
}

impl State {
    /// Bytes of all files that are written and not kept yet.
    fn coming(&self) -> u64 {
        self.coming
            .values()
            .fold(0, |all, bytes| all.saturating_add(*bytes))
    }

    fn insert(&mut self, digest: String, size: u64, owner: Option<String>) {
        self.forget(&digest);
        self.clock += 1;
        self.bytes += size;
        let used = self.clock;
        self.all.insert(digest, Blob { size, used, owner });
    }

    fn forget(&mut self, digest: &str) {
        if let Some(blob) = self.all.remove(digest) {
            self.bytes -= blob.size;
        }
    }

    /// Until there are at most so many bytes. While the owner who needs room has more bytes than its share, its own files go. Returns the
    /// digests of the files that are forgotten.
    fn shrink(&mut self, bytes: u64, owner: &str, share: u64) -> Vec<String> {
        let is_own = |blob: &Blob| blob.owner.as_deref() == Some(owner);
        let own = self
            .all
            .values()
            .filter(|blob| is_own(blob))
            .map(|blob| blob.size);
        let coming = self.coming.get(owner).copied().unwrap_or_default();
        let mut of_owner = own.fold(coming, u64::saturating_add);
        let mut gone = Vec::new();
        while self.bytes > bytes {
            let kept = self
                .all
                .iter()
                .filter(|(_, blob)| of_owner <= share || is_own(blob));
            let oldest = kept.min_by_key(|(_, blob)| blob.used);
            let oldest = oldest.or_else(|| self.all.iter().min_by_key(|(_, blob)| blob.used));
            let Some((oldest, size)) = oldest.map(|(digest, blob)| {
                let own = if is_own(blob) { blob.size } else { 0 };
                (digest.clone(), own)
            }) else {
                break;
            };
            of_owner = of_owner.saturating_sub(size);
            self.forget(&oldest);
            gone.push(oldest);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn name(n: u8) -> String {
        hex::encode([n; 32])
    }

    const ME: &str = "acme";

    fn keep(blobs: &Blobs, owner: &str, n: u8, size: usize) {
        let mut file = blobs.begin().unwrap();
        file.write_all(&vec![n; size]).unwrap();
        blobs.keep(file, owner, name(n), size as u64).unwrap();
    }

    fn has(blobs: &Blobs) -> Vec<u8> {
        (0..10)
            .filter(|n| blobs.open_file(ME, &name(*n)).is_some())
            .collect()
    }

    #[test]
    fn an_owner_that_fetches_much_removes_its_own_files() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(dir.path(), 100).unwrap();
        keep(&blobs, "other", 0, 20);
        // Used by both: it is of neither.
        keep(&blobs, ME, 1, 5);
        assert!(blobs.open_file("other", &name(1)).is_some());
        for n in 2..9 {
            blobs.reserve(ME, 0, 40).unwrap();
            blobs.release(ME, 40);
            keep(&blobs, ME, n, 40);
        }
        assert_eq!((has(&blobs), blobs.bytes()), (vec![0, 1, 8], 65));
        // A file that is coming needs the room of the own ones.
        blobs.reserve(ME, 0, 70).unwrap();
        assert_eq!(has(&blobs), [0, 1]);
        blobs.release(ME, 70);
        // Without others, an owner has all of it.
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(dir.path(), 100).unwrap();
        for n in 0..4 {
            keep(&blobs, ME, n, 25);
        }
        assert_eq!(blobs.bytes(), 100);
    }

    #[test]
    fn what_is_used_least_recently_goes_first_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(dir.path(), 100).unwrap();
        for n in 0..3 {
            keep(&blobs, ME, n, 30);
        }
        assert!(blobs.open_file(ME, &name(0)).is_some());
        keep(&blobs, ME, 3, 30);
        assert_eq!((has(&blobs), blobs.bytes()), (vec![0, 2, 3], 90));
        fs::write(dir.path().join("new-half"), "x").unwrap();
        let again = Blobs::open(dir.path(), 70).unwrap();
        assert_eq!(again.bytes(), 60);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_was_cut_is_not_given() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(dir.path(), 100).unwrap();
        keep(&blobs, ME, 1, 30);
        fs::write(dir.path().join(name(1)), "short").unwrap();
        assert!(blobs.open_file(ME, &name(1)).is_none());
        assert_eq!((blobs.bytes(), fs::read_dir(dir.path()).unwrap().count()), (0, 0));
    }
}
