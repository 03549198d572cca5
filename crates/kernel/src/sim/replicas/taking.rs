//! How a process takes kernels over, statement by statement.

use std::collections::BTreeSet;
use std::time::Duration;

use himalia_journal::NewRecord;
use himalia_lease::{EVERY, TakeOver};

use super::database::{Answer, Fenced, HERE, Statement};
use super::process::{Connection, micros};
use super::world::World;

/// What is taken over, step by step.
#[derive(Debug)]
pub(super) enum Work {
    Nothing,
    /// The kernels of an earlier process of the replica.
    Own,
    Look,
    Unknown(TakeOver),
    Kernels(TakeOver, Vec<Fenced>),
    Epoch(TakeOver, Vec<Fenced>),
    /// What was taken is being adopted; then more is taken.
    Adopt(Option<TakeOver>),
}

/// A kernel whose row the process has, and that it has not adopted yet.
#[derive(Clone, Debug)]
pub(super) struct Adoption {
    pub(super) fenced: Fenced,
    pub(super) epoch: u64,
    /// Its log, once it was read.
    pub(super) log: Option<Vec<NewRecord>>,
}

impl World {
    pub(super) fn keep_taking_over(&mut self, id: u64, local: u64) -> Result<(), String> {
        let Some(process) = self.processes.get_mut(&id) else {
            return Ok(());
        };
        if process.stopping.is_some() {
            return Ok(());
        }
        if local >= process.retry_at && !process.failed.is_empty() {
            let again = std::mem::take(&mut process.failed);
            process.adopting.extend(again);
        }
        self.adopt(id)?;
        let Some(process) = self.processes.get_mut(&id) else {
            return Ok(());
        };
        match &process.work {
            Work::Adopt(next) if process.adopting.is_empty() => {
                let next = next.clone();
                process.work = Work::Nothing;
                if let Some(what) = next {
                    self.take(id, what);
                }
            }
            Work::Nothing if local >= process.look_at => {
                process.work = Work::Look;
                process.look_at = local + micros(EVERY);
                self.call(id, Connection::Work, Statement::Dead);
            }
            _ => {}
        }
        Ok(())
    }

    /// One statement takes some kernels, if this process may take more.
    fn take(&mut self, id: u64, mut what: TakeOver) {
        let local = Duration::from_micros(self.local_of(id));
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        what.most = process.plan.allowed(local);
        if what.most == 0 {
            return;
        }
        let known: BTreeSet<usize> = process.claims.keys().copied().collect();
        process.work = Work::Unknown(what);
        self.call(id, Connection::Work, Statement::Unknown { known });
    }

    /// The next step of taking over.
    pub(super) fn worked(&mut self, id: u64, answer: Option<Answer>) {
        let local = Duration::from_micros(self.local_of(id));
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        let work = std::mem::replace(&mut process.work, Work::Nothing);
        match (work, answer) {
            (Work::Own, Some(Answer::Taken(taken))) => {
                let epoch = process.link_epoch;
                self.adopts(id, &taken, epoch, None);
            }
            // A gateway that cannot read its kernels does not start.
            (Work::Own, _) => self.end(id),
            (Work::Look, Some(Answer::Dead(dead, live))) => {
                let reached = if dead.is_empty() {
                    Vec::new()
                } else {
                    vec![HERE.to_owned()]
                };
                if let Some(what) = process.plan.look(&dead, live, reached, local) {
                    self.take(id, what);
                }
            }
            (Work::Look, _) => {}
            (Work::Unknown(what), Some(Answer::Taken(taken))) => {
                let most = what.most as usize;
                process.work = Work::Kernels(what, taken);
                self.call(id, Connection::Work, Statement::TakeKernels { most });
            }
            (Work::Kernels(what, mut all), Some(Answer::Taken(taken))) => {
                all.extend(taken);
                if all.is_empty() {
                    process.plan.took(0, true, local);
                } else {
                    process.work = Work::Epoch(what, all);
                    self.call(id, Connection::Work, Statement::NextEpoch);
                }
            }
            (Work::Epoch(what, taken), Some(Answer::Epoch(epoch))) => {
                process.plan.took(taken.len() as u32, false, local);
                process.link_epoch = process.link_epoch.max(epoch);
                self.adopts(id, &taken, epoch, Some(what));
            }
            _ => process.plan.failed(local),
        }
    }

    fn adopts(&mut self, id: u64, taken: &[Fenced], epoch: u64, more: Option<TakeOver>) {
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        for fenced in taken {
            process.claims.insert(fenced.0, fenced.1);
            process.adopting.push(Adoption {
                fenced: *fenced,
                epoch,
                log: None,
            });
        }
        process.work = Work::Adopt(more);
        self.note(|| format!("process {id} takes {taken:?} under epoch {epoch}"));
    }

    /// Reads logs, and starts the actors of those that are read.
    fn adopt(&mut self, id: u64) -> Result<(), String> {
        let Some(process) = self.processes.get(&id) else {
            return Ok(());
        };
        for one in process.adopting.clone() {
            let kernel = one.fenced.0;
            if one.log.is_some() {
                if let Some(process) = self.processes.get_mut(&id) {
                    process.adopting.retain(|other| other.fenced.0 != kernel);
                }
                self.start_actor(id, one)?;
            } else if !self.has_call(id, Connection::Log(kernel)) {
                self.call(id, Connection::Log(kernel), Statement::TakeLog { kernel });
            }
        }
        Ok(())
    }
}
