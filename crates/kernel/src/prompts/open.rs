//! The prompts of one kernel: those that are open and the latest that ended, and who waits for them.
//!
//! What `input()` asks is one of them ([`PromptKind::Input`]), at most one at a time. It has no records of its own: the record of its message
//! opens it, that of the answer ends it.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::prompt::{
    APPROVE_ALWAYS, APPROVE_ONCE, APPROVE_SESSION, OpenPrompt, Prompt, PromptEnd, PromptKind, PromptStatus,
};
use crate::event::{Answer, CommandError, Effect};

/// Prompts of a kernel that are open at a time; an additional one is refused.
pub const MAX_OPEN: usize = 16;
/// Prompts that ended and are remembered, without the arguments of their calls.
pub const MAX_ENDED: usize = 64;
/// Callers that wait for the end of one prompt. With one more, the first one learns that it is open still.
const MAX_WAITERS: usize = 8;

/// Tools that are approved for the session. Of more, each call is approved by itself.
const MAX_APPROVED: usize = 256;

/// Ways in which a call is approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Approval {
    /// As every call of its tool.
    Standing,
    /// This one alone.
    Once,
}

/// One on its way to the journal.
#[derive(Debug)]
struct UnwrittenPrompt {
    waiters: Vec<u64>,
    prompt: Prompt,
    execution: Option<u64>,
    incarnation: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Open {
    pub(super) status: PromptStatus,
    /// The process whose code asks.
    pub(super) incarnation: u32,
    /// End on its way to the journal.
    #[serde(skip)]
    ending: Option<PromptEnd>,
    /// Caller that has answered it, and waits until that is in the journal.
    #[serde(skip)]
    answerer: Option<u64>,
    /// Callers that wait for its end, each until a monotonic time.
    #[serde(skip)]
    waiters: VecDeque<(u64, u64)>,
}

impl Open {
    /// Until when it may stay open, microseconds since 1970, if that is limited.
    pub(super) fn until(&self) -> Option<u64> {
        self.status.until()
    }

    /// True for a question of `input()`.
    pub(super) fn is_input(&self) -> bool {
        self.status.prompt.kind == PromptKind::Input
    }

    /// True if its end is on its way to the journal.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Prompts {
    #[serde(skip)]
    writing: Vec<UnwrittenPrompt>,
    /// Executions and processes whose `input()` asks by messages that are on their way to the journal.
    #[serde(skip)]
    questions: VecDeque<(u64, u32, Prompt)>,
    /// Number of open prompts, and the latest of them, as last published.
    #[serde(skip)]
    seen: (usize, u64),
    pub(super) open: Vec<Open>,
    ended: VecDeque<PromptStatus>,
    /// Tools that were approved for the session, each with the digest of its definition.
    approved: BTreeSet<String>,
}

/// True if an answer approves one call, whatever it means elsewhere.
fn approves_once(value: &str) -> bool {
    value == APPROVE_ONCE || value == APPROVE_ALWAYS
}

/// A tool as it is defined. Names of tools have no spaces.
fn defined(tool: &str, definition: &str) -> String {
    format!("{tool} {definition}")
}

fn told(waiter: u64, status: PromptStatus) -> Effect {
    Effect::Done(waiter, Ok(Answer::Prompt(Box::new(status))))
}

impl Prompts {
    /// True if there is none, open or remembered.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.ended.is_empty()
    }

    /// The open prompts, in the order in which they were asked.
    pub(crate) fn open_ones(&self) -> Vec<OpenPrompt> {
        let named = |one: &Open| OpenPrompt {
            seq: one.status.seq,
            at_micros: one.status.at_micros,
        };
        let mut all: Vec<OpenPrompt> = self.open.iter().map(named).collect();
        all.sort_by_key(|one| one.seq);
        all
    }

    /// The number of the latest one that is open; 0: none is.
    pub(crate) fn latest_open(&self) -> u64 {
        self.open.iter().map(|one| one.status.seq).max().unwrap_or(0)
    }

