//! Prompts: what a person is asked on behalf of the code that runs, and the answers.
//!
//! A prompt is in the journal before any caller learns of it, and so is its end. It ends once: with an answer, or because no answer is
//! of use any more (its execution or its process has ended, or its time has expired). While one is open, the time of the native
//! execution that runs stands still, as it does with `input()`.
//!
//! `input()` of a native execution is a prompt too. Its records are the messages by which the kernel asks and is answered, so that there is one
//! truth about it.
//!
//! [`open::Prompts`] knows them and who waits; [`prompt`] is what they are, with their records; what is here connects them with the
//! executions, the life of the process and the journal.

pub(super) mod open;
pub(super) mod prompt;
#[cfg(test)]
mod tests;

use himalia_journal::Record;
use himalia_wire::Limits;
use himalia_wire::v1::Frame;
use serde_json::Value;

use super::core::Core;
use super::event::{Answer, CommandError, CommandResult, Effect};
use super::executions::records::{execution_of, owner_of};
use super::messages::asking_execution;
use super::meta::RecordMeta;
use super::writes::Next;
use prompt::{Prompt, PromptEnd, PromptRecord, PromptStatus};

impl Core {
    /// Asks a person. Answered with the prompt when it is in the journal.
    pub(super) fn prompt(&mut self, waiter: u64, prompt: Prompt, out: &mut Vec<Effect>) -> CommandResult {
        if self.prompts.answers_known(waiter, &prompt, out) {
            return Ok(false);
        }
        if !self.life.runs() {
            return Err(CommandError::NotRunning);
        }
        if self.writes.failing() {
            return Err(CommandError::DiskFailing);
        }
        if !self.prompts.has_room() {
            return Err(CommandError::TooManyPrompts);
        }
        let execution = self.executions.sent();
        let record = PromptRecord::Asked {
            prompt: prompt.clone(),
        };
        let owner = execution.map_or(0, owner_of);
        self.log().prompt(owner, record.to_body(), Next::Prompted(waiter));
        self.prompts
            .write(waiter, prompt, execution, self.life.incarnation());
        Ok(false)
    }

    /// One is in the journal.
    pub(super) fn prompted(&mut self, waiter: u64, seq: u64, out: &mut Vec<Effect>) {
        if let Some(execution) = self.prompts.written(waiter, seq, self.now.wall, out) {
            self.executions.prompted(execution, self.now.mono);
        }
    }

    /// Answers one. Done when that is in the journal.
    pub(super) fn answer_prompt(
        &mut self,
        waiter: u64,
        seq: u64,
        value: String,
        by: String,
    ) -> CommandResult {
        self.prompts.may_answer(seq, &value)?;
        if self.writes.failing() {
            return Err(CommandError::DiskFailing);
        }
        if let Some(execution) = self.prompts.is_question(seq) {
            self.answer_question(execution, &value, by, Some(waiter))
                .map_err(|_| CommandError::PromptEnded)?;
            return Ok(false);
        }
        let by = Some(by);
        self.end_prompt(seq, PromptEnd::Answered { value, by }, Some(waiter));
        Ok(false)
    }

    /// Answers what `input()` of an execution asks. A waiter learns it when that is in the journal.
    pub(super) fn answer_question(
        &mut self,
        execution: u64,
        value: &str,
        by: String,
        waiter: Option<u64>,
    ) -> Result<(), CommandError> {
        let answer = self.executions.answer(execution, value, self.now.mono);
        let answer = answer.ok_or(CommandError::NotAsked)?;
        if let Some(asked) = self.prompts.question_of(execution) {
            let (seq, hidden) = (asked.seq, asked.prompt.password);
            let value = if hidden { String::new() } else { value.to_owned() };
            let by = Some(by);
            self.prompts.end(seq, PromptEnd::Answered { value, by }, waiter);
        }
        self.request(answer);
        Ok(())
    }

    fn end_prompt(&mut self, seq: u64, end: PromptEnd, answerer: Option<u64>) {
        let record = PromptRecord::Ended {
            prompt: seq,
            end: end.clone(),
        };
        let mut open = self.prompts.open.iter();
        let execution = open
            .find(|one| one.status.seq == seq)
            .and_then(|one| one.status.execution);
        let owner = execution.map_or(0, owner_of);
        self.log().prompt(owner, record.to_body(), Next::PromptEnded(seq));
        self.prompts.end(seq, end, answerer);
    }

    /// The end of one is in the journal.
    pub(super) fn prompt_ended(&mut self, seq: u64, out: &mut Vec<Effect>) {
        if let Some(execution) = self.prompts.ended(seq, out) {
            self.executions.prompt_ended(execution, self.now.mono);
        }
    }

    /// Waits for the end of one, this many microseconds at most. Answered with the prompt.
    pub(super) fn await_prompt(&mut self, waiter: u64, seq: u64, wait: u64, out: &mut Vec<Effect>) {
        let until = self.now.mono.saturating_add(wait);
        self.prompts.wait(waiter, seq, until, out);
    }

