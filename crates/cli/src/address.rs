//! The file in which a running gateway says where it is, for commands on the same machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Name of the file in the data directory, which only the gateway's user may enter.
const NAME: &str = "gateway.json";

/// Address of a gateway, without its token.
#[derive(Debug, Deserialize, Serialize)]
pub struct Address {
    /// With the base URL.
    pub url: String,
    /// The file that the token is in, if it is in one.
    pub token_file: Option<PathBuf>,
}

impl Address {
    /// Writes it; readers see all of it or the one before.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, data_dir: &Path) -> io::Result<()> {
        let path = data_dir.join(NAME);
        let fresh = path.with_extension("new");
        fs::write(&fresh, serde_json::to_vec(self)?)?;
        fs::rename(&fresh, &path)
    }

    /// The one in this data directory. It may be left from a gateway that was killed.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn read(data_dir: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(data_dir.join(NAME))?)?)
    }

    /// Removes it at the end of a gateway.
    pub fn remove(data_dir: &Path) {
        let _ = fs::remove_file(data_dir.join(NAME));
    }
}
