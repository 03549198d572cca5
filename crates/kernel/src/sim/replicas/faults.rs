//! What goes wrong.

use himalia_shim_protocol::Lane;

use super::world::World;

/// A process that is paused for longer is given up, and so are the kernels whose shims it holds.
const LONGEST_PAUSE: u64 = 40_000_000;
/// How late a statement may be done that no process waits for.
const LATE: u64 = 15_000_000;

impl World {
    pub(super) fn fault(&mut self, kernel: usize, lane: Lane) {
        let machine = self.rng.index(self.machines.len());
        let process = self.machines[machine].process;
        match self.rng.below(6) {
            0 if self.kills_left > 0 => {
                if let Some(id) = process {
                    self.kills_left -= 1;
                    self.note(|| format!("process {id} is killed"));
                    self.machines[machine].paused_until = 0;
                    self.end(id);
                }
            }
            1 if self.pauses_left > 0 && self.machines[machine].paused_until <= self.now => {
                self.pauses_left -= 1;
                let most = if self.rng.percent(20) {
                    LONGEST_PAUSE
                } else {
                    9_000_000
                };
                let time = 100_000 + self.rng.below(most);
                self.machines[machine].paused_until = self.now + time;
                self.note(|| format!("replica {machine} is paused for {} ms", time / 1000));
            }
            2 if self.handovers_left > 0 => {
                let now = process.map(|id| self.local_of(id));
                if let Some(process) = process.and_then(|id| self.processes.get_mut(&id))
                    && process.joined
                    && process.stopping.is_none()
                {
                    self.handovers_left -= 1;
                    process.stopping = now;
                    self.note(|| format!("replica {machine} is asked to end"));
                }
            }
            3 if self.stalls_left > 0 => {
                self.stalls_left -= 1;
                let time = self.rng.below(6_000_000);
                self.stalled_until = self.now + time;
                self.note(|| format!("the database does nothing for {} ms", time / 1000));
            }
            4 if self.holds_left > 0 && !self.cables.is_empty() => {
                self.holds_left -= 1;
                // One of the latest.
                let back = self.rng.index(self.cables.len().min(8));
                self.hold(self.cables.len() - 1 - back);
            }
            _ if self.breaks_left > 0 => {
                self.breaks_left -= 1;
                self.shim_closes(kernel, lane);
            }
            _ => {}
        }
    }

    /// A statement is not done, or its answer is lost; or it is done later, when no process waits for it any more.
    pub(super) fn lose(&mut self, at: usize) -> Result<(), String> {
        self.losses_left -= 1;
        let (process, connection) = (self.calls[at].process, self.calls[at].connection);
        if self.calls[at].forgotten {
            self.calls.remove(at);
            return Ok(());
        }
        if !self.running().contains(&process) {
            return Ok(());
        }
        match self.rng.below(3) {
            0 => {
                let call = self.calls.remove(at);
                self.note(|| format!("{:.40?} of process {process} is lost", call.statement));
            }
            1 => {
                let call = self.calls.remove(at);
                self.database
                    .run(call.me, &call.statement, self.now, self.defences)?;
                self.note(|| {
                    format!(
                        "{:.40?} of process {process} is done, and its answer is lost",
                        call.statement
                    )
                });
            }
            _ => {
                self.calls[at].forgotten = true;
                self.delay(at);
                self.note(|| format!("a statement of process {process} is late"));
            }
        }
        self.answered(process, connection, None, None);
        Ok(())
    }

    /// A statement that no process waits for is done a while later, or soon.
    pub(super) fn delay(&mut self, at: usize) {
        if self.rng.percent(60) {
            self.calls[at].not_before = self.now + self.rng.below(LATE);
        }
    }
}
