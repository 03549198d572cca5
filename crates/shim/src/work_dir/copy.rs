//! Copies what is in a directory.
//!
//! The kernel whose files are copied continues meanwhile and is hostile: every directory is opened below the one before
//! without following links, files are opened without waiting, and every count is bounded.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps, fchmod, fstat, fstatvfs, futimens,
    ioctl_ficlone, mkdirat, openat, readlinkat, statat, symlinkat,
};

use super::BRANCHES;

/// Most files, directories and links of a copy.
const ENTRIES_MAX: u64 = 100_000;
/// Most directories inside of each other.
const DEPTH_MAX: usize = 100;
/// Copied at once; between two, the copy can be given up.
const CHUNK_BYTES: usize = 256 * 1024;

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct CopySummary {
    /// Bytes of files.
    pub(crate) bytes: u64,
    /// Entries that are no file, directory or link.
    pub(crate) skipped: u32,
}

/// Reason why there is no copy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    /// A bound was reached.
    #[error("{0}")]
    TooLarge(String),
    /// Something could not be read or written.
    #[error("{what}: {error}")]
    Failed {
        /// Object that could not be copied.
        what: String,
        error: io::Error,
    },
    /// The shim is ending.
    #[error("the shim is ending")]
    Cancelled,
}

/// Copies what is in `from` to the new directory `to`: files (sharing their blocks where the file system can),
/// directories and links as links. Blocks.
pub(crate) fn copy(
    from: &Path,
    to: &Path,
    max_bytes: u64,
    cancel: &Arc<AtomicBool>,
) -> Result<CopySummary, CopyError> {
    let source = open_dir(CWD, from).map_err(|error| failed(&from.display(), error))?;
    let mut measure = Job::new(max_bytes, cancel);
    measure.walk(source.as_fd(), None, 0)?;
    if let Some(base) = to.parent() {
        make_private(base)?;
    }
    make_private_new(to)?;
    let target = open_dir(CWD, to).map_err(|error| failed(&to.display(), error))?;
    let mut job = Job::new(max_bytes, cancel);
    job.expected = measure.copied.bytes;
    job.walk(source.as_fd(), Some(target.as_fd()), 0)?;
    Ok(job.copied)
}

