//! The journal: one writer, many readers.

use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use crate::cursor::Cursor;
use crate::error::JournalError;
use crate::format::{MAX_BODY_BYTES, RECORD_HEADER, RecordHeader, Tag};
use crate::index::{Entry, Index};
use crate::positions::Positions;
use crate::reader::Mark;
use crate::record::{NewRecord, Record, now_micros};
use crate::recovery::{Recovery, recover};
use crate::segment::{Segment, segment_path};
use crate::shared::{Part, RestoredLog, SealedSegment, SharedLog};
use crate::tail::Tail;

/// Rolled segments that may wait for [`Journal::sync`]; one more is flushed by the roll itself.
const MAX_UNSYNCED: usize = 8;
/// A segment of this many times the usual size holds a record that is as large: see [`RolledSegment::flush`].
const LARGE_SEGMENTS: u64 = 2;

/// The bounds of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Memory for the newest records, bodies and bookkeeping.
    pub tail_bytes: usize,
    /// Size from which [`Journal::roll_due`] asks for a new segment.
    pub segment_bytes: u64,
    /// Disk for all segments; above it the oldest are deleted. The newest is never deleted.
    pub quota_bytes: u64,
}

impl Default for Options {
    /// 8 MiB in memory, segments of 16 MiB, 2 GiB on disk.
    fn default() -> Self {
        Self {
            tail_bytes: 8 << 20,
            segment_bytes: 16 << 20,
            quota_bytes: 2 << 30,
        }
    }
}

/// The append log of one session. Clones are handles to the same log.
///
/// Appends are meant to come from one task; from several they are serialised. All calls are synchronous and take
/// microseconds, except [`Self::sync`], which waits for the disk.
#[derive(Clone, Debug)]
pub struct Journal {
    pub(crate) shared: Arc<JournalState>,
}

/// State that cursors hold.
#[derive(Debug)]
pub(crate) struct JournalState {
    pub(crate) dir: PathBuf,
    pub(crate) index: Mutex<Index>,
    options: Options,
    /// Begins as that of the options.
    quota_bytes: AtomicU64,
    writer: Mutex<Writer>,
    head: watch::Sender<u64>,
    positions: Positions,
    /// The part of the log that is elsewhere, if there is one.
    pub(crate) elsewhere: Option<Arc<dyn SharedLog>>,
    /// Bytes that all cursors have read.
    pub(crate) read_bytes: AtomicU64,
}

/// State that only the writer uses. Locked before `index` where both are.
#[derive(Debug)]
struct Writer {
    segment: Segment,
    /// The number of the first record of the segment, also its name.
    first: u64,
    next_seq: u64,
    next_generation: u64,
    dirty: bool,
    /// Rolled since the last flush, oldest first.
    unsynced: Vec<RolledSegment>,
    /// A segment was created since the directory was flushed.
    dir_dirty: bool,
    headers: Vec<[u8; RECORD_HEADER]>,
}

/// Result of appending a batch.
#[derive(Debug)]
pub enum Append {
    /// It is in the log, with these numbers.
    Done(Range<u64>),
    /// It is in the log once it is committed elsewhere and [published](Journal::publish).
    Pending(StagedBatch),
}

/// A batch of a shared log that is on its way. No other one is begun before it is published.
#[derive(Debug)]
pub struct StagedBatch {
    /// Completes when the batch is committed elsewhere; fails when this gateway may not write the log any more.
    pub committed: oneshot::Receiver<()>,
    seqs: Range<u64>,
    records: Vec<Arc<Record>>,
    offset: u64,
}

/// A segment that is written no more and may not be on the disk yet.
#[derive(Clone, Debug)]
struct RolledSegment {
    file: Arc<File>,
    large: bool,
}

impl RolledSegment {
    /// Waits until it is on the disk. A large one leaves the page cache then: its record is in the tail while it is new, and
    /// hardly ever read after that, but its pages would take as much memory again, which the next such record can use.
    fn flush(&self) -> io::Result<()> {
        self.file.sync_data()?;
        if self.large {
            // Refused, it is cached as everything else is.
            let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
        }
        Ok(())
    }
}

