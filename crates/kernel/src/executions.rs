//! The native executions of one kernel: those that wait, the one that was sent, and the latest ones that ended.
//!
//! An execution is named by the journal number of its first record, and everything that becomes of it is a record with
//! [`owner_of`](super::execution_records::owner_of) that number. What is here is rebuilt from a checkpoint and those records.

use std::collections::VecDeque;

use himalia_outcome::Replied;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::execution_records::{End, Language, StopReason, Submission};

/// Executions of one caller that wait behind the one that runs, and of all callers; a further one is refused.
pub(crate) const MAX_QUEUED: usize = 64;
pub(crate) const MAX_QUEUED_OF_ALL: usize = 256;
/// Bytes of code of one caller that wait, and of all callers; a further one is refused.
pub(crate) const QUEUED_BYTES: usize = 8 << 20;
pub(crate) const QUEUED_BYTES_OF_ALL: usize = 16 << 20;
/// Ended executions that are listed, known by their idempotency keys, and counted as having failed before.
pub const MAX_RECENT: usize = 1000;
/// Characters of code in a list.
const TITLE_CHARS: usize = 120;

/// One that is not over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Queued {
    pub(super) seq: u64,
    pub(super) at_micros: u64,
    pub(super) submission: Submission,
    /// Times that it was sent.
    pub(super) attempts: u32,
    /// Its place in the queue.
    #[serde(default)]
    pub(super) turn: u64,
    /// Hash of its code.
    code: u64,
    /// Hash of all that is asked, where there is a key.
    print: u64,
}

/// The one that was sent. Times are monotonic; those of a checkpoint and while a journal is read are wall time.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one request")]
pub(super) struct Current {
    pub(super) queued: Queued,
    /// The process that it was sent to.
    pub(super) incarnation: u32,
    /// The kernel works on it.
    pub(super) began: bool,
    pub(super) due: Option<u64>,
    /// What is left of its time while it waits for input.
    pub(super) left: Option<u64>,
    /// Header of the question that waits for its answer.
    pub(super) asked: Option<String>,
    pub(super) stop: Option<Stop>,
    pub(super) raised: bool,
    pub(super) aborted: bool,
    /// Reply and idle were seen.
    pub(super) done: bool,
    /// Its process ended before it began, and until this time it is waited for to know whether it was lost with it.
    #[serde(skip)]
    pub(super) undecided: Option<u64>,
}

/// The stop of an execution under way.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Stop {
    pub(super) reason: StopReason,
    /// When the next interrupt is due; `None` when there is none to come.
    pub(super) due: Option<u64>,
    pub(super) interrupts: u8,
}

/// One of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brief {
    /// Number of its first record.
    pub seq: u64,
    /// When it was taken, microseconds since 1970.
    pub at_micros: u64,
    /// `None` while it is not over.
    pub end: Option<End>,
    /// The kernel works on it.
    pub running: bool,
    /// The beginning of its code.
    pub title: String,
    /// What its code is written in.
    #[serde(default)]
    pub language: Language,
    /// The process that it ran in; 0 before that.
    pub incarnation: u32,
    /// The principal's name.
    #[serde(default = "operator")]
    pub caller: String,
    /// What the client called itself, which nobody checked.
    #[serde(default)]
    pub client: Option<String>,
    /// It ran and did not come to its end, by whatever but an interrupt.
    #[serde(default)]
    failed: bool,
    code: u64,
    key: Option<(String, u64)>,
}

/// Whose the executions of checkpoints are that say no caller: there was no other.
fn operator() -> String {
    himalia_model::Principal::operator().name().to_owned()
}

/// What is known of an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Nothing,
    /// It names this one.
    Same(u64),
    /// It is being written, on behalf of this waiter.
    Writing(usize),
    /// It names another request.
    Other,
}

#[derive(Debug)]
pub(super) struct Submitting {
    pub(super) waiters: Vec<u64>,
    pub(super) submission: Submission,
    pub(super) turn: u64,
}

