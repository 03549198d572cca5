//! Native executions on their way: one at a time to the kernel, to their end, whatever that is.

use himalia_journal::NewRecord;
use himalia_outcome::Replied;
use himalia_shim_protocol::RefusalKind;
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, build};
use serde_json::json;

use super::core::Core;
use super::event::{Answer, CommandError, Effect, Request};
use super::execution_records::{End, ExecutionRecord, Replaced, Submission, owner_of};
use super::executions::{Current, Known, Queued, Submitting};
use super::exit::Ordered;
use super::ledger::RequestKind;
use super::life::Phase;
use super::meta::{RecordKind, RecordMeta};
use super::writes::Next;

/// `header.session` of the requests. Unlike the engine's own, what they cause is shown to everybody.
pub(super) const EXECUTION_SESSION: &str = "himalia-execution";
/// How long the first execution waits for a kernel that does not answer, microseconds; then it is sent all the same.
const READY_WAIT: u64 = 60_000_000;
/// The cause of death by want of memory.
const OOM: &str = "oom";
/// How long it takes at most until the shim has said what became of a request that was on its way when a process ended,
/// microseconds. Without a connection it is waited for again.
const VERDICT_WAIT: u64 = 2_000_000;

/// What the end of a process is for an execution.
fn end_of(cause: &str) -> End {
    if cause == OOM {
        End::OomKilled
    } else {
        End::KernelDied
    }
}

impl Core {
    /// Takes an execution, or says why not. Answered when it is in the journal.
    pub(super) fn submit(&mut self, waiter: u64, submission: Submission, out: &mut Vec<Effect>) -> Ordered {
        match self.executions.known(&submission) {
            Known::Nothing => {}
            Known::Other => return Err(CommandError::KeyReused),
            Known::Same(seq) => {
                out.push(Effect::Done(
                    waiter,
                    Ok(Answer::Submitted { seq, repeated: true }),
                ));
                return Ok(false);
            }
            Known::Writing(at) => {
                self.executions.submitting[at].waiters.push(waiter);
                return Ok(false);
            }
        }
        match self.life.phase {
            Phase::Over | Phase::Stopping => return Err(CommandError::NotRunning),
            Phase::Dead if !self.rules.revive => {
                return Err(CommandError::KernelDead(
                    self.life.reason.clone().unwrap_or_default(),
                ));
            }
            _ => {}
        }
        let now = self.next_incarnation();
        if let Some(expected) = submission.expect_incarnation.filter(|expected| *expected != now) {
            return Err(CommandError::Incarnation { expected, now });
        }
        let failures = self.executions.failures();
        if submission.max_failures.is_some_and(|most| failures >= most) {
            return Err(CommandError::FailureLimit(failures));
        }
        if self.writes.failing() {
            return Err(CommandError::DiskFailing);
        }
        if !self.executions.has_room(&submission) {
            return Err(CommandError::QueueFull(self.executions.ahead()));
        }
        if self.life.phase == Phase::Dead && self.life.sandbox_gone {
            return Err(CommandError::SandboxLost(
                self.life.reason.clone().unwrap_or_default(),
            ));
        }
        let turn = self.executions.turn_of(&submission);
        let record = ExecutionRecord::Submitted {
            submission: submission.clone(),
            ahead: self.executions.ahead_of(turn),
            turn,
        };
        self.executions.submitting.push(Submitting {
            waiters: vec![waiter],
            submission,
            turn,
        });
        self.push_execution(0, &record, Next::Submitted(waiter));
        Ok(false)
    }

    /// The incarnation that an execution which is taken now would run in.
    fn next_incarnation(&self) -> u32 {
        let runs = self.life.phase == Phase::Running && self.life.exit.is_none();
        self.life.incarnation + u32::from(!runs)
    }

    /// An execution is in the journal: it waits for its turn.
    pub(super) fn submitted(&mut self, waiter: u64, seq: u64, out: &mut Vec<Effect>) {
        let submitting = &mut self.executions.submitting;
        let Some(at) = submitting
            .iter()
            .position(|one| one.waiters.first() == Some(&waiter))
        else {
            return;
        };
        let Submitting {
            waiters,
            submission,
            turn,
        } = submitting.remove(at);
        self.executions
            .enqueue(Queued::new(seq, self.now.wall, submission, turn));
        for (at, waiter) in waiters.into_iter().enumerate() {
            let repeated = at > 0;
            out.push(Effect::Done(waiter, Ok(Answer::Submitted { seq, repeated })));
        }
    }

    /// An execution could not be written.
    pub(super) fn not_submitted(&mut self, waiter: u64, out: &mut Vec<Effect>) {
        let submitting = &mut self.executions.submitting;
        if let Some(at) = submitting
            .iter()
            .position(|one| one.waiters.first() == Some(&waiter))
        {
            let waiters = submitting.remove(at).waiters;
            out.extend(
                waiters
                    .into_iter()
                    .map(|waiter| Effect::Done(waiter, Err(CommandError::DiskFailing))),
            );
        }
    }

