//! The statements of the store that decide about ownership, each done at once, as the database does them.
//!
//! They are those of the crate `store`: `postgres/membership.rs`, `take_over.rs`, `kernels.rs` and `logs.rs`. A change there needs one here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use himalia_journal::NewRecord;
use himalia_lease::DeadReplica;
use himalia_shim_protocol::PerLane;

use super::super::check::key_of;
use super::{Defences, LEASE};
use crate::meta::{RecordKind, RecordMeta};

/// The place that all sandboxes are at.
pub(super) const HERE: &str = "here";

/// A process, as each statement names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Me {
    pub(super) replica: usize,
    pub(super) epoch: u64,
}

/// One batch of a log.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) kernel: usize,
    /// Records before it.
    pub(super) at: usize,
    pub(super) batch: Arc<Vec<NewRecord>>,
}

#[derive(Clone, Debug)]
pub(super) enum Statement {
    NextEpoch,
    Join { before: u64 },
    Renew,
    Leave,
    Dead,
    TakeOwn,
    Unknown { known: BTreeSet<usize> },
    TakeKernels { most: usize },
    TakeLog { kernel: usize },
    Commit { parts: Arc<Vec<Part>> },
}

/// A kernel and its fencing epoch.
pub(super) type Fenced = (usize, u64);

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Epoch(u64),
    Changed(bool),
    /// Replicas whose lease has ended, and how many live.
    Dead(Vec<DeadReplica>, u32),
    Taken(Vec<Fenced>),
    /// What is in the log; `None`: another process has it.
    Log(Option<Vec<NewRecord>>),
    /// The kernels whose parts were written.
    Committed(Vec<usize>),
}

#[derive(Debug)]
struct ReplicaRow {
    epoch: u64,
    /// 0: it has ended permanently.
    until: u64,
}

#[derive(Debug)]
struct KernelRow {
    replica: usize,
    fence: u64,
}

#[derive(Debug)]
struct Log {
    writer: Me,
    parts: BTreeMap<usize, Arc<Vec<NewRecord>>>,
    requests: BTreeSet<String>,
    /// What it has of the shim, per lane.
    stored: PerLane<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Database {
    epoch: u64,
    replicas: BTreeMap<usize, ReplicaRow>,
    kernels: Vec<KernelRow>,
    logs: Vec<Log>,
}

impl Database {
    /// A replica has joined.
    pub(super) fn first(&mut self, replica: usize) -> Me {
        self.epoch += 1;
        let epoch = self.epoch;
        self.replicas.insert(replica, ReplicaRow { epoch, until: LEASE });
        Me { replica, epoch }
    }

    /// A process has started a kernel.
    pub(super) fn insert(&mut self, me: Me) {
        self.kernels.push(KernelRow {
            replica: me.replica,
            fence: 1,
        });
        self.logs.push(Log {
            writer: me,
            parts: BTreeMap::new(),
            requests: BTreeSet::new(),
            stored: PerLane::default(),
        });
    }

    /// Whether a process has a kernel under this fencing epoch.
    pub(super) fn has(&self, me: Me, (kernel, fence): Fenced) -> bool {
        let row = &self.kernels[kernel];
        row.replica == me.replica && row.fence == fence && self.is_process(me)
    }

    pub(super) fn owner(&self, kernel: usize) -> usize {
        self.kernels[kernel].replica
    }

    /// Whether a request is in the log of a kernel.
    pub(super) fn has_request(&self, kernel: usize, key: &str) -> bool {
        self.logs[kernel].requests.contains(key)
    }

    pub(super) fn stored(&self, kernel: usize) -> PerLane<u64> {
        self.logs[kernel].stored
    }

    /// All records of a kernel, one after the other.
    pub(super) fn records(&self, kernel: usize) -> Result<Vec<NewRecord>, String> {
        let mut all = Vec::new();
        for (at, part) in &self.logs[kernel].parts {
            if *at != all.len() {
                return Err(format!(
                    "kernel {kernel}: a part at {at} after {} records",
                    all.len()
                ));
            }
            all.extend(part.iter().cloned());
        }
        Ok(all)
    }

    /// How many records a log has.
    pub(super) fn length(&self, kernel: usize) -> usize {
        self.logs[kernel].parts.values().map(|part| part.len()).sum()
    }

    fn is_process(&self, me: Me) -> bool {
        self.replicas
            .get(&me.replica)
            .is_some_and(|row| row.epoch == me.epoch)
    }

