//! The data directory: other users may not write to it. They could replace the token, or the address to which commands send it. Nor may they
//! replace the directory itself ([`ancestors`]).

mod ancestors;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};

use crate::paths;
pub(crate) use ancestors::check as check_parents;

const WRITES: u32 = 0o022;
const READS: u32 = 0o055;

/// Makes the directory for this user alone, or checks that other users cannot write to it. They cannot write to its parents either.
///
/// # Errors
/// Names the directory, who may write to it, and the command that changes this.
pub(crate) fn open(dir: &Path) -> anyhow::Result<()> {
    check_parents(dir)?;
    paths::make_private(dir)?;
    let shown = dir.display();
    let meta = fs::metadata(dir).with_context(|| format!("data_dir: cannot look at {shown}"))?;
    let (owner, user) = (meta.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        bail!(
            "data_dir: {shown} belongs to the user with uid {owner}, who could replace the token in it; expected uid {user}, which runs the \
             gateway: give a directory below it (which is made), or run chown {user} {shown}"
        );
    }
    let mode = meta.mode();
    if mode & WRITES != 0 {
        bail!(
            "data_dir: other users may write to {shown} (mode {:o}), and could replace the token in it; run chmod 700 {shown}",
            mode & 0o7777
        );
    }
    if mode & READS != 0 {
        tracing::warn!(dir = %shown, "other users may look into the data directory; chmod 700 makes it private");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    fn with_mode(mode: u32) -> Result<(), String> {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::set_permissions(&data, fs::Permissions::from_mode(mode)).unwrap();
        open(&data).map_err(|error| error.to_string())
    }

    #[test]
    fn a_directory_that_others_write_to_is_refused() {
        for mode in [0o777, 0o770, 0o702, 0o1777, 0o2775] {
            let refused = with_mode(mode).unwrap_err();
            assert!(
                refused.starts_with("data_dir: ") && refused.contains("chmod 700"),
                "{refused}"
            );
        }
        for mode in [0o700, 0o755, 0o750] {
            with_mode(mode).unwrap();
        }
    }

    #[test]
    fn nothing_is_made_below_a_directory_that_every_user_may_write_to() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let refused = open(&dir.path().join("a/data")).unwrap_err().to_string();
        assert!(
            refused.starts_with("data_dir: ") && refused.contains("chmod o-w"),
            "{refused}"
        );
        assert!(!dir.path().join("a").exists());
    }

    #[test]
    fn a_new_directory_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("a/b");
        open(&data).unwrap();
        assert_eq!(fs::metadata(&data).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        // Only root can give one away; for others, the root directory is another user's.
        let other = match chown(dir.path(), Some(12_345), None) {
            Ok(()) => dir.path(),
            Err(_) => Path::new("/"),
        };
        let refused = open(other).unwrap_err().to_string();
        assert!(refused.contains("belongs to the user with uid"), "{refused}");
    }
}
