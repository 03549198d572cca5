//! A native execution from its submission to its end, whatever that is.

use himalia_outcome::ReplyStatus;

use super::current::Current;
use super::names::Names;
use super::observed::Observation;
use super::queue::{Executions, UnwrittenSubmission};
use super::queued::QueuedExecution;
use super::records::{End, ExecutionRecord, ReplacedExecution, Submission, owner_of};
use crate::event::{Answer, CommandError, Effect, Request};
use crate::log::Log;
use crate::trace::{self, Step};
use crate::writes::Next;

/// The cause of death by lack of memory.
const OOM: &str = "oom";
/// The cause of death by the restart that a caller has asked for.
pub(crate) const RESTART: &str = "restart";
/// Longest time until the shim has reported the fate of a request that was on its way when a process ended, in microseconds. Without a connection it
/// is waited for again.
pub(crate) const VERDICT_WAIT: u64 = 2_000_000;

/// End of an execution whose process ended for this cause.
fn end_of(cause: &str) -> End {
    if cause == OOM {
        End::OomKilled
    } else {
        End::KernelDied
    }
}

/// Inputs for the ends of executions: their log, and the variables of the ended process.
#[derive(Debug)]
pub(super) struct Ends<'a> {
    pub(super) log: Log<'a>,
    pub(super) names: &'a Names,
    /// The present, microseconds since 1970.
    pub(super) wall: u64,
}

impl Executions {
    /// One goes to the journal. Its caller is answered when it is there.
    pub(super) fn submit(&mut self, waiter: u64, submission: Submission, log: &mut Log<'_>) {
        let turn = self.turn_of(&submission);
        let record = ExecutionRecord::Submitted {
            submission: submission.clone(),
            ahead: self.ahead_of(turn),
            turn,
            behind: self.sent(),
            stuck: self.current.as_ref().is_some_and(|current| current.stuck),
        };
        self.submitting.push(UnwrittenSubmission {
            waiters: vec![waiter],
            submission,
            turn,
        });
        log.execution(0, &record, Next::Submitted(waiter));
    }

    /// Another caller waits for one that is on its way to the journal.
    pub(super) fn join(&mut self, at: usize, waiter: u64) {
        self.submitting[at].waiters.push(waiter);
    }

    fn take_submitting(&mut self, waiter: u64) -> Option<UnwrittenSubmission> {
        let mut all = self.submitting.iter();
        let at = all.position(|one| one.waiters.first() == Some(&waiter))?;
        Some(self.submitting.remove(at))
    }

    /// One is in the journal: it waits for its turn. `wall` is microseconds since 1970.
    pub(crate) fn submitted(&mut self, waiter: u64, seq: u64, wall: u64, out: &mut Vec<Effect>) {
        let Some(UnwrittenSubmission {
            waiters,
            submission,
            turn,
        }) = self.take_submitting(waiter)
        else {
            return;
        };
        self.enqueue(QueuedExecution::new(seq, wall, submission, turn));
        for (at, waiter) in waiters.into_iter().enumerate() {
            let repeated = at > 0;
            out.push(Effect::Done(waiter, Ok(Answer::Submitted { seq, repeated })));
        }
    }

    /// One could not be written.
    pub(crate) fn not_submitted(&mut self, waiter: u64, out: &mut Vec<Effect>) {
        let waiters = self.take_submitting(waiter).map(|one| one.waiters);
        let failed = |waiter| Effect::Done(waiter, Err(CommandError::DiskFailing));
        out.extend(waiters.into_iter().flatten().map(failed));
    }

    /// True if an execution waits and could be sent.
    pub(super) fn wants_to_send(&self) -> bool {
        self.current.is_none() && !self.queue.is_empty()
    }

    /// The next one, which is to be sent or to end.
    pub(super) fn take_next(&mut self) -> Option<QueuedExecution> {
        self.queue.pop_front()
    }

    /// The process that the latest one was sent to, 0 = none was.
    pub(super) fn last_incarnation(&self) -> u32 {
        self.last_incarnation
    }

    /// One goes to a process; `replaced` is the process before, if this is the first one in it.
    pub(super) fn send(
        &mut self,
        mut queued: QueuedExecution,
        incarnation: u32,
        replaced: Option<ReplacedExecution>,
        ends: &mut Ends<'_>,
    ) -> Request {
        queued.attempts += 1;
        self.sent_micros = Some(ends.wall);
        if queued.attempts == 1 {
            let waited = ends.wall.saturating_sub(queued.at_micros);
            Observation::Sent { waited }.push_to(&mut self.observed);
            if let Some(caller) = queued.submission.trace {
                let execution = trace::of_execution(caller, queued.seq);
                Observation::Step(Step::queue(execution, queued.at_micros, ends.wall))
                    .push_to(&mut self.observed);
            }
        }
        let (seq, attempt) = (queued.seq, queued.attempts);
        let request = queued.request();
        self.last_incarnation = incarnation;
        self.served = self.served.max(queued.turn);
        self.current = Some(Current::new(queued, incarnation));
        let record = ExecutionRecord::Sent { attempt, replaced };
        ends.log.execution(owner_of(seq), &record, Next::Nothing);
        request
    }

    /// The kernel works on it, in this process, since `mono`.
    pub(crate) fn began(&mut self, seq: u64, incarnation: u32, mono: u64) {
        if let Some(current) = self.current(seq) {
            current.begin(mono);
            current.incarnation = incarnation;
        }
    }

