//! Files by their digests, on disk. What is used least recently goes when there are too many bytes.

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
    /// Counts uses.
    clock: u64,
}

#[derive(Debug)]
struct Blob {
    size: u64,
    used: u64,
}

impl Blobs {
    /// Those in this directory, which is made; at most `limit` bytes of them are kept. Blocks.
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
            state.insert(name, size);
        }
        let gone = state.shrink(limit);
        drop(state);
        this.remove(gone);
        Ok(this)
    }

    /// How many bytes are kept at most.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// How many bytes are kept.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    /// The file with this digest, and its size. Blocks.
    pub(crate) fn open_file(&self, digest: &str) -> Option<(File, u64)> {
        let size = {
            let mut state = self.state.lock();
            state.clock += 1;
            let now = state.clock;
            let blob = state.all.get_mut(digest)?;
            blob.used = now;
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

    /// A file that is written, and not kept yet. Blocks.
    pub(crate) fn begin(&self) -> io::Result<NamedTempFile> {
        NamedTempFile::with_prefix_in("new-", &self.dir)
    }

    /// Keeps a file, whose digest was computed from what was written. Blocks.
    pub(crate) fn keep(&self, file: NamedTempFile, digest: String, size: u64) -> io::Result<()> {
        // After a loss of power the file is whole, or not there.
        file.as_file().sync_all()?;
        let gone = self.state.lock().shrink(self.limit.saturating_sub(size));
        self.remove(gone);
        file.persist(self.dir.join(&digest))
            .map_err(|error| error.error)?;
        self.state.lock().insert(digest, size);
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
    fn insert(&mut self, digest: String, size: u64) {
        self.forget(&digest);
        self.clock += 1;
        self.bytes += size;
        let used = self.clock;
        self.all.insert(digest, Blob { size, used });
    }

    fn forget(&mut self, digest: &str) {
        if let Some(blob) = self.all.remove(digest) {
            self.bytes -= blob.size;
        }
    }

    /// Until there are at most so many bytes. Returns what is forgotten.
    fn shrink(&mut self, bytes: u64) -> Vec<String> {
        let mut gone = Vec::new();
        while self.bytes > bytes {
            let oldest = self.all.iter().min_by_key(|(_, blob)| blob.used);
            let Some(oldest) = oldest.map(|(digest, _)| digest.clone()) else {
                break;
            };
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

    fn keep(blobs: &Blobs, n: u8, size: usize) {
        let mut file = blobs.begin().unwrap();
        file.write_all(&vec![n; size]).unwrap();
        blobs.keep(file, name(n), size as u64).unwrap();
    }

    fn has(blobs: &Blobs) -> Vec<u8> {
        (0..10).filter(|n| blobs.open_file(&name(*n)).is_some()).collect()
    }

    #[test]
    fn what_is_used_least_recently_goes_first_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(dir.path(), 100).unwrap();
        for n in 0..3 {
            keep(&blobs, n, 30);
        }
        assert!(blobs.open_file(&name(0)).is_some());
        keep(&blobs, 3, 30);
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
        keep(&blobs, 1, 30);
        fs::write(dir.path().join(name(1)), "short").unwrap();
        assert!(blobs.open_file(&name(1)).is_none());
        assert_eq!((blobs.bytes(), fs::read_dir(dir.path()).unwrap().count()), (0, 0));
    }
}