    /// True if one more may be open.
    pub(super) fn has_room(&self) -> bool {
        let open = self.open.iter().filter(|one| !one.is_input()).count();
        open + self.writing.len() < MAX_OPEN
    }

    /// All that are remembered, in the order in which they were asked.
    pub(super) fn all(&self) -> Vec<PromptStatus> {
        let open = self.open.iter().map(|one| &one.status);
        let mut all: Vec<PromptStatus> = self.ended.iter().chain(open).cloned().collect();
        all.sort_by_key(|status| status.seq);
        all
    }

    /// Answers, now or later, one who asks what was asked before under the same key. `false`: it was not.
    pub(super) fn answers_known(&mut self, waiter: u64, wanted: &Prompt, out: &mut Vec<Effect>) -> bool {
        if wanted.key.is_none() {
            return false;
        }
        let reused = Effect::Done(waiter, Err(CommandError::KeyReused));
        let open = self.open.iter().map(|one| &one.status);
        if let Some(found) = open.chain(&self.ended).find(|one| one.prompt.key == wanted.key) {
            let same = found.prompt.asks_the_same(wanted);
            out.push(if same { told(waiter, found.clone()) } else { reused });
            return true;
        }
        let Some(found) = self.writing.iter_mut().find(|one| one.prompt.key == wanted.key) else {
            return false;
        };
        if found.prompt.asks_the_same(wanted) {
            found.waiters.push(waiter);
        } else {
            out.push(reused);
        }
        true
    }

    /// One goes to the journal.
    pub(super) fn write(&mut self, waiter: u64, prompt: Prompt, execution: Option<u64>, incarnation: u32) {
        self.writing.push(UnwrittenPrompt {
            waiters: vec![waiter],
            prompt,
            execution,
            incarnation,
        });
    }

    fn take_writing(&mut self, waiter: u64) -> Option<UnwrittenPrompt> {
        let mut all = self.writing.iter();
        let at = all.position(|one| one.waiters.first() == Some(&waiter))?;
        Some(self.writing.remove(at))
    }

    /// One is in the journal: it is open. The execution that waits for it, if one does.
    pub(super) fn written(&mut self, waiter: u64, seq: u64, wall: u64, out: &mut Vec<Effect>) -> Option<u64> {
        let UnwrittenPrompt {
            waiters,
            prompt,
            execution,
            incarnation,
        } = self.take_writing(waiter)?;
        let status = PromptStatus::open(seq, wall, execution, prompt);
        out.extend(waiters.into_iter().map(|waiter| told(waiter, status.clone())));
        self.add(status, incarnation);
        execution
    }

    /// One could not be written.
    pub(crate) fn not_written(&mut self, waiter: u64, out: &mut Vec<Effect>) {
        let waiters = self.take_writing(waiter).map(|one| one.waiters);
        let failed = |waiter| Effect::Done(waiter, Err(CommandError::DiskFailing));
        out.extend(waiters.into_iter().flatten().map(failed));
    }

    /// Writes a question of `input()` to the journal.
    pub(crate) fn write_question(&mut self, execution: u64, prompt: Prompt, incarnation: u32) {
        self.questions.push_back((execution, incarnation, prompt));
    }

    /// The first of those questions is in the journal.
    pub(crate) fn question_written(&mut self, seq: u64, wall: u64, out: &mut Vec<Effect>) {
        if let Some((execution, incarnation, prompt)) = self.questions.pop_front() {
            let status = PromptStatus::open(seq, wall, Some(execution), prompt);
            self.add_question(status, incarnation, out);
        }
    }

    /// Opens a question of `input()`, and closes its earlier ones.
    pub(super) fn add_question(&mut self, status: PromptStatus, incarnation: u32, out: &mut Vec<Effect>) {
        self.withdraw_questions("the code asks something else", |_| true, out);
        self.add(status, incarnation);
    }