    /// Sends the next execution if it is its turn, and starts the kernel for it if it is dead and may be.
    pub(super) fn next_execution(&mut self, out: &mut Vec<Effect>) {
        while self.executions.current.is_none() && !self.executions.queue.is_empty() {
            if self.life.phase == Phase::Dead {
                self.revive(out);
                if self.life.phase == Phase::Dead {
                    // Taken in the moment of its death.
                    self.executions_lost(&self.life.reason.clone().unwrap_or_default());
                }
                return;
            }
            if !self.reaches_process() || self.ready_wait().is_some() {
                return;
            }
            let Some(queued) = self.executions.queue.pop_front() else {
                return;
            };
            let expected = queued.submission.expect_incarnation;
            if expected.is_some_and(|expected| expected != self.life.incarnation) {
                let cause = self.life.reason.clone().unwrap_or_else(|| "restart".to_owned());
                self.end_execution(&queued, End::KernelDied, Some(cause), false);
                continue;
            }
            self.send_execution(queued);
        }
    }

    /// Whether there is a process that an execution could be sent to now.
    fn reaches_process(&self) -> bool {
        self.life.phase == Phase::Running
            && self.outbox.greeted()
            && self.life.exit.is_none()
            && !self.writes.failing()
    }

    /// Until when the next execution waits for the kernel to be ready.
    fn ready_wait(&self) -> Option<u64> {
        let until = self.life.since.saturating_add(READY_WAIT);
        (!self.readiness.is_ready() && self.now.mono < until).then_some(until)
    }

    /// When something is due that has to do with executions.
    pub(super) fn execution_deadline(&self) -> Option<u64> {
        let waits = self.executions.current.is_none() && !self.executions.queue.is_empty();
        let ready = self.ready_wait().filter(|_| waits && self.reaches_process());
        [self.executions.deadline(), ready].into_iter().flatten().min()
    }

    fn send_execution(&mut self, mut queued: Queued) {
        queued.attempts += 1;
        let submission = &queued.submission;
        let content = json!({
            "code": submission.language.cell(&submission.code),
            "silent": false,
            "store_history": submission.store_history,
            "user_expressions": {},
            "allow_stdin": submission.allow_stdin,
            "stop_on_error": false,
        });
        let parts = build::message(EXECUTION_SESSION, "execute_request", None, &content);
        let (seq, attempt) = (queued.seq, queued.attempts);
        let last = std::mem::replace(&mut self.executions.last_incarnation, self.life.incarnation);
        let sandbox_lost = self.life.loss.take();
        let replaced = last != 0 && last != self.life.incarnation || sandbox_lost.is_some();
        // Of a session that has run nothing its last process counts.
        let last = if last == 0 {
            self.life.processes_before
        } else {
            last
        };
        let replaced = replaced.then(|| Replaced {
            incarnation: last,
            cause: self.life.reason.as_ref().map(|reason| {
                reason
                    .strip_prefix("restarted after ")
                    .unwrap_or(reason)
                    .to_owned()
            }),
            variables_lost: self.names.of(last),
            sandbox_lost,
        });
        self.executions.served = self.executions.served.max(queued.turn);
        self.executions.current = Some(Current::new(queued, self.life.incarnation));
        self.log_execution(seq, &ExecutionRecord::Sent { attempt, replaced });
        let frame = Frame::new(Channel::Shell, &parts);
        self.request(Request::ours(owner_of(seq), RequestKind::Execute, frame));
    }

    /// The kernel works on it.
    pub(super) fn native_began(&mut self, seq: u64) {
        let (now, incarnation) = (self.now.mono, self.life.incarnation);
        if let Some(current) = self.executions.current(seq) {
            current.begin(now);
            current.incarnation = incarnation;
        }
    }

    /// It asks for input.
    pub(super) fn native_asked(&mut self, seq: u64, header: &[u8]) {
        let (now, header) = (self.now.mono, String::from_utf8_lossy(header).into_owned());
        if let Some(current) = self.executions.current(seq) {
            current.ask(header, now);
        }
    }

    /// Its reply is there.
    pub(super) fn native_replied(&mut self, seq: u64, replied: Replied) {
        if let Some(current) = self.executions.current(seq) {
            current.reply(replied);
        }
    }

    /// Reply and idle are there.
    pub(super) fn native_done(&mut self, seq: u64) {
        if let Some(current) = self.executions.current(seq) {
            current.done = true;
        }
    }

    /// It was answered in the kernel's place, and did not run.
    pub(super) fn native_not_taken(&mut self, seq: u64) {
        if let Some(current) = self
            .executions
            .current
            .take_if(|current| current.queued.seq == seq)
        {
            self.end_execution(&current.queued, End::Error, None, false);
        }
    }