impl Journal {
    /// Opens the journal in `dir`, or creates it (directory 0700, files 0600). A torn end is cut off.
    pub fn open(dir: impl Into<PathBuf>, options: Options) -> Result<(Self, Recovery), JournalError> {
        Self::open_with(dir.into(), options, None)
    }

    /// The same for a shared log, whose newest segment was restored in `dir`.
    pub(crate) fn open_shared(
        dir: PathBuf,
        options: Options,
        restored: RestoredLog,
    ) -> Result<(Self, Recovery), JournalError> {
        let RestoredLog {
            log,
            sealed,
            positions,
            is_new,
        } = restored;
        let (journal, recovery) = Self::open_with(dir, options, Some((log, sealed)))?;
        if let Some(positions) = positions {
            journal.shared.positions.merge(&positions, journal.head())?;
        }
        if is_new {
            let writer = journal.shared.writer.lock();
            journal.shared.share_start(writer.first)?;
        }
        Ok((journal, recovery))
    }

    fn open_with(
        dir: PathBuf,
        options: Options,
        elsewhere: Option<(Arc<dyn SharedLog>, Vec<SealedSegment>)>,
    ) -> Result<(Self, Recovery), JournalError> {
        let (elsewhere, sealed) = elsewhere.unzip();
        let found = recover(&dir, &sealed.unwrap_or_default())?;
        let mut tail = Tail::new(options.tail_bytes);
        found
            .recovery
            .since
            .iter()
            .for_each(|record| tail.push(Arc::clone(record)));
        let active_first = found.entries.last().map_or(1, |entry| entry.first);
        let next_generation = found
            .entries
            .iter()
            .map(|entry| entry.generation)
            .max()
            .unwrap_or(0)
            + 1;
        let shared = JournalState {
            options,
            quota_bytes: AtomicU64::new(options.quota_bytes),
            index: Mutex::new(Index {
                head: found.head,
                tail,
                segments: found.entries.into(),
            }),
            writer: Mutex::new(Writer {
                segment: found.active,
                first: active_first,
                next_seq: found.head + 1,
                next_generation,
                dirty: true,
                unsynced: Vec::new(),
                dir_dirty: true,
                headers: Vec::new(),
            }),
            head: watch::Sender::new(found.head),
            positions: Positions::open(&dir, found.head)?,
            elsewhere,
            read_bytes: AtomicU64::new(0),
            dir,
        };
        Ok((
            Self {
                shared: Arc::new(shared),
            },
            found.recovery,
        ))
    }

    /// Appends one record and returns its seq. It is in its segment when this returns.
    pub fn append(&self, record: &NewRecord) -> Result<u64, JournalError> {
        self.append_batch(std::slice::from_ref(record))
            .map(|seqs| seqs.start)
    }

    /// Appends all of `records`, or none, with one write, and returns their seqs. On a shared log it blocks until they are committed.
    pub fn append_batch(&self, records: &[NewRecord]) -> Result<Range<u64>, JournalError> {
        match self.begin_batch(records)? {
            Append::Done(seqs) => Ok(seqs),
            Append::Pending(mut staged) => {
                let (_, never) = oneshot::channel();
                let committed = std::mem::replace(&mut staged.committed, never);
                let lost = || {
                    JournalError::io(
                        "share",
                        &self.shared.dir,
                        io::Error::other("the log has another owner"),
                    )
                };
                committed.blocking_recv().map_err(|_| lost())?;
                Ok(self.publish(staged))
            }
        }
    }

