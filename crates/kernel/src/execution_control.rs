//! What is done to a native execution while it runs: its time, interrupts, answers.

use himalia_shim_protocol::Command as ShimCommand;
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, build};
use serde_json::json;

use super::core::Core;
use super::event::{CommandError, Effect, Request};
use super::executing::EXECUTION_SESSION;
use super::execution_records::{End, ExecutionRecord, OnTimeout, StopReason, owner_of};
use super::executions::Stop;
use super::exit::Ordered;
use super::ledger::RequestKind;
use super::life::Phase;

/// From one interrupt to the next, microseconds, and how many there are. They never end the process.
const STOP_RUNG: u64 = 5_000_000;
const STOP_INTERRUPTS: u8 = 3;

impl Core {
    /// Stops an execution. `false` if it is over.
    pub(super) fn stop_execution(&mut self, seq: u64, out: &mut Vec<Effect>) -> bool {
        if let Some(queued) = self.executions.take_queued(seq) {
            self.end_execution(&queued, End::Interrupted, None, false);
            return true;
        }
        let is_current = self.executions.current(seq).is_some();
        if is_current {
            self.begin_stop(StopReason::Interrupt, true);
            self.limit_native(out);
        }
        is_current
    }

    /// The kernel is interrupted, for whatever reason: what runs is told apart from what fails. With `repeat` it is
    /// interrupted again until it ends.
    pub(super) fn begin_stop(&mut self, reason: StopReason, repeat: bool) {
        let now = self.now.mono;
        let Some(current) = self.executions.current.as_mut() else {
            return;
        };
        if (!current.began && !repeat) || current.stop.is_some_and(|stop| stop.reason == reason && !repeat) {
            return;
        }
        let interrupts = current.stop.map_or(0, |stop| stop.interrupts);
        let due = if repeat {
            Some(now)
        } else {
            current.stop.and_then(|stop| stop.due)
        };
        current.stop = Some(Stop {
            reason,
            due,
            interrupts,
        });
        let seq = current.queued.seq;
        self.log_execution(seq, &ExecutionRecord::Stopping { reason });
    }

    /// What is due for the one that runs: the end of its time, the next interrupt.
    pub(super) fn limit_native(&mut self, out: &mut Vec<Effect>) {
        let now = self.now.mono;
        let Some(current) = self.executions.current.as_mut() else {
            return;
        };
        if current.due.is_some_and(|due| due <= now) {
            current.due = None;
            let seq = current.queued.seq;
            match current.queued.submission.on_timeout {
                OnTimeout::Interrupt => self.begin_stop(StopReason::Timeout, true),
                OnTimeout::Detach => self.log_execution(seq, &ExecutionRecord::Detached),
            }
        }
        let Some(current) = self.executions.current.as_mut().filter(|current| current.began) else {
            return;
        };
        let Some(stop) = current
            .stop
            .as_mut()
            .filter(|stop| stop.due.is_some_and(|due| due <= now))
        else {
            return;
        };
        stop.interrupts += 1;
        stop.due = (stop.interrupts < STOP_INTERRUPTS).then(|| now.saturating_add(STOP_RUNG));
        if self.life.phase == Phase::Running && self.life.exit.is_none() {
            // Refused when too much waits for the shim: the next one comes all the same.
            let _ = self.order(&ShimCommand::Interrupt, out);
        }
    }

    /// Answers the question of an execution.
    pub(super) fn answer_input(&mut self, seq: u64, value: &str) -> Ordered {
        let now = self.now.mono;
        let current = self.executions.current(seq);
        let Some(asked) = current.and_then(|current| {
            let asked = current.asked.clone()?;
            current.answered(now);
            Some(asked)
        }) else {
            return Err(CommandError::NotAsked);
        };
        let content = json!({ "value": value, "status": "ok" });
        let parts = build::message(EXECUTION_SESSION, "input_reply", Some(asked.as_bytes()), &content);
        let frame = Frame::new(Channel::Stdin, &parts);
        self.request(Request::ours(owner_of(seq), RequestKind::Notice, frame));
        Ok(true)
    }
}
