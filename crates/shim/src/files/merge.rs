//! Moves what is in one directory into another one, where some of it may be already.

use std::os::fd::{AsFd, BorrowedFd};

use himalia_shim_protocol::WALK_MAX;
use rustix::fs::{AtFlags, FileType, renameat, statat};
use rustix::io::Errno;

use super::failure::{Failure, Result};
use super::list::names;
use super::staging::open_dir;

/// Refuses what cannot be moved: a file where a directory is, a directory where something else is.
pub(super) fn check(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<()> {
    walk(from, to, false)
}

/// Moves. Files and links are replaced, directories are gone into.
pub(super) fn run(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<()> {
    walk(from, to, true)
}

fn walk(from: BorrowedFd<'_>, to: BorrowedFd<'_>, moves: bool) -> Result<()> {
    let (names, _) = names(from, WALK_MAX).map_err(|error| Failure::of("the new files", error))?;
    for name in names {
        let failed = |error| Failure::of(&String::from_utf8_lossy(&name), error);
        let is_dir = kind(from, &name).map_err(failed)? == Some(FileType::Directory);
        match (is_dir, kind(to, &name).map_err(failed)?) {
            (true, Some(FileType::Directory)) => {
                let below = open_dir(from, &name[..]).map_err(failed)?;
                let there = open_dir(to, &name[..]).map_err(failed)?;
                walk(below.as_fd(), there.as_fd(), moves)?;
            }
            (true, Some(_)) => return Err(failed(Errno::NOTDIR)),
            (false, Some(FileType::Directory)) => return Err(failed(Errno::ISDIR)),
            _ if moves => renameat(from, &name[..], to, &name[..]).map_err(failed)?,
            _ => {}
        }
    }
    Ok(())
}

fn kind(dir: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<Option<FileType>> {
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}