    /// Appends all of `records`, or none, with one write. Those of a shared log are visible after [`Self::publish`].
    pub fn begin_batch(&self, records: &[NewRecord]) -> Result<Append, JournalError> {
        records
            .iter()
            .try_for_each(|record| check_length(record.body.len()))?;
        let mut writer = self.shared.writer.lock();
        let first = writer.next_seq;
        if records.is_empty() {
            return Ok(Append::Done(first..first));
        }
        let (bytes, quota) = (
            writer.segment.len(),
            self.shared.quota_bytes.load(Ordering::Relaxed),
        );
        if bytes >= quota.max(self.shared.options.segment_bytes) {
            return Err(JournalError::RollOverdue { bytes, quota });
        }
        let at_micros = now_micros();
        writer.write(records, at_micros)?;
        writer.next_seq += records.len() as u64;
        // Copies are made before the readers' lock is taken.
        let mut stored = (first..)
            .zip(records)
            .map(|(seq, new)| Arc::new(Record::from_new(new, seq, at_micros)));
        if let Some(elsewhere) = &self.shared.elsewhere {
            let records: Vec<Arc<Record>> = stored.collect();
            let part = Part {
                segment: writer.first,
                at: bytes,
                last: writer.next_seq - 1,
                bytes: encoded(&records),
            };
            return Ok(Append::Pending(StagedBatch {
                committed: elsewhere.commit(part),
                seqs: first..writer.next_seq,
                records,
                offset: bytes,
            }));
        }
        match records {
            [_] => self.shared.publish(stored.next(), bytes),
            _ => self.shared.publish(stored.collect::<Vec<_>>(), bytes),
        }
        Ok(Append::Done(first..writer.next_seq))
    }

    /// Makes a batch visible that is committed elsewhere, and returns its seqs.
    pub fn publish(&self, staged: StagedBatch) -> Range<u64> {
        self.shared.publish(staged.records, staged.offset);
        staged.seqs
    }

    /// Another bound for the disk than [`Options::quota_bytes`]. What is above it goes with the next [`Self::roll`].
    pub fn set_quota(&self, bytes: u64) {
        self.shared.quota_bytes.store(bytes, Ordering::Relaxed);
    }

    /// True if the newest segment has reached its size, so that [`Self::roll`] should be called.
    pub fn roll_due(&self) -> bool {
        self.shared.writer.lock().segment.len() >= self.shared.options.segment_bytes
    }

    /// Begins a new segment with `checkpoint`: the caller's state as of [`Self::head`], from which, and the records
    /// after it, the caller can rebuild itself. Deletes the oldest segments above the quota.
    ///
    /// May be called at any time; on an error the current segment stays in use.
    pub fn roll(&self, checkpoint: &[u8]) -> Result<(), JournalError> {
        check_length(checkpoint.len())?;
        let mut writer = self.shared.writer.lock();
        let first = writer.next_seq;
        let segment = Segment::create(&self.shared.dir, first, Some(checkpoint))?;
        let entry = Entry::new(first, writer.next_generation, segment.len());
        writer.next_generation += 1;
        self.shared.share_start(first)?;
        let old = std::mem::replace(&mut writer.segment, segment);
        let old_first = std::mem::replace(&mut writer.first, first);
        if let Some(elsewhere) = &self.shared.elsewhere
            && old_first != first
        {
            let sealed = SealedSegment {
                first: old_first,
                bytes: old.len(),
            };
            elsewhere.seal(sealed, &segment_path(&self.shared.dir, old_first));
        }
        let large = old.len() >= self.shared.options.segment_bytes.saturating_mul(LARGE_SEGMENTS);
        writer.retire(&old, large);
        for deleted in self.shared.begin_segment(entry) {
            if let Some(elsewhere) = &self.shared.elsewhere {
                elsewhere.delete(deleted);
            }
            let path = segment_path(&self.shared.dir, deleted);
            // A segment of a shared log may never have been fetched.
            if let Err(error) = fs::remove_file(&path)
                && !(self.shared.elsewhere.is_some() && error.kind() == io::ErrorKind::NotFound)
            {
                tracing::warn!(segment = %path.display(), %error, "cannot delete an old segment");
            }
        }
        Ok(())
    }

    /// The seq of the newest record; 0 while there is none.
    pub fn head(&self) -> u64 {
        self.shared.index.lock().head
    }

    /// The oldest seq that can still be read; `head() + 1` if there is none.
    pub fn first(&self) -> u64 {
        self.shared.index.lock().first()
    }

