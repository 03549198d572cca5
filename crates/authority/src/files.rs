//! The two files of an authority.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::{CERT_FILE, KEY_FILE};

/// Key and certificate; `None` when neither is there.
pub(crate) fn read(dir: &Path) -> io::Result<Option<(String, String)>> {
    let (key, cert) = (dir.join(KEY_FILE), dir.join(CERT_FILE));
    if !key.try_exists()? && !cert.try_exists()? {
        return Ok(None);
    }
    let named =
        |path: &Path, error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let meta = fs::metadata(&key).map_err(|error| named(&key, error))?;
    if meta.mode() & 0o077 != 0 {
        return Err(named(
            &key,
            io::Error::other("others can read it; it must have mode 0600"),
        ));
    }
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| named(path, error));
    Ok(Some((read(&key)?, read(&cert)?)))
}

/// Writes both. The key comes last, under its name in one step: a certificate without it is refused, and says so.
pub(crate) fn write(dir: &Path, key: &str, cert: &str) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let put = |name: &str, text: &str| {
        let new = dir.join(format!("{name}.new"));
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, dir.join(name))
    };
    put(CERT_FILE, cert)?;
    put(KEY_FILE, key)
}
