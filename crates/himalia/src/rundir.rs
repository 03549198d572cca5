//! The directory for sockets: short, private, and the same one for the same data directory, since kernels that an
//! earlier gateway left can be found only there.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use himalia_sandbox::{RUNTIME_NAME_BYTES, SOCKET_PATH_BYTES, remove_run_dir};
use sha2::{Digest as _, Sha256};

use crate::sandboxes::{DOCKER_DIR, NAMESPACES_DIR};
use crate::{lock, paths};

/// File of the data directory that names its run directory.
const NOTE: &str = "run-dir";
/// Longest path below the run directory: `/`, a provisioner's directory, `/`, a sandbox's name with its suffix, and a socket in it.
const BELOW: usize = 2 + 1 + 32 + 3 + 1 + RUNTIME_NAME_BYTES;
/// The longest run directory.
pub(crate) const MAX_BYTES: usize = SOCKET_PATH_BYTES - BELOW;

/// Chooses and makes the run directory. The choice is kept in the data directory and made again only when that
/// directory has gone, so that a gateway that is started from another login finds its kernels.
pub(crate) fn prepare(given: Option<&Path>, data_dir: &Path) -> anyhow::Result<PathBuf> {
    let note = data_dir.join(NOTE);
    let dir = if let Some(known) = given.map(Path::to_owned).or_else(|| recall(data_dir)) {
        known
    } else {
        let chosen = choose(data_dir);
        private(chosen.parent().unwrap_or(&chosen))?;
        chosen
    };
    check_length(&dir)?;
    private(&dir)?;
    fs::write(&note, dir.as_os_str().as_bytes())
        .with_context(|| format!("cannot write {}", note.display()))?;
    Ok(dir)
}

/// The run directory that would be chosen: a name from the data directory's, below the first of
/// `$XDG_RUNTIME_DIR/himalia`, `/run/himalia` (root) and `/tmp/himalia-<uid>` that can be had.
pub(crate) fn choose(data_dir: &Path) -> PathBuf {
    let data_dir = data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned());
    let hash = Sha256::digest(data_dir.as_os_str().as_bytes());
    base().join(hex::encode(&hash[..4]))
}

fn base() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    let ours = |dir: &Path| fs::metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.uid() == user);
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    if let Some(session) = session.filter(|dir| dir.is_absolute() && ours(dir)) {
        let base = session.join("himalia");
        if base.as_os_str().len() + 9 <= MAX_BYTES {
            return base;
        }
    }
    if user == 0 && ours(Path::new("/run")) {
        return PathBuf::from("/run/himalia");
    }
    PathBuf::from(format!("/tmp/himalia-{user}"))
}

/// The directory that was chosen before, if it is still there.
pub(crate) fn recall(data_dir: &Path) -> Option<PathBuf> {
    use std::ffi::OsStr;
    let bytes = fs::read(data_dir.join(NOTE)).ok()?;
    let dir = PathBuf::from(OsStr::from_bytes(&bytes));
    (dir.is_absolute() && dir.is_dir()).then_some(dir)
}

/// Removes the run directory, and the one that was made for all of this user's gateways, unless something has files there:
/// sandboxes that live on, another gateway. To be called by the one that holds its lock.
pub(crate) fn remove(dir: &Path) {
    for below in [NAMESPACES_DIR, DOCKER_DIR] {
        remove_run_dir(&dir.join(below));
    }
    let others = fs::read_dir(dir).map(|entries| {
        let names = entries.flatten().map(|entry| entry.file_name());
        names.filter(|name| name != lock::FILE).count()
    });
    if others.is_ok_and(|count| count == 0) {
        let _ = fs::remove_file(dir.join(lock::FILE));
        let _ = fs::remove_dir(dir);
    }
    let base = base();
    if dir.starts_with(&base) {
        let _ = fs::remove_dir(base);
    }
}

/// Refuses a directory in which socket paths would not fit into a socket address.
pub(crate) fn check_length(dir: &Path) -> anyhow::Result<()> {
    let bytes = dir.as_os_str().len();
    ensure!(
        bytes <= MAX_BYTES,
        "run_dir: {} has {bytes} bytes; at most {MAX_BYTES} are possible, since paths of sockets end at \
         {SOCKET_PATH_BYTES}; give a short one, such as --run-dir /tmp/himalia",
        dir.display()
    );
    Ok(())
}

/// Makes `dir` for this user alone, or checks that it is that.
pub(crate) fn private(dir: &Path) -> anyhow::Result<()> {
    paths::make_private(dir)?;
    let meta = fs::symlink_metadata(dir).with_context(|| format!("cannot look at {}", dir.display()))?;
    let user = rustix::process::geteuid().as_raw();
    if !meta.is_dir() || meta.uid() != user {
        bail!(
            "run_dir: {} is not a directory of this user (uid {user})",
            dir.display()
        );
    }
    if meta.mode() & 0o077 != 0 {
        bail!(
            "run_dir: other users may enter {}; make it private: chmod 700 {0}",
            dir.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_choice_depends_on_the_data_directory_and_is_kept() {
        let data = tempfile::tempdir().unwrap();
        let run = tempfile::Builder::new().prefix("r").tempdir_in("/tmp").unwrap();
        assert_ne!(choose(Path::new("/a")), choose(Path::new("/b")));
        assert_eq!(choose(Path::new("/a")), choose(Path::new("/a")));
        let given = run.path().join("x");
        assert_eq!(prepare(Some(&given), data.path()).unwrap(), given);
        assert_eq!(fs::metadata(&given).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(prepare(None, data.path()).unwrap(), given, "it is remembered");
        fs::remove_dir(&given).unwrap();
        assert_eq!(recall(data.path()), None);
    }

    #[test]
    fn what_is_used_no_more_is_removed_and_nothing_else() {
        let data = tempfile::tempdir().unwrap();
        let above = tempfile::Builder::new().prefix("r").tempdir_in("/tmp").unwrap();
        let run = prepare(Some(&above.path().join("run")), data.path()).unwrap();
        let _lock = lock::take(&run).unwrap();
        let sandbox = run.join("n").join("0".repeat(32));
        fs::create_dir_all(&sandbox).unwrap();
        fs::create_dir_all(run.join("d")).unwrap();
        fs::write(run.join("n/zygotes.log"), "x").unwrap();
        remove(&run);
        assert!(sandbox.is_dir() && run.join("lock").exists() && !run.join("d").exists());
        fs::remove_dir(&sandbox).unwrap();
        fs::create_dir_all(run.join("n/zygotes/home")).unwrap();
        fs::write(run.join("of-the-operator"), "x").unwrap();
        remove(&run);
        assert!(!run.join("n").exists() && run.join("of-the-operator").exists());
        fs::remove_file(run.join("of-the-operator")).unwrap();
        remove(&run);
        assert!(!run.exists() && above.path().exists());
    }

    #[test]
    fn long_and_open_directories_are_refused() {
        let data = tempfile::tempdir().unwrap();
        let long = PathBuf::from(format!("/tmp/{}", "x".repeat(MAX_BYTES)));
        let error = prepare(Some(&long), data.path()).unwrap_err().to_string();
        assert!(error.contains("bytes; at most"), "{error}");
        assert!(!long.exists());
        let open = tempfile::Builder::new().prefix("o").tempdir_in("/tmp").unwrap();
        fs::set_permissions(open.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let error = prepare(Some(open.path()), data.path()).unwrap_err().to_string();
        assert!(error.contains("chmod 700"), "{error}");
    }
}