    /// Bytes of all segments.
    pub fn disk_bytes(&self) -> u64 {
        self.shared.index.lock().bytes()
    }

    /// The directory of this journal.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// A channel that always holds [`Self::head`]. When it shows a seq, cursors can read it.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        let mut receiver = self.shared.head.subscribe();
        let head = self.head();
        self.shared.head.send_if_modified(|known| {
            let grows = *known < head;
            *known = head.max(*known);
            grows
        });
        receiver.mark_unchanged();
        receiver
    }

    /// A cursor whose first read begins with the record after `after`. A position beyond the head is taken for the head.
    pub fn cursor(&self, after: u64) -> Cursor {
        Cursor::new(Arc::clone(&self.shared), after.min(self.head()))
    }

    /// Bytes that all cursors have read since the journal was opened: of records in memory their size, of the disk what was
    /// asked of it.
    pub fn read_bytes(&self) -> u64 {
        self.shared.read_bytes.load(Ordering::Relaxed)
    }

    /// The positions kept beside this log.
    pub fn positions(&self) -> &Positions {
        &self.shared.positions
    }

    /// Keeps positions elsewhere that are not kept there yet, without a wait for the disk. [`Self::sync`] does so too.
    pub fn keep_positions(&self) -> Result<(), JournalError> {
        if let Some(elsewhere) = &self.shared.elsewhere
            && self.shared.positions.take_changed()
        {
            elsewhere.keep_positions(self.shared.positions.bytes()?);
        }
        Ok(())
    }

    /// Waits until all that was appended before is on the disk (fdatasync), but for what a shared log has elsewhere. Appends and reads continue meanwhile. Call it
    /// from a thread that may block, every 100 ms and at idle; without changes it costs nothing.
    pub fn sync(&self) -> Result<(), JournalError> {
        let (rolled, current, dir_dirty) = {
            let mut writer = self.shared.writer.lock();
            let rolled = std::mem::take(&mut writer.unsynced);
            // The newest segment of a shared log is restored from elsewhere. It is flushed when it is rolled.
            let is_flushed = self.shared.elsewhere.is_none() && std::mem::take(&mut writer.dirty);
            let current = is_flushed.then(|| Arc::clone(&writer.segment.file));
            (rolled, current, std::mem::take(&mut writer.dir_dirty))
        };
        let flushed = rolled.iter().try_for_each(RolledSegment::flush);
        let flushed = flushed.and_then(|()| current.as_ref().map_or(Ok(()), |file| file.sync_data()));
        let flushed = flushed.and_then(|()| {
            if dir_dirty {
                File::open(&self.shared.dir)?.sync_all()
            } else {
                Ok(())
            }
        });
        if let Err(error) = flushed {
            let mut writer = self.shared.writer.lock();
            writer.dir_dirty |= dir_dirty;
            writer.unflushed(rolled, current);
            return Err(JournalError::io("flush", &self.shared.dir, error));
        }
        match self.shared.elsewhere {
            Some(_) => self.keep_positions(),
            None => self.shared.positions.sync(),
        }
    }
}

impl Writer {
    fn write(&mut self, records: &[NewRecord], at_micros: u64) -> Result<(), JournalError> {
        let header = |(seq, new): (u64, &NewRecord)| {
            let header = RecordHeader {
                seq,
                at_micros,
                meta: new.meta,
                kind: new.kind,
                tag: Tag::Record,
            };
            header.encode(&new.body)
        };
        let mut numbered = (self.next_seq..).zip(records);
        self.dirty = true;
        if let ([new], Some(numbered)) = (records, numbered.next()) {
            let header = header(numbered);
            return self
                .segment
                .append(&mut [IoSlice::new(&header), IoSlice::new(&new.body)]);
        }
        self.headers.clear();
        self.headers.extend((self.next_seq..).zip(records).map(header));
        let parts = self.headers.iter().zip(records);
        let mut slices: Vec<IoSlice<'_>> = parts
            .flat_map(|(header, new)| [IoSlice::new(header), IoSlice::new(&new.body)])
            .collect();
        self.segment.append(&mut slices)
    }

