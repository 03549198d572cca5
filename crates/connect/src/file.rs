//! The connection file in Jupyter's runtime directory.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A file that is removed at the end.
#[derive(Debug)]
pub(crate) struct RuntimeFile(PathBuf);

impl RuntimeFile {
    /// Writes a new file, for this user alone, into a directory that is made if it is not there.
    pub(crate) fn write(dir: &Path, name: &str, content: &[u8]) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let path = dir.join(name);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let written = Self(path);
        file.write_all(content)?;
        Ok(written)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for RuntimeFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn it_is_private_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = dir.path().join("jupyter/runtime");
        let file = RuntimeFile::write(&runtime, "kernel-1.json", b"{}").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(file.path()), mode(&runtime)), (0o600, 0o700));
        assert!(RuntimeFile::write(&runtime, "kernel-1.json", b"other").is_err());
        assert_eq!(fs::read(file.path()).unwrap(), b"{}");
        let path = file.path().to_owned();
        drop(file);
        assert!(!path.exists());
    }
}
