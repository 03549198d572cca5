//! The lock that allows one gateway per directory.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Name of the file that is locked.
pub(crate) const FILE: &str = "lock";

/// Holds a directory until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct DirLock {
    _file: File,
}

/// Takes the lock of `dir`, or says who has it.
pub(crate) fn take(dir: &Path) -> anyhow::Result<DirLock> {
    let mut file = open(dir)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        // The one that had it may have removed the directory at its end.
        Ok(()) if !is_there(&file, dir) => return take(dir),
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut holder = String::new();
            let _ = file.take(32).read_to_string(&mut holder);
            bail!(
                "another gateway (process {}) uses {}",
                holder.trim(),
                dir.display()
            );
        }
        Err(error) => return Err(error).with_context(|| format!("cannot lock {}", dir.display())),
    }
    // Only for the message above.
    let _ = file
        .set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(DirLock { _file: file })
}

/// Takes the lock of `dir`, and waits while another process has it; `waiting` is called before a wait.
pub(crate) fn wait(dir: &Path, waiting: impl FnOnce()) -> anyhow::Result<DirLock> {
    let file = open(dir)?;
    let locked = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            waiting();
            flock(&file, FlockOperation::LockExclusive)
        }
        other => other,
    };
    locked.with_context(|| format!("cannot lock {}", dir.display()))?;
    Ok(DirLock { _file: file })
}

/// Returns true if the directory still has this file.
fn is_there(file: &File, dir: &Path) -> bool {
    let inode = |meta: std::fs::Metadata| meta.ino();
    let own = file.metadata().map(inode).ok();
    own == std::fs::metadata(dir.join(FILE)).map(inode).ok()
}

fn open(dir: &Path) -> anyhow::Result<File> {
    let path = dir.join(FILE);
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    options
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_holder_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let held = take(dir.path()).unwrap();
        let error = take(dir.path()).unwrap_err().to_string();
        assert!(
            error.contains(&format!("process {}", std::process::id())),
            "{error}"
        );
        drop(held);
        // A process that another test starts has the file too, from its fork to its exec.
        let deadline = himalia_testkit::patience::Deadline::new();
        while take(dir.path()).is_err() {
            assert!(!deadline.is_over(), "it is still held");
            std::thread::yield_now();
        }
    }
}
