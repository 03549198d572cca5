//! Default paths.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use himalia_cli::ConfigError;
use himalia_cli::paths::home_dir;
pub(crate) use himalia_cli::paths::{absolute, data_dir};

/// The given directory of Python environments or the usual one, absolute.
pub(crate) fn env_dir(given: Option<PathBuf>) -> Result<PathBuf, ConfigError> {
    given.map_or_else(
        || Ok(home_dir("env_dir")?.join("env")),
        |dir| absolute("env_dir", &dir),
    )
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

/// The first regular executable file called `name`: beside this program, or on `PATH`.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let own = env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = env::var_os("PATH").unwrap_or_default();
    beside
        .into_iter()
        .chain(env::split_paths(&path))
        .map(|dir| dir.join(name.as_ref()))
        .find(|file| is_executable(file))
}

/// Returns true for a regular file with an execute bit.
pub(crate) fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
