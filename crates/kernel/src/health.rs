//! Whether a kernel that runs answers at all. One that is busy does: its heartbeat has a thread of its own.

use himalia_model::{Unanswered, Unresponsive};

use super::core::Core;
use super::life::Phase;
use super::lifecycle::LifecycleRecord;
use super::meta::RecordMeta;
use super::writes::Next;

impl Core {
    /// Notes, and puts into the log, that the kernel has stopped answering, or answers again.
    pub(super) fn judge_health(&mut self) {
        let runs = self.life.phase == Phase::Running && self.life.exit.is_none();
        let problem = match (runs, self.alive) {
            (false, _) => None,
            (true, false) => Some(Unanswered::Heartbeat),
            (true, true) => self.readiness.gave_up().then_some(Unanswered::KernelInfo),
        };
        if self.unresponsive.map(|before| before.problem) == problem {
            return;
        }
        let record = if let Some(problem) = problem {
            let since = self.now.wall;
            self.unresponsive = Some(Unresponsive {
                since_micros: self.unresponsive.map_or(since, |before| before.since_micros),
                problem,
            });
            tracing::warn!(problem = problem.as_str(), "a kernel does not answer");
            let advice = problem.advice().to_owned();
            LifecycleRecord::Unresponsive { problem, advice }
        } else {
            self.unresponsive = None;
            LifecycleRecord::Responsive
        };
        self.changed = true;
        // The end of a process says enough.
        if runs {
            let meta = RecordMeta {
                kernel: self.settings.kernel,
                incarnation: self.life.incarnation,
                synthetic: true,
                ..RecordMeta::default()
            };
            self.push_lifecycle(meta, &record, Next::Nothing);
        }
    }
}
