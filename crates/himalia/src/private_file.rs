//! Secrets that are made here.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;

/// Makes a secret of so many random bytes, in hexadecimal digits, and keeps it in a file for this user alone (0600).
/// `what` names it in errors.
///
/// # Errors
/// There is no randomness, or the file cannot be written.
pub(crate) fn make(path: &Path, bytes: usize, what: &str) -> anyhow::Result<String> {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random)
        .with_context(|| format!("the random number generator failed: cannot make {what}"))?;
    let text = hex::encode(random);
    // Renamed into place, so that an interrupted start leaves no half of it.
    let fresh = path.with_extension("new");
    let _ = fs::remove_file(&fresh);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh);
    written
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&fresh, path))
        .with_context(|| format!("cannot keep {what} in {}", path.display()))?;
    Ok(text)
}
