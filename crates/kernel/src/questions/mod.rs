//! Questions of the engine itself that one reply answers: what variables there are, how code may be completed.
//!
//! Clients see nothing of them, and they do not count as activity. A question is in the journal before it is sent, like every
//! request; of its reply the journal has that it came, without its body. The caller receives
//! - the reply;
//! - [`CommandError::NotKnown`], when the kernel went idle below the question and no reply followed within a second: so do
//!   kernels that do not know a type;
//! - [`CommandError::NoAnswer`], when its time has expired;
//! - [`CommandError::ControlSilent`], when an earlier one on the control channel still has no answer;
//! - [`CommandError::NotRunning`], when the process ended before.
//!
//! [`open::Questions`] knows those that are open; what is here sends them.

pub(super) mod open;
pub(super) mod question;
#[cfg(test)]
mod tests;

use himalia_wire::Channel;

use super::core::Core;
use super::event::{CommandError, CommandResult};
use super::requests::backlog::HeldRequest;
use question::Question;

impl Core {
    pub(super) fn ask(&mut self, waiter: u64, question: &Question) -> CommandResult {
        if !self.life.runs() {
            return Err(CommandError::NotRunning);
        }
        if self.writes.failing() {
            return Err(CommandError::DiskFailing);
        }
        let control = question.channel == Channel::Control;
        if control && self.readiness.is_control_silent() && self.requests.awaits_control() {
            return Err(CommandError::ControlSilent);
        }
        if !self.questions.has_room(question.channel, &self.requests) {
            return Err(CommandError::TooManyQuestions);
        }
        let request = open::request(question);
        let Ok(id) = self.admit(HeldRequest::new(request)) else {
            return Err(CommandError::Refused(
                "the sandbox holds too much already".to_owned(),
            ));
        };
        self.questions.add(id, waiter, question, self.now.mono);
        Ok(false)
    }

    /// Gives up questions whose time has expired.
    pub(super) fn expire_questions(&mut self) {
        let expired = self.questions.expire(self.now.mono, &mut self.requests);
        if expired.on_control {
            self.readiness.set_control_silent(true);
        }
        if expired.made_room {
            self.release();
        }
    }
}