    /// Ends the one that is done, once the record of its last message is on its way.
    pub(super) fn finish_execution(&mut self) {
        let Some(current) = self.executions.current.take_if(|current| current.done) else {
            return;
        };
        if current.aborted {
            self.executions.queue.push_front(current.queued);
            return;
        }
        self.end_execution(&current.queued, current.end(), None, true);
    }

    pub(super) fn end_execution(&mut self, queued: &Queued, status: End, cause: Option<String>, ran: bool) {
        let incarnation = self.life.incarnation;
        let failed_before = self.executions.ended(queued, status, incarnation, ran);
        let died = matches!(status, End::KernelDied | End::OomKilled);
        let lost = died.then(|| self.names.of(incarnation)).flatten();
        let ended = ExecutionRecord::Ended {
            status,
            cause,
            ran,
            failed_before,
            variables_lost: lost,
            failures: self.executions.failures(),
            turn: queued.turn,
        };
        self.log_execution(queued.seq, &ended);
    }

    /// The process has ended, and with it what was sent to it and what was meant for it. Of a request that is still on its
    /// way it is not known yet whether the process had it: the shim takes it for that process, gives it back, or takes it
    /// for the next one.
    pub(super) fn executions_lost(&mut self, cause: &str) {
        let undecided = !self.life.sandbox_gone && self.execution_is_on_its_way();
        let (status, now) = (end_of(cause), self.now.mono);
        if let Some(current) = self
            .executions
            .current
            .as_mut()
            .filter(|current| undecided && !current.began)
        {
            current.undecided = Some(now.saturating_add(VERDICT_WAIT));
        } else if let Some(current) = self.executions.current.take() {
            self.held.remove_owner(owner_of(current.queued.seq));
            self.end_execution(&current.queued, status, Some(cause.to_owned()), current.began);
        }
        for queued in std::mem::take(&mut self.executions.queue) {
            self.end_execution(&queued, status, Some(cause.to_owned()), false);
        }
    }

    fn execution_is_on_its_way(&self) -> bool {
        self.executions.current.as_ref().is_some_and(|current| {
            let owner = owner_of(current.queued.seq);
            let mut open = self.ledger.iter().filter(|(_, entry)| entry.owner == owner);
            open.any(|(id, _)| self.outbox.is_on_its_way(id))
        })
    }

    /// One whose process had ended before it began is given up, unless its request is still on its way.
    pub(super) fn decide_execution(&mut self) {
        let (now, on_its_way) = (self.now.mono, self.execution_is_on_its_way());
        let due = |current: &Current| current.undecided.is_some_and(|due| due <= now);
        if !self.executions.current.as_ref().is_some_and(due) {
            return;
        }
        let Some(mut current) = self.executions.current.take() else {
            return;
        };
        if on_its_way {
            current.undecided = Some(now.saturating_add(VERDICT_WAIT));
            self.executions.current = Some(current);
            return;
        }
        let cause = self.life.reason.clone().unwrap_or_else(|| "restart".to_owned());
        self.end_execution(&current.queued, end_of(&cause), Some(cause), false);
    }

    /// The shim took the request and will not do it.
    pub(super) fn execution_refused(&mut self, seq: u64, kind: RefusalKind, reason: &str) {
        let Some(current) = self.executions.current(seq) else {
            return;
        };
        let lost = current.incarnation != self.life.incarnation || self.life.phase != Phase::Running;
        match kind {
            RefusalKind::Full => self.held.pause(Channel::Shell, self.now.mono),
            RefusalKind::NotRunning if !lost => self.held.wait_for_process(Channel::Shell),
            RefusalKind::NotRunning | RefusalKind::Never => {
                let Some(current) = self.executions.current.take() else {
                    return;
                };
                let (status, cause) = if kind == RefusalKind::Never {
                    (End::Error, reason.to_owned())
                } else {
                    (End::KernelDied, self.life.reason.clone().unwrap_or_default())
                };
                self.end_execution(&current.queued, status, Some(cause), false);
                return;
            }
        }
        self.executions.send_again();
    }

    /// A record of what becomes of an execution.
    pub(super) fn log_execution(&mut self, seq: u64, record: &ExecutionRecord) {
        self.push_execution(owner_of(seq), record, Next::Nothing);
    }

    fn push_execution(&mut self, owner: u64, record: &ExecutionRecord, then: Next) {
        let meta = RecordMeta {
            kernel: self.settings.kernel,
            synthetic: true,
            incarnation: self.life.incarnation,
            owner,
            ..RecordMeta::default()
        };
        let record = NewRecord {
            kind: RecordKind::Execution as u8,
            meta: meta.encode(),
            body: record.to_body(),
        };
        self.writes.push(record, then);
    }
}
