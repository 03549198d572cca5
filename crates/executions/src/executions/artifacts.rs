//! Files beside a kernel's log, named by their content: images and large values of its executions.
//!
//! They are made when a result that refers to them is read, and again if they are gone, as long as the log has what they
//! are made from. They go with the log.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use himalia_journal::may_block;
use himalia_model::EngineError;
use himalia_outcome::{Artifact, ArtifactFile};
use serde_json::Value;

use super::ExecutionResult;

/// Bytes, and files, of one kernel; the oldest ones are removed.
const MAX_BYTES: u64 = 512 << 20;
const MAX_FILES: usize = 4096;
/// Bytes of a MIME type that is kept.
const TYPE_BYTES: usize = 100;
/// The MIME type of tables and plots.
const JSON_TYPE: &str = "application/json";
/// The MIME type of what has none that could be kept.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// An artifact that was kept: an open file, which is read piece by piece. Its content never changes, and stays readable while
/// this is held, also when the artifact is removed.
#[derive(Clone, Debug)]
pub struct StoredArtifact {
    media_type: String,
    size: u64,
    file: Arc<fs::File>,
}

impl StoredArtifact {
    /// MIME type, as the kernel named it: letters, digits and `.+-` around one slash.
    pub fn media_type(&self) -> &str {
        &self.media_type
    }

    /// Length in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// At most `most` bytes from `first` on; fewer at its end alone.
    pub async fn read(&self, first: u64, most: usize) -> Result<Bytes, EngineError> {
        let left = usize::try_from(self.size.saturating_sub(first)).unwrap_or(usize::MAX);
        let (file, mut bytes) = (Arc::clone(&self.file), vec![0; most.min(left)]);
        let read = tokio::task::spawn_blocking(move || {
            file.read_exact_at(&mut bytes, first)?;
            Ok::<_, std::io::Error>(Bytes::from(bytes))
        });
        let failed = |error: &dyn std::fmt::Display| EngineError::internal("reading an artifact", error);
        read.await
            .map_err(|error| failed(&error))?
            .map_err(|error| failed(&error))
    }
}

/// An artifact in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactInfo {
    /// SHA-256, lower-case hex.
    pub sha256: String,
    /// As of [`StoredArtifact::media_type`].
    pub media_type: String,
    /// Length in bytes.
    pub size: u64,
    /// When it was stored.
    pub modified: SystemTime,
}

#[derive(Clone, Debug)]
pub struct ArtifactStore {
    dir: PathBuf,
}

impl ArtifactStore {
    /// Artifacts next to the log in `log_dir`.
    pub fn beside(log_dir: &Path) -> Self {
        Self {
            dir: log_dir.join("artifacts"),
        }
    }

    /// Keeps what is not there yet. A failure is logged: the result is right without the file.
    pub fn keep(&self, artifacts: &[Artifact]) {
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

    /// True if every artifact that a result refers to is here.
    pub fn has_all(&self, result: &ExecutionResult) -> bool {
        let has_file = |file: &ArtifactFile| {
            let sha256 = file.artifact.strip_prefix("sha256:").unwrap_or_default();
            self.dir.join(file_name(sha256, &file.media_type)).exists()
        };
        result.artifacts.iter().all(has_file)
            && result.outputs.iter().all(|output| {
                let told = output.table.iter().chain(&output.plot);
                let mut all = told
                    .map(|value| (JSON_TYPE, value))
                    .chain(output.preview.iter().map(|image| ("image/png", image)))
                    .chain(output.data.iter().map(|(kind, value)| (&**kind, value)));
                all.all(|(kind, value)| {
                    let name = value.get("artifact").and_then(Value::as_str);
                    let Some(sha256) = name.and_then(|name| name.strip_prefix("sha256:")) else {
                        return true;
                    };
                    // What a kernel named like an artifact is none.
                    sha256.len() != 64 || self.dir.join(file_name(sha256, kind)).exists()
                })
            })
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

    /// Stored artifacts, by their hashes. Blocks on the disk.
    pub fn list(&self) -> Vec<ArtifactInfo> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut all: Vec<ArtifactInfo> = entries.filter_map(|entry| info(&entry)).collect();
        all.sort_by(|one, other| one.sha256.cmp(&other.sha256));
        all
    }

    /// The artifact with this SHA-256 (64 hex digits), if it is here. Blocks on the disk.
    pub fn get(&self, sha256: &str) -> Option<StoredArtifact> {
        let found = fs::read_dir(&self.dir).ok()?.flatten().find_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let media_type = name.strip_prefix(sha256)?.strip_prefix('.')?.replace('%', "/");
            Some((entry.path(), media_type))
        });
        let (path, media_type) = found?;
        let file = fs::File::open(path).ok()?;
        Some(StoredArtifact {
            media_type,
            size: file.metadata().ok()?.len(),
            file: Arc::new(file),
        })
    }
}

fn info(entry: &fs::DirEntry) -> Option<ArtifactInfo> {
    let name = entry.file_name().into_string().ok()?;
    let (sha256, media_type) = name.split_once('.')?;
    // One that is being written has another name before it.
    let is_hash = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
    let known = entry.metadata().ok().filter(|_| is_hash)?;
    Some(ArtifactInfo {
        sha256: sha256.to_owned(),
        media_type: media_type.replace('%', "/"),
        size: known.len(),
        modified: known.modified().ok()?,
    })
}

/// A file with one writer, under a name that no lookup finds.
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

    #[tokio::test]
    async fn what_is_kept_is_found_with_its_type() {
        let log = tempfile::tempdir().unwrap();
        let store = ArtifactStore::beside(log.path());
        assert!(store.get(&"a".repeat(64)).is_none());
        store.keep(&[
            artifact("a", "image/svg+xml"),
            artifact("b", "../../x"),
            artifact("b", "../../x"),
        ]);
        let kept = store.get(&"a".repeat(64)).unwrap();
        assert_eq!((kept.media_type(), kept.size()), ("image/svg+xml", 7));
        assert_eq!(store.get(&"b".repeat(64)).unwrap().media_type(), UNKNOWN_TYPE);
        // Its file may go while it is read.
        fs::remove_dir_all(log.path().join("artifacts")).unwrap();
        for (first, most, part) in [
            (0, 100, "content"),
            (3, 2, "te"),
            (5, 9, "nt"),
            (7, 1, ""),
            (99, 1, ""),
        ] {
            assert_eq!(kept.read(first, most).await.unwrap(), part, "{first} {most}");
        }
    }

    #[test]
    fn an_artifact_is_kept_once() {
        let log = tempfile::tempdir().unwrap();
        let store = ArtifactStore::beside(log.path());
        store.keep(&[
            artifact("a", "image/svg+xml"),
            artifact("b", "../../x"),
            artifact("b", "../../x"),
        ]);
        assert_eq!(fs::read_dir(log.path().join("artifacts")).unwrap().count(), 2);
        let listed: Vec<_> = store
            .list()
            .into_iter()
            .map(|one| (one.sha256, one.media_type, one.size))
            .collect();
        assert_eq!(
            listed,
            [
                ("a".repeat(64), "image/svg+xml".to_owned(), 7),
                ("b".repeat(64), UNKNOWN_TYPE.to_owned(), 7)
            ]
        );
    }
}