    /// It asks for input, with this header.
    pub(crate) fn asked(&mut self, seq: u64, header: &[u8], mono: u64) {
        if let Some(current) = self.current(seq) {
            current.ask(String::from_utf8_lossy(header).into_owned(), mono);
        }
    }

    /// A person is asked on behalf of it.
    pub(crate) fn prompted(&mut self, seq: u64, mono: u64) {
        if let Some(current) = self.current(seq) {
            current.prompted(mono);
        }
    }

    /// A prompt to a person has ended, whatever came of it.
    pub(crate) fn prompt_ended(&mut self, seq: u64, mono: u64) {
        if let Some(current) = self.current(seq) {
            current.prompt_ended(mono);
        }
    }

    /// Handles the reply.
    pub(crate) fn replied(&mut self, seq: u64, replied: ReplyStatus) {
        if let Some(current) = self.current(seq) {
            current.reply(replied);
        }
    }

    /// Reply and idle are there.
    pub(crate) fn done(&mut self, seq: u64) {
        if let Some(current) = self.current(seq) {
            current.done = true;
        }
    }

    /// The execution that was sent, as the owner of its requests.
    pub(super) fn current_owner(&self) -> Option<u64> {
        self.current.as_ref().map(|current| owner_of(current.queued.seq))
    }

    /// The process that this one was sent to, if it was.
    pub(super) fn sent_to(&mut self, seq: u64) -> Option<u32> {
        self.current(seq).map(|current| current.incarnation)
    }

    /// The one that is done ends, once the record of its last message is on its way. With `restarts` its process is being replaced, on
    /// behalf of a caller: it ends by that, however its code took the interrupt that the end of a process begins with.
    pub(super) fn finish(&mut self, restarts: bool, ends: &mut Ends<'_>) {
        let Some(current) = self.current.take_if(|current| current.done) else {
            return;
        };
        if current.aborted {
            self.queue.push_front(current.queued);
            return;
        }
        let (status, cause) = if restarts {
            (End::KernelDied, Some(RESTART.to_owned()))
        } else {
            (current.end(), None)
        };
        self.end(&current.queued, status, cause, true, ends);
    }

    /// One ends. `ran`: the kernel had begun with it.
    pub(super) fn end(
        &mut self,
        queued: &QueuedExecution,
        status: End,
        cause: Option<String>,
        ran: bool,
        ends: &mut Ends<'_>,
    ) {
        let incarnation = ends.log.incarnation();
        let failed_before = self.ended(queued, status, incarnation, ran);
        let died = matches!(status, End::KernelDied | End::OomKilled);
        let sent = (queued.attempts > 0).then(|| self.sent_micros.take()).flatten();
        let took = sent.map(|sent| ends.wall.saturating_sub(sent));
        Observation::Ended {
            status,
            took,
            caller: queued.submission.caller.clone(),
        }
        .push_to(&mut self.observed);
        if let Some(caller) = queued.submission.trace {
            let error = (status != End::Ok).then(|| status.as_str());
            let step = Step::execution(caller, queued.seq, queued.at_micros, ends.wall, error);
            Observation::Step(step).push_to(&mut self.observed);
        }
        let record = ExecutionRecord::Ended {
            status,
            cause,
            ran,
            failed_before,
            variables_lost: died.then(|| ends.names.of(incarnation)).flatten(),
            failures: self.failures(),
            turn: queued.turn,
        };
        ends.log.execution(owner_of(queued.seq), &record, Next::Nothing);
    }

    /// The one that was sent ends without having run, if it is this one.
    pub(super) fn end_unrun(&mut self, seq: u64, status: End, cause: Option<String>, ends: &mut Ends<'_>) {
        if let Some(current) = self.current.take_if(|current| current.queued.seq == seq) {
            self.end(&current.queued, status, cause, false, ends);
        }
    }

    /// The process has ended, and with it what was sent to it and what was meant for it. With `on_its_way` it is not known
    /// yet whether the process had the one that was sent: the shim takes it for that process, gives it back, or takes it
    /// for the next one. The owner whose waiting requests are of no use any more, if there is one.
    pub(super) fn lost(
        &mut self,
        cause: &str,
        on_its_way: bool,
        mono: u64,
        ends: &mut Ends<'_>,
    ) -> Option<u64> {
        let status = end_of(cause);
        let mut owner = None;
        if let Some(current) = self
            .current
            .as_mut()
            .filter(|current| on_its_way && !current.began)
        {
            current.undecided = Some(mono.saturating_add(VERDICT_WAIT));
        } else if let Some(current) = self.current.take() {
            owner = Some(owner_of(current.queued.seq));
            self.end(
                &current.queued,
                status,
                Some(cause.to_owned()),
                current.began,
                ends,
            );
        }
        for queued in std::mem::take(&mut self.queue) {
            self.end(&queued, status, Some(cause.to_owned()), false, ends);
        }
        owner
    }

    /// True if it is time to decide about an execution whose process had ended before it began.
    pub(super) fn is_undecided(&self, mono: u64) -> bool {
        let due = |current: &Current| current.undecided.is_some_and(|due| due <= mono);
        self.current.as_ref().is_some_and(due)
    }

    /// It is decided at this time, monotonic microseconds, unless it begins before.
    pub(super) fn decide_at(&mut self, at: u64) {
        if let Some(current) = &mut self.current {
            current.undecided = Some(at);
        }
    }

    /// It was lost with its process.
    pub(super) fn give_up(&mut self, cause: String, ends: &mut Ends<'_>) {
        if let Some(current) = self.current.take() {
            self.end(&current.queued, end_of(&cause), Some(cause), false, ends);
        }
    }
}
