//! Making the directory of a log what is kept elsewhere.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use himalia_journal::{RestoredLog, SealedSegment, SharedLog as _};
use himalia_store::{LogPart, StoredLog};
use parking_lot::Mutex;

use crate::Inner;
use crate::log::Log;

/// Takes a log and restores its newest segment. Blocks.
pub(crate) fn open(inner: &Arc<Inner>, name: &str, dir: &Path) -> io::Result<RestoredLog> {
    let taken = inner.runtime.block_on(inner.table.take(name));
    let stored = taken
        .map_err(io::Error::other)?
        .ok_or_else(|| io::Error::other("another gateway has the log"))?;
    let StoredLog {
        parts,
        segments,
        positions,
    } = stored;
    let known: BTreeMap<u64, (String, u64)> = segments
        .into_iter()
        .map(|segment| (unsigned(segment.first), (segment.object, unsigned(segment.size))))
        .collect();
    let log = Log {
        inner: Arc::clone(inner),
        name: name.to_owned(),
        sealed: Arc::new(Mutex::new(
            known
                .iter()
                .map(|(first, (object, _))| (*first, object.clone()))
                .collect(),
        )),
    };
    let mut unsealed = by_segment(parts);
    let is_new = known.is_empty() && unsealed.is_empty();
    if !is_new {
        remove_others(dir, &known)?;
        for (first, parts) in &unsealed {
            let bytes = content(inner, parts)?;
            write(&path(dir, *first), &bytes)?;
        }
    }
    let mut sealed: Vec<SealedSegment> = known
        .iter()
        .map(|(first, (_, bytes))| SealedSegment {
            first: *first,
            bytes: *bytes,
        })
        .collect();
    // The newest segment is the one that is written. Others that have parts were rolled, and not sealed before the process ended.
    let newest = unsealed.pop_last();
    if newest.is_none()
        && let Some((first, _)) = known.last_key_value()
    {
        log.fetch(*first, &path(dir, *first))?;
    }
    for (first, _) in unsealed {
        let path = path(dir, first);
        let segment = SealedSegment {
            first,
            bytes: std::fs::metadata(&path)?.len(),
        };
        log.seal(segment, &path);
        sealed.push(segment);
    }
    Ok(RestoredLog {
        log: Arc::new(log),
        sealed,
        positions,
        is_new,
    })
}

fn by_segment(parts: Vec<LogPart>) -> BTreeMap<u64, Vec<LogPart>> {
    let mut segments: BTreeMap<u64, Vec<LogPart>> = BTreeMap::new();
    for part in parts {
        segments.entry(unsigned(part.segment)).or_default().push(part);
    }
    segments
}

/// The bytes of a segment, whose parts follow each other.
fn content(inner: &Inner, parts: &[LogPart]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for part in parts {
        if unsigned(part.at) != bytes.len() as u64 {
            return Err(io::Error::other(format!(
                "log {}: there is nothing at byte {} of segment {}",
                part.log,
                bytes.len(),
                part.segment
            )));
        }
        match (&part.bytes, &part.object) {
            (Some(found), _) => bytes.extend_from_slice(found),
            (None, Some(object)) => {
                let found = inner.runtime.block_on(inner.objects.get(object));
                bytes.extend_from_slice(&found.map_err(io::Error::other)?);
            }
            (None, None) => return Err(io::Error::other("a part of a log has no bytes")),
        }
    }
    Ok(bytes)
}

/// Removes segments that are not, or not in this form, what is kept elsewhere.
fn remove_others(dir: &Path, known: &BTreeMap<u64, (String, u64)>) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(digits) = name.to_str().and_then(|name| name.strip_suffix(".seg")) else {
            continue;
        };
        let is_known = digits
            .parse()
            .ok()
            .and_then(|first: u64| known.get(&first))
            .is_some_and(|(_, bytes)| entry.metadata().is_ok_and(|found| found.len() == *bytes));
        if !is_known {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Writes a file, whole or not at all.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Two readers may fetch one segment at a time.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let temporary = path.with_extension(format!("fetched{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(bytes)?;
    std::fs::rename(&temporary, path)
}

/// The path of a segment.
fn path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:020}.seg"))
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
