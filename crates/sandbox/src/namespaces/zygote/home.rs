//! The home directory of a zygote: empty when it starts, private, and gone when its modules are loaded.
//!
//! A zygote runs in the namespaces of the host, where the work directory of sandboxes does not belong to the gateway:
//! its creator would decide what the zygote imports.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::{SandboxError, SandboxId, inside};

/// Tries to make a directory.
const TRIES: u32 = 10;
/// Tells a zygote which directory its kernels will have where it has its home.
const OF_KERNELS: &str = "HIMALIA_HOME_OF_KERNELS";

/// A directory that is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Home(PathBuf);

impl Home {
    /// Makes one in `homes`, which is made if it is missing. Blocks.
    pub(super) fn make(homes: &Path) -> Result<Self, SandboxError> {
        let dir = homes.join(SandboxId::generate()?.to_string());
        let mut made = Ok(());
        // Another one that ends may take the directory of all with it in between.
        for _ in 0..TRIES {
            made = DirBuilder::new().recursive(true).mode(0o700).create(&dir);
            if !made
                .as_ref()
                .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
            {
                break;
            }
        }
        made.map_err(|error| SandboxError::io(&dir, error))?;
        Ok(Self(dir))
    }

    /// Variables for a zygote of kernels with these variables: the work directory of sandboxes, which `HOME` mostly is,
    /// is this directory wherever it is named.
    pub(super) fn env(&self, of_kernels: &BTreeMap<String, String>) -> BTreeMap<String, OsString> {
        let mut env: BTreeMap<String, OsString> = of_kernels
            .iter()
            .map(|(name, value)| (name.clone(), self.moved(value)))
            .collect();
        env.insert("HOME".to_owned(), self.0.clone().into());
        for (name, below) in [("IPYTHONDIR", ".ipython"), ("MPLCONFIGDIR", ".config/matplotlib")] {
            env.entry(name.to_owned())
                .or_insert_with(|| self.0.join(below).into());
        }
        env.insert(OF_KERNELS.to_owned(), inside::WORK_DIR.into());
        env
    }

    /// A path, or a list of paths, with this directory in place of the work directory.
    fn moved(&self, value: &str) -> OsString {
        if !value.contains(inside::WORK_DIR) {
            return value.into();
        }
        let parts = value
            .split(':')
            .map(|part| match Path::new(part).strip_prefix(inside::WORK_DIR) {
                Ok(rest) if rest.as_os_str().is_empty() => self.0.clone().into_os_string(),
                Ok(rest) => self.0.join(rest).into_os_string(),
                Err(_) => part.into(),
            });
        let parts: Vec<OsString> = parts.collect();
        parts.join(std::ffi::OsStr::new(":"))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(dir = %self.0.display(), %error, "the home directory of a zygote remains");
        }
        // The last one takes the directory of all with it.
        if let Some(homes) = self.0.parent() {
            let _ = fs::remove_dir(homes);
        }
    }
}

/// Removes what an earlier gateway has left. Blocks.
pub(in crate::namespaces) fn remove_all(homes: &Path) -> Result<(), SandboxError> {
    match fs::remove_dir_all(homes) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(SandboxError::io(homes, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn no_variable_names_the_work_directory_of_sandboxes() {
        let homes = tempfile::tempdir().unwrap();
        let home = Home::make(&homes.path().join("zygotes")).unwrap();
        let dir = home.0.clone();
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        let given = [
            ("HOME", "/session"),
            ("XDG_CACHE_HOME", "/session/.cache"),
            ("PYTHONPATH", "/opt/lib:/session/lib:/sessions"),
            ("IPYTHONDIR", "/opt/ipython"),
            ("PATH", "/usr/bin"),
        ];
        let given = given
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let env = home.env(&given);
        let here = |below: &str| format!("{}{below}", dir.display());
        for (name, value) in [
            ("HOME", here("")),
            ("XDG_CACHE_HOME", here("/.cache")),
            ("PYTHONPATH", format!("/opt/lib:{}:/sessions", here("/lib"))),
            ("IPYTHONDIR", "/opt/ipython".to_owned()),
            ("MPLCONFIGDIR", here("/.config/matplotlib")),
            ("PATH", "/usr/bin".to_owned()),
            (OF_KERNELS, "/session".to_owned()),
        ] {
            assert_eq!(env[name].to_str().unwrap(), value, "{name}");
        }
        fs::write(dir.join("left"), "").unwrap();
        drop(home);
        assert!(!dir.exists() && !dir.parent().unwrap().exists());
        remove_all(&homes.path().join("zygotes")).unwrap();
        remove_all(&homes.path().join("zygotes")).unwrap();
    }
}
