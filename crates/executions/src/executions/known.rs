//! Cached state of one execution, with places in its text, so that the next request reads on from there.
//!
//! A poll costs what is new in the log, and a page of the text about its own size: it is folded from the last place before it.
//! Nothing of this is more than a copy of what the log says: it is made again when it was forgotten.

use himalia_budget::{Pace, Reading};
use himalia_journal::Record;
use himalia_kernel::Brief;
use himalia_model::EngineError;

use super::feed::{BATCH_BYTES, BATCH_RECORDS, blocking};
use super::follow::Mark;
use crate::feed::{Batch, PacedReader};
use crate::{ArtifactStore, ExecutionId, ExecutionResult, FeedClosed, Follower, LogReader, OutputPage};

/// Bytes of records from one place to the next, at first.
const MARK_EVERY: u64 = 1 << 20;
/// Places of one execution, and bytes of memory for them: with more, every second one is forgotten and they are made half as often.
const MAX_MARKS: usize = 1024;
const MARKS_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub struct CachedExecution {
    id: ExecutionId,
    blank: Follower,
    follower: Follower,
    /// Ascending; the first one is where the text begins that is not taken back.
    marks: Vec<Mark>,
    marks_bytes: usize,
    /// Bytes of records from one place to the next, and since the last one.
    every: u64,
    since: u64,
}

impl CachedExecution {
    /// Creates the state of an execution of which nothing was read yet.
    pub fn new(id: ExecutionId, follower: Follower) -> Self {
        Self {
            id,
            marks: vec![follower.origin(id.seq)],
            marks_bytes: 0,
            blank: follower.clone(),
            follower,
            every: MARK_EVERY,
            since: 0,
        }
    }

    /// The number of the latest record that was read; before the first one that of the record before it.
    pub fn seq(&self) -> u64 {
        self.follower.seq().max(self.id.seq - 1)
    }

    /// As far as it was read.
    pub fn follower(&self) -> &Follower {
        &self.follower
    }

    /// As nothing was read yet.
    pub fn blank(&self) -> &Follower {
        &self.blank
    }

    /// Approximate memory, in bytes.
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.follower.weight() + self.marks_bytes
    }

    /// Reads what there is now and was not read yet, without waiting for more. `log` begins after [`Self::seq`]. May be given up
    /// at any time: what was read stays.
    pub async fn catch_up(
        &mut self,
        log: &mut LogReader,
        artifacts: &ArtifactStore,
        reading: &mut Reading,
    ) -> Result<(), EngineError> {
        let head = log.head();
        while !self.follower.is_over() && self.follower.seq() < head {
            match log.next(BATCH_RECORDS, BATCH_BYTES).await? {
                Batch::Gap { from, to } => drop(self.follower.missing(from, to)),
                Batch::Records(records) => {
                    for record in &records {
                        blocking(record, || artifacts.keep(&self.record(record)));
                    }
                }
            }
            reading.go_on().await?;
        }
        Ok(())
    }

    fn record(&mut self, record: &Record) -> Vec<himalia_outcome::Artifact> {
        let turn = self.follower.turn();
        let artifacts = self.follower.record(record);
        self.since = self.since.saturating_add(record.body.len() as u64);
        if self.follower.turn() != turn {
            self.marks = vec![self.follower.origin(record.seq)];
            (self.marks_bytes, self.since, self.every) = (0, 0, MARK_EVERY);
        } else if self.since >= self.every {
            self.since = 0;
            self.add_mark();
        }
        artifacts
    }

    fn add_mark(&mut self) {
        let last = self.marks.last().map_or(0, Mark::bytes);
        if self.follower.final_bytes() <= last {
            // The last one serves the same pages; it is moved up to here, but for the first one.
            if self.marks.len() > 1
                && let Some(mark) = self.marks.pop()
            {
                self.marks_bytes -= mark.weight();
            }
        }
        let mark = self.follower.mark();
        self.marks_bytes += mark.weight();
        self.marks.push(mark);
        while self.marks.len() > 2 && (self.marks.len() > MAX_MARKS || self.marks_bytes > MARKS_BYTES) {
            self.every = self.every.saturating_mul(2);
            let mut at = 0;
            self.marks.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.marks_bytes = self.marks.iter().skip(1).map(Mark::weight).sum();
        }
    }

    /// Result, as far as it was read. `brief` is what its kernel knows of its end, if the log does not.
    pub fn result(&self, brief: Option<&Brief>) -> ExecutionResult {
        match brief {
            None => self.follower.result(),
            Some(brief) => {
                let mut follower = self.follower.clone();
                follower.end_without_record(brief);
                follower.result()
            }
        }
    }

    /// Forgets what was read.
    pub fn begin_anew(&mut self) {
        *self = Self::new(self.id, self.blank.clone());
    }

    /// The place to read a part of the text from that begins after `offset` bytes.
    pub fn part(&self, offset: u64) -> Part {
        let after = self.marks.partition_point(|mark| mark.bytes() <= offset);
        let mark = self.marks.get(after.saturating_sub(1)).cloned();
        Part {
            id: self.id,
            mark: mark.unwrap_or_else(|| self.follower.origin(self.id.seq)),
            head: self.follower.seq(),
            bytes_total: self.follower.text_bytes(),
            complete: self.follower.is_over(),
        }
    }
}