    pub(super) fn run(
        &mut self,
        me: Me,
        statement: &Statement,
        now: u64,
        defences: Defences,
    ) -> Result<Answer, String> {
        Ok(match statement {
            Statement::NextEpoch => {
                self.epoch += 1;
                Answer::Epoch(self.epoch)
            }
            Statement::Join { before } => {
                let free = self
                    .replicas
                    .get(&me.replica)
                    .is_none_or(|row| row.until <= now || row.epoch == *before);
                if free {
                    let (epoch, until) = (me.epoch, now + LEASE);
                    self.replicas.insert(me.replica, ReplicaRow { epoch, until });
                }
                Answer::Changed(free)
            }
            Statement::Renew => {
                let row = self.replicas.get_mut(&me.replica);
                let row = row.filter(|row| row.epoch == me.epoch && row.until > now);
                let renewed = row.map(|row| row.until = now + LEASE).is_some();
                Answer::Changed(renewed)
            }
            Statement::Leave => {
                let row = self.replicas.get_mut(&me.replica);
                let left = row.filter(|row| row.epoch == me.epoch).map(|row| row.until = 0);
                Answer::Changed(left.is_some())
            }
            Statement::Dead => {
                let dead = self.dead(me, now, defences);
                let live = self.replicas.values().filter(|row| row.until > now).count();
                Answer::Dead(
                    dead.iter().filter_map(|name| self.seen(*name)).collect(),
                    live as u32,
                )
            }
            Statement::TakeOwn => self.take(me, |row| row.replica == me.replica, usize::MAX),
            Statement::Unknown { known } => {
                let is_unknown = |(kernel, row): &(usize, &KernelRow)| {
                    row.replica == me.replica && row.fence > 1 && !known.contains(kernel)
                };
                let rows = self.kernels.iter().enumerate().filter(is_unknown);
                let found = rows.map(|(kernel, row)| (kernel, row.fence));
                Answer::Taken(if self.is_process(me) {
                    found.collect()
                } else {
                    Vec::new()
                })
            }
            Statement::TakeKernels { most } => {
                let dead = if self.is_process(me) {
                    self.dead(me, now, defences)
                } else {
                    Vec::new()
                };
                for name in &dead {
                    if let Some(row) = self.replicas.get_mut(name).filter(|_| defences.take_after_end) {
                        row.until = 0;
                    }
                }
                self.take(me, |row| dead.contains(&row.replica), *most)
            }
            Statement::TakeLog { kernel } => {
                if self.kernels[*kernel].replica != me.replica || !self.is_process(me) {
                    return Ok(Answer::Log(None));
                }
                self.logs[*kernel].writer = me;
                Answer::Log(Some(self.records(*kernel)?))
            }
            Statement::Commit { parts } => {
                let mut done = Vec::new();
                for part in parts.iter() {
                    let log = &mut self.logs[part.kernel];
                    if log.writer == me || !defences.log_epoch {
                        log.write(part);
                        done.push(part.kernel);
                    }
                }
                Answer::Committed(done)
            }
        })
    }

    /// Other replicas whose lease has ended.
    fn dead(&self, me: Me, now: u64, defences: Defences) -> Vec<usize> {
        let ended = |row: &ReplicaRow| row.until <= now || !defences.take_after_end;
        let others = self.replicas.iter().filter(|(name, _)| **name != me.replica);
        others
            .filter(|(_, row)| ended(row))
            .map(|(name, _)| *name)
            .collect()
    }

    /// What is left of a dead replica, if anything is.
    fn seen(&self, name: usize) -> Option<DeadReplica> {
        let sandboxes = self.kernels.iter().filter(|row| row.replica == name).count();
        (sandboxes > 0).then(|| DeadReplica {
            name: name.to_string(),
            places: vec![HERE.to_owned()],
            sandboxes: sandboxes as u32,
        })
    }

    /// Takes kernels under the next fencing epoch of each.
    fn take(&mut self, me: Me, which: impl Fn(&KernelRow) -> bool, most: usize) -> Answer {
        let mut taken = Vec::new();
        if self.is_process(me) {
            for (kernel, row) in self.kernels.iter_mut().enumerate() {
                if taken.len() < most && which(row) {
                    (row.replica, row.fence) = (me.replica, row.fence + 1);
                    taken.push((kernel, row.fence));
                }
            }
        }
        Answer::Taken(taken)
    }
}

impl Log {
    fn write(&mut self, part: &Part) {
        for record in part.batch.iter() {
            let meta = RecordMeta::decode(&record.meta);
            if RecordKind::from_byte(record.kind) == Some(RecordKind::Request) {
                self.requests.insert(key_of(&record.body));
            } else if let Some(lane) = meta.lane {
                self.stored[lane] = self.stored[lane].max(meta.link);
            }
        }
        self.parts.insert(part.at, Arc::clone(&part.batch));
    }
}
