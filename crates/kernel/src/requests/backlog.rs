//! The backlog of a kernel: requests that wait for a process. Control and stdin do not wait behind shell.
//!
//! A queue begins with those that were sent before and never ran, in the order of their records; then come those that
//! have no record yet.

use std::collections::VecDeque;

use himalia_wire::Channel;

use crate::event::Request;

/// Requests that wait, per queue, and bytes of both. Above it the actor takes none from its mailbox.
const HELD_MAX: usize = 1024;
const HELD_BYTES: usize = 64 << 20;
/// Above this many per queue, or bytes of both, no refused request is taken back.
const BACK_MAX: usize = 4096;
const BACK_BYTES: usize = 256 << 20;
/// Pause of a queue after the shim had no room, in microseconds: first, and doubled up to the last.
const PAUSE: u64 = 250_000;
const PAUSE_MAX: u64 = 30_000_000;

/// A request that waits for a running kernel.
#[derive(Clone, Debug)]
pub(crate) struct HeldRequest {
    pub(crate) request: Request,
    /// Number of the record that it had already, when it is sent again; 0 = none.
    pub(crate) again: u64,
}

impl HeldRequest {
    /// One that has no record yet.
    pub(crate) fn new(request: Request) -> Self {
        Self { request, again: 0 }
    }
}

/// Reasons why a queue pauses. Without it a refused request would be sent, and recorded, again at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Halt {
    /// There was no process to take a request: until the next one starts.
    NextProcess,
    /// The shim had no room: until this time, monotonic.
    Until(u64),
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<HeldRequest>,
    halt: Option<Halt>,
    /// The last pause, and its end.
    pause: u64,
    paused_until: u64,
}

/// Queues of shell requests, and of urgent ones (control and stdin).
#[derive(Debug, Default)]
pub(super) struct RequestBacklog {
    shell: Queue,
    urgent: Queue,
    bytes: usize,
}

