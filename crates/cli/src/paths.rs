//! Path of a gateway's data directory.

use std::env;
use std::path::{Path, PathBuf};

use crate::config_error::ConfigError;

/// `$XDG_DATA_HOME/himalia`, or `~/.local/share/himalia`.
///
/// # Errors
/// Neither variable is set; the error names the setting `key`.
pub fn home_dir(key: &'static str) -> Result<PathBuf, ConfigError> {
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
///
/// # Errors
/// None is given, and there is no usual one.
pub fn data_dir(given: Option<PathBuf>) -> Result<PathBuf, ConfigError> {
    given.map_or_else(
        || Ok(home_dir("data_dir")?.join("data")),
        |dir| absolute("data_dir", &dir),
    )
}

/// `path` as seen from the root.
///
/// # Errors
/// It is empty, or there is no current directory; the error names the setting `key`.
pub fn absolute(key: &'static str, path: &Path) -> Result<PathBuf, ConfigError> {
    std::path::absolute(path).map_err(|error| ConfigError::new(key, error.to_string()))
}
