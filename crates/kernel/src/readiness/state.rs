//! Answers of a process: to probes, on iopub, to heartbeats.

use himalia_model::{Unanswered, Unresponsive};

use crate::life::records::LifecycleRecord;

/// Interval of repeated probes while a reply has come but no iopub message, microseconds.
pub(super) const NUDGE: u64 = 500_000;
/// Interval while nothing has come, and how often at most: a slow kernel finds them all when it wakes.
pub(super) const PATIENT: u64 = 5_000_000;
pub(super) const PATIENT_TIMES: u8 = 12;

/// Answers of the present process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts about one process"
)]
pub(crate) struct Readiness {
    replied: bool,
    heard: bool,
    next_probe: Option<u64>,
    probes: u8,
    /// It answers heartbeats.
    alive: bool,
    /// A question on the control channel has no answer, nor has anything else there since.
    control_silent: bool,
    /// It does not answer, as the log has it.
    unresponsive: Option<Unresponsive>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self {
            replied: false,
            heard: false,
            next_probe: None,
            probes: 0,
            // The shim says only what changes after the start.
            alive: true,
            control_silent: false,
            unresponsive: None,
        }
    }
}

impl Readiness {
    /// A process has started, or is going to: nothing is known of its answers.
    pub(crate) fn process_started(&mut self) {
        *self = Self {
            // That the one before did not answer ends with a record.
            unresponsive: self.unresponsive,
            ..Self::default()
        };
    }

    /// It answers, and its clients miss nothing of its output.
    pub(crate) fn is_ready(self) -> bool {
        self.replied && self.heard
    }

    /// It answers heartbeats.
    pub(crate) fn is_alive(self) -> bool {
        self.alive
    }

    /// It runs and does not answer.
    pub(crate) fn unresponsive(self) -> Option<Unresponsive> {
        self.unresponsive
    }

    /// A probe is sent.
    pub(crate) fn probed(&mut self, mono: u64) {
        self.probes = self.probes.saturating_add(1);
        self.next_probe = match (self.is_ready(), self.replied) {
            (true, _) => None,
            (false, true) => Some(mono + NUDGE),
            (false, false) => (self.probes < PATIENT_TIMES).then_some(mono + PATIENT),
        };
    }

    /// A reply to a probe came. `true` when that makes the kernel ready.
    pub(crate) fn replied(&mut self, mono: u64) -> bool {
        let before = self.is_ready();
        self.replied = true;
        self.next_probe = (!self.heard).then_some(mono + NUDGE);
        !before && self.is_ready()
    }

    /// An iopub message came. `true` when that makes the kernel ready.
    pub(crate) fn heard(&mut self) -> bool {
        let before = self.is_ready();
        self.heard = true;
        if self.replied {
            self.next_probe = None;
        }
        !before && self.is_ready()
    }

    /// Notes if the process answers heartbeats, as the shim reports it. `true` when that has changed.
    pub(crate) fn heartbeat(&mut self, alive: bool) -> bool {
        std::mem::replace(&mut self.alive, alive) != alive
    }

    /// Notes whether the control channel is silent, as far as it is known now.
    pub(crate) fn set_control_silent(&mut self, silent: bool) {
        self.control_silent = silent;
    }

    /// A question on the control channel has no answer, nor has anything else there since.
    pub(crate) fn is_control_silent(self) -> bool {
        self.control_silent
    }

    /// When to probe next, monotonic microseconds.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.next_probe
    }

    /// Record for the log if the kernel has stopped answering, or answers again. `runs` is whether it has a process, `wall` microseconds since 1970.
    pub(crate) fn judge(&mut self, runs: bool, wall: u64) -> Option<LifecycleRecord> {
        let gave_up = !self.replied && self.probes >= PATIENT_TIMES;
        let problem = match (runs, self.alive) {
            (false, _) => None,
            (true, false) => Some(Unanswered::Heartbeat),
            (true, true) if gave_up => Some(Unanswered::KernelInfo),
            (true, true) => self.control_silent.then_some(Unanswered::Control),
        };
        if self.unresponsive.map(|before| before.problem) == problem {
            return None;
        }
        let Some(problem) = problem else {
            self.unresponsive = None;
            return Some(LifecycleRecord::Responsive);
        };
        self.unresponsive = Some(Unresponsive {
            since_micros: self.unresponsive.map_or(wall, |before| before.since_micros),
            problem,
        });
        tracing::warn!(problem = problem.as_str(), "a kernel does not answer");
        let advice = problem.advice().to_owned();
        Some(LifecycleRecord::Unresponsive { problem, advice })
    }

    /// As a checkpoint has it: a probe was answered, an iopub message has arrived.
    pub(crate) fn checkpoint(self) -> (bool, bool) {
        (self.replied, self.heard)
    }

    /// From a checkpoint.
    pub(crate) fn restore(&mut self, replied: bool, heard: bool) {
        (self.replied, self.heard) = (replied, heard);
    }

    /// From the record of a message of the present process.
    pub(crate) fn fold_message(&mut self, heard: bool, replied: bool) {
        self.heard |= heard;
        self.replied |= replied;
    }

    /// From a lifecycle record.
    pub(crate) fn fold(&mut self, event: &LifecycleRecord, at_micros: u64) {
        match *event {
            LifecycleRecord::Started { .. } => *self = Self::default(),
            LifecycleRecord::Responsive => (self.alive, self.unresponsive) = (true, None),
            // A kernel that has never replied is asked anew.
            LifecycleRecord::Unresponsive {
                problem: problem @ Unanswered::Heartbeat,
                ..
            } => {
                self.alive = false;
                self.unresponsive = Some(Unresponsive {
                    since_micros: at_micros,
                    problem,
                });
            }
            _ => {}
        }
    }
}
