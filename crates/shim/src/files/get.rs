use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt;

use himalia_shim_protocol::{ByteRange, CHUNK_BYTES, FileHead, StreamDone, StreamFailure, StreamFrame};
use rustix::fs::{FileType, OFlags, Stat, fstat};

use super::beneath::{Root, is_proc};
use super::connection::Connection;
use super::failure::{Failure, Result};
use super::path::Relative;

/// Opens a file for reading; it may become anything else meanwhile, so nothing is waited for.
pub(super) const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Most bytes of a file of `/proc`, which is read as a whole.
const MADE_UP_BYTES: u64 = 1 << 20;

/// Sends a file, or a part of it.
pub(super) fn run(
    root: &Root,
    path: &Relative,
    range: Option<ByteRange>,
    connection: &mut Connection,
) -> Result<StreamDone> {
    path.split()?;
    let what = path.text();
    let fd = root.get(path, READ)?;
    let stat = fstat(&fd).map_err(|error| Failure::of(&what, error))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => {
            return Err(Failure::new(
                StreamFailure::IsADirectory,
                format!("{what}: is a directory"),
            ));
        }
        _ => {
            return Err(Failure::new(
                StreamFailure::NotAFile,
                format!("{what}: is not a file"),
            ));
        }
    }
    let made_up = is_proc(fd.as_fd()).map_err(|error| Failure::of(&what, error))?;
    if made_up {
        return send_made_up(File::from(fd), &stat, (&what, range), connection);
    }
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let (first, bytes) = match range {
        None => (0, size),
        Some(range) => range.within(size).ok_or_else(|| none_of_these(&what, size))?,
    };
    let head = FileHead {
        size,
        first,
        bytes,
        modified_ms: modified_ms(&stat),
        tag: format!(
            "{:x}-{size:x}-{:x}-{:x}",
            stat.st_ino, stat.st_mtime, stat.st_mtime_nsec
        ),
    };
    connection.send(&StreamFrame::Head(head))?;
    send(&File::from(fd), (first, bytes), &what, connection)?;
    Ok(StreamDone {
        entries: 1,
        bytes,
        ..StreamDone::default()
    })
}

/// Sends a file of `/proc`, whose size is known once it was read.
fn send_made_up(
    file: File,
    stat: &Stat,
    (what, range): (&str, Option<ByteRange>),
    connection: &mut Connection,
) -> Result<StreamDone> {
    let mut content = Vec::new();
    let read = file.take(MADE_UP_BYTES + 1).read_to_end(&mut content);
    read.map_err(|error| Failure::io(what, &error))?;
    let size = content.len() as u64;
    if size > MADE_UP_BYTES {
        let reason = format!("{what}: has more than {MADE_UP_BYTES} bytes");
        return Err(Failure::new(StreamFailure::TooLarge, reason));
    }
    let (first, bytes) = match range {
        None => (0, size),
        Some(range) => range.within(size).ok_or_else(|| none_of_these(what, size))?,
    };
    connection.send(&StreamFrame::Head(FileHead {
        size,
        first,
        bytes,
        modified_ms: modified_ms(stat),
        tag: String::new(),
    }))?;
    let from = usize::try_from(first).unwrap_or(usize::MAX);
    let wanted = content.get(from..).unwrap_or_default();
    let wanted = wanted
        .get(..usize::try_from(bytes).unwrap_or(0))
        .unwrap_or_default();
    for chunk in wanted.chunks(CHUNK_BYTES) {
        connection.send_bytes(chunk)?;
    }
    Ok(StreamDone {
        entries: 1,
        bytes,
        ..StreamDone::default()
    })
}

fn none_of_these(what: &str, size: u64) -> Failure {
    let reason = format!("{what}: has {size} bytes, and none of these");
    Failure::new(StreamFailure::Range, reason)
}

fn send(file: &File, (first, bytes): (u64, u64), what: &str, connection: &mut Connection) -> Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let (mut at, end) = (first, first.saturating_add(bytes));
    while at < end {
        let wanted = usize::try_from(end - at).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        let room = buffer.get_mut(..wanted).unwrap_or_default();
        let read = file
            .read_at(room, at)
            .map_err(|error| Failure::io(what, &error))?;
        let Some(chunk) = buffer.get(..read).filter(|chunk| !chunk.is_empty()) else {
            let reason = format!("{what}: became shorter while it was read");
            return Err(Failure::new(StreamFailure::Failed, reason));
        };
        connection.send_bytes(chunk)?;
        at += read as u64;
    }
    Ok(())
}

pub(super) fn modified_ms(stat: &Stat) -> u64 {
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    seconds
        .saturating_mul(1000)
        .saturating_add(stat.st_mtime_nsec / 1_000_000)
}

/// A reader that gives zeros for what its file has lost since it was measured.
pub(super) fn padded(file: File, bytes: u64) -> impl Read {
    file.take(bytes).chain(std::io::repeat(0)).take(bytes)
}
