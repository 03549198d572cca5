//! Reading one segment from disk, in order.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use bytes::Bytes;

use crate::format::{
    OtherFormat, RECORD_HEADER, RecordHeader, SEGMENT_HEADER, SegmentHeader, Tag, checksum_holds,
    decode_segment_header,
};
use crate::record::Record;

/// Most bytes asked of the disk at a time.
const WINDOW: usize = 128 * 1024;
/// Fewest bytes asked of the disk at a time.
const SMALL_WINDOW: usize = 8 * 1024;

/// Start of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) seq: u64,
    pub(crate) offset: u64,
}

/// Contents at the reader's place.
#[derive(Debug)]
pub(crate) enum Step {
    /// The next record, checked.
    Record(Record),
    /// The next record was passed over, unchecked.
    Skipped,
    /// The end of the file, between records.
    End,
    /// Bytes that are not the next record.
    Damaged,
}

/// The start of a segment file.
#[derive(Debug)]
pub(crate) enum OpenedSegment {
    /// A reader at the first record, and the checkpoint.
    Sound(SegmentReader, Option<Bytes>),
    /// Another version of the format.
    Other(OtherFormat),
    /// The start is damaged, or belongs to another segment.
    Damaged,
}

/// A place in a segment file.
#[derive(Debug)]
pub(crate) struct SegmentReader {
    file: File,
    next: Mark,
    window: Vec<u8>,
    window_at: u64,
    ahead: usize,
    /// Bytes read from the file.
    read: u64,
}

impl SegmentReader {
    /// Opens a segment and reads its start.
    pub(crate) fn open(path: &Path, first: u64) -> io::Result<OpenedSegment> {
        let mut reader = Self::at(
            path,
            Mark {
                seq: first,
                offset: SEGMENT_HEADER as u64,
            },
        )?;
        let mut start = [0; SEGMENT_HEADER];
        let has_checkpoint = match reader.file.read_exact_at(&mut start, 0) {
            Ok(()) => match decode_segment_header(&start) {
                SegmentHeader::Ours {
                    first_seq,
                    has_checkpoint,
                } if first_seq == first => has_checkpoint,
                SegmentHeader::Other(format) => return Ok(OpenedSegment::Other(format)),
                _ => return Ok(OpenedSegment::Damaged),
            },
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(OpenedSegment::Damaged),
            Err(error) => return Err(error),
        };
        if !has_checkpoint {
            return Ok(OpenedSegment::Sound(reader, None));
        }
        match reader.step(Tag::Checkpoint, first - 1, true)? {
            Step::Record(checkpoint) => Ok(OpenedSegment::Sound(reader, Some(checkpoint.body))),
            _ => Ok(OpenedSegment::Damaged),
        }
    }

    /// Opens a segment at a known place, without looking at its start.
    pub(crate) fn at(path: &Path, mark: Mark) -> io::Result<Self> {
        Ok(Self {
            file: File::open(path)?,
            next: mark,
            window: Vec::new(),
            window_at: 0,
            ahead: WINDOW,
            read: 0,
        })
    }

    /// The place of the next record: all bytes before it are sound or were skipped.
    pub(crate) fn place(&self) -> Mark {
        self.next
    }

    /// Takes the next record, or passes over it when its seq is below `from`.
    pub(crate) fn next(&mut self, from: u64) -> io::Result<Step> {
        let seq = self.next.seq;
        let step = self.step(Tag::Record, seq, seq >= from)?;
        if matches!(step, Step::Record(_) | Step::Skipped) {
            self.next.seq += 1;
        }
        Ok(step)
    }

    /// Goes back to a place that [`Self::place`] gave.
    pub(crate) fn seek(&mut self, place: Mark) {
        self.next = place;
    }

    /// Sets how much is read ahead, for a caller who wants about `bytes`.
    pub(crate) fn expect(&mut self, bytes: usize) {
        self.ahead = bytes.clamp(SMALL_WINDOW, WINDOW);
    }

    /// Bytes read from the file since this was asked.
    pub(crate) fn take_read(&mut self) -> u64 {
        std::mem::take(&mut self.read)
    }

    /// Frees the read buffer; the place is kept.
    pub(crate) fn rest(&mut self) {
        self.window = Vec::new();
    }

    fn step(&mut self, tag: Tag, seq: u64, wanted: bool) -> io::Result<Step> {
        let at = self.next.offset;
        let Some(header) = self.header(at)? else {
            return Ok(if self.file.metadata()?.len() <= at {
                Step::End
            } else {
                Step::Damaged
            });
        };
        let Some((fields, len)) = RecordHeader::decode(&header) else {
            return Ok(Step::Damaged);
        };
        if fields.tag != tag || fields.seq != seq {
            return Ok(Step::Damaged);
        }
        let body_at = at + RECORD_HEADER as u64;
        self.next.offset = body_at + len as u64;
        if !wanted {
            return Ok(Step::Skipped);
        }
        match self.bytes(body_at, len)? {
            Some(body) if checksum_holds(&header, &body) => Ok(Step::Record(Record {
                seq: fields.seq,
                at_micros: fields.at_micros,
                kind: fields.kind,
                meta: fields.meta,
                body,
            })),
            _ => {
                self.next.offset = at;
                Ok(Step::Damaged)
            }
        }
    }

    fn header(&mut self, at: u64) -> io::Result<Option<[u8; RECORD_HEADER]>> {
        if !self.load(at, RECORD_HEADER)? {
            return Ok(None);
        }
        let mut out = [0; RECORD_HEADER];
        out.copy_from_slice(self.loaded(at, RECORD_HEADER));
        Ok(Some(out))
    }

    /// `len` bytes at `at` in an allocation of their own; `None` if the file ends before.
    fn bytes(&mut self, at: u64, len: usize) -> io::Result<Option<Bytes>> {
        if len <= WINDOW {
            let complete = self.load(at, len)?;
            return Ok(complete.then(|| Bytes::copy_from_slice(self.loaded(at, len))));
        }
        // The length is not checked yet: allocate nothing that the file does not hold.
        if self.file.metadata()?.len() < at + len as u64 {
            return Ok(None);
        }
        let mut body = vec![0; len];
        self.file.read_exact_at(&mut body, at)?;
        self.read += len as u64;
        Ok(Some(body.into()))
    }

    /// Makes `len` (at most [`WINDOW`]) bytes at `at` available to [`Self::loaded`]; `false` if the file ends before.
    fn load(&mut self, at: u64, len: usize) -> io::Result<bool> {
        if self.has(at, len) {
            return Ok(true);
        }
        self.window.resize(self.ahead.max(len), 0);
        self.window_at = at;
        let mut filled = 0;
        while filled < len {
            match self.file.read_at(&mut self.window[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.window.clear();
                    return Err(error);
                }
            }
        }
        self.window.truncate(filled);
        self.read += filled as u64;
        Ok(filled >= len)
    }

    fn has(&self, at: u64, len: usize) -> bool {
        at >= self.window_at && at + len as u64 <= self.window_at + self.window.len() as u64
    }

    fn loaded(&self, at: u64, len: usize) -> &[u8] {
        let start = usize::try_from(at - self.window_at).unwrap_or(usize::MAX);
        &self.window[start..start + len]
    }
}
