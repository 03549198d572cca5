//! Files that outlive their sandbox: `<data directory>/files/<name>`, owned by the user id of the sandboxes that use
//! them.

mod measure;
mod tree;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use himalia_jail::HostIds;

use crate::SandboxError;
use crate::host::layout::private_dir;

pub(super) use measure::measure;

/// Characters of a name.
const MAX_NAME: usize = 64;

/// The directory of all kept files.
#[derive(Clone, Debug)]
pub(super) struct KeptFiles {
    dir: PathBuf,
}

impl KeptFiles {
    /// Makes the directory if it is missing.
    pub(super) fn open(data_dir: &Path) -> Result<Self, SandboxError> {
        let dir = data_dir.join("files");
        private_dir(&dir)?;
        // A symbolic link in the path would not be the same directory for every process.
        let dir = fs::canonicalize(&dir).map_err(|error| SandboxError::io(&dir, error))?;
        Ok(Self { dir })
    }

    /// The directory, which need not be there.
    pub(super) fn at(data_dir: &Path) -> Self {
        Self {
            dir: data_dir.join("files"),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The user id of the files of this name; `None` when there are none.
    pub(super) fn owner(&self, name: &str) -> Option<u32> {
        fs::symlink_metadata(self.path(name)).ok().map(|meta| meta.uid())
    }

    pub(super) fn names(&self) -> Result<Vec<String>, SandboxError> {
        let entries = fs::read_dir(&self.dir).map_err(|error| SandboxError::io(&self.dir, error))?;
        let name = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
        Ok(entries
            .filter_map(name)
            .filter(|name| check_name(name).is_ok())
            .collect())
    }

    /// The user ids of all kept files.
    pub(super) fn owners(&self) -> Vec<u32> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten();
        entries
            .filter_map(|entry| entry.ok()?.metadata().ok())
            .map(|meta| meta.uid())
            .collect()
    }

    /// Makes the directory of this name, for this user.
    pub(super) fn create(&self, name: &str, owner: Option<HostIds>) -> Result<(), SandboxError> {
        let path = self.path(name);
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .and_then(|()| match owner {
                Some(ids) => chown(&path, Some(ids.uid), Some(ids.gid)),
                None => Ok(()),
            })
            .map_err(|error| SandboxError::io(&path, error))
    }

    /// Removes the files of this name. Blocks.
    pub(super) fn remove(&self, name: &str) -> Result<(), SandboxError> {
        let path = self.path(name);
        tree::remove(&self.dir, name).map_err(|error| SandboxError::io(&path, error))
    }
}

/// Checks a name that files are kept under.
pub(super) fn check_name(name: &str) -> Result<(), SandboxError> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    if (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(SandboxError::BadSpec {
        field: "files",
        reason: format!("has a name that is not 1 to {MAX_NAME} characters of a-z, 0-9, _ and -"),
    })
}

#[cfg(test)]
mod tests;
