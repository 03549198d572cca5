//! Controls a running native execution: its time, interrupts, answers.

use std::time::Duration;

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
/// The time from the first interrupt to the last one. Code that still runs then ignores them.
pub const STOP_TIME: Duration = Duration::from_micros(INTERRUPT_INTERVAL * (INTERRUPTS as u64 - 1));

/// An action that is due for the execution that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DueAction {
    Interrupt,
    Restart,
    /// The end of the process.
    Kill,
}

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

    /// The action that is due for the execution that runs: the end of its time, the next interrupt.
    pub(super) fn limit(&mut self, mono: u64, log: &mut Log<'_>) -> Option<DueAction> {
        let current = self.current.as_mut()?;
        if current.due.is_some_and(|due| due <= mono) {
            current.due = None;
            let owner = owner_of(current.queued.seq);
            match current.queued.submission.on_timeout {
                OnTimeout::Interrupt | OnTimeout::Restart => {
                    self.begin_stop(StopReason::Timeout, true, mono, log);
                }
                OnTimeout::Kill => return Some(DueAction::Kill),
                OnTimeout::Detach => log.execution(owner, &ExecutionRecord::Detached, Next::Nothing),
            }
        }
        let current = self.current.as_mut().filter(|current| current.began)?;
        let stop = current.stop.as_mut()?;
        if stop.due.is_none_or(|due| due > mono) {
            return None;
        }
        stop.interrupts += 1;
        let is_last = stop.interrupts >= INTERRUPTS;
        stop.due = (!is_last).then(|| mono.saturating_add(INTERRUPT_INTERVAL));
        let restarts = current.queued.submission.on_timeout == OnTimeout::Restart;
        if is_last && restarts && stop.reason == StopReason::Timeout {
            return Some(DueAction::Restart);
        }
        if is_last && !current.stuck {
            current.stuck = true;
            let owner = owner_of(current.queued.seq);
            log.execution(owner, &ExecutionRecord::Stuck, Next::Nothing);
        }
        Some(DueAction::Interrupt)
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
