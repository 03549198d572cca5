//! Default paths.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::config::ConfigError;

/// `$XDG_DATA_HOME/himalia`, or `~/.local/share/himalia`.
fn home_dir(key: &'static str) -> Result<PathBuf, ConfigError> {
    let absolute = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let base = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    base.map(|base| base.join("himalia"))
        .ok_or_else(|| ConfigError::new(key, "must be given, since neither XDG_DATA_HOME nor HOME is set"))
}

/// The given data directory or the usual one, absolute.
pub(crate) fn data_dir(given: Option<PathBuf>) -> Result<PathBuf, ConfigError> {
    given.map_or_else(
        || Ok(home_dir("data_dir")?.join("data")),
        |dir| absolute("data_dir", &dir),
    )
}

/// The given directory of Python environments or the usual one, absolute.
pub(crate) fn env_dir(given: Option<PathBuf>) -> Result<PathBuf, ConfigError> {
    given.map_or_else(
        || Ok(home_dir("env_dir")?.join("env")),
        |dir| absolute("env_dir", &dir),
    )
}

/// `path` as seen from the root.
pub(crate) fn absolute(key: &'static str, path: &Path) -> Result<PathBuf, ConfigError> {
    std::path::absolute(path).map_err(|error| ConfigError::new(key, error.to_string()))
}

/// Makes a directory for this user alone, with its parents, if it is missing.
pub(crate) fn make_private(dir: &Path) -> anyhow::Result<()> {
    /// A gateway that ends may take an empty parent with it, as often as gateways end.
    const TRIES: u32 = 10;
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    let mut made = builder.create(dir);
    for _ in 0..TRIES {
        if made
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::NotFound)
        {
            made = builder.create(dir);
        }
    }
    made.with_context(|| format!("cannot make the directory {}", dir.display()))
}

/// The first regular executable file called `name` on `PATH`.
pub(crate) fn on_path(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|dir| dir.join(name.as_ref()))
        .find(|file| is_executable(file))
}

/// Whether this is a regular file with an execute bit.
pub(crate) fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
