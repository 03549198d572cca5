//! What is done to a native execution while it runs: its time, interrupts, answers.

use himalia_wire::{Channel, build};
use serde_json::json;

use super::current::Stop;
use super::progress::Ends;
use super::queue::Executions;
use super::queued::{EXECUTION_SESSION, message};
use super::records::{End, ExecutionRecord, OnTimeout, StopReason, owner_of};
use crate::event::Request;
use crate::log::Log;
use crate::requests::kind::RequestKind;
use crate::writes::Next;

/// From one interrupt to the next, microseconds, and how many there are. They never end the process.
const INTERRUPT_INTERVAL: u64 = 5_000_000;
const INTERRUPTS: u8 = 3;

impl Executions {
    /// Takes back an execution that waits. `false` if it does not.
    pub(super) fn cancel(&mut self, seq: u64, ends: &mut Ends<'_>) -> bool {
        let queued = self.take_queued(seq);
        if let Some(queued) = &queued {
            self.end(queued, End::Interrupted, None, false, ends);
        }
        queued.is_some()
    }

    /// The kernel is interrupted, for whatever reason: what is stopped is distinguished from what fails. With `repeat` it is
    /// interrupted again until it ends.
    pub(super) fn begin_stop(&mut self, reason: StopReason, repeat: bool, mono: u64, log: &mut Log<'_>) {
        let Some(current) = self.current.as_mut() else {
            return;
        };
        if (!current.began && !repeat) || current.stop.is_some_and(|stop| stop.reason == reason && !repeat) {
            return;
        }
        let interrupts = current.stop.map_or(0, |stop| stop.interrupts);
        let due = if repeat {
            Some(mono)
        } else {
            current.stop.and_then(|stop| stop.due)
        };
        current.stop = Some(Stop {
            reason,
            due,
            interrupts,
        });
        let owner = owner_of(current.queued.seq);
        log.execution(owner, &ExecutionRecord::Stopping { reason }, Next::Nothing);
    }

    /// What is due for the one that runs: the end of its time, the next interrupt. `true` if it is to be interrupted now.
    pub(super) fn limit(&mut self, mono: u64, log: &mut Log<'_>) -> bool {
        let Some(current) = self.current.as_mut() else {
            return false;
        };
        if current.due.is_some_and(|due| due <= mono) {
            current.due = None;
            let owner = owner_of(current.queued.seq);
            match current.queued.submission.on_timeout {
                OnTimeout::Interrupt => self.begin_stop(StopReason::Timeout, true, mono, log),
                OnTimeout::Detach => log.execution(owner, &ExecutionRecord::Detached, Next::Nothing),
            }
        }
        let current = self.current.as_mut().filter(|current| current.began);
        let stop = current.and_then(|current| current.stop.as_mut());
        let Some(stop) = stop.filter(|stop| stop.due.is_some_and(|due| due <= mono)) else {
            return false;
        };
        stop.interrupts += 1;
        stop.due = (stop.interrupts < INTERRUPTS).then(|| mono.saturating_add(INTERRUPT_INTERVAL));
        true
    }

    /// The execution that waits in `input()`.
    pub(crate) fn asking(&self) -> Option<u64> {
        let asking = self.current.as_ref().filter(|current| current.asked.is_some());
        asking.map(|current| current.queued.seq)
    }

    /// The answer to the question of an execution, if it asks one.
    pub(crate) fn answer(&mut self, seq: u64, value: &str, mono: u64) -> Option<Request> {
        let current = self.current(seq)?;
        let asked = current.asked.clone()?;
        current.answered(mono);
        let content = json!({ "value": value, "status": "ok" });
        let parts = build::message(EXECUTION_SESSION, "input_reply", Some(asked.as_bytes()), &content);
        Some(message(seq, Channel::Stdin, RequestKind::Notice, &parts))
    }
}
