//! The work directory of a session, and copies of it for branches.

mod copy;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::options::Options;

pub(crate) use copy::{CopyError, CopySummary, copy};

/// Directory of branches in the first link's directory. It is not copied itself.
pub(crate) use himalia_shim_protocol::BRANCHES;

/// The work directory of a session whose kernel was started in `started_in`: the copy that its branch has, or the
/// sandbox's. In a sandbox the spill files are in the work directory, to which links may lead; elsewhere it is where the kernel was started.
pub(crate) fn root(options: &Options, copy: Option<&WorkCopy>, started_in: &Path) -> PathBuf {
    match (copy, &options.spill_dir) {
        (Some(copy), _) => copy.path().to_owned(),
        (None, Some(dir)) if started_in.starts_with(dir) || is_below(started_in, dir) => dir.clone(),
        _ => started_in.to_owned(),
    }
}

fn is_below(started_in: &Path, dir: &Path) -> bool {
    started_in.canonicalize().is_ok_and(|real| real.starts_with(dir))
}

/// The files of a branch. Removed with their last user.
#[derive(Debug)]
pub(crate) struct WorkCopy {
    path: PathBuf,
    /// The directory of all copies.
    base: PathBuf,
}

impl WorkCopy {
    /// A directory that is about to be made; whatever is there is removed in the end.
    pub(crate) fn new(base: PathBuf, name: &str) -> Self {
        Self {
            path: base.join(name),
            base,
        }
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of all copies.
    pub(crate) fn base(&self) -> &Path {
        &self.base
    }
}

impl WorkCopy {
    /// Removes it and waits until it is gone.
    pub(crate) async fn remove(self) {
        let dirs = (self.path.clone(), self.base.clone());
        let _ = tokio::task::spawn_blocking(move || remove(&dirs.0, &dirs.1)).await;
    }

    /// Removes it, even if it is still in use. Blocks.
    pub(crate) fn remove_now(&self) {
        remove(&self.path, &self.base);
    }
}

impl Drop for WorkCopy {
    fn drop(&mut self) {
        let (path, base) = (self.path.clone(), self.base.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn_blocking(move || remove(&path, &base)));
        }
    }
}

fn remove(path: &Path, base: &Path) {
    // Of the standard library: does not follow links either.
    if let Err(error) = fs::remove_dir_all(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::info!("{} stays: {error}", path.display());
    }
    // Fails while there are others.
    let _ = fs::remove_dir(base);
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn a_link_to_the_work_directory_leads_to_it() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (dir, link) = (place.join("home"), place.join("link"));
        fs::create_dir_all(dir.join("sub")).unwrap();
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        let arguments =
            ["", "--gateway-dir", "/gw", "--runtime-dir", "/run", "--spill-dir"].map(PathBuf::from);
        let options = Options::parse_from(arguments.iter().chain([&dir]));
        for started_in in [
            &dir,
            &dir.join("sub"),
            &dir.join("gone"),
            &link,
            &link.join("sub"),
        ] {
            assert_eq!(root(&options, None, started_in), dir, "{}", started_in.display());
        }
        assert_eq!(root(&options, None, &place), place);
    }
}