impl Queue {
    fn pop(&mut self) -> Option<HeldRequest> {
        if self.halt.is_some() {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Place of a request that comes back.
    fn place(&self, again: u64) -> usize {
        let before = |held: &&HeldRequest| held.again != 0 && (again == 0 || held.again < again);
        self.waiting.iter().take_while(before).count()
    }
}

impl RequestBacklog {
    fn queue(&mut self, channel: Channel) -> &mut Queue {
        if channel == Channel::Shell {
            &mut self.shell
        } else {
            &mut self.urgent
        }
    }

    fn waiting(&self, channel: Channel) -> usize {
        let queue = if channel == Channel::Shell {
            &self.shell
        } else {
            &self.urgent
        };
        queue.waiting.len()
    }

    pub(super) fn push_last(&mut self, held: HeldRequest) {
        self.bytes += held.request.frame.bytes().len();
        self.queue(held.request.channel()).waiting.push_back(held);
    }

    /// One that was taken out before: in front of all that came after it. Without a record it must be put back in turn,
    /// the last one first.
    pub(super) fn put_back(&mut self, held: HeldRequest) {
        self.bytes += held.request.frame.bytes().len();
        let queue = self.queue(held.request.channel());
        queue.waiting.insert(queue.place(held.again), held);
    }

    /// The next one: urgent ones first; shell ones only if `shell`.
    pub(super) fn pop(&mut self, shell: bool) -> Option<HeldRequest> {
        let urgent = self.urgent.pop();
        let held = urgent.or_else(|| if shell { self.shell.pop() } else { None })?;
        self.bytes -= held.request.frame.bytes().len();
        Some(held)
    }

    /// Forgets what an owner has waiting.
    pub(super) fn remove_owner(&mut self, owner: u64) {
        for queue in [&mut self.shell, &mut self.urgent] {
            let bytes = &mut self.bytes;
            queue.waiting.retain(|held| {
                let keep = held.request.owner != owner;
                if !keep {
                    *bytes -= held.request.frame.bytes().len();
                }
                keep
            });
        }
    }

    pub(super) fn has_room(&self, channel: Channel) -> bool {
        self.waiting(channel) < HELD_MAX && self.bytes < HELD_BYTES
    }

    /// True if there is room for a refused request.
    pub(super) fn takes_back(&self, request: &Request) -> bool {
        self.waiting(request.channel()) < BACK_MAX && self.bytes + request.frame.bytes().len() <= BACK_BYTES
    }

    /// A request of the channel found no process.
    pub(super) fn wait_for_process(&mut self, channel: Channel) {
        self.queue(channel).halt = Some(Halt::NextProcess);
    }

    /// A request of the channel found no room. Many at once are one pause.
    pub(super) fn pause(&mut self, channel: Channel, mono: u64) {
        let queue = self.queue(channel);
        if queue.halt.is_some() {
            return;
        }
        let recent = mono < queue.paused_until.saturating_add(PAUSE_MAX);
        let longer = if recent { queue.pause.saturating_mul(2) } else { 0 };
        queue.pause = longer.clamp(PAUSE, PAUSE_MAX);
        queue.paused_until = mono.saturating_add(queue.pause);
        queue.halt = Some(Halt::Until(queue.paused_until));
    }

    /// A process has started: both queues continue.
    pub(super) fn process_started(&mut self) {
        for queue in [&mut self.shell, &mut self.urgent] {
            (queue.halt, queue.pause, queue.paused_until) = (None, 0, 0);
        }
    }

    /// Ends the pauses whose time has come.
    pub(super) fn end_pauses(&mut self, mono: u64) {
        for queue in [&mut self.shell, &mut self.urgent] {
            queue
                .halt
                .take_if(|halt| matches!(halt, Halt::Until(at) if *at <= mono));
        }
    }

    /// When the next pause ends.
    pub(super) fn pause_ends(&self) -> Option<u64> {
        let end = |queue: &Queue| match queue.halt {
            Some(Halt::Until(at)) => Some(at),
            Some(Halt::NextProcess) | None => None,
        };
        [end(&self.shell), end(&self.urgent)].into_iter().flatten().min()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &HeldRequest> {
        self.urgent.waiting.iter().chain(&self.shell.waiting)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use himalia_wire::Parts;
    use himalia_wire::v1::Frame;

    use super::super::kind::RequestKind;
    use super::*;

    /// A request that says which one it is by its parent.
    fn held(number: u64, again: u64) -> HeldRequest {
        let request = Request {
            owner: 1,
            kind: RequestKind::Execute,
            parent: number,
            frame: Frame::new(Channel::Shell, &Parts::default()),
            trace: None,
        };
        HeldRequest { request, again }
    }

    fn order(queues: &mut RequestBacklog) -> Vec<u64> {
        std::iter::from_fn(|| queues.pop(true))
            .map(|held| held.request.parent)
            .collect()
    }

    #[test]
    fn what_comes_back_keeps_its_order_and_stands_before_what_is_new() {
        let mut queues = RequestBacklog::default();
        queues.push_last(held(6, 0));
        queues.put_back(held(2, 12));
        queues.put_back(held(1, 11));
        // Taken back from the disk: later than those with a record, earlier than those that were never taken.
        queues.put_back(held(5, 0));
        queues.put_back(held(4, 0));
        queues.put_back(held(3, 13));
        queues.push_last(held(7, 0));
        assert_eq!(order(&mut queues), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(queues.bytes, 0);
    }

    #[test]
    fn without_a_process_a_queue_waits_for_the_next_one() {
        let mut queues = RequestBacklog::default();
        queues.push_last(held(1, 0));
        queues.wait_for_process(Channel::Shell);
        queues.pause(Channel::Shell, 0);
        queues.end_pauses(u64::MAX);
        assert!(queues.pop(true).is_none() && queues.pause_ends().is_none());
        queues.process_started();
        assert_eq!(order(&mut queues), [1]);
    }

    #[test]
    fn without_room_a_queue_waits_ever_longer_and_the_other_does_not() {
        let mut queues = RequestBacklog::default();
        let mut urgent = held(9, 0);
        urgent.request.frame = Frame::new(Channel::Control, &Parts::default());
        queues.push_last(held(1, 0));
        queues.push_last(urgent);
        let (mut now, mut pauses) = (0, Vec::new());
        for _ in 0..9 {
            queues.pause(Channel::Shell, now);
            queues.pause(Channel::Shell, now);
            let end = queues.pause_ends().unwrap();
            queues.end_pauses(end - 1);
            assert_eq!(queues.pause_ends(), Some(end));
            pauses.push(end - now);
            now = end;
            queues.end_pauses(now);
        }
        assert_eq!((pauses[0], pauses[1], pauses[8]), (PAUSE, 2 * PAUSE, PAUSE_MAX));
        queues.pause(Channel::Shell, now);
        assert_eq!(order(&mut queues), [9]);
        queues.end_pauses(now + PAUSE_MAX);
        queues.pause(Channel::Shell, now + 3 * PAUSE_MAX);
        assert_eq!(queues.pause_ends(), Some(now + 3 * PAUSE_MAX + PAUSE));
    }
}
