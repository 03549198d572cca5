use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};

use himalia_shim_protocol::{StreamDone, StreamFailure};
use rustix::fs::{AtFlags, FileType, fchmod, statat};
use rustix::io::Errno;

use super::beneath::Root;
use super::connection::Connection;
use super::failure::{Failure, Result};
use super::metadata;
use super::path::Relative;
use super::staging::{FILE_MODE, StagedFile};
use super::tick;

/// Writes a file beside its place, then gives it its name.
pub(super) fn run(
    root: &Root,
    path: &Relative,
    (max_bytes, metadata): (u64, &BTreeMap<String, String>),
    connection: &mut Connection,
) -> Result<StreamDone> {
    let what = path.text();
    let (parent, name) = path.split()?;
    let dir = root.make_dir(parent, &what)?;
    let created = !is_taken(dir.as_fd(), name, &what)?;
    let mut staged = StagedFile::new(dir.as_fd())?;
    metadata::set(&staged.file, metadata, &what)?;
    let mut bytes = 0_u64;
    while let Some(chunk) = connection.receive()? {
        bytes = bytes.saturating_add(chunk.len() as u64);
        if bytes > max_bytes {
            let reason = format!("{what}: has more than {max_bytes} bytes");
            return Err(Failure::new(StreamFailure::TooLarge, reason));
        }
        let written = staged.file.write_all(&chunk);
        written.map_err(|error| Failure::io(&what, &error))?;
    }
    // Whatever the sandbox's umask is.
    fchmod(&staged.file, FILE_MODE).map_err(|error| Failure::of(&what, error))?;
    staged.keep(name).map_err(|error| Failure::of(&what, error))?;
    tick::pass();
    Ok(StreamDone {
        entries: 1,
        bytes,
        created,
        ..StreamDone::default()
    })
}

/// Is there something that would be replaced? An error when it cannot be.
fn is_taken(dir: BorrowedFd<'_>, name: &str, what: &str) -> Result<bool> {
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(Failure::of(what, error)),
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            Err(Failure::of(what, Errno::ISDIR))
        }
        Ok(_) => Ok(true),
    }
}
