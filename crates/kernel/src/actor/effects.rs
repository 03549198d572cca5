//! Performs the effects that the state machine requests, and publishes the kernel's state.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use himalia_journal::{Append, JournalError, NewRecord, may_block};
use himalia_metrics::Kernels;
use himalia_shim_protocol::{Lane, ToShim, Welcome};

use tokio::time::timeout;

use super::{CommittingBatch, RunningActor};
use crate::event::{Effect, Event, Timestamp};
use crate::executions::observed::Observation;
use crate::handle::record;
use crate::meta::RecordKind;

/// Time that a stop waits for the last batch of a shared log.
const LAST_COMMIT: Duration = Duration::from_secs(2);

/// A batch from this size on is written where a blocking thread is expected.
const BLOCKING_BYTES: usize = 1 << 20;

impl RunningActor {
    pub(super) fn step(&mut self, event: Event, now: Timestamp) {
        let mut effects = std::mem::take(&mut self.effects);
        self.actor.core.step(event, now, &mut effects);
        for effect in effects.drain(..) {
            self.carry_out(effect);
        }
        self.effects = effects;
    }

    pub(super) fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Welcome(lane, resume) => {
                let welcome = Welcome {
                    protocol: self.protocol,
                    epoch: self.actor.epoch,
                    resume: vec![resume],
                };
                self.queue(lane, &ToShim::Welcome(welcome));
            }
            Effect::Send(lane, pending) => {
                if let Some(io) = &mut self.lanes[lane] {
                    io.queue(&pending.head, &pending.body);
                }
            }
            Effect::Ack(lane, link) => {
                let kernel = self.actor.link_kernel;
                self.queue(Lane::Now, &ToShim::Ack { kernel, lane, link });
            }
            Effect::Fetch(seq) => self.fetches.push(seq),
            Effect::Done(waiter, result) => self.answers.push((waiter, result)),
            Effect::ProcessStarted(pid, path) => {
                let incarnation = self.actor.core.snapshot().incarnation;
                self.actor.host.process_started(pid, incarnation, path);
            }
            Effect::CheckMemory => self.actor.host.check_memory(self.memory.0.clone()),
            Effect::MeasureDisk => self.actor.host.measure_disk(self.disk.0.clone()),
            Effect::WantSandbox => {
                // One that is not asked for now is asked for by the next request.
                let _ = self.actor.wants.try_send(self.actor.handle.id());
            }
            Effect::Ended { forget } => self.ended = Some(forget),
        }
    }

    pub(super) fn queue(&mut self, lane: Lane, frame: &ToShim) {
        if let Some(io) = &mut self.lanes[lane]
            && let Err(error) = io.queue_with(|out| frame.encode(out))
        {
            tracing::error!(%error, "a frame for a shim is too large");
        }
    }

    /// Journals what waits, sends what may go, and shows what has changed.
    pub(super) fn write_and_send(&mut self, now: Timestamp) {
        for seq in std::mem::take(&mut self.fetches) {
            let record = may_block(|| record(&self.actor.handle.journal, seq));
            self.step(Event::Fetched { seq, record }, now);
        }
        while let Some(batch) = self.actor.core.take_batch() {
            let bytes: usize = batch.iter().map(|record| record.body.len()).sum();
            let journal = &self.actor.handle.journal;
            let begun = Instant::now();
            let written = maybe_blocking(bytes, || journal.begin_batch(&batch));
            match written {
                Ok(Append::Done(seqs)) => self.written(seqs, batch, begun, now),
                // The next batch is taken when this one is written.
                Ok(Append::Pending(staged)) => {
                    self.committing = Some(CommittingBatch { staged, batch, begun });
                }
                Err(error) => {
                    self.roll_due |= matches!(error, JournalError::RollOverdue { .. });
                    self.actor.journal_times.failures.inc();
                    tracing::error!(kernel = %self.actor.handle.id(), %error, "cannot write a kernel's log");
                    self.step(Event::WriteFailed { batch }, now);
                    self.roll();
                }
            }
        }
        if self.roll_due && self.actor.core.is_written() {
            self.roll();
        }
        for lane in Lane::ALL {
            if let Some(io) = &mut self.lanes[lane]
                && let Err(error) = io.flush()
            {
                self.close(lane, &error.to_string(), now);
            }
        }
        self.publish();
    }

    /// A batch is in the log: shows it, and does what follows from it.
    fn written(&mut self, seqs: Range<u64>, batch: Vec<NewRecord>, begun: Instant, now: Timestamp) {
        self.actor.journal_times.append.observe(begun.elapsed());
        count(&batch, &self.actor.handle.metrics);
        let shows = batch
            .iter()
            .any(|record| record.kind != RecordKind::Request as u8);
        let handle = &self.actor.handle;
        handle.dirty.store(true, Ordering::Release);
        if shows {
            handle.shown.send_replace(seqs.end.saturating_sub(1));
        }
        self.roll_due = handle.journal.roll_due();
        let first_seq = seqs.start;
        self.step(Event::Written { first_seq, batch }, now);
    }

    /// The batch of a shared log is committed.
    pub(super) fn committed(&mut self, now: Timestamp) {
        if let Some(CommittingBatch { staged, batch, begun }) = self.committing.take() {
            let seqs = self.actor.handle.journal.publish(staged);
            self.written(seqs, batch, begun, now);
        }
    }

    /// Waits for the batch that is being committed, so that nothing of it is sent again to the next gateway; not for long.
    pub(super) async fn commit_rest(&mut self) {
        let Some(CommittingBatch { staged, .. }) = &mut self.committing else {
            return;
        };
        if let Ok(Ok(())) = timeout(LAST_COMMIT, &mut staged.committed).await {
            self.committed(self.now());
        }
    }

    pub(super) fn roll(&mut self) {
        if !self.roll_due {
            return;
        }
        self.roll_due = false;
        if let Err(error) = self.actor.handle.journal.roll(&self.actor.core.checkpoint()) {
            tracing::error!(kernel = %self.actor.handle.id(), %error, "cannot begin a new segment");
        }
    }

    pub(super) fn publish(&mut self) {
        for observed in self.actor.core.take_observed() {
            if let Observation::Ended { took, caller, .. } = &observed {
                let took = Duration::from_micros(took.unwrap_or(0));
                self.actor.host.execution_ended(caller, took);
            }
            let handle = &self.actor.handle;
            observed.tell(&handle.metrics, &handle.traces, handle.id());
        }
        let handle = &self.actor.handle;
        handle
            .last_activity
            .store(self.actor.core.last_activity(), Ordering::Relaxed);
        handle
            .disk_failing
            .store(self.actor.core.disk_failing(), Ordering::Relaxed);
        if let Some(snapshot) = self.actor.core.take_changed() {
            self.actor.mailboxes.snapshot.send_if_modified(|old| {
                let changed = *old != snapshot;
                *old = snapshot;
                changed
            });
        }
        for (waiter, result) in self.answers.drain(..) {
            if let Some(reply) = self.waiters.remove(&waiter) {
                // The caller may have gone.
                let _ = reply.send(result);
            }
        }
    }
}

/// Counts the bytes of messages, and the marks of messages that were dropped.
fn count(batch: &[NewRecord], metrics: &Kernels) {
    let (mut to_kernel, mut of_kernel, mut gaps) = (0, 0, 0);
    for record in batch {
        match RecordKind::from_byte(record.kind) {
            Some(RecordKind::Request) => to_kernel += record.body.len() as u64,
            Some(RecordKind::Message) => of_kernel += record.body.len() as u64,
            Some(RecordKind::Gap) => gaps += 1,
            _ => {}
        }
    }
    metrics.bytes_in.inc_by(to_kernel);
    metrics.bytes_out.inc_by(of_kernel);
    metrics.dropped.inc_by(gaps);
}

fn maybe_blocking<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes >= BLOCKING_BYTES {
        may_block(work)
    } else {
        work()
    }
}
