use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::delete;
use super::failure::{Failure, Result};

/// Names of what is not in its place yet begin like this.
pub(super) const PREFIX: &str = ".himalia-upload-";
/// A file of a session, for its user to change and for everybody in its sandbox to read.
pub(super) const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
pub(super) const DIR_MODE: Mode = Mode::from_raw_mode(0o755);

pub(super) fn new_file(dir: BorrowedFd<'_>, name: impl rustix::path::Arg) -> rustix::io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, FILE_MODE).map(File::from)
}

fn random_name() -> Result<String> {
    let random = crate::random::random_u64().map_err(|error| Failure::io("random numbers", &error))?;
    Ok(format!("{PREFIX}{random:016x}"))
}

/// A file that is being written beside the one that it will be. Removed unless it gets its name.
#[derive(Debug)]
pub(super) struct StagedFile<'a> {
    dir: BorrowedFd<'a>,
    name: String,
    pub(super) file: File,
    kept: bool,
}

impl<'a> StagedFile<'a> {
    pub(super) fn new(dir: BorrowedFd<'a>) -> Result<Self> {
        let name = random_name()?;
        let file = new_file(dir, &name).map_err(|error| Failure::of("the new file", error))?;
        Ok(Self {
            dir,
            name,
            file,
            kept: false,
        })
    }

    /// Gives it its name, in place of whatever has it; a link is replaced, not followed.
    pub(super) fn keep(mut self, name: &str) -> rustix::io::Result<()> {
        renameat(self.dir, &self.name, self.dir, name)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for StagedFile<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let _ = unlinkat(self.dir, &self.name, AtFlags::empty());
        }
    }
}

/// A directory for files that are not in their places yet. Removed with what is left in it.
#[derive(Debug)]
pub(super) struct StagedDir<'a> {
    parent: BorrowedFd<'a>,
    name: String,
    dir: OwnedFd,
}

impl<'a> StagedDir<'a> {
    pub(super) fn new(parent: BorrowedFd<'a>) -> Result<Self> {
        let name = random_name()?;
        let failed = |error| Failure::of("the new files", error);
        mkdirat(parent, &name, DIR_MODE).map_err(failed)?;
        let dir = open_dir(parent, &name).map_err(failed)?;
        Ok(Self { parent, name, dir })
    }

    pub(super) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

impl Drop for StagedDir<'_> {
    fn drop(&mut self) {
        let _ = delete::tree(self.parent, self.name.as_bytes());
    }
}

/// A directory, by its name and not through a link.
pub(super) fn open_dir(at: BorrowedFd<'_>, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(at, name, flags, Mode::empty()) {
        // What a link answers to `O_NOFOLLOW`.
        Err(Errno::LOOP) => Err(Errno::NOTDIR),
        other => other,
    }
}