    /// Lets a call be made that was approved, by this prompt or for the session. An approval of one call is used up when that is in
    /// the journal.
    pub(super) fn use_approval(
        &mut self,
        waiter: u64,
        seq: Option<u64>,
        tool: (&str, &str),
        digest: &str,
    ) -> CommandResult {
        let approval = self.prompts.approval(seq, tool, digest)?;
        let (Some(seq), open::Approval::Once) = (seq, approval) else {
            return Ok(true);
        };
        if self.writes.failing() {
            return Err(CommandError::DiskFailing);
        }
        let record = PromptRecord::Used { prompt: seq };
        self.log().prompt(0, record.to_body(), Next::ApprovalUsed(waiter));
        self.prompts.used(seq);
        Ok(false)
    }

    /// All that are open and the latest that ended.
    pub(super) fn list_prompts(&self) -> Answer {
        Answer::Prompts(self.prompts.all())
    }

    /// Withdraws those whose answer is of no use any more.
    pub(super) fn withdraw_prompts(&mut self, out: &mut Vec<Effect>) {
        self.withdraw_useless_prompts(out);
        self.changed |= self.prompts.has_news();
    }

    fn withdraw_useless_prompts(&mut self, out: &mut Vec<Effect>) {
        if self.prompts.open.is_empty() {
            return;
        }
        self.withdraw_questions(out);
        let (sent, runs, process) = (self.executions.sent(), self.life.runs(), self.life.incarnation());
        let wall = self.now.wall;
        let reason = |one: &open::Open| {
            if !runs || one.incarnation != process {
                Some("the process that asked has ended")
            } else if one.status.execution.is_some() && one.status.execution != sent {
                Some("the execution that asked has ended")
            } else if one.until().is_some_and(|until| until <= wall) {
                Some("no answer came in time")
            } else {
                None
            }
        };
        let open = self.prompts.open.iter();
        let open = open.filter(|one| !one.is_ending() && !one.is_input());
        let useless: Vec<(u64, &str)> = open
            .filter_map(|one| Some((one.status.seq, reason(one)?)))
            .collect();
        for (seq, reason) in useless {
            let reason = reason.to_owned();
            self.end_prompt(seq, PromptEnd::Withdrawn { reason }, None);
        }
    }

    /// Withdraws the questions of `input()` when the execution ends or the code no longer waits.
    fn withdraw_questions(&mut self, out: &mut Vec<Effect>) {
        let (sent, asking) = (self.executions.sent(), self.executions.asking());
        let useless = |one: &open::Open| {
            let execution = one.status.execution;
            execution != sent || (!one.is_ending() && execution != asking)
        };
        let reason = "the code does not wait for it any more";
        self.prompts.withdraw_questions(reason, useless, out);
    }

    /// Ends waits that have taken long enough.
    pub(super) fn expire_prompts(&mut self, out: &mut Vec<Effect>) {
        self.prompts.end_waits(self.now.mono, out);
    }

    /// When something is due that has to do with prompts, monotonic microseconds.
    pub(super) fn prompts_deadline(&self) -> Option<u64> {
        let open = self.prompts.open.iter().filter(|one| !one.is_ending());
        let until = open.filter_map(open::Open::until).min();
        let until = until.map(|wall| self.now.mono.saturating_add(wall.saturating_sub(self.now.wall)));
        [until, self.prompts.waits_end()].into_iter().flatten().min()
    }

    /// A message of the kernel, which may ask.
    pub(super) fn fold_question(&mut self, record: &Record, meta: &RecordMeta) {
        if let Some(execution) = asking_execution(meta)
            && let Ok(frame) = Frame::parse(record.body.clone(), &Limits::KERNEL)
        {
            let prompt = Prompt::of_input(frame.content());
            let status = PromptStatus::open(record.seq, record.at_micros, Some(execution), prompt);
            self.prompts
                .add_question(status, meta.incarnation, &mut Vec::new());
        }
    }

    /// A request to the kernel, which may be the answer.
    pub(super) fn fold_question_answer(&mut self, record: &Record, meta: &RecordMeta) {
        if let Some(execution) = asking_execution(meta)
            && let Some(asked) = self.prompts.question_of(execution)
            && let Ok(frame) = Frame::parse(record.body.clone(), &Limits::KERNEL)
        {
            let (seq, content) = (asked.seq, serde_json::from_slice::<Value>(frame.content()));
            let value = content
                .ok()
                .and_then(|content| Some(content["value"].as_str()?.to_owned()));
            let value = value.unwrap_or_default();
            self.prompts
                .fold_end(seq, PromptEnd::Answered { value, by: None });
        }
    }

    pub(super) fn fold_prompt(&mut self, record: &Record, meta: &RecordMeta) {
        match serde_json::from_slice(&record.body) {
            Ok(PromptRecord::Asked { prompt }) => {
                let execution = execution_of(meta.owner);
                let status = PromptStatus::open(record.seq, record.at_micros, execution, prompt);
                self.prompts.add(status, meta.incarnation);
                if let Some(execution) = execution {
                    self.executions.prompted(execution, record.at_micros);
                }
            }
            Ok(PromptRecord::Ended { prompt, end }) => {
                if let Some(execution) = self.prompts.fold_end(prompt, end) {
                    self.executions.prompt_ended(execution, record.at_micros);
                }
            }
            Ok(PromptRecord::Used { prompt }) => self.prompts.used(prompt),
            Ok(PromptRecord::Unknown) | Err(_) => {}
        }
    }
}
