//! The execution that was sent to the kernel: its time, its question, its stop.

use himalia_outcome::ReplyStatus;
use serde::{Deserialize, Serialize};

use super::queued::QueuedExecution;
use super::records::{End, StopReason};

/// The one that was sent. Times are monotonic; those of a checkpoint and while a journal is read are wall time.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one request")]
pub(super) struct Current {
    pub(super) queued: QueuedExecution,
    /// The process that it was sent to.
    pub(super) incarnation: u32,
    /// The kernel works on it.
    pub(super) began: bool,
    pub(super) due: Option<u64>,
    /// Rest of its time while it waits for input.
    pub(super) left: Option<u64>,
    /// Header of the question that waits for its answer.
    pub(super) asked: Option<String>,
    /// Prompts to a person that are open.
    pub(super) prompts: u32,
    pub(super) stop: Option<Stop>,
    pub(super) raised: bool,
    pub(super) aborted: bool,
    /// All interrupts were sent, and it continues.
    pub(super) stuck: bool,
    /// Reply and idle were seen.
    pub(super) done: bool,
    /// Time until which the result is awaited of an execution whose process ended before it began.
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

impl Current {
    pub(super) fn new(queued: QueuedExecution, incarnation: u32) -> Self {
        Self {
            queued,
            incarnation,
            began: false,
            due: None,
            left: None,
            asked: None,
            prompts: 0,
            stop: None,
            raised: false,
            aborted: false,
            stuck: false,
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

    /// It waits for input since `at`: its time stands still. The channels of a kernel have no order between them: its question
    /// can come before the message that it is busy.
    pub(super) fn ask(&mut self, header: String, at: u64) {
        self.begin(at);
        self.asked = Some(header);
        self.stop_clock(at);
    }

    /// A person is asked on its behalf since `at`: its time stands still.
    pub(super) fn prompted(&mut self, at: u64) {
        self.begin(at);
        self.prompts += 1;
        self.stop_clock(at);
    }

    fn stop_clock(&mut self, at: u64) {
        if let Some(due) = self.due.take() {
            self.left = Some(due.saturating_sub(at));
        }
    }

    /// Continues its time, unless it waits for another answer.
    fn start_clock(&mut self, at: u64) {
        if self.asked.is_none()
            && self.prompts == 0
            && let Some(left) = self.left.take()
        {
            self.due = Some(at.saturating_add(left));
        }
    }

    /// Notes that its question is answered.
    pub(super) fn answered(&mut self, at: u64) {
        self.asked = None;
        self.start_clock(at);
    }

    /// A prompt to a person has ended.
    pub(super) fn prompt_ended(&mut self, at: u64) {
        self.prompts = self.prompts.saturating_sub(1);
        self.start_clock(at);
    }

    pub(super) fn reply(&mut self, replied: ReplyStatus) {
        self.raised = replied == ReplyStatus::Error;
        self.aborted = replied == ReplyStatus::Aborted;
        self.asked = None;
        self.due = None;
        self.left = None;
    }

    /// End of the execution, once it is done.
    pub(super) fn end(&self) -> End {
        match self.stop.map(|stop| stop.reason) {
            // Also of code that continued in spite of the interrupts: it did not end within its time.
            Some(StopReason::Timeout) => End::Timeout,
            Some(StopReason::Interrupt) if self.raised => End::Interrupted,
            None if self.raised => End::Error,
            Some(StopReason::Interrupt) | None => End::Ok,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::{Language, OnTimeout, Submission};
    use super::*;

    fn limited() -> Current {
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
            trace: None,
            env: std::collections::BTreeMap::new(),
            cwd: None,
            metadata: serde_json::Map::new(),
        };
        Current::new(QueuedExecution::new(1, 0, submission, 1), 1)
    }

    #[test]
    fn a_question_that_comes_before_the_beginning_is_the_beginning() {
        let asks: [fn(&mut Current); 2] = [
            |current| current.ask("{}".into(), 1_000),
            |current| current.prompted(1_000),
        ];
        for ask in asks {
            let mut current = limited();
            ask(&mut current);
            current.begin(2_000);
            assert_eq!((current.began, current.due), (true, None));
            if current.asked.is_some() {
                current.answered(50_000);
            } else {
                current.prompt_ended(50_000);
            }
            assert_eq!(current.due, Some(60_000));
        }
    }

    #[test]
    fn time_stands_still_while_a_question_is_open() {
        let mut current = limited();
        current.begin(1_000);
        assert_eq!(current.due, Some(11_000));
        current.ask("{}".into(), 4_000);
        assert_eq!(current.due, None);
        current.answered(100_000);
        assert_eq!(current.due, Some(107_000));
        // Two prompts and `input()` at the same time: until the last of them has ended.
        current.prompted(101_000);
        current.prompted(102_000);
        current.prompt_ended(103_000);
        current.ask("{}".into(), 104_000);
        current.prompt_ended(105_000);
        assert_eq!(current.due, None);
        current.answered(200_000);
        assert_eq!(current.due, Some(206_000));
    }
}
