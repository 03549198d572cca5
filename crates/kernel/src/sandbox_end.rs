//! The end of a kernel's sandbox, and of a kernel with it.

use himalia_shim_protocol::Lane;

use super::core::Core;
use super::event::Effect;
use super::life::{PendingExit, Phase};
use super::lifecycle::StopBy;

/// The cause of death of a kernel whose sandbox was told to end by somebody else.
pub(super) const TOLD_TO_END: &str = "sandbox_lost: it was told to end from outside";

impl Core {
    /// A stop is complete.
    pub(super) fn stopped(&mut self, by: StopBy, out: &mut Vec<Effect>) {
        if let Some(exit) = &mut self.life.exit {
            // Its last output is still to come.
            exit.stopped = Some(by);
            if self.death_is_complete() {
                self.settle_exit(out);
            }
            return;
        }
        let ours = self.stopwatch.stopped();
        match self.life.phase {
            Phase::Over => {}
            Phase::Stopping => {
                let cause = self.life.reason.clone().unwrap_or_default();
                self.over(&cause, out);
            }
            // The shim starts nothing any more.
            _ if by == StopBy::Outside => {
                tracing::warn!("a sandbox was told to end from outside");
                self.sandbox_gone(TOLD_TO_END.to_owned(), out);
            }
            // An earlier gateway had asked for the end.
            Phase::Restarting | Phase::Running if !ours && !self.life.is_awaited() => {
                self.over("killed_by_user", out);
            }
            _ => {}
        }
    }

    pub(super) fn sandbox_gone(&mut self, cause: String, out: &mut Vec<Effect>) {
        self.life.sandbox_gone = true;
        self.life.exit = None;
        for lane in Lane::ALL {
            self.outbox.lane_closed(lane);
        }
        match self.life.phase {
            Phase::Over => {}
            Phase::Stopping => {
                let cause = self.life.reason.clone().unwrap_or_default();
                self.over(&cause, out);
            }
            Phase::New | Phase::Starting => self.over(&cause, out),
            Phase::Running | Phase::Restarting if self.life.told_to_end => self.over("killed_by_user", out),
            Phase::Running | Phase::Restarting => {
                self.dead(cause, out);
                out.push(Effect::Over { forget: false });
            }
            // It keeps the cause that it died of.
            Phase::Dead => out.push(Effect::Over { forget: false }),
        }
    }

    /// Whether the shim ended a process on purpose and nobody here had asked for it. An order of an earlier gateway looks the
    /// same, so this is known only where there was none. That the stop is complete is told next.
    pub(super) fn ends_from_outside(&self, exit: &PendingExit) -> bool {
        let lives = matches!(self.life.phase, Phase::Running | Phase::Starting);
        exit.exited.asked && lives && !self.adopted && !self.stopwatch.is_stopping()
    }
}
