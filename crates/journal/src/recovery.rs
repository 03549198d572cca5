//! Opening a directory that an earlier process wrote.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::JournalError;
use crate::index::Entry;
use crate::reader::{OpenedSegment, SegmentReader, Step};
use crate::record::Record;
use crate::segment::{Segment, parse_segment_name, segment_path};
use crate::shared::SealedSegment;

/// Contents of a journal from which the caller rebuilds its state.
#[derive(Debug)]
pub struct Recovery {
    /// The newest checkpoint; `None` if the journal was never rolled.
    pub checkpoint: Option<Bytes>,
    /// All records after the checkpoint, in order. About a segment's worth.
    pub since: Vec<Arc<Record>>,
    /// Bytes at the end that were cut off because they were no whole record: a write that a crash cut short, or what a
    /// power failure left.
    pub torn_bytes: u64,
}

/// A journal's segments as found, ready to be appended to.
#[derive(Debug)]
pub(crate) struct FoundSegments {
    pub(crate) recovery: Recovery,
    /// Ascending; the last one is `active`.
    pub(crate) entries: Vec<Entry>,
    pub(crate) active: Segment,
    pub(crate) head: u64,
}

/// Reads the newest segment whose start is sound, cuts off its torn end, and sets aside any newer one. `sealed` are rolled segments that
/// are elsewhere, and perhaps in the directory too.
pub(crate) fn recover(dir: &Path, sealed: &[SealedSegment]) -> Result<FoundSegments, JournalError> {
    let mut builder = DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| JournalError::io("create", dir, error))?;
    let mut firsts = list(dir)?;
    firsts.extend(sealed.iter().map(|segment| segment.first));
    firsts.sort_unstable();
    firsts.dedup();
    let mut torn_bytes = 0;
    let mut start = 1;
    while let Some(first) = firsts.pop() {
        let path = segment_path(dir, first);
        let failed = |error| JournalError::io("read", &path, error);
        let size = fs::metadata(&path).map_err(failed)?.len();
        let (mut reader, checkpoint) = match SegmentReader::open(&path, first).map_err(failed)? {
            OpenedSegment::Sound(reader, checkpoint) => (reader, checkpoint),
            OpenedSegment::Other(found) => return Err(JournalError::Format { path, found }),
            OpenedSegment::Damaged => {
                tracing::warn!(segment = %path.display(), "the start of a segment is damaged, it is set aside");
                fs::rename(&path, dir.join("torn.seg")).map_err(failed)?;
                torn_bytes += size;
                start = start.max(first);
                continue;
            }
        };
        let mut entry = Entry::new(first, generation(firsts.len()), 0);
        let mut since = Vec::new();
        loop {
            let place = reader.place();
            match reader.next(0).map_err(failed)? {
                Step::Record(record) => {
                    entry.note(place);
                    since.push(Arc::new(record));
                }
                Step::Skipped | Step::End | Step::Damaged => break,
            }
        }
        let end = reader.place();
        entry.bytes = end.offset;
        torn_bytes += size.saturating_sub(end.offset);
        let mut entries = older(dir, &firsts, sealed)?;
        entries.push(entry);
        return Ok(FoundSegments {
            recovery: Recovery {
                checkpoint,
                since,
                torn_bytes,
            },
            entries,
            active: Segment::open(path, end.offset)?,
            head: end.seq - 1,
        });
    }
    let active = Segment::create(dir, start, None)?;
    Ok(FoundSegments {
        recovery: Recovery {
            checkpoint: None,
            since: Vec::new(),
            torn_bytes,
        },
        entries: vec![Entry::new(start, generation(0), active.len())],
        active,
        head: start - 1,
    })
}

/// First seqs of the segments in `dir`, ascending. Removes what an interrupted roll left.
fn list(dir: &Path) -> Result<Vec<u64>, JournalError> {
    let failed = |error| JournalError::io("list", dir, error);
    let mut firsts = Vec::new();
    for file in fs::read_dir(dir).map_err(failed)? {
        let name = file.map_err(failed)?.file_name();
        match name.to_str() {
            Some("next.tmp") => fs::remove_file(dir.join("next.tmp")).map_err(failed)?,
            Some(name) => firsts.extend(parse_segment_name(name).filter(|&first| first > 0)),
            None => {}
        }
    }
    firsts.sort_unstable();
    Ok(firsts)
}

fn older(dir: &Path, firsts: &[u64], sealed: &[SealedSegment]) -> Result<Vec<Entry>, JournalError> {
    let mut entries = Vec::with_capacity(firsts.len() + 1);
    for (at, &first) in firsts.iter().enumerate() {
        if let Some(segment) = sealed.iter().find(|segment| segment.first == first) {
            entries.push(Entry::new(first, generation(at), segment.bytes));
            continue;
        }
        let path = segment_path(dir, first);
        let size = fs::metadata(&path)
            .map_err(|error| JournalError::io("read", &path, error))?
            .len();
        entries.push(Entry::new(first, generation(at), size));
    }
    Ok(entries)
}

/// Generations of found files are their ranks from 1; later files get higher ones.
fn generation(rank: usize) -> u64 {
    rank as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{OtherFormat, SEGMENT_HEADER, encode_segment_header};

    /// A segment of a version that does not exist, and one of a development build.
    #[test]
    fn a_log_of_another_format_is_refused_and_left_as_it_was() {
        for (magic, found) in [
            (b"HIMLOG02", OtherFormat::Version(*b"02")),
            (b"HIMJRN01", OtherFormat::Development),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let mut bytes: [u8; SEGMENT_HEADER] = encode_segment_header(1, false);
            bytes[..8].copy_from_slice(magic);
            let sum = crc32c::crc32c(&bytes[..20]);
            bytes[20..].copy_from_slice(&sum.to_le_bytes());
            let path = segment_path(dir.path(), 1);
            fs::write(&path, bytes).unwrap();
            let error = recover(dir.path(), &[]).unwrap_err();
            assert!(
                matches!(&error, JournalError::Format { found: told, .. } if *told == found),
                "{error}"
            );
            let text = error.to_string();
            assert!(
                text.contains(&found.to_string()) && text.contains("version 01"),
                "{text}"
            );
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
    }
}
