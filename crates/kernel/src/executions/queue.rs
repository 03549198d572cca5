//! The native executions of one kernel: those that wait, the one that was sent, and the latest ones that ended.
//!
//! An execution is named by the journal number of its first record, and everything that becomes of it is a record with
//! [`owner_of`](super::records::owner_of) that number. What is here is rebuilt from a checkpoint and those records.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::brief::Brief;
use super::current::Current;
use super::observed::Observation;
use super::queued::QueuedExecution;
use super::records::{End, Submission};

/// Executions of one caller that wait behind the one that runs, and of all callers; an additional one is refused.
pub(crate) const MAX_QUEUED: usize = 64;
pub(crate) const MAX_QUEUED_OF_ALL: usize = 256;
/// Bytes of code of one caller that wait, and of all callers; an additional one is refused.
pub(crate) const QUEUED_BYTES: usize = 8 << 20;
pub(crate) const QUEUED_BYTES_OF_ALL: usize = 16 << 20;
/// Ended executions that are listed, known by their idempotency keys, and counted as having failed before.
pub const MAX_RECENT: usize = 1000;

/// Execution that an idempotency key belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyLookup {
    Nothing,
    /// It names this one.
    Same(u64),
    /// It is being written, on behalf of this waiter.
    Writing(usize),
    /// It names another request.
    Other,
}

#[derive(Debug)]
pub(super) struct UnwrittenSubmission {
    pub(super) waiters: Vec<u64>,
    pub(super) submission: Submission,
    pub(super) turn: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Executions {
    /// On their way to the journal, by the waiter who came first.
    #[serde(skip)]
    pub(super) submitting: Vec<UnwrittenSubmission>,
    pub(super) queue: VecDeque<QueuedExecution>,
    pub(super) current: Option<Current>,
    pub(super) recent: VecDeque<Brief>,
    /// The process that the latest one was sent to, 0 = none was.
    pub(super) last_incarnation: u32,
    /// The turn of the latest one that was sent.
    pub(super) served: u64,
    /// When the one that was sent was sent, microseconds since 1970; `None` if an earlier gateway did that.
    #[serde(skip)]
    pub(super) sent_micros: Option<u64>,
    /// Observations for metrics.
    #[serde(skip)]
    pub(crate) observed: Vec<Observation>,
}

impl Executions {
    /// Executions that have not ended, those on their way to the journal included.
    pub(super) fn ahead(&self) -> u32 {
        let ahead = self.queue.len() + usize::from(self.current.is_some()) + self.submitting.len();
        u32::try_from(ahead).unwrap_or(u32::MAX)
    }

    /// Waiting executions, on their way to the journal or there, with their turns.
    fn waiting(&self) -> impl Iterator<Item = (u64, &Submission)> {
        let queue = self.queue.iter().map(|one| (one.turn, &one.submission));
        let submitting = self.submitting.iter().map(|one| (one.turn, &one.submission));
        queue.chain(submitting)
    }

    /// True if one more may wait, for its caller and for all.
    pub(super) fn has_room(&self, wanted: &Submission) -> bool {
        let size = |submissions: Vec<&Submission>| {
            let bytes: usize = submissions.iter().map(|one| one.code.len()).sum();
            (submissions.len(), bytes + wanted.code.len())
        };
        let all = self.waiting().map(|(_, submission)| submission);
        let (count, bytes) = size(all.collect());
        let mine = self.waiting().map(|(_, submission)| submission);
        let (my_count, my_bytes) = size(mine.filter(|one| one.party() == wanted.party()).collect());
        count < MAX_QUEUED_OF_ALL
            && bytes <= QUEUED_BYTES_OF_ALL
            && my_count < MAX_QUEUED
            && my_bytes <= QUEUED_BYTES
    }

    /// The place of one that comes now: after the latest one of its caller, and in the next round of all callers. So the callers
    /// take turns, one execution each, whatever waits of one of them.
    pub(super) fn turn_of(&self, wanted: &Submission) -> u64 {
        let mine = self
            .waiting()
            .filter(|(_, submission)| submission.party() == wanted.party());
        mine.map(|(turn, _)| turn).max().unwrap_or(0).max(self.served) + 1
    }

    /// Executions that have to end before one with this turn that comes now.
    pub(super) fn ahead_of(&self, turn: u64) -> u32 {
        let before = self.waiting().filter(|(other, _)| *other <= turn).count();
        u32::try_from(before + usize::from(self.current.is_some())).unwrap_or(u32::MAX)
    }

    /// Puts one to its place.
    pub(super) fn enqueue(&mut self, queued: QueuedExecution) {
        let at = self
            .queue
            .partition_point(|other| (other.turn, other.seq) < (queued.turn, queued.seq));
        self.queue.insert(at, queued);
    }

