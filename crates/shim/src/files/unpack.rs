use std::cell::Cell;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use bytes::{Buf, Bytes};
use himalia_shim_protocol::{CHUNK_BYTES, StreamDone, StreamFailure, WALK_MAX};
use rustix::fs::{Mode, fchmod, mkdirat, symlinkat};
use rustix::io::Errno;
use tar::{Archive, Entry, EntryType};

use super::beneath::Root;
use super::connection::Connection;
use super::failure::{Failure, Result};
use super::merge;
use super::path::{Relative, stays_inside};
use super::staging::{DIR_MODE, FILE_MODE, StagedDir, new_file, open_dir};
use super::tick;

/// Most bytes of what stands before an entry: its header, long names. They are kept in memory.
const HEADER_BYTES: u64 = 1 << 20;

/// Reads an archive into a directory of its own, then moves what is in it to its places.
pub(super) fn run(
    root: &Root,
    path: &Relative,
    max_bytes: u64,
    connection: &mut Connection,
) -> Result<StreamDone> {
    let dir = root.make_dir(path.names(), &path.text())?;
    let staged = StagedDir::new(dir.as_fd())?;
    let mut source = Source {
        connection,
        chunk: Bytes::new(),
        ended: false,
        failure: None,
        budget: Rc::default(),
    };
    let unpacked = unpack(&mut source, staged.dir(), max_bytes);
    if let Some(failure) = source.failure.take() {
        return Err(failure);
    }
    let done = unpacked?;
    source.rest()?;
    merge::check(staged.dir(), dir.as_fd())?;
    merge::run(staged.dir(), dir.as_fd())?;
    tick::pass();
    Ok(done)
}

fn unpack(source: &mut Source<'_>, dir: BorrowedFd<'_>, max_bytes: u64) -> Result<StreamDone> {
    let budget = Rc::clone(&source.budget);
    let mut archive = Archive::new(source);
    let mut done = StreamDone::default();
    let mut entries = archive.entries().map_err(|error| bad(&error))?;
    loop {
        budget.set(HEADER_BYTES);
        let Some(entry) = entries.next() else { break };
        budget.set(u64::MAX);
        let mut entry = entry.map_err(|error| bad(&error))?;
        done.entries += 1;
        if done.entries > WALK_MAX {
            let reason = format!("the archive has more than {WALK_MAX} entries");
            return Err(Failure::new(StreamFailure::TooLarge, reason));
        }
        done.bytes = done.bytes.saturating_add(entry.size());
        if done.bytes > max_bytes {
            let reason = format!("the archive has files of more than {max_bytes} bytes");
            return Err(Failure::new(StreamFailure::TooLarge, reason));
        }
        place(&mut entry, dir)?;
    }
    if done.entries == 0 {
        return Err(refused("it has no entries"));
    }
    Ok(done)
}

fn place(entry: &mut Entry<'_, &mut Source<'_>>, root: BorrowedFd<'_>) -> Result<()> {
    let path = entry.path_bytes().into_owned();
    let text = std::str::from_utf8(&path).map_err(|_| refused("a name is not UTF-8"))?;
    let path = Relative::parse(text).map_err(|failure| refused(&format!("{text}: {}", failure.reason)))?;
    let kind = entry.header().entry_type();
    if path.names().is_empty() {
        // `tar -C dir .` begins with the directory itself.
        return if kind == EntryType::Directory {
            Ok(())
        } else {
            Err(refused("an entry has no name"))
        };
    }
    let (parent, name) = path.split()?;
    let failed = |error| match error {
        Errno::EXIST => refused(&format!("{text}: is there twice")),
        Errno::NOTDIR => refused(&format!("{text}: a part of the path is not a directory")),
        error => Failure::of(text, error),
    };
    let dir = directories(root, parent).map_err(failed)?;
    let dir = dir.as_ref().map_or(root, AsFd::as_fd);
    match kind {
        EntryType::Directory => match mkdirat(dir, name, DIR_MODE) {
            // An entry below it came before.
            Err(Errno::EXIST) => open_dir(dir, name).map(drop).map_err(failed),
            other => other.map_err(failed),
        },
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            let mode = entry.header().mode().map_err(|error| bad(&error))?;
            let mut file = new_file(dir, name).map_err(failed)?;
            copy(entry, &mut file, text)?;
            let mode = if mode & 0o100 == 0 { FILE_MODE } else { DIR_MODE };
            fchmod(&file, mode).map_err(failed)
        }
        EntryType::Symlink => {
            let target = entry.link_name_bytes().unwrap_or_default().into_owned();
            if !stays_inside(&target, parent.len()) {
                return Err(refused(&format!("{text}: is a link that leads out")));
            }
            symlinkat(&target[..], dir, name).map_err(failed)
        }
        _ => Err(refused(&format!(
            "{text}: is not a file, directory or symbolic link"
        ))),
    }
}

/// The directory that an entry is in; `None` for the root. No link is followed.
fn directories(root: BorrowedFd<'_>, names: &[String]) -> rustix::io::Result<Option<OwnedFd>> {
    let mut below: Option<OwnedFd> = None;
    for name in names {
        let here = below.as_ref().map_or(root, AsFd::as_fd);
        let opened = match open_dir(here, name) {
            Err(Errno::NOENT) => {
                mkdirat(here, name, Mode::from_raw_mode(0o755))?;
                open_dir(here, name)?
            }
            other => other?,
        };
        below = Some(opened);
    }
    Ok(below)
}

fn copy(from: &mut impl Read, to: &mut impl Write, what: &str) -> Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES.min(64 * 1024)];
    loop {
        let read = from.read(&mut buffer).map_err(|error| bad(&error))?;
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
            return Ok(());
        };
        to.write_all(bytes).map_err(|error| Failure::io(what, &error))?;
    }
}

fn refused(reason: &str) -> Failure {
    Failure::new(
        StreamFailure::BadArchive,
        format!("the archive is refused: {reason}"),
    )
}

fn bad(error: &io::Error) -> Failure {
    refused(&error.to_string())
}

/// Source of an archive.
struct Source<'a> {
    connection: &'a mut Connection,
    chunk: Bytes,
    ended: bool,
    /// Reason for an early end of the data, which the archive's reader does not report.
    failure: Option<Failure>,
    /// Bytes that may be read until it is set again.
    budget: Rc<Cell<u64>>,
}

impl Source<'_> {
    /// Reads what is behind the archive's end, and takes no notice.
    fn rest(&mut self) -> Result<()> {
        while !self.ended {
            self.ended = self.connection.receive()?.is_none();
        }
        Ok(())
    }
}

impl Read for Source<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.chunk.is_empty() && !self.ended {
            match self.connection.receive() {
                Ok(Some(chunk)) => self.chunk = chunk,
                Ok(None) => self.ended = true,
                Err(failure) => {
                    self.ended = true;
                    let error = io::Error::other(failure.reason.clone());
                    self.failure = Some(failure);
                    return Err(error);
                }
            }
        }
        let read = self.chunk.len().min(room.len());
        let left = self.budget.get().checked_sub(read as u64);
        let left = left.ok_or_else(|| io::Error::other("what stands before an entry is too long"))?;
        self.budget.set(left);
        self.chunk.copy_to_slice(room.get_mut(..read).unwrap_or_default());
        Ok(read)
    }
}
