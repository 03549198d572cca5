use std::os::fd::{AsFd, BorrowedFd};

use himalia_shim_protocol::{StreamDone, StreamFailure, WALK_MAX};
use rustix::fs::{AtFlags, Dir, FileType, statat, unlinkat};
use rustix::io::Errno;

use super::beneath::Root;
use super::failure::{Failure, Result};
use super::path::{DEPTH_MAX, Relative};
use super::staging::open_dir;

/// Removes a file, a link or a directory.
pub(super) fn run(root: &Root, path: &Relative, recursive: bool) -> Result<StreamDone> {
    let what = path.text();
    let failed = |error| Failure::of(&what, error);
    let (dir, name) = root.parent(path)?;
    let stat = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        unlinkat(&dir, name, AtFlags::empty()).map_err(failed)?;
        return Ok(removed(1));
    }
    if recursive {
        return tree(dir.as_fd(), name.as_bytes()).map(removed);
    }
    unlinkat(&dir, name, AtFlags::REMOVEDIR).map_err(failed)?;
    Ok(removed(1))
}

fn removed(entries: u64) -> StreamDone {
    StreamDone {
        entries,
        ..StreamDone::default()
    }
}

/// Removes a directory with what is in it, at most [`WALK_MAX`] entries. Links are removed, not followed.
pub(super) fn tree(parent: BorrowedFd<'_>, name: &[u8]) -> Result<u64> {
    let mut removed = 0;
    remove(parent, name, 0, &mut removed)?;
    Ok(removed)
}

fn remove(parent: BorrowedFd<'_>, name: &[u8], depth: usize, removed: &mut u64) -> Result<()> {
    let what = String::from_utf8_lossy(name);
    let failed = |error| Failure::of(&what, error);
    if depth > DEPTH_MAX {
        let reason = format!("directories are more than {DEPTH_MAX} deep");
        return Err(Failure::new(StreamFailure::TooLarge, reason));
    }
    let dir = open_dir(parent, name).map_err(failed)?;
    for entry in Dir::read_from(&dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        match unlinkat(&dir, name, AtFlags::empty()) {
            Ok(()) => count(removed)?,
            Err(Errno::NOENT) => {}
            // Linux says the first, POSIX the second.
            Err(Errno::ISDIR | Errno::PERM) => remove(dir.as_fd(), name, depth + 1, removed)?,
            Err(error) => return Err(Failure::of(&String::from_utf8_lossy(name), error)),
        }
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR).map_err(failed)?;
    count(removed)
}

fn count(removed: &mut u64) -> Result<()> {
    *removed += 1;
    if *removed > WALK_MAX {
        let reason = format!("{WALK_MAX} entries were removed, there are more");
        return Err(Failure::new(StreamFailure::TooLarge, reason));
    }
    Ok(())
}
