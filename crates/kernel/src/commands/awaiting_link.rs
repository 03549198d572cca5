//! Commands that come while the sandbox is not connected: after a gateway's start its two connections come back one after
//! the other, and a broken one is made again. A command waits for that, for a while.

use crate::event::Command;

/// Time that a command waits, in microseconds. Less than callers wait for its answer.
const WAIT: u64 = 20_000_000;
/// Commands that wait; additional ones are refused.
const MAX: usize = 64;

#[derive(Debug)]
pub(super) struct WaitingCommand {
    pub(super) waiter: u64,
    pub(super) command: Command,
    deadline: u64,
}

impl WaitingCommand {
    /// It has waited long enough.
    pub(super) fn has_expired(&self, mono: u64) -> bool {
        self.deadline <= mono
    }
}

/// Commands that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct CommandsAwaitingLink(Vec<WaitingCommand>);

impl CommandsAwaitingLink {
    /// True if no command waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One more waits from now on. `false` if too many do.
    pub(super) fn add(&mut self, waiter: u64, command: Command, mono: u64) -> bool {
        let has_room = self.0.len() < MAX;
        if has_room {
            self.0.push(WaitingCommand {
                waiter,
                command,
                deadline: mono + WAIT,
            });
        }
        has_room
    }

    /// All that wait.
    pub(super) fn take(&mut self) -> Vec<WaitingCommand> {
        std::mem::take(&mut self.0)
    }

    /// One waits still, behind those that came before it.
    pub(super) fn put_back(&mut self, waiting: WaitingCommand) {
        self.0.push(waiting);
    }

    /// When the first of them has waited long enough, monotonic microseconds.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.0.iter().map(|waiting| waiting.deadline).min()
    }
}
