//! Files that take more space than they may, where nothing but a measurement from time to time limits it.
//!
//! The space is measured after executions and every 10 s. Above the limit, the running execution is interrupted, and
//! additional executions are refused with an error reply that says why. One whose first line says that it makes room
//! (`himalia: free space`) is accepted all the same. What continues to grow is interrupted again, and then its process
//! is ended.
//!
//! [`watch::DiskWatch`] decides; what is here carries it out.

mod refusal;
#[cfg(test)]
mod tests;
pub(super) mod watch;

use himalia_model::DiskUse;
use himalia_shim_protocol::Command as ShimCommand;

use super::core::Core;
use super::event::Effect;
use super::executions::records::execution_of;
use super::life::Phase;
use super::life::records::LifecycleRecord;
use super::requests::backlog::HeldRequest;
use watch::{Remedy, Work};

impl Core {
    /// When the watch wants to be asked next; monotonic microseconds.
    pub(super) fn disk_deadline(&self) -> Option<u64> {
        self.disk
            .deadline()
            .filter(|_| self.life.phase() == Phase::Running)
    }

    /// Asks for a measurement when it is time.
    pub(super) fn measure_disk(&mut self, out: &mut Vec<Effect>) {
        if self.life.phase() == Phase::Running && self.disk.step(self.now.mono, out) {
            self.release();
        }
    }

    /// The answer to [`Effect::MeasureDisk`]; `None` if it could not be measured.
    pub(super) fn disk_measured(&mut self, found: Option<DiskUse>, out: &mut Vec<Effect>) {
        let work = match (self.life.runs(), self.stopwatch.is_running()) {
            (false, _) => Work::None,
            (true, false) => Work::Process,
            (true, true) => Work::Execution,
        };
        if let Some((found, remedy)) = self.disk.measured(found, self.now.mono, work) {
            self.limit_disk(&found, remedy, out);
        }
        self.release();
    }

    fn limit_disk(&mut self, found: &DiskUse, remedy: Remedy, out: &mut Vec<Effect>) {
        let (used_bytes, limit_bytes) = (found.used_bytes, found.limit_bytes);
        let step = remedy.as_str();
        tracing::warn!(
            used = used_bytes,
            limit = limit_bytes,
            step,
            "the files of a session take more space than they may"
        );
        self.decide(&LifecycleRecord::DiskQuota {
            used_bytes,
            limit_bytes,
            step: step.to_owned(),
        });
        match remedy {
            Remedy::Refuse => {}
            Remedy::Interrupt => {
                self.notice(&refusal::notice(found, "This execution is interrupted"));
                // Refused when too much waits for the shim: it is measured again soon.
                let _ = self.order(&ShimCommand::Interrupt, out);
            }
            Remedy::Kill => {
                self.notice(&refusal::notice(found, "The process is ended"));
                self.end_process(refusal::CODE.to_owned(), out);
            }
        }
    }

    /// Answers an execution that is not accepted, as a kernel would whose code has failed.
    pub(super) fn refuse_for_disk(&mut self, held: &HeldRequest, found: &DiskUse) {
        for (channel, owner, frame) in refusal::answers(&held.request, found, &self.kernel_session) {
            self.push_synthetic(channel, owner, frame);
        }
        if let Some(seq) = execution_of(held.request.owner) {
            self.native_not_taken(seq);
        }
        if held.again != 0 {
            self.decide(&LifecycleRecord::Refused {
                reason: refusal::CODE.to_owned(),
                record: held.again,
                again: false,
            });
        }
    }
}
