//! The queue in front of the journal: records in order, one batch at the disk at a time.

use himalia_journal::NewRecord;
use himalia_shim_protocol::{Lane, RequestId};

/// Action that becomes possible once a record is in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Nothing,
    /// The shim may forget it.
    Stored(Lane, u64),
    /// The shim may forget it, which is what `input()` asks: its prompt is open.
    Question {
        lane: Lane,
        link: u64,
    },
    /// The request may be sent.
    Send(Lane, RequestId),
    /// The request may be sent, which answers what `input()` of this execution asks.
    SendAnswer {
        lane: Lane,
        id: RequestId,
        execution: u64,
    },
    /// Settle the work of earlier epochs.
    Greet,
    /// This waiter's execution is taken.
    Submitted(u64),
    /// This waiter's prompt is open.
    Prompted(u64),
    /// This waiter's call, which was approved, may be made.
    ApprovalUsed(u64),
    PromptEnded(u64),
    /// This waiter's call may be sent.
    ToolCall {
        waiter: u64,
        call: u64,
    },
}

/// Wait after a failed write before the next attempt, microseconds.
const RETRY: u64 = 250_000;

#[derive(Debug, Default)]
pub(super) struct Writes {
    batch: Vec<NewRecord>,
    next: Vec<Next>,
    in_flight: Option<Vec<Next>>,
    /// Set while the disk refuses.
    retry_at: Option<u64>,
    bytes: usize,
    spare: Vec<NewRecord>,
    spare_next: Vec<Next>,
}

impl Writes {
    pub(super) fn push(&mut self, record: NewRecord, next: Next) {
        self.bytes += record.body.len();
        self.batch.push(record);
        self.next.push(next);
    }

    /// The next batch for the disk; `None` while one is there, nothing waits, or it is too early to try again.
    pub(super) fn take(&mut self, mono: u64) -> Option<Vec<NewRecord>> {
        if self.in_flight.is_some() || self.batch.is_empty() || self.retry_at.is_some_and(|at| at > mono) {
            return None;
        }
        let next = std::mem::replace(&mut self.next, std::mem::take(&mut self.spare_next));
        self.in_flight = Some(next);
        self.bytes = 0;
        Some(std::mem::replace(
            &mut self.batch,
            std::mem::take(&mut self.spare),
        ))
    }

    /// The batch in flight is stored: what follows from it, in order. Hand the vector back with [`Self::reuse`].
    pub(super) fn written(&mut self, mut batch: Vec<NewRecord>) -> Vec<Next> {
        batch.clear();
        self.spare = batch;
        self.retry_at = None;
        self.in_flight.take().unwrap_or_default()
    }

    pub(super) fn reuse(&mut self, mut next: Vec<Next>) {
        next.clear();
        self.spare_next = next;
    }

    /// The batch in flight was not stored. Requests, new executions, prompts and calls in it are taken out, since a command must not wait
    /// behind them; all else is tried again later, before what came meanwhile. Returns what was taken out.
    pub(super) fn failed(&mut self, mono: u64, batch: Vec<NewRecord>) -> Vec<(Next, NewRecord)> {
        let next = self.in_flight.take().unwrap_or_default();
        self.retry_at = Some(mono + RETRY);
        let mut given_up = Vec::new();
        let newer = (std::mem::take(&mut self.batch), std::mem::take(&mut self.next));
        self.bytes = 0;
        let all = batch
            .into_iter()
            .zip(next)
            .chain(newer.0.into_iter().zip(newer.1));
        for (record, next) in all {
            if matches!(
                next,
                Next::Send(..)
                    | Next::SendAnswer { .. }
                    | Next::Submitted(_)
                    | Next::Prompted(_)
                    | Next::ToolCall { .. }
            ) {
                given_up.push((next, record));
            } else {
                self.push(record, next);
            }
        }
        given_up
    }

    /// Ends the pause after a failed attempt: the next batch is the next attempt.
    pub(super) fn end_pause(&mut self, mono: u64) {
        self.retry_at.take_if(|at| *at <= mono);
    }

    /// True if the last attempt failed a moment ago.
    pub(super) fn failing(&self) -> bool {
        self.retry_at.is_some()
    }

    /// When to try again.
    pub(super) fn retry_at(&self) -> Option<u64> {
        self.retry_at.filter(|_| self.in_flight.is_none())
    }

    /// Bytes that wait, without those at the disk.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batch.is_empty() && self.in_flight.is_none()
    }
}