/// A part of an execution's text that is to be read.
#[derive(Debug)]
pub struct Part {
    id: ExecutionId,
    mark: Mark,
    /// The latest record that counts.
    head: u64,
    bytes_total: u64,
    /// No more text will come.
    pub complete: bool,
}

impl Part {
    /// The record after which reading begins.
    pub fn seq(&self) -> u64 {
        self.mark.seq
    }

    /// At most `limit` bytes after `offset` bytes. `reader` begins after [`Self::seq`]; read is no more than the page needs.
    pub async fn page(
        &self,
        reader: &mut LogReader,
        offset: u64,
        limit: usize,
        reading: &mut Reading,
    ) -> Result<OutputPage, EngineError> {
        let mut follower = self.mark.page(self.id, offset, limit);
        let is_there = offset < self.bytes_total;
        'read: while is_there && follower.seq() < self.head {
            match reader.next(BATCH_RECORDS, BATCH_BYTES).await? {
                Batch::Gap { from, to } => drop(follower.missing(from, to.min(self.head))),
                Batch::Records(records) => {
                    for record in records.iter().filter(|record| record.seq <= self.head) {
                        blocking(record, || drop(follower.record(record)));
                        if follower.text().is_full() {
                            break 'read;
                        }
                    }
                }
            }
            reading.go_on().await?;
        }
        let page = follower.into_text();
        let offset = if is_there { page.offset() } else { self.bytes_total };
        Ok(OutputPage {
            text: page.text().to_owned(),
            offset,
            next: offset + page.text().len() as u64,
            bytes_total: self.bytes_total,
            complete: self.complete,
        })
    }

    /// All text after `offset` bytes, piece by piece. `reader` begins after [`Self::seq`].
    pub fn text(self, log: LogReader, offset: u64, pace: Pace) -> ExecutionText {
        ExecutionText {
            skip: offset.min(self.bytes_total) - self.mark.bytes().min(offset),
            follower: Some(self.mark.text(self.id)),
            head: self.head,
            reader: PacedReader::new(log, pace),
        }
    }
}

/// The text of an execution as it was when this was asked for, piece by piece: what is held is the lines that can still change,
/// and one batch of records.
#[derive(Debug)]
pub struct ExecutionText {
    reader: PacedReader,
    /// `None` at the end.
    follower: Option<Follower<String>>,
    head: u64,
    /// Bytes that are not wanted.
    skip: u64,
}

impl ExecutionText {
    /// The next piece, not empty; `None` after the last one. Waits for nothing but the disk.
    pub async fn next(&mut self) -> Result<Option<String>, FeedClosed> {
        while let Some(follower) = &mut self.follower {
            let text = if follower.seq() < self.head {
                let read = self.reader.next(BATCH_RECORDS, BATCH_BYTES).await?;
                match &read.batch {
                    Batch::Gap { from, to } => drop(follower.missing(*from, (*to).min(self.head))),
                    Batch::Records(records) => {
                        for record in records.iter().filter(|record| record.seq <= self.head) {
                            blocking(record, || drop(follower.record(record)));
                        }
                    }
                }
                follower.take_text()
            } else {
                self.follower.take().map(Follower::into_text).unwrap_or_default()
            };
            let text = self.wanted(text);
            if !text.is_empty() {
                return Ok(Some(text));
            }
            tokio::task::yield_now().await;
        }
        Ok(None)
    }

    /// Without what comes before the offset. A character that it cuts is left out, as pages do.
    fn wanted(&mut self, text: String) -> String {
        let skip = usize::try_from(self.skip).unwrap_or(usize::MAX);
        if skip == 0 {
            return text;
        }
        let from = (skip.min(text.len())..=text.len()).find(|at| text.is_char_boundary(*at));
        let from = from.unwrap_or(text.len());
        self.skip = self.skip.saturating_sub(from as u64);
        text.get(from..).unwrap_or_default().to_owned()
    }
}