/// All of them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Executions {
    /// On their way to the journal, by the waiter who came first.
    #[serde(skip)]
    pub(super) submitting: Vec<Submitting>,
    pub(super) queue: VecDeque<Queued>,
    pub(super) current: Option<Current>,
    pub(super) recent: VecDeque<Brief>,
    /// The process that the latest one was sent to, 0 = none was.
    pub(super) last_incarnation: u32,
    /// The turn of the latest one that was sent.
    #[serde(default)]
    pub(super) served: u64,
}

/// The beginning of the first line of code that says something.
pub fn title(code: &str) -> String {
    let line = code.lines().find(|line| !line.trim().is_empty());
    line.unwrap_or_default().chars().take(TITLE_CHARS).collect()
}

fn digest(bytes: &[u8]) -> u64 {
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    u64::from_le_bytes(std::array::from_fn(|at| digest[at]))
}

impl Submission {
    /// Of what is asked, whatever the client calls itself.
    fn fingerprint(&self) -> u64 {
        let asked = Self {
            client: None,
            ..self.clone()
        };
        digest(&serde_json::to_vec(&asked).unwrap_or_default())
    }

    /// Between whom the kernel's time is shared: the callers, and those clients of the operator that name themselves. What a
    /// tenant's client calls itself gives its caller no more.
    fn party(&self) -> (&str, Option<&str>) {
        let client = self.client.as_deref().filter(|_| self.caller == operator());
        (&self.caller, client)
    }
}

impl Queued {
    pub(super) fn new(seq: u64, at_micros: u64, submission: Submission, turn: u64) -> Self {
        let code = digest(submission.language.cell(&submission.code).as_bytes());
        let print = submission.key.as_ref().map_or(0, |_| submission.fingerprint());
        Self {
            seq,
            at_micros,
            submission,
            attempts: 0,
            turn,
            code,
            print,
        }
    }

    pub(super) fn brief(&self, end: Option<End>, running: bool, incarnation: u32) -> Brief {
        let submission = &self.submission;
        Brief {
            seq: self.seq,
            at_micros: self.at_micros,
            end,
            running,
            title: title(&submission.code),
            language: submission.language,
            incarnation,
            caller: submission.caller.clone(),
            client: submission.client.clone(),
            failed: false,
            code: self.code,
            key: submission.key.clone().map(|key| (key, self.print)),
        }
    }
}

impl Current {
    pub(super) fn new(queued: Queued, incarnation: u32) -> Self {
        Self {
            queued,
            incarnation,
            began: false,
            due: None,
            left: None,
            asked: None,
            stop: None,
            raised: false,
            aborted: false,
            done: false,
            undecided: None,
        }
    }

    /// The kernel works on it since `at`.
    pub(super) fn begin(&mut self, at: u64) {
        if self.began {
            return;
        }
        self.began = true;
        self.undecided = None;
        let limit = self.queued.submission.timeout_ms;
        self.due = limit.map(|ms| at.saturating_add(ms.saturating_mul(1000)));
        if let Some(stop) = &mut self.stop {
            stop.due = Some(at);
        }
    }

    /// It waits for input since `at`: its time stands still.
    pub(super) fn ask(&mut self, header: String, at: u64) {
        self.asked = Some(header);
        if let Some(due) = self.due.take() {
            self.left = Some(due.saturating_sub(at));
        }
    }

    /// Its question is answered.
    pub(super) fn answered(&mut self, at: u64) {
        self.asked = None;
        if let Some(left) = self.left.take() {
            self.due = Some(at.saturating_add(left));
        }
    }

    pub(super) fn reply(&mut self, replied: Replied) {
        self.raised = replied == Replied::Error;
        self.aborted = replied == Replied::Aborted;
        self.asked = None;
        self.due = None;
        self.left = None;
    }

    /// How it ended, once it is done.
    pub(super) fn end(&self) -> End {
        match self.stop.map(|stop| stop.reason) {
            // Also of code that went on in spite of the interrupts: it did not end within its time.
            Some(StopReason::Timeout) => End::Timeout,
            Some(StopReason::Interrupt) if self.raised => End::Interrupted,
            None if self.raised => End::Error,
            Some(StopReason::Interrupt) | None => End::Ok,
        }
    }
}

