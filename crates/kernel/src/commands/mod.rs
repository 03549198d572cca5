//! Commands of callers: which sub-machine gets which, and which have to wait for the sandbox's connections.

pub(super) mod awaiting_link;
mod sandbox;

use super::core::Core;
use super::event::{Answer, Command, CommandError, CommandResult, Effect};
use super::life::Phase;

impl Core {
    pub(super) fn command(&mut self, waiter: u64, command: Command, out: &mut Vec<Effect>) {
        let result = match command {
            command if self.has_to_wait(&command) => self.let_wait(waiter, command),
            Command::Start(spec) => self.start(waiter, *spec, out),
            Command::Interrupt => self.interrupt(waiter, out),
            Command::Restart => self.restart(waiter, out),
            Command::Revive => self.revive_for_caller(waiter, out),
            Command::GiveUpSandbox(cause) => {
                self.give_up_sandbox(cause, out);
                Ok(true)
            }
            Command::Claim(claim) => self.claim(waiter, *claim, out),
            Command::Fork(fork) => self.fork(waiter, fork, out),
            Command::AddLink(socket) => self.add_link(waiter, socket, out),
            Command::Open(open) => self.open_stream(*open, out),
            Command::NoteConnection(record) => {
                self.note_connection(&record);
                Ok(true)
            }
            Command::TellRunning => {
                let answer = Answer::Running {
                    execution: self.executions.sent(),
                    request: self.stopwatch.running(),
                };
                out.push(Effect::Done(waiter, Ok(answer)));
                Ok(false)
            }
            Command::BeginToolCall(what, limits) => self.begin_tool_call(waiter, *what, limits, out),
            Command::CountTreeCall(limits) => {
                self.count_tree_call(waiter, limits, out);
                Ok(false)
            }
            Command::EndToolCall(call, end) => {
                self.end_tool_call(call, *end);
                Ok(true)
            }
            Command::RefuseToolCall { what, code, reason } => {
                self.refuse_tool_call(*what, code, reason);
                Ok(true)
            }
            Command::NoteReturned { execution, chars } => {
                self.note_returned(execution, chars);
                Ok(true)
            }
            Command::Ask(question) => self.ask(waiter, &question),
            Command::Submit(submission) => self.submit(waiter, *submission, out),
            Command::StopExecution(seq) => {
                let answer = Answer::Stopping(self.stop_execution(seq, out));
                out.push(Effect::Done(waiter, Ok(answer)));
                Ok(false)
            }
            Command::Input { seq, value, by } => self.answer_question(seq, &value, by, None).map(|()| true),
            Command::ListExecutions => {
                let answer = Answer::Executions(self.executions.briefs().collect());
                out.push(Effect::Done(waiter, Ok(answer)));
                Ok(false)
            }
            Command::Prompt(prompt) => self.prompt(waiter, *prompt, out),
            Command::AwaitPrompt { seq, wait } => {
                self.await_prompt(waiter, seq, wait, out);
                Ok(false)
            }
            Command::AnswerPrompt { seq, value, by } => self.answer_prompt(waiter, seq, value, by),
            Command::UseApproval {
                prompt,
                tool,
                definition,
                digest,
            } => self.use_approval(waiter, prompt, (&tool, &definition), &digest),
            Command::ListPrompts => {
                out.push(Effect::Done(waiter, Ok(self.list_prompts())));
                Ok(false)
            }
            Command::Stop(cause) => {
                self.stop(cause, out);
                Ok(true)
            }
        };
        match result {
            Ok(true) => out.push(Effect::Done(waiter, Ok(Answer::Done))),
            Ok(false) => {}
            Err(error) => out.push(Effect::Done(waiter, Err(error))),
        }
    }

    /// True if the command has to wait for the sandbox.
    fn has_to_wait(&self, command: &Command) -> bool {
        let possible = match command {
            Command::Interrupt | Command::Fork(_) | Command::Ask(_) => self.life.phase() == Phase::Running,
            Command::Restart => matches!(self.life.phase(), Phase::Running | Phase::Restarting | Phase::Dead),
            Command::Revive => self.life.phase() == Phase::Dead,
            // The sandbox is there without a process, too.
            Command::Open(_) | Command::AddLink(_) => self.life.has_sandbox(),
            Command::Start(_)
            | Command::Stop(_)
            | Command::GiveUpSandbox(_)
            | Command::Claim(_)
            // Executions wait in a queue of their own, if they wait at all.
            | Command::Submit(_)
            | Command::StopExecution(_)
            | Command::Input { .. }
            | Command::ListExecutions
            | Command::Prompt(_)
            | Command::AwaitPrompt { .. }
            | Command::AnswerPrompt { .. }
            | Command::UseApproval { .. }
            | Command::ListPrompts
            | Command::NoteConnection(_)
            | Command::TellRunning
            | Command::BeginToolCall(..)
            | Command::CountTreeCall(_)
            | Command::EndToolCall(..)
            | Command::NoteReturned { .. }
            | Command::RefuseToolCall { .. } => false,
        };
        possible && !self.life.sandbox_is_gone() && !self.outbox.takes_commands()
    }

    fn let_wait(&mut self, waiter: u64, command: Command) -> CommandResult {
        if self.awaiting_link.add(waiter, command, self.now.mono) {
            Ok(false)
        } else {
            Err(CommandError::Disconnected)
        }
    }

    /// Carries out the commands that need not, or can not, wait any longer.
    pub(super) fn carry_out_waiting(&mut self, out: &mut Vec<Effect>) {
        if self.awaiting_link.is_empty() {
            return;
        }
        for waiting in self.awaiting_link.take() {
            if !self.has_to_wait(&waiting.command) {
                self.command(waiting.waiter, waiting.command, out);
            } else if waiting.has_expired(self.now.mono) {
                out.push(Effect::Done(waiting.waiter, Err(CommandError::Disconnected)));
            } else {
                self.awaiting_link.put_back(waiting);
            }
        }
    }
}