    /// Looks up the idempotency key of a submission, within its caller's own keys.
    pub(super) fn known(&self, wanted: &Submission) -> KeyLookup {
        let Some(key) = &wanted.key else {
            return KeyLookup::Nothing;
        };
        let found = self.keyed(key, &wanted.caller);
        if let Some((seq, print)) = found {
            return if wanted.fingerprint() == print {
                KeyLookup::Same(seq)
            } else {
                KeyLookup::Other
            };
        }
        let writing = self.submitting.iter().position(|one| {
            one.submission.key.as_ref() == Some(key) && one.submission.caller == wanted.caller
        });
        match writing {
            Some(at) if wanted.fingerprint() == self.submitting[at].submission.fingerprint() => {
                KeyLookup::Writing(at)
            }
            Some(_) => KeyLookup::Other,
            None => KeyLookup::Nothing,
        }
    }

    /// The number and the fingerprint of this caller's latest one with this key. Nothing is copied: it is looked for in all
    /// that are remembered, with every request that has a key.
    fn keyed(&self, key: &str, caller: &str) -> Option<(u64, u64)> {
        let open = self
            .queue
            .iter()
            .rev()
            .chain(self.current.iter().map(|one| &one.queued));
        let open = open.map(|one| {
            let submission = &one.submission;
            (
                one.seq,
                submission.key.as_deref(),
                submission.caller.as_str(),
                one.print,
            )
        });
        let recent = self.recent.iter().rev().filter_map(|brief| {
            let (known, print) = brief.key.as_ref()?;
            Some((brief.seq, Some(known.as_str()), brief.caller.as_str(), *print))
        });
        let mut all = open.chain(recent);
        all.find_map(|(seq, known, by, print)| (known == Some(key) && by == caller).then_some((seq, print)))
    }

    /// All that are remembered, in order of their records.
    pub(crate) fn briefs(&self) -> impl DoubleEndedIterator<Item = Brief> + '_ {
        let current = self
            .current
            .iter()
            .map(|current| current.queued.brief(None, current.began, current.incarnation));
        let mut queue: Vec<&QueuedExecution> = self.queue.iter().collect();
        queue.sort_by_key(|one| one.seq);
        let queue = queue.into_iter().map(|one| one.brief(None, false, 0));
        self.recent.iter().cloned().chain(current).chain(queue)
    }

    /// The one that was sent to the kernel.
    pub(crate) fn sent(&self) -> Option<u64> {
        self.current.as_ref().map(|current| current.queued.seq)
    }

    /// The one that was sent, if it is this one.
    pub(super) fn current(&mut self, seq: u64) -> Option<&mut Current> {
        self.current.as_mut().filter(|current| current.queued.seq == seq)
    }

    /// Takes out one that waits.
    pub(super) fn take_queued(&mut self, seq: u64) -> Option<QueuedExecution> {
        let at = self.queue.iter().position(|one| one.seq == seq)?;
        self.queue.remove(at)
    }

    /// The one that was sent never ran: it is the next one again.
    pub(super) fn send_again(&mut self) {
        if let Some(current) = self.current.take() {
            self.queue.push_front(current.queued);
        }
    }

    /// Executions in a row that failed, up to the latest one that ended. Those that were interrupted or never ran say nothing.
    pub(crate) fn failures(&self) -> u32 {
        let telling = self
            .recent
            .iter()
            .rev()
            .filter(|brief| brief.failed || brief.end == Some(End::Ok));
        let failures = telling.take_while(|brief| brief.failed).count();
        u32::try_from(failures).unwrap_or(u32::MAX)
    }

    /// Remembers one that ended; gives how often its code had failed before. `ran`: the kernel had begun with it.
    pub(super) fn ended(&mut self, queued: &QueuedExecution, end: End, incarnation: u32, ran: bool) -> u32 {
        let brief = Brief {
            failed: ran && !matches!(end, End::Ok | End::Interrupted),
            ..queued.brief(Some(end), false, incarnation)
        };
        let failed = self
            .recent
            .iter()
            .filter(|old| old.code == brief.code && old.failed);
        let failed = u32::try_from(failed.count()).unwrap_or(u32::MAX);
        self.recent.push_back(brief);
        if self.recent.len() > MAX_RECENT {
            self.recent.pop_front();
        }
        failed
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<u64> {
        let current = self.current.as_ref()?;
        let stop = current.stop.and_then(|stop| stop.due).filter(|_| current.began);
        [current.due, stop, current.undecided].into_iter().flatten().min()
    }

    /// Moves all times from one clock, at `from`, to another, at `to`.
    pub(super) fn shift(&mut self, from: u64, to: u64) {
        let Some(current) = &mut self.current else { return };
        let shifted = |at: u64| to.saturating_add(at.saturating_sub(from));
        current.due = current.due.map(shifted);
        if let Some(stop) = &mut current.stop {
            stop.due = stop.due.map(shifted);
        }
    }

    /// As it is kept in a checkpoint: with wall times.
    pub(crate) fn for_checkpoint(&self, mono: u64, wall: u64) -> Self {
        let mut kept = Self {
            submitting: Vec::new(),
            queue: self.queue.clone(),
            current: self.current.clone(),
            recent: self.recent.clone(),
            last_incarnation: self.last_incarnation,
            served: self.served,
            sent_micros: None,
            observed: Vec::new(),
        };
        kept.shift(mono, wall);
        kept
    }
}
