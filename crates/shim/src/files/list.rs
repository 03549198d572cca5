use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};

use himalia_shim_protocol::{FileEntry, FileKind, LIST_MAX, StreamDone, StreamFailure, WALK_MAX};
use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat, fstat, readlinkat, statat};

use super::beneath::{Root, is_of_a_process};
use super::connection::Connection;
use super::failure::{Failure, Result};
use super::get::modified_ms;
use super::metadata;
use super::path::{DEPTH_MAX, Relative};
use super::staging::{PREFIX, open_dir};
use crate::work_dir::BRANCHES;

/// Most bytes of paths in a listing.
const PATHS_BYTES: usize = 4 << 20;

/// Sends what is in a directory, in the order of paths, and counts it.
pub(super) fn run(
    root: &Root,
    path: &Relative,
    (depth, limit, after): (u32, u32, Option<&str>),
    connection: &mut Connection,
) -> Result<StreamDone> {
    let listing = list(root, path, (depth, limit), after)?;
    let body = serde_json::to_vec(&listing.entries)
        .map_err(|error| Failure::new(StreamFailure::Failed, error.to_string()))?;
    connection.send_bytes(&body)?;
    Ok(listing.done)
}

/// Sends what one thing is, a link as a link.
pub(super) fn stat(root: &Root, path: &Relative, connection: &mut Connection) -> Result<StreamDone> {
    let failed = |error| Failure::of(&path.text(), error);
    let (found, target, metadata) = if path.names().is_empty() {
        let dir = root.get(path, OFlags::PATH)?;
        (fstat(&dir).map_err(failed)?, None, BTreeMap::new())
    } else {
        let (dir, name) = root.parent(path)?;
        let found = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
        let target = is_link.then(|| readlinkat(&dir, name, Vec::new()));
        let target = target.transpose().map_err(failed)?;
        let target = target.map(|target| target.to_string_lossy().into_owned());
        (found, target, metadata::get(dir.as_fd(), name.as_bytes()))
    };
    let mut entry = entry(path.text(), &found);
    entry.target = target;
    if entry.kind == FileKind::Directory {
        entry.bytes = u64::try_from(found.st_size).unwrap_or(0);
    }
    entry.metadata = metadata;
    let body = serde_json::to_vec(&[entry])
        .map_err(|error| Failure::new(StreamFailure::Failed, error.to_string()))?;
    connection.send_bytes(&body)?;
    Ok(StreamDone {
        entries: 1,
        ..StreamDone::default()
    })
}

#[derive(Debug)]
pub(super) struct Listing {
    pub(super) entries: Vec<FileEntry>,
    pub(super) done: StreamDone,
    depth: usize,
    limit: usize,
    paths_bytes: usize,
}

/// Lists a directory. Paths up to `after` are neither shown nor counted, and directories before it are not read, so that a second call can
/// continue a walk that ended early.
pub(super) fn list(
    root: &Root,
    path: &Relative,
    (depth, limit): (u32, u32),
    after: Option<&str>,
) -> Result<Listing> {
    let failed = |error| Failure::of(&path.text(), error);
    let mut listing = Listing {
        entries: Vec::new(),
        done: StreamDone::default(),
        depth: usize::try_from(depth).unwrap_or(DEPTH_MAX).clamp(1, DEPTH_MAX),
        limit: limit.min(LIST_MAX) as usize,
        paths_bytes: 0,
    };
    let fd = root.get(path, OFlags::PATH)?;
    let stat = fstat(&fd).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        if after.is_none() {
            listing.add(path.text(), &stat, BTreeMap::new);
        }
        return Ok(listing);
    }
    let prefix = path.prefix();
    let after = match after {
        None => Vec::new(),
        Some(after) => after.strip_prefix(&prefix).map_or_else(Vec::new, names_of),
    };
    listing.walk(root.dir(path)?.as_fd(), &prefix, 1, &after)?;
    Ok(listing)
}

impl Listing {
    /// `after`: the names below `dir` of the path after which the list begins; none: all of the directory is listed.
    fn walk(&mut self, dir: BorrowedFd<'_>, prefix: &str, depth: usize, after: &[&str]) -> Result<()> {
        let room = WALK_MAX.saturating_sub(self.done.entries);
        let (names, all) = names(dir, room).map_err(|error| Failure::of(prefix, error))?;
        self.done.truncated |= !all;
        for name in names {
            if self.done.entries >= WALK_MAX {
                self.done.truncated = true;
                return Ok(());
            }
            if prefix.is_empty() && name == BRANCHES.as_bytes() || name.starts_with(PREFIX.as_bytes()) {
                continue;
            }
            let text = String::from_utf8_lossy(&name);
            let (skipped, below) = match after.split_first() {
                Some((first, _)) if *text < **first => continue,
                Some((first, rest)) if *text == **first => (true, rest),
                _ => (false, &[][..]),
            };
            // It may have gone meanwhile.
            let Ok(stat) = statat(dir, &name[..], AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let path = format!("{prefix}{text}");
            let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            if !skipped {
                self.add(path.clone(), &stat, || metadata::get(dir, &name));
            }
            if is_dir && depth < self.depth {
                match open_dir(dir, &name[..]) {
                    Ok(dir) if !is_of_a_process(dir.as_fd()).unwrap_or(true) => {
                        self.walk(dir.as_fd(), &format!("{path}/"), depth + 1, below)?;
                    }
                    _ => self.done.skipped += 1,
                }
            }
        }
        Ok(())
    }

    /// Counts an entry, and shows it if there is room. Only a shown entry needs its metadata.
    fn add(&mut self, path: String, stat: &Stat, metadata: impl FnOnce() -> BTreeMap<String, String>) {
        let mut entry = entry(path, stat);
        self.done.entries += 1;
        self.done.bytes = self.done.bytes.saturating_add(entry.bytes);
        if self.entries.len() >= self.limit || self.paths_bytes + entry.path.len() > PATHS_BYTES {
            self.done.truncated = true;
            return;
        }
        entry.metadata = metadata();
        self.paths_bytes += entry.path.len();
        self.paths_bytes += entry
            .metadata
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum::<usize>();
        self.entries.push(entry);
    }
}

fn entry(path: String, stat: &Stat) -> FileEntry {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    };
    FileEntry {
        path,
        kind,
        bytes: match kind {
            FileKind::File => u64::try_from(stat.st_size).unwrap_or(0),
            _ => 0,
        },
        modified_ms: modified_ms(stat),
        mode: Some(stat.st_mode & 0o7777),
        target: None,
        metadata: BTreeMap::new(),
    }
}

fn names_of(path: &str) -> Vec<&str> {
    path.split('/').collect()
}

/// The names in a directory, sorted, at most `room` of them, and whether these are all.
pub(super) fn names(dir: BorrowedFd<'_>, room: u64) -> rustix::io::Result<(Vec<Vec<u8>>, bool)> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        if names.len() as u64 >= room {
            names.sort_unstable();
            return Ok((names, false));
        }
        names.push(name.to_vec());
    }
    names.sort_unstable();
    Ok((names, true))
}