    /// Withdraws the questions of `input()` that are no longer awaited. No record says it: those of the execution do.
    pub(super) fn withdraw_questions(
        &mut self,
        reason: &str,
        is_useless: impl Fn(&Open) -> bool,
        out: &mut Vec<Effect>,
    ) {
        let useless = |one: &&mut Open| one.is_input() && is_useless(one);
        let mut all = self.open.iter_mut();
        let Some(found) = all.find(useless) else { return };
        let reason = reason.to_owned();
        found.ending = Some(PromptEnd::Withdrawn { reason });
        // An answer that was on its way came too late.
        let late = found.answerer.take();
        out.extend(late.map(|waiter| Effect::Done(waiter, Err(CommandError::PromptEnded))));
        let seq = found.status.seq;
        self.ended(seq, out);
    }

    /// The prompt that is what `input()` of this execution asks.
    pub(super) fn question_of(&self, execution: u64) -> Option<&PromptStatus> {
        let mut all = self.open.iter().filter(|one| one.is_input());
        let found = all.find(|one| one.status.execution == Some(execution));
        found.map(|one| &one.status)
    }

    /// The execution whose `input()` asks this, if it is that.
    pub(super) fn is_question(&self, seq: u64) -> Option<u64> {
        let mut all = self.open.iter().filter(|one| one.is_input());
        all.find(|one| one.status.seq == seq)?.status.execution
    }

    /// The answer to what `input()` of this execution asks is in the journal.
    pub(crate) fn answer_written(&mut self, execution: u64, out: &mut Vec<Effect>) {
        let of = |one: &&Open| one.is_input() && one.is_ending() && one.status.execution == Some(execution);
        if let Some(seq) = self.open.iter().find(of).map(|one| one.status.seq) {
            self.ended(seq, out);
        }
    }

    /// True if the open prompts differ from the published ones.
    pub(super) fn has_news(&mut self) -> bool {
        let open = (self.open.len(), self.latest_open());
        std::mem::replace(&mut self.seen, open) != open
    }

    /// One is open.
    pub(super) fn add(&mut self, status: PromptStatus, incarnation: u32) {
        self.open.push(Open {
            status,
            incarnation,
            ending: None,
            answerer: None,
            waiters: VecDeque::new(),
        });
    }

    /// Checks that this prompt may be answered so.
    pub(super) fn may_answer(&self, seq: u64, value: &str) -> Result<(), CommandError> {
        let Some(found) = self.open.iter().find(|one| one.status.seq == seq) else {
            let has_ended = self.ended.iter().any(|status| status.seq == seq);
            return Err(if has_ended {
                CommandError::PromptEnded
            } else {
                CommandError::UnknownPrompt
            });
        };
        let options = &found.status.prompt.options;
        // A question that comes after this one is in the journal soon.
        if found.is_ending() || (found.is_input() && !self.questions.is_empty()) {
            return Err(CommandError::PromptEnded);
        }
        if !options.is_empty() && !options.iter().any(|option| option == value) {
            return Err(CommandError::NotAnOption(options.clone()));
        }
        Ok(())
    }

    /// The end of one goes to the journal.
    pub(super) fn end(&mut self, seq: u64, end: PromptEnd, answerer: Option<u64>) {
        if let Some(found) = self.open.iter_mut().find(|one| one.status.seq == seq) {
            (found.ending, found.answerer) = (Some(end), answerer);
        }
    }

    /// The end of one is in the journal. The execution that waited for it, if one did.
    pub(super) fn ended(&mut self, seq: u64, out: &mut Vec<Effect>) -> Option<u64> {
        let at = self.open.iter().position(|one| one.status.seq == seq)?;
        let Open {
            mut status,
            ending,
            answerer,
            waiters,
            ..
        } = self.open.remove(at);
        status.end = ending;
        let waiters = waiters.into_iter().map(|(waiter, _)| waiter);
        out.extend(waiters.chain(answerer).map(|waiter| told(waiter, status.clone())));
        // The time of an execution in `input()` stands still by itself.
        let execution = status
            .execution
            .filter(|_| status.prompt.kind != PromptKind::Input);
        self.remember(status);
        execution
    }