fn make_private(dir: &Path) -> Result<(), CopyError> {
    match make_private_new(dir) {
        Err(CopyError::Failed { error, .. }) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

fn make_private_new(dir: &Path) -> Result<(), CopyError> {
    mkdirat(CWD, dir, Mode::RWXU).map_err(|error| failed(&dir.display(), error))
}

fn open_dir(at: BorrowedFd<'_>, path: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, path, flags, Mode::empty())
}

fn failed(what: &dyn std::fmt::Display, error: impl Into<io::Error>) -> CopyError {
    CopyError::Failed {
        what: what.to_string(),
        error: error.into(),
    }
}

/// One walk through the source: counts it, or copies it.
struct Job<'a> {
    max_bytes: u64,
    cancel: &'a AtomicBool,
    entries: u64,
    copied: CopySummary,
    /// Bytes that an earlier walk has counted.
    expected: u64,
    /// Can files share their blocks? Tried until it fails once.
    reflink: bool,
}

impl<'a> Job<'a> {
    fn new(max_bytes: u64, cancel: &'a AtomicBool) -> Self {
        Self {
            max_bytes,
            cancel,
            entries: 0,
            copied: CopySummary::default(),
            expected: 0,
            reflink: true,
        }
    }

    fn walk(
        &mut self,
        from: BorrowedFd<'_>,
        to: Option<BorrowedFd<'_>>,
        depth: usize,
    ) -> Result<(), CopyError> {
        if depth > DEPTH_MAX {
            return Err(CopyError::TooLarge(format!(
                "directories are more than {DEPTH_MAX} deep"
            )));
        }
        for entry in Dir::read_from(from).map_err(|error| failed(&"a directory", error))? {
            let entry = entry.map_err(|error| failed(&"a directory", error))?;
            let name = entry.file_name();
            let is_branches = depth == 0 && name.to_bytes() == BRANCHES.as_bytes();
            if is_branches || matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.count_entry()?;
            match self.entry(from, to, name, depth) {
                // It was removed meanwhile.
                Err(CopyError::Failed { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
                result => result?,
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        from: BorrowedFd<'_>,
        to: Option<BorrowedFd<'_>>,
        name: &CStr,
        depth: usize,
    ) -> Result<(), CopyError> {
        let failed = |error: rustix::io::Errno| failed(&name.to_string_lossy(), error);
        let stat = statat(from, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let source = open_dir(from, name).map_err(failed)?;
                let Some(to) = to else {
                    return self.walk(source.as_fd(), None, depth + 1);
                };
                mkdirat(to, name, Mode::RWXU).map_err(failed)?;
                let target = open_dir(to, name).map_err(failed)?;
                self.walk(source.as_fd(), Some(target.as_fd()), depth + 1)?;
                fchmod(&target, mode(&stat)).map_err(failed)
            }
            FileType::RegularFile => match to {
                None => self.count_bytes(u64::try_from(stat.st_size).unwrap_or(0)),
                Some(to) => self.file(from, to, name),
            },
            FileType::Symlink => match to {
                None => Ok(()),
                Some(to) => {
                    let target = readlinkat(from, name, Vec::new()).map_err(failed)?;
                    symlinkat(target, to, name).map_err(failed)
                }
            },
            _ => {
                self.copied.skipped = self.copied.skipped.saturating_add(1);
                Ok(())
            }
        }
    }

    fn file(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &CStr) -> Result<(), CopyError> {
        let failed = |error: rustix::io::Errno| failed(&name.to_string_lossy(), error);
        // Not waiting: it may have become a pipe since it was looked at.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let source = openat(from, name, flags, Mode::empty()).map_err(failed)?;
        let stat = fstat(&source).map_err(failed)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            self.copied.skipped = self.copied.skipped.saturating_add(1);
            return Ok(());
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let target = openat(to, name, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        if self.reflink {
            self.reflink = ioctl_ficlone(&target, &source).is_ok();
            if self.reflink {
                self.count_bytes(u64::try_from(stat.st_size).unwrap_or(0))?;
            } else {
                self.check_room(target.as_fd()).map_err(|error| match error {
                    RoomError::Unknown(error) => failed(error),
                    RoomError::Full(error) => error,
                })?;
            }
        }
        let (mut source, mut target) = (File::from(source), File::from(target));
        if !self.reflink {
            self.bytes(&mut source, &mut target, name)?;
        }
        fchmod(&target, mode(&stat)).map_err(failed)?;
        futimens(&target, &times(&stat)).map_err(failed)
    }

    fn bytes(&mut self, source: &mut File, target: &mut File, name: &CStr) -> Result<(), CopyError> {
        let failed = |error: io::Error| failed(&name.to_string_lossy(), error);
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(CopyError::Cancelled);
            }
            let read = source.read(&mut buffer).map_err(failed)?;
            let Some(chunk) = buffer.get(..read).filter(|chunk| !chunk.is_empty()) else {
                return Ok(());
            };
            // It may have grown since it was measured.
            self.count_bytes(read as u64)?;
            target.write_all(chunk).map_err(failed)?;
        }
    }

    /// A copy that fills the disk would harm the parent.
    fn check_room(&self, target: BorrowedFd<'_>) -> Result<(), RoomError> {
        let disk = fstatvfs(target).map_err(RoomError::Unknown)?;
        let room = disk.f_bavail.saturating_mul(disk.f_frsize);
        let wanted = self.expected.saturating_sub(self.copied.bytes);
        if wanted > room {
            let text = format!("{wanted} bytes of files, the disk has room for {room}");
            return Err(RoomError::Full(CopyError::TooLarge(text)));
        }
        Ok(())
    }

    fn count_entry(&mut self) -> Result<(), CopyError> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(CopyError::Cancelled);
        }
        self.entries += 1;
        if self.entries > ENTRIES_MAX {
            return Err(CopyError::TooLarge(format!("more than {ENTRIES_MAX} files")));
        }
        Ok(())
    }

    fn count_bytes(&mut self, bytes: u64) -> Result<(), CopyError> {
        self.copied.bytes = self.copied.bytes.saturating_add(bytes);
        if self.copied.bytes > self.max_bytes {
            let text = format!("the files have more than {} bytes", self.max_bytes);
            return Err(CopyError::TooLarge(text));
        }
        Ok(())
    }
}

enum RoomError {
    Unknown(rustix::io::Errno),
    Full(CopyError),
}

/// Permissions, without set-user-id and the like.
fn mode(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO)
}

fn times(stat: &Stat) -> Timestamps {
    let time = |seconds, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or(0),
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}
