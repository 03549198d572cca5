//! Messages of the engine in its own name and in the kernel's, and its orders to the shim.

use bytes::Bytes;
use himalia_shim_protocol::{Command as ShimCommand, PendingFull, RequestId};
use himalia_wire::Channel;

use super::core::Core;
use super::event::{CommandError, Effect};
use super::life::records::LifecycleRecord;
use super::log::Log;
use super::synthetic;

impl Core {
    /// Gives the shim a command.
    pub(super) fn order(
        &mut self,
        command: &ShimCommand,
        out: &mut Vec<Effect>,
    ) -> Result<RequestId, CommandError> {
        self.outbox.command(command, out).map_err(|full| match full {
            PendingFull::Version { .. } => CommandError::Unsupported(full.to_string()),
            _ => CommandError::Refused(full.to_string()),
        })
    }

    /// Writes in the engine's name.
    pub(super) fn log(&mut self) -> Log<'_> {
        Log::new(&mut self.writes, self.settings.kernel, self.life.incarnation())
    }

    /// A record of what the engine decided.
    pub(super) fn decide(&mut self, decision: &LifecycleRecord) {
        self.log().lifecycle(decision);
    }

    /// A status message in the kernel's name, after all output that came before.
    pub(super) fn say(&mut self, state: &str) {
        let body = synthetic::status(&self.kernel_session, state);
        self.push_synthetic(Channel::Iopub, 0, body);
    }

    /// A text for users, in the kernel's name, with the output of what it works on.
    pub(super) fn notice(&mut self, text: &str) {
        let body = synthetic::notice(&self.kernel_session, self.requests.latest_parent(), text);
        self.push_synthetic(Channel::Iopub, 0, body);
    }

    /// A message in the kernel's name, for all clients or for the owner of what it answers.
    pub(super) fn push_synthetic(&mut self, channel: Channel, owner: u64, body: Bytes) {
        self.log().message(channel, owner, body);
    }
}
