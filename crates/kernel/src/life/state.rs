//! Process and phase of a kernel: facts and transitions, without consequences for other parts.

use himalia_shim_protocol::{KernelExited, KernelState, RequestId};

use super::pending_exit::{MEMORY_WAIT, PendingExit};
use super::phase::Phase;
use super::records::StopBy;
use super::waiters::Waiters;
use crate::event::Effect;
use crate::executions::records::{ReplacedExecution, SandboxLoss};

/// A restart by the engine resets its count after a process lived this long (jupyter's `stable_start_time`), micros.
const STABLE: u64 = 10_000_000;
/// First words of the reason of a kernel that was started again.
const RESTARTED_AFTER: &str = "restarted after ";

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one kernel")]
pub(crate) struct Life {
    pub(super) phase: Phase,
    /// Number of the present or last process; 0 before the first.
    pub(super) incarnation: u32,
    /// When that process was seen to start, monotonic.
    pub(super) since: u64,
    /// Automatic restarts in a row.
    pub(super) crashes: u32,
    /// A client has asked this incarnation to end.
    pub(super) asked_to_end: bool,
    /// The engine ends this process, and what it had is lost already: what comes until its end is for the next one.
    pub(super) written_off: bool,
    /// A process has ended, its output is not complete yet.
    pub(super) exit: Option<PendingExit>,
    /// Reason of the kernel's state, where needed.
    pub(super) reason: Option<String>,
    /// A sandbox that is gone cannot start anything.
    pub(super) sandbox_gone: bool,
    /// It is in a new sandbox, which has not started a process yet.
    pub(super) moving: bool,
    /// Processes in the sandboxes before this one: a shim counts its own from 1.
    pub(super) processes_before: u32,
    /// Losses with the sandbox before, until the next execution reports them.
    pub(super) loss: Option<SandboxLoss>,
    pub(super) waiters: Waiters,
    /// The engine's order for the next process, until that has started or could not be started.
    pub(super) ordered: Option<RequestId>,
    /// The present stop has ended at this time at the latest, monotonic.
    pub(super) stop_deadline: Option<u64>,
    /// State of the kernel in the shim's last report, and its incarnation.
    pub(super) reported: (KernelState, u32),
    /// Rebuilt from a journal.
    pub(super) adopted: bool,
}

impl Life {
    /// A kernel that was never started.
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::New,
            incarnation: 0,
            since: 0,
            crashes: 0,
            asked_to_end: false,
            written_off: false,
            exit: None,
            reason: None,
            sandbox_gone: false,
            moving: false,
            processes_before: 0,
            loss: None,
            waiters: Waiters::default(),
            ordered: None,
            stop_deadline: None,
            reported: (KernelState::New, 0),
            adopted: false,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Number of the present or last process; 0 before the first.
    pub(crate) fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// When that process was seen to start, monotonic microseconds.
    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// Reason of the kernel's state, where needed.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The same as a cause; empty if it needs no saying.
    pub(crate) fn cause(&self) -> String {
        self.reason.clone().unwrap_or_default()
    }

    /// True if its sandbox is gone: no process can be started in it.
    pub(crate) fn sandbox_is_gone(&self) -> bool {
        self.sandbox_gone
    }

    /// Processes in the sandboxes before this one.
    #[cfg(test)]
    pub(crate) fn processes_before(&self) -> u32 {
        self.processes_before
    }

    /// True if a process runs, as far as is known.
    pub(crate) fn runs(&self) -> bool {
        self.phase == Phase::Running && self.exit.is_none()
    }

    /// True if there is a sandbox, with files in it.
    pub(crate) fn has_sandbox(&self) -> bool {
        let lives = !matches!(self.phase, Phase::New | Phase::Stopping | Phase::Ended);
        !self.sandbox_gone && lives
    }

    /// Callers that wait for the end of a command.
    pub(crate) fn waiters(&mut self) -> &mut Waiters {
        &mut self.waiters
    }

    /// There is no process, and none comes for those who wait.
    pub(super) fn fail_waiters(&mut self, out: &mut Vec<Effect>) {
        self.waiters.fail(self.reason.as_deref().unwrap_or_default(), out);
    }

