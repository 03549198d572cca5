//! Reading a journal from a position.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::JournalError;
use crate::index::{Location, OnDisk};
use crate::journal::JournalState;
use crate::reader::{OpenedSegment, SegmentReader, Step};
use crate::record::Record;
use crate::segment::segment_path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The next records, at least one, dense and ascending.
    Records(Vec<Arc<Record>>),
    /// The records `from..=to` are gone: deleted for the quota, or damaged on disk. Reading continues after `to`.
    Gap {
        /// The first one that is missing.
        from: u64,
        /// The last one that is missing.
        to: u64,
    },
    /// There is nothing after the position yet; [`Journal::subscribe`](crate::Journal::subscribe) tells when.
    UpToDate,
}

/// A position in a journal. Cursors are independent of each other, and a slow one costs the others nothing.
#[derive(Debug)]
pub struct Cursor {
    shared: Arc<JournalState>,
    after: u64,
    disk: Option<Disk>,
}

/// An open segment, kept while the cursor is behind memory.
#[derive(Debug)]
struct Disk {
    generation: u64,
    reader: SegmentReader,
}

impl Cursor {
    pub(crate) fn new(shared: Arc<JournalState>, after: u64) -> Self {
        Self {
            shared,
            after,
            disk: None,
        }
    }

    /// The seq of the last record that was read or found missing.
    pub fn position(&self) -> u64 {
        self.after
    }

    /// True if the next [`Self::read`] probably needs no disk. A caller on an async thread may read inline then, and should use a blocking thread
    /// otherwise.
    pub fn in_memory(&self) -> bool {
        self.shared.index.lock().in_memory(self.after + 1)
    }

    /// The next records after the position, which advances: at most `max_records`, and no other one that would take
    /// their size (body and 68 bytes each) over `max_bytes`; but always one.
    ///
    /// Reads from memory, or from disk when the position is behind the tail. The latter can pass over up to 1 MiB of
    /// earlier records, or up to a segment when that segment was written by an earlier process.
    pub fn read(&mut self, max_records: usize, max_bytes: usize) -> Result<Read, JournalError> {
        let mut missing = None;
        loop {
            let from = self.after + 1;
            let place = self.shared.index.lock().locate(from, max_records, max_bytes);
            match place {
                Location::Nowhere => return Ok(Read::UpToDate),
                Location::Memory(records) => {
                    self.disk = None;
                    let bytes = records.iter().map(|record| record.size() as u64).sum();
                    self.shared.read_bytes.fetch_add(bytes, Ordering::Relaxed);
                    self.after = records.last().map_or(self.after, |record| record.seq);
                    return Ok(Read::Records(records));
                }
                Location::Gone { to } => return Ok(self.gap(to)),
                // Deleted between the look and the read: look again, once per file.
                Location::Disk(part) if missing == Some(part.generation) => return Ok(self.gap(part.to)),
                Location::Disk(part) => match self.read_disk(&part, max_records, max_bytes) {
                    Ok(read) => return Ok(read),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => missing = Some(part.generation),
                    Err(error) => {
                        self.disk = None;
                        let path = segment_path(&self.shared.dir, part.first);
                        return Err(JournalError::io("read", &path, error));
                    }
                },
            }
        }
    }

    fn gap(&mut self, to: u64) -> Read {
        let from = self.after + 1;
        self.disk = None;
        self.after = to;
        Read::Gap { from, to }
    }

    fn read_disk(&mut self, part: &OnDisk, max_records: usize, max_bytes: usize) -> io::Result<Read> {
        let from = self.after + 1;
        let Some(mut reader) = self.reader(part, from)? else {
            return Ok(self.damaged(part));
        };
        reader.expect(max_bytes);
        let mut records: Vec<Arc<Record>> = Vec::new();
        let mut bytes = 0usize;
        let mut damaged = false;
        while reader.place().seq <= part.to && (records.is_empty() || records.len() < max_records) {
            // The next record's length is known only once it is read: one may be read that does not fit any more. It is
            // read again by the next call.
            let place = reader.place();
            match reader.next(from)? {
                Step::Record(record) => {
                    bytes = bytes.saturating_add(record.size());
                    if bytes > max_bytes && !records.is_empty() {
                        reader.seek(place);
                        break;
                    }
                    records.push(Arc::new(record));
                }
                Step::Skipped => {}
                Step::End | Step::Damaged => {
                    damaged = true;
                    break;
                }
            }
        }
        self.shared
            .read_bytes
            .fetch_add(reader.take_read(), Ordering::Relaxed);
        let Some(last) = records.last() else {
            return Ok(self.damaged(part));
        };
        self.after = last.seq;
        if !damaged {
            reader.rest();
            self.disk = Some(Disk {
                generation: part.generation,
                reader,
            });
        }
        Ok(Read::Records(records))
    }

    /// The open segment if it is the right one, else a newly opened one; `None` if its start is damaged.
    fn reader(&mut self, part: &OnDisk, from: u64) -> io::Result<Option<SegmentReader>> {
        if let Some(disk) = self.disk.take()
            && disk.generation == part.generation
            && disk.reader.place().seq <= from
        {
            return Ok(Some(disk.reader));
        }
        let path = segment_path(&self.shared.dir, part.first);
        if let Some(elsewhere) = self.shared.elsewhere.as_ref().filter(|_| !path.exists()) {
            elsewhere.fetch(part.first, &path)?;
        }
        if let Some(mark) = part.mark {
            return SegmentReader::at(&path, mark).map(Some);
        }
        Ok(match SegmentReader::open(&path, part.first)? {
            OpenedSegment::Sound(reader, _checkpoint) => Some(reader),
            OpenedSegment::Other(_) | OpenedSegment::Damaged => None,
        })
    }

    fn damaged(&mut self, part: &OnDisk) -> Read {
        tracing::warn!(
            journal = %self.shared.dir.display(), from = self.after + 1, to = part.to,
            "records cannot be read back from their segment"
        );
        self.gap(part.to)
    }
}
