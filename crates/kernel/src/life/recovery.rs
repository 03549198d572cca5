//! A kernel's life in its checkpoint and in its lifecycle records.

use himalia_shim_protocol::KernelExited;
use serde::{Deserialize, Serialize};

use super::pending_exit::PendingExit;
use super::phase::Phase;
use super::records::{ENDED_FROM_OUTSIDE, LifecycleRecord, StopBy};
use super::state::Life;
use crate::executions::records::SandboxLoss;

#[derive(Debug, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of a file format, not a state machine"
)]
pub(crate) struct LifeCheckpoint {
    phase: Phase,
    incarnation: u32,
    crashes: u32,
    asked_to_end: bool,
    reason: Option<String>,
    exit: Option<KernelExited>,
    /// The stop that `exit` belongs to is complete.
    stopped: bool,
    /// It was not asked for by a gateway.
    stopped_from_outside: bool,
    /// In a new sandbox that has not started a process yet.
    moving: bool,
    processes_before: u32,
    loss: Option<SandboxLoss>,
}

impl Life {
    pub(crate) fn checkpoint(&self) -> LifeCheckpoint {
        let stopped = self.exit.as_ref().and_then(|exit| exit.stopped);
        LifeCheckpoint {
            phase: self.phase,
            incarnation: self.incarnation,
            crashes: self.crashes,
            asked_to_end: self.asked_to_end,
            reason: self.reason.clone(),
            exit: self.exit.as_ref().map(|exit| exit.exited.clone()),
            stopped: stopped.is_some(),
            stopped_from_outside: stopped == Some(StopBy::Outside),
            moving: self.moving,
            processes_before: self.processes_before,
            loss: self.loss.clone(),
        }
    }

    /// From a checkpoint. A stop that was under way has ended at `stop_deadline` at the latest; both times are monotonic.
    pub(crate) fn restore(&mut self, checkpoint: LifeCheckpoint, mono: u64, stop_deadline: u64) {
        let by = if checkpoint.stopped_from_outside {
            StopBy::Outside
        } else {
            StopBy::Gateway
        };
        self.phase = checkpoint.phase;
        self.incarnation = checkpoint.incarnation;
        self.crashes = checkpoint.crashes;
        self.asked_to_end = checkpoint.asked_to_end;
        self.reason = checkpoint.reason;
        self.stop_deadline = (self.phase == Phase::Stopping).then_some(stop_deadline);
        self.exit = checkpoint.exit.map(|exited| PendingExit {
            stopped: checkpoint.stopped.then_some(by),
            ..PendingExit::new(exited, mono)
        });
        self.moving = checkpoint.moving;
        self.processes_before = checkpoint.processes_before;
        self.loss = checkpoint.loss;
    }

    /// A lifecycle record. `true` if the process is known to be gone after it.
    pub(crate) fn fold(&mut self, event: &LifecycleRecord, mono: u64) -> bool {
        match event {
            LifecycleRecord::NewSandbox {
                cause,
                processes,
                lost,
            } => {
                self.incarnation = *processes;
                self.move_in(cause, lost.clone());
            }
            LifecycleRecord::Started { incarnation } => {
                self.incarnation = *incarnation;
                self.keep_reason_of_crash();
                self.phase = Phase::Running;
                self.asked_to_end = false;
                self.moving = false;
                self.exit = None;
            }
            LifecycleRecord::Exited(exited) => self.exit = Some(PendingExit::new(exited.clone(), mono)),
            LifecycleRecord::Stopped { by, .. } => match (&mut self.exit, by) {
                (Some(exit), by) => exit.stopped = Some(*by),
                (None, StopBy::Gateway) => self.phase = Phase::Ended,
                (None, StopBy::Outside) => {
                    self.phase = Phase::Dead;
                    self.reason = Some(ENDED_FROM_OUTSIDE.to_owned());
                    return true;
                }
            },
            LifecycleRecord::Restarting { cause, crashes } => {
                self.restarting_after(cause);
                self.exit = None;
                self.crashes = *crashes;
                return true;
            }
            LifecycleRecord::Dead { cause, over } => {
                self.phase = if *over { Phase::Ended } else { Phase::Dead };
                self.moving = false;
                self.exit = None;
                self.reason = Some(cause.clone());
                return true;
            }
            _ => {}
        }
        false
    }

    /// An execution has learned what was lost with a sandbox.
    pub(crate) fn loss_was_said(&mut self) {
        self.loss = None;
    }

    /// All records are read. The age of the process counts from here.
    pub(crate) fn adopt(&mut self, mono: u64) {
        self.since = mono;
        self.adopted = true;
    }
}
