use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use himalia_shim_protocol::{CHUNK_BYTES, StreamDone, StreamFailure, WALK_MAX};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use tar::{Builder, EntryType, Header};

use super::beneath::Root;
use super::connection::Connection;
use super::failure::{Failure, Result};
use super::get::{READ, padded};
use super::list::names;
use super::path::{DEPTH_MAX, Relative, stays_inside};
use super::staging::{PREFIX, open_dir};
use crate::work_dir::BRANCHES;

/// Sends a directory as an archive. It is counted first, so that one that is too large fails before its first byte.
pub(super) fn run(
    root: &Root,
    path: &Relative,
    max_bytes: u64,
    connection: &mut Connection,
) -> Result<StreamDone> {
    let dir = root.dir(path)?;
    let mut walk = Walk {
        max_bytes,
        is_root: path.names().is_empty(),
        done: StreamDone::default(),
    };
    walk.run(dir.as_fd(), &mut Vec::new(), 0, None)?;
    walk.done = StreamDone::default();
    let mut archive = Builder::new(Chunks {
        connection,
        buffer: Vec::with_capacity(CHUNK_BYTES),
    });
    walk.run(dir.as_fd(), &mut Vec::new(), 0, Some(&mut archive))?;
    let finished = archive.into_inner().and_then(|mut chunks| chunks.flush());
    finished.map_err(|error| Failure::io("the archive", &error))?;
    Ok(walk.done)
}

/// One walk: counts, or packs.
struct Walk {
    max_bytes: u64,
    /// The work directory itself is packed.
    is_root: bool,
    done: StreamDone,
}

impl Walk {
    fn run(
        &mut self,
        dir: BorrowedFd<'_>,
        path: &mut Vec<u8>,
        depth: usize,
        mut archive: Option<&mut Builder<Chunks<'_>>>,
    ) -> Result<()> {
        if depth > DEPTH_MAX {
            let reason = format!("directories are more than {DEPTH_MAX} deep");
            return Err(Failure::new(StreamFailure::TooLarge, reason));
        }
        let (names, _) = names(dir, WALK_MAX + 1).map_err(|error| Failure::of("a directory", error))?;
        for name in names {
            let branches = depth == 0 && self.is_root && name == BRANCHES.as_bytes();
            if branches || name.starts_with(PREFIX.as_bytes()) {
                continue;
            }
            let length = path.len();
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
            self.entry(dir, &name, path, depth, archive.as_deref_mut())?;
            path.truncate(length);
        }
        Ok(())
    }

    fn entry(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        path: &mut Vec<u8>,
        depth: usize,
        mut archive: Option<&mut Builder<Chunks<'_>>>,
    ) -> Result<()> {
        // What goes meanwhile is left out.
        let Ok(stat) = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return Ok(());
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let Ok(below) = open_dir(dir, name) else {
                    self.done.skipped += 1;
                    return Ok(());
                };
                self.count(0)?;
                if let Some(archive) = archive.as_deref_mut() {
                    append(
                        archive,
                        &mut header(&stat, EntryType::Directory, 0),
                        path,
                        io::empty(),
                    )?;
                }
                self.run(below.as_fd(), path, depth + 1, archive)
            }
            FileType::RegularFile => {
                let flags = READ | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened = openat(dir, name, flags, Mode::empty());
                let opened = opened.and_then(|file| fstat(&file).map(|stat| (file, stat)));
                let Ok((file, stat)) = opened else {
                    self.done.skipped += 1;
                    return Ok(());
                };
                if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                    self.done.skipped += 1;
                    return Ok(());
                }
                let bytes = u64::try_from(stat.st_size).unwrap_or(0);
                self.count(bytes)?;
                let Some(archive) = archive else { return Ok(()) };
                let content = padded(File::from(file), bytes);
                append(
                    archive,
                    &mut header(&stat, EntryType::Regular, bytes),
                    path,
                    content,
                )
            }
            FileType::Symlink => {
                let target = readlinkat(dir, name, Vec::new()).map(std::ffi::CString::into_bytes);
                let Some(target) = target.ok().filter(|target| stays_inside(target, depth)) else {
                    self.done.skipped += 1;
                    return Ok(());
                };
                self.count(0)?;
                let Some(archive) = archive else { return Ok(()) };
                let mut header = header(&stat, EntryType::Symlink, 0);
                let linked = archive.append_link(&mut header, as_path(path), as_path(&target));
                linked.map_err(|error| Failure::io("the archive", &error))
            }
            _ => {
                self.done.skipped += 1;
                Ok(())
            }
        }
    }

    fn count(&mut self, bytes: u64) -> Result<()> {
        self.done.entries += 1;
        self.done.bytes = self.done.bytes.saturating_add(bytes);
        let reason = if self.done.entries > WALK_MAX {
            format!("there are more than {WALK_MAX} entries")
        } else if self.done.bytes > self.max_bytes {
            format!("the files have more than {} bytes", self.max_bytes)
        } else {
            return Ok(());
        };
        Err(Failure::new(StreamFailure::TooLarge, reason))
    }
}

fn append(
    archive: &mut Builder<Chunks<'_>>,
    header: &mut Header,
    path: &[u8],
    content: impl io::Read,
) -> Result<()> {
    let appended = archive.append_data(header, as_path(path), content);
    appended.map_err(|error| Failure::io("the archive", &error))
}

fn header(stat: &Stat, kind: EntryType, bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(bytes);
    header.set_mode(stat.st_mode & 0o777);
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
    header
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Destination of an archive.
struct Chunks<'a> {
    connection: &'a mut Connection,
    buffer: Vec<u8>,
}

impl Write for Chunks<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > CHUNK_BYTES {
            self.flush()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let sent = self.connection.send_bytes(&self.buffer);
        self.buffer.clear();
        sent.map_err(|failure| io::Error::other(failure.reason))
    }
}