    /// True if a caller waits for a process.
    pub(super) fn is_awaited(&self) -> bool {
        self.waiters.awaited_process().is_some()
    }

    /// When something of it is waited for no longer, monotonic microseconds.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let exit = self.exit.as_ref();
        let output = exit.map(|exit| exit.deadline);
        let memory = exit.and_then(|exit| exit.memory);
        [output, memory, self.stop_deadline].into_iter().flatten().min()
    }

    /// True if a process may be started: the first one, or the first one in a new sandbox.
    pub(super) fn may_start(&self) -> bool {
        let moving = self.moving && self.phase == Phase::Restarting && !self.is_awaited();
        self.phase == Phase::New || moving
    }

    /// A process was asked for.
    pub(super) fn starting(&mut self) {
        if self.phase == Phase::New {
            self.phase = Phase::Starting;
        }
    }

    /// True if a caller may have the process replaced. A new sandbox is started, not restarted.
    pub(super) fn may_restart(&self) -> bool {
        let unused = self.moving && !self.is_awaited();
        let lives = matches!(self.phase, Phase::Running | Phase::Restarting | Phase::Dead);
        lives && !self.sandbox_gone && !unused
    }

    /// The request for the next process, if that was asked for by a caller who waits for it, or by the engine.
    pub(super) fn restart_under_way(&self) -> Option<RequestId> {
        let ordered = self.waiters.awaited_process().or(self.ordered);
        ordered.filter(|_| self.phase == Phase::Restarting)
    }

    /// The next process was asked for by a caller.
    pub(super) fn restarting(&mut self) {
        self.phase = Phase::Restarting;
        self.crashes = 0;
        // That of a crash before is not why this process ends.
        self.reason = None;
    }

    /// The next process is asked for by the engine.
    pub(super) fn restarting_after(&mut self, cause: &str) {
        self.phase = Phase::Restarting;
        self.reason = Some(format!("{RESTARTED_AFTER}{cause}"));
    }

    /// The end was asked for.
    pub(super) fn stopping(&mut self, cause: &str, deadline: u64) {
        self.phase = Phase::Stopping;
        self.reason = Some(cause.to_owned());
        self.stop_deadline = Some(deadline);
    }

    /// A client asks the process to end.
    pub(crate) fn shutdown_requested(&mut self) {
        self.asked_to_end = true;
    }

    /// A process has started: after a crash it stays known why, since the variables are gone; otherwise there is nothing
    /// to say any more. Comes before the phase changes.
    pub(super) fn keep_reason_of_crash(&mut self) {
        if self.phase != Phase::Restarting || self.crashes == 0 {
            self.reason = None;
        }
    }

    pub(super) fn started(&mut self, incarnation: u32, mono: u64) {
        self.reported = (KernelState::Running, incarnation);
        self.incarnation = incarnation;
        self.since = mono;
        self.asked_to_end = false;
        self.written_off = false;
        self.moving = false;
        self.ordered = None;
        self.keep_reason_of_crash();
        if self.phase != Phase::Stopping && self.phase != Phase::Ended {
            self.phase = Phase::Running;
        }
    }

    /// A process runs whose start is not in the log.
    pub(super) fn take_running(&mut self, incarnation: u32, mono: u64) {
        self.phase = Phase::Running;
        self.incarnation = incarnation;
        self.since = mono;
    }

    /// A process has ended. `true` if it is to be found out whether it ran out of memory.
    pub(super) fn exited(&mut self, exited: KernelExited, mono: u64) -> bool {
        self.reported = (KernelState::Exited, exited.incarnation);
        let mut exit = PendingExit::new(exited, mono);
        let lives = matches!(self.phase, Phase::Running | Phase::Starting) && !self.asked_to_end;
        let check_memory = lives && exit.may_be_oom();
        exit.memory = check_memory.then_some(mono + MEMORY_WAIT);
        self.exit = Some(exit);
        check_memory
    }

    /// True if a process has ended, its output is here, and its cause is known. `received` is how much of the data lane is here, `stopping` whether
    /// the engine has asked for the end of a process that it did not replace.
    pub(super) fn exit_is_complete(&self, received: u64, stopping: bool) -> bool {
        self.exit.as_ref().is_some_and(|exit| {
            let said_why = exit.stopped.is_some() || !self.ends_from_outside(exit, stopping);
            said_why && exit.memory.is_none() && received >= exit.exited.last_data
        })
    }

    /// True if the shim ended a process on purpose without a command from here. A command of an earlier gateway looks the same, so this is known only
    /// where there was none. The shim reports next that the stop is complete.
    fn ends_from_outside(&self, exit: &PendingExit, stopping: bool) -> bool {
        let lives = matches!(self.phase, Phase::Running | Phase::Starting);
        exit.exited.asked && lives && !self.adopted && !stopping
    }

    /// It is known now whether a process that ended had run out of memory, or will not be. `false` if that was known.
    pub(super) fn memory_checked(&mut self, killed: bool) -> bool {
        let Some(exit) = self.exit.as_mut().filter(|exit| exit.memory.is_some()) else {
            return false;
        };
        exit.memory = None;
        exit.oom = killed;
        true
    }

    /// A stop is complete. `true` if the last output of its process is still to come.
    pub(super) fn stop_completed(&mut self, by: StopBy) -> bool {
        if let Some(exit) = &mut self.exit {
            exit.stopped = Some(by);
        }
        self.exit.is_some()
    }

    /// One more crash. `false` if there were too many in a row.
    pub(super) fn count_crash(&mut self, mono: u64, limit: u32) -> bool {
        if mono.saturating_sub(self.since) >= STABLE {
            self.crashes = 0;
        }
        self.crashes += 1;
        self.crashes <= limit
    }

    /// It starts again after its death. That is not counted as a crash of its own; above 0, so that it stays known why.
    pub(super) fn revive(&mut self) {
        self.crashes = self.crashes.max(1);
    }

    /// It is dead.
    pub(super) fn died(&mut self, cause: String) {
        self.phase = Phase::Dead;
        self.moving = false;
        self.ordered = None;
        self.reason = Some(cause);
    }

    pub(super) fn ended(&mut self, cause: &str) {
        self.phase = Phase::Ended;
        self.reason = Some(cause.to_owned());
        self.stop_deadline = None;
        self.exit = None;
    }

    /// Notes the end of the sandbox, and with it of the output that a process had still to send.
    pub(super) fn lose_sandbox(&mut self) {
        self.sandbox_gone = true;
        self.exit = None;
        self.ordered = None;
    }

    pub(super) fn move_in(&mut self, cause: &str, lost: SandboxLoss) {
        self.restarting_after(cause);
        self.revive();
        self.exit = None;
        self.asked_to_end = false;
        self.sandbox_gone = false;
        self.moving = true;
        self.ordered = None;
        self.processes_before = self.incarnation;
        // One that no execution has learned of yet is said together with this one.
        self.loss.get_or_insert_default().add(lost);
        self.reported = (KernelState::New, self.incarnation);
        self.adopted = false;
    }

    /// The process before, for the first execution in a new one: what was lost with a sandbox is said once. `last` is the
    /// process that the latest execution was sent to, 0 = none was.
    pub(crate) fn replaced(&mut self, last: u32) -> Option<ReplacedExecution> {
        let sandbox_lost = self.loss.take();
        let replaced = last != 0 && last != self.incarnation || sandbox_lost.is_some();
        replaced.then(|| ReplacedExecution {
            // Of a session that has run nothing its last process counts.
            incarnation: if last == 0 { self.processes_before } else { last },
            cause: self
                .reason()
                .map(|reason| reason.strip_prefix(RESTARTED_AFTER).unwrap_or(reason).to_owned()),
            variables_lost: None,
            sandbox_lost,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_stays_known_and_a_restart_that_was_asked_for_ends_that() {
        for (phase, crashes, kept) in [
            (Phase::Restarting, 1, true),
            (Phase::Restarting, 0, false),
            (Phase::Running, 1, false),
            (Phase::Starting, 0, false),
        ] {
            let reason = Some("restarted after exit(3)".to_owned());
            let mut life = Life {
                phase,
                crashes,
                reason,
                ..Life::new()
            };
            life.keep_reason_of_crash();
            assert_eq!(life.reason.is_some(), kept, "{phase:?} {crashes}");
        }
    }
}