    /// A flush failed: what it was for is flushed again by the next one. The current segment of then may have been rolled.
    fn unflushed(&mut self, rolled: Vec<RolledSegment>, current: Option<Arc<File>>) {
        self.dirty = true;
        let current = current.filter(|file| !Arc::ptr_eq(file, &self.segment.file));
        let current = current.map(|file| RolledSegment { file, large: false });
        let room = MAX_UNSYNCED.saturating_sub(self.unsynced.len());
        self.unsynced.extend(rolled.into_iter().chain(current).take(room));
    }

    /// Remembers a rolled segment for the next flush, and flushes the oldest one itself when too many wait.
    fn retire(&mut self, segment: &Segment, large: bool) {
        self.dir_dirty = true;
        if std::mem::replace(&mut self.dirty, true) || large {
            let file = Arc::clone(&segment.file);
            self.unsynced.push(RolledSegment { file, large });
        }
        if self.unsynced.len() > MAX_UNSYNCED
            && let Err(error) = self.unsynced.remove(0).flush()
        {
            tracing::warn!(%error, "cannot flush a rolled segment");
        }
    }
}

/// Records as they are in a segment.
fn encoded(records: &[Arc<Record>]) -> Bytes {
    let mut bytes = Vec::with_capacity(records.iter().map(|record| record.size()).sum());
    for record in records {
        let header = RecordHeader {
            seq: record.seq,
            at_micros: record.at_micros,
            meta: record.meta,
            kind: record.kind,
            tag: Tag::Record,
        };
        bytes.extend_from_slice(&header.encode(&record.body));
        bytes.extend_from_slice(&record.body);
    }
    bytes.into()
}

impl JournalState {
    /// Commits what a new segment begins with. Nothing waits for it: what follows is committed after it.
    fn share_start(&self, first: u64) -> Result<(), JournalError> {
        let Some(elsewhere) = &self.elsewhere else {
            return Ok(());
        };
        let path = segment_path(&self.dir, first);
        let bytes = fs::read(&path).map_err(|error| JournalError::io("read", &path, error))?;
        drop(elsewhere.commit(Part {
            segment: first,
            at: 0,
            last: first - 1,
            bytes: bytes.into(),
        }));
        Ok(())
    }

    /// Makes written records visible. `offset` is where the first of them begins in the newest segment.
    fn publish(&self, records: impl IntoIterator<Item = Arc<Record>>, mut offset: u64) {
        let mut index = self.index.lock();
        let Index { head, tail, segments } = &mut *index;
        for record in records {
            *head = record.seq;
            if let Some(entry) = segments.back_mut() {
                entry.note(Mark {
                    seq: record.seq,
                    offset,
                });
                offset += record.size() as u64;
                entry.bytes = offset;
            }
            tail.push(record);
        }
        let head = *head;
        drop(index);
        // Without a subscriber it costs as much as with one. A later subscriber looks at the index first.
        if self.head.receiver_count() > 0 {
            self.head.send_replace(head);
        }
    }

    /// Makes `entry` the newest segment and returns those that the quota wants deleted.
    fn begin_segment(&self, entry: Entry) -> Vec<u64> {
        let mut index = self.index.lock();
        if index
            .segments
            .back()
            .is_some_and(|last| last.first == entry.first)
        {
            // The current one held no record: its file was replaced.
            index.segments.pop_back();
        }
        index.segments.push_back(entry);
        let mut bytes = index.bytes();
        let quota = self.quota_bytes.load(Ordering::Relaxed);
        let mut deleted = Vec::new();
        while bytes > quota && index.segments.len() > 1 {
            let Some(oldest) = index.segments.pop_front() else {
                break;
            };
            bytes -= oldest.bytes;
            deleted.push(oldest.first);
        }
        let first = index.first();
        index.tail.forget_before(first);
        deleted
    }
}

fn check_length(bytes: usize) -> Result<(), JournalError> {
    if bytes > MAX_BODY_BYTES {
        return Err(JournalError::TooLarge {
            bytes,
            limit: MAX_BODY_BYTES,
        });
    }
    Ok(())
}
