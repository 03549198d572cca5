//! Disk usage of a directory.

use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use crate::SandboxError;

/// Files and directories that are counted; more than that is too many.
pub(super) const MAX_ENTRIES: u64 = 200_000;
/// Directories inside directories that are looked into, each with an open descriptor.
const MAX_DEPTH: usize = 128;
/// Size of the unit of `st_blocks` (`stat(3type)`).
const BLOCK_BYTES: u64 = 512;

/// Disk usage of a directory.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::namespaces) struct MeasuredFiles {
    /// Space that is allocated for it.
    pub(in crate::namespaces) bytes: u64,
    /// Files and directories.
    pub(in crate::namespaces) entries: u64,
    /// It has more entries, or deeper ones, than are counted.
    pub(in crate::namespaces) truncated: bool,
}

/// Measures a directory that others write to meanwhile. Follows no link and stays on its file system. Blocks.
pub(in crate::namespaces) fn measure(dir: &Path) -> Result<MeasuredFiles, SandboxError> {
    let failed = |error: rustix::io::Errno| SandboxError::io(dir, error);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = rustix::fs::open(dir, flags, Mode::empty()).map_err(failed)?;
    let device = rustix::fs::fstat(&top).map_err(failed)?.st_dev;
    let mut sum = MeasuredFiles::default();
    // The directories from the top to the one that is being read.
    let mut path = vec![Dir::new(top).map_err(failed)?];
    while let Some(directory) = path.last_mut() {
        let Some(Ok(entry)) = directory.next() else {
            path.pop();
            continue;
        };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if sum.entries >= MAX_ENTRIES {
            sum.truncated = true;
            break;
        }
        let Ok(here) = directory.fd() else { continue };
        // What is gone by now counts nothing.
        let Ok(stat) = rustix::fs::statat(here, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        sum.entries += 1;
        let bytes = u64::try_from(stat.st_blocks)
            .unwrap_or(0)
            .saturating_mul(BLOCK_BYTES);
        sum.bytes = sum.bytes.saturating_add(bytes);
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory || stat.st_dev != device {
            continue;
        }
        let child = rustix::fs::openat(here, name, flags, Mode::empty()).and_then(Dir::new);
        match child {
            Ok(child) if path.len() < MAX_DEPTH => path.push(child),
            Err(rustix::io::Errno::NOENT) => {}
            // Too deep, or without any permission: its content is unknown.
            Ok(_) | Err(_) => sum.truncated = true,
        }
    }
    Ok(sum)
}