    /// Approval of a call of this tool with this definition and these arguments: by this prompt, or for the session.
    pub(super) fn approval(
        &self,
        seq: Option<u64>,
        (tool, definition): (&str, &str),
        digest: &str,
    ) -> Result<Approval, CommandError> {
        if self.approved.contains(&defined(tool, definition)) {
            return Ok(Approval::Standing);
        }
        let refused = |reason| Err(CommandError::NotApproved(reason));
        let Some(seq) = seq else {
            return refused("a person has to approve it");
        };
        let mut ended = self.ended.iter();
        let Some(found) = ended.find(|status| status.seq == seq) else {
            return refused("it is not approved yet");
        };
        let is_of =
            found.prompt.tool.as_deref() == Some(tool) && found.prompt.digest.as_deref() == Some(digest);
        if found.prompt.kind != PromptKind::Approval || !is_of {
            return refused("another call was approved, not this one");
        }
        match &found.end {
            Some(PromptEnd::Answered { value, .. }) if approves_once(value) && found.used => {
                refused("the call that was approved was made before")
            }
            Some(PromptEnd::Answered { value, .. }) if approves_once(value) => Ok(Approval::Once),
            Some(PromptEnd::Answered { .. }) => refused("a person has denied it"),
            _ => refused("no person approved it before the prompt ended"),
        }
    }

    /// The call that was approved is being made.
    pub(super) fn used(&mut self, seq: u64) {
        let mut ended = self.ended.iter_mut();
        if let Some(found) = ended.find(|status| status.seq == seq) {
            found.used = true;
        }
    }

    fn remember(&mut self, mut status: PromptStatus) {
        let prompt = &status.prompt;
        if let (Some(PromptEnd::Answered { value, .. }), Some(tool), Some(definition)) =
            (&status.end, &prompt.tool, &prompt.definition)
            && prompt.kind == PromptKind::Approval
            && value == APPROVE_SESSION
            && self.approved.len() < MAX_APPROVED
        {
            self.approved.insert(defined(tool, definition));
        }
        status.prompt.arguments = None;
        self.ended.push_back(status);
        if self.ended.len() > MAX_ENDED {
            // Those of `input()` first: calls still need their approvals.
            let mut all = self.ended.iter();
            let oldest = all.position(|status| status.prompt.kind == PromptKind::Input);
            self.ended.remove(oldest.unwrap_or(0));
        }
    }

    /// A caller waits for the end of one, until this monotonic time.
    pub(super) fn wait(&mut self, waiter: u64, seq: u64, until: u64, out: &mut Vec<Effect>) {
        if let Some(ended) = self.ended.iter().find(|status| status.seq == seq) {
            out.push(told(waiter, ended.clone()));
            return;
        }
        let Some(found) = self.open.iter_mut().find(|one| one.status.seq == seq) else {
            out.push(Effect::Done(waiter, Err(CommandError::UnknownPrompt)));
            return;
        };
        found.waiters.push_back((waiter, until));
        if found.waiters.len() > MAX_WAITERS
            && let Some((first, _)) = found.waiters.pop_front()
        {
            out.push(told(first, found.status.clone()));
        }
    }

    /// Tells those whose time to wait is over that it is open still.
    pub(super) fn end_waits(&mut self, mono: u64, out: &mut Vec<Effect>) {
        for one in &mut self.open {
            let status = &one.status;
            one.waiters.retain(|(waiter, until)| {
                let waits = *until > mono;
                if !waits {
                    out.push(told(*waiter, status.clone()));
                }
                waits
            });
        }
    }

    /// When the first of them has waited long enough, monotonic microseconds.
    pub(super) fn waits_end(&self) -> Option<u64> {
        let waiters = self.open.iter().flat_map(|one| &one.waiters);
        waiters.map(|(_, until)| *until).min()
    }

    /// An end from a record. The execution that waited for it, if one did.
    pub(super) fn fold_end(&mut self, seq: u64, end: PromptEnd) -> Option<u64> {
        self.end(seq, end, None);
        self.ended(seq, &mut Vec::new())
    }

    /// As a checkpoint keeps it.
    pub(crate) fn for_checkpoint(&self) -> Self {
        Self {
            open: self.open.clone(),
            ended: self.ended.clone(),
            approved: self.approved.clone(),
            ..Self::default()
        }
    }
}
