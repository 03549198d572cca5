//! A kernel's sandbox ends, or a new one is given up, and what becomes of the kernel with it.

use himalia_shim_protocol::Lane;

use super::phase::Phase;
use crate::core::Core;
use crate::event::Effect;

impl Core {
    /// The sandbox has ended. `cause` is one line.
    pub(crate) fn sandbox_gone(&mut self, cause: String, out: &mut Vec<Effect>) {
        self.life.lose_sandbox();
        for lane in Lane::ALL {
            self.outbox.lane_closed(lane);
        }
        match self.life.phase {
            Phase::Ended => {}
            Phase::Stopping => self.end_kernel(&self.life.cause(), out),
            Phase::New | Phase::Starting => self.end_kernel(&cause, out),
            Phase::Running | Phase::Restarting if self.life.asked_to_end => {
                self.end_kernel("killed_by_user", out);
            }
            Phase::Running | Phase::Restarting => {
                self.kernel_died(cause, out);
                out.push(Effect::Ended { forget: false });
            }
            // It keeps the cause that it died of.
            Phase::Dead => out.push(Effect::Ended { forget: false }),
        }
    }

    /// The new sandbox is of no use.
    pub(crate) fn give_up_sandbox(&mut self, cause: String, out: &mut Vec<Effect>) {
        if std::mem::take(&mut self.life.moving) {
            self.sandbox_gone(cause, out);
        }
    }
}
