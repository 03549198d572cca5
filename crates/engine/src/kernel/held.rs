//! Requests that wait for a process that could take them. What is urgent does not wait behind shell requests.

use std::collections::VecDeque;

use himalia_wire::Channel;

use super::event::Request;

/// Requests that wait, per queue, and bytes over both. Beyond it the driver takes none.
const HELD_MAX: usize = 1024;
const HELD_BYTES: usize = 64 << 20;

/// A request that waits for a running kernel.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(super) request: Request,
    /// Number of the record that it had already, when it is sent again; 0 = none.
    pub(super) again: u64,
}

/// Both queues: shell, and what is urgent (control and stdin).
#[derive(Debug, Default)]
pub(super) struct HeldQueues {
    shell: VecDeque<Held>,
    urgent: VecDeque<Held>,
    bytes: usize,
}

impl HeldQueues {
    fn queue(&mut self, channel: Channel) -> &mut VecDeque<Held> {
        if channel == Channel::Shell {
            &mut self.shell
        } else {
            &mut self.urgent
        }
    }

    pub(super) fn push_last(&mut self, held: Held) {
        self.bytes += held.request.frame.len();
        self.queue(held.request.channel).push_back(held);
    }

    pub(super) fn push_first(&mut self, held: Held) {
        self.bytes += held.request.frame.len();
        self.queue(held.request.channel).push_front(held);
    }

    /// The next one: urgent ones first; shell ones only if `shell`.
    pub(super) fn pop(&mut self, shell: bool) -> Option<Held> {
        let urgent = self.urgent.pop_front();
        let held = urgent.or_else(|| if shell { self.shell.pop_front() } else { None })?;
        self.bytes -= held.request.frame.len();
        Some(held)
    }

    pub(super) fn has_room(&self, channel: Channel) -> bool {
        let waiting = if channel == Channel::Shell {
            self.shell.len()
        } else {
            self.urgent.len()
        };
        waiting < HELD_MAX && self.bytes < HELD_BYTES
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Held> {
        self.urgent.iter().chain(&self.shell)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
