//! Files beside a kernel's log, named by their content: images and large values of its executions.
//!
//! They are made when a result that refers to them is read, and again if they are gone, as long as the log has what they
//! are made from. They go with the log.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use himalia_outcome::Artifact;

use crate::kernel::may_block;

/// Bytes, and files, of one kernel; the oldest ones give way.
const MAX_BYTES: u64 = 512 << 20;
const MAX_FILES: usize = 4096;
/// Bytes of a MIME type that is kept.
const TYPE_BYTES: usize = 100;
/// The MIME type of what has none that could be kept.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// An artifact that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredArtifact {
    /// Its MIME type, as the kernel named it: letters, digits and `.+-` around one slash.
    pub media_type: String,
    /// Its content.
    pub content: Bytes,
}

/// The artifacts of one kernel.
#[derive(Clone, Debug)]
pub(crate) struct ArtifactStore {
    dir: PathBuf,
}

impl ArtifactStore {
    /// Those beside the log in `log_dir`.
    pub(crate) fn beside(log_dir: &Path) -> Self {
        Self {
            dir: log_dir.join("artifacts"),
        }
    }

    /// Keeps what is not there yet. A failure is logged: the result is right without the file.
    pub(crate) fn keep(&self, artifacts: &[Artifact]) {
        for artifact in artifacts {
            let kept = may_block(|| self.keep_one(artifact));
            if let Err(error) = kept {
                tracing::warn!(dir = %self.dir.display(), %error, "cannot keep an artifact");
            }
        }
    }

    fn keep_one(&self, artifact: &Artifact) -> std::io::Result<()> {
        let name = file_name(&artifact.sha256, &artifact.media_type);
        let path = self.dir.join(&name);
        if path.exists() {
            return Ok(());
        }
        fs::create_dir_all(&self.dir)?;
        self.make_room(artifact.content.len() as u64)?;
        let mut file = tempfile_in(&self.dir, &name)?;
        file.1.write_all(&artifact.content)?;
        fs::rename(file.0, path)
    }

    fn make_room(&self, bytes: u64) -> std::io::Result<()> {
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.dir)?.flatten() {
            let known = entry.metadata()?;
            files.push((known.modified()?, known.len(), entry.path()));
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        let mut count = files.len();
        for (_, size, path) in files {
            if total + bytes <= MAX_BYTES && count < MAX_FILES {
                break;
            }
            fs::remove_file(path)?;
            total -= size;
            count -= 1;
        }
        Ok(())
    }

    /// The artifact with this SHA-256 (64 hex digits), if it is here. Blocks on the disk.
    pub(crate) fn get(&self, sha256: &str) -> Option<StoredArtifact> {
        let found = fs::read_dir(&self.dir).ok()?.flatten().find_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let media_type = name.strip_prefix(sha256)?.strip_prefix('.')?.replace('%', "/");
            Some((entry.path(), media_type))
        });
        let (path, media_type) = found?;
        let content = fs::read(path).ok()?.into();
        Some(StoredArtifact { media_type, content })
    }
}

/// A file that nobody else writes, under a name that no look-up finds.
fn tempfile_in(dir: &Path, name: &str) -> std::io::Result<(PathBuf, fs::File)> {
    let path = dir.join(format!("{}.{name}", uuid::Uuid::new_v4().simple()));
    let file = fs::File::create_new(&path)?;
    Ok((path, file))
}

fn file_name(sha256: &str, media_type: &str) -> String {
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b".+-/".contains(&byte);
    let usable = media_type.len() <= TYPE_BYTES
        && media_type.bytes().all(safe)
        && media_type.split('/').filter(|part| !part.is_empty()).count() == 2
        && media_type.matches('/').count() == 1;
    let media_type = if usable { media_type } else { UNKNOWN_TYPE };
    format!("{sha256}.{}", media_type.replace('/', "%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(sha256: &str, media_type: &str) -> Artifact {
        Artifact {
            sha256: sha256.repeat(64),
            media_type: media_type.into(),
            content: Bytes::from_static(b"content"),
        }
    }

    #[test]
    fn what_is_kept_is_found_with_its_type() {
        let log = tempfile::tempdir().unwrap();
        let store = ArtifactStore::beside(log.path());
        assert_eq!(store.get(&"a".repeat(64)), None);
        store.keep(&[
            artifact("a", "image/svg+xml"),
            artifact("b", "../../x"),
            artifact("b", "../../x"),
        ]);
        let kept = store.get(&"a".repeat(64)).unwrap();
        assert_eq!(
            (kept.media_type.as_str(), &kept.content[..]),
            ("image/svg+xml", &b"content"[..])
        );
        assert_eq!(store.get(&"b".repeat(64)).unwrap().media_type, UNKNOWN_TYPE);
        assert_eq!(fs::read_dir(log.path().join("artifacts")).unwrap().count(), 2);
    }
}