impl Executions {
    /// Executions that are not over, those on their way to the journal included.
    pub(super) fn ahead(&self) -> u32 {
        let ahead = self.queue.len() + usize::from(self.current.is_some()) + self.submitting.len();
        u32::try_from(ahead).unwrap_or(u32::MAX)
    }

    /// Those that wait, on their way to the journal or there, with their turns.
    fn waiting(&self) -> impl Iterator<Item = (u64, &Submission)> {
        let queue = self.queue.iter().map(|one| (one.turn, &one.submission));
        let submitting = self.submitting.iter().map(|one| (one.turn, &one.submission));
        queue.chain(submitting)
    }

    /// Whether one more may wait, for its caller and for all.
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
    pub(super) fn enqueue(&mut self, queued: Queued) {
        let at = self
            .queue
            .partition_point(|other| (other.turn, other.seq) < (queued.turn, queued.seq));
        self.queue.insert(at, queued);
    }

    /// What is known of the key of a submission, which is its caller's own.
    pub(super) fn known(&self, wanted: &Submission) -> Known {
        let Some(key) = &wanted.key else {
            return Known::Nothing;
        };
        let fingerprint = wanted.fingerprint();
        let found = self.keyed(key, &wanted.caller);
        if let Some((seq, print)) = found {
            return if print == fingerprint {
                Known::Same(seq)
            } else {
                Known::Other
            };
        }
        let writing = self.submitting.iter().position(|one| {
            one.submission.key.as_ref() == Some(key) && one.submission.caller == wanted.caller
        });
        match writing {
            Some(at) if self.submitting[at].submission.fingerprint() == fingerprint => Known::Writing(at),
            Some(_) => Known::Other,
            None => Known::Nothing,
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
    pub(super) fn briefs(&self) -> impl DoubleEndedIterator<Item = Brief> + '_ {
        let current = self
            .current
            .iter()
            .map(|current| current.queued.brief(None, current.began, current.incarnation));
        let mut queue: Vec<&Queued> = self.queue.iter().collect();
        queue.sort_by_key(|one| one.seq);
        let queue = queue.into_iter().map(|one| one.brief(None, false, 0));
        self.recent.iter().cloned().chain(current).chain(queue)
    }

    /// The one that was sent, if it is this one.
    pub(super) fn current(&mut self, seq: u64) -> Option<&mut Current> {
        self.current.as_mut().filter(|current| current.queued.seq == seq)
    }

    /// Takes out one that waits.
    pub(super) fn take_queued(&mut self, seq: u64) -> Option<Queued> {
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
    pub(super) fn failures(&self) -> u32 {
        let telling = self
            .recent
            .iter()
            .rev()
            .filter(|brief| brief.failed || brief.end == Some(End::Ok));
        let failures = telling.take_while(|brief| brief.failed).count();
        u32::try_from(failures).unwrap_or(u32::MAX)
    }

    /// Remembers one that ended; gives how often its code had failed before. `ran`: the kernel had begun with it.
    pub(super) fn ended(&mut self, queued: &Queued, end: End, incarnation: u32, ran: bool) -> u32 {
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
    pub(super) fn for_checkpoint(&self, mono: u64, wall: u64) -> Self {
        let mut kept = Self {
            submitting: Vec::new(),
            queue: self.queue.clone(),
            current: self.current.clone(),
            recent: self.recent.clone(),
            last_incarnation: self.last_incarnation,
            served: self.served,
        };
        kept.shift(mono, wall);
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::super::execution_records::OnTimeout;
    use super::*;

    #[test]
    fn time_stands_still_while_a_question_is_open() {
        let submission = Submission {
            code: "x".into(),
            language: Language::Kernel,
            timeout_ms: Some(10),
            on_timeout: OnTimeout::Interrupt,
            text_chars: 1,
            allow_stdin: true,
            store_history: true,
            expect_incarnation: None,
            key: None,
            max_failures: None,
            caller: String::new(),
            client: None,
        };
        let mut current = Current::new(Queued::new(1, 0, submission, 1), 1);
        current.begin(1_000);
        assert_eq!(current.due, Some(11_000));
        current.ask("{}".into(), 4_000);
        assert_eq!(current.due, None);
        current.answered(100_000);
        assert_eq!(current.due, Some(107_000));
    }
}
