//! The task of one kernel in a process: the real [`Core`], which acts only while the lease of its process is valid.

use std::sync::Arc;

use himalia_journal::{NewRecord, Record};
use himalia_lease::GIVEN_UP;
use himalia_shim_protocol::{Lane, PROTOCOL_MAX, PerLane, ToGateway, Welcome};

use super::super::shim::KERNEL;
use super::super::wire::{Down, parsed};
use super::super::world::fingerprint;
use super::database::{Fenced, Part};
use super::sandbox::Transport;
use super::taking::Adoption;
use super::world::World;
use crate::core::{Core, Settings};
use crate::event::{Effect, Event, Timestamp};

/// How long a shim has to call a process that has taken its kernel over.
const ADOPTION_GRACE: u64 = GIVEN_UP.as_micros() as u64;

#[derive(Debug)]
pub(super) struct Actor {
    pub(super) core: Core,
    pub(super) fenced: Fenced,
    epoch: u64,
    /// What is in its log, as it was read and written by this process.
    pub(super) records: Vec<Arc<Record>>,
    /// The batch that is being committed.
    pub(super) committing: Option<Vec<NewRecord>>,
    /// What has become of it.
    pub(super) committed: Option<bool>,
    lanes: PerLane<Option<usize>>,
    /// Connections on which nothing was read yet.
    pub(super) arrivals: Vec<usize>,
    /// What is to be written to connections.
    queued: Vec<(usize, Down)>,
    deadline: Option<u64>,
}

impl Actor {
    pub(super) fn new(core: Core, fenced: Fenced, epoch: u64, deadline: Option<u64>) -> Self {
        Self {
            core,
            fenced,
            epoch,
            records: Vec::new(),
            committing: None,
            committed: None,
            lanes: PerLane::default(),
            arrivals: Vec::new(),
            queued: Vec::new(),
            deadline,
        }
    }
}

pub(super) fn settings(epoch: u64) -> Settings {
    Settings {
        kernel: KERNEL,
        epoch,
        restart_limit: 5,
        grace_ms: 100,
        message_bytes: himalia_wire::Limits::KERNEL.message_bytes,
    }
}

impl World {
    pub(super) fn actor(&mut self, process: u64, kernel: usize) -> Option<&mut Actor> {
        self.processes.get_mut(&process)?.actors.get_mut(&kernel)
    }

    /// Whether a shim that calls is heard, or called.
    pub(super) fn listens(&self, process: u64, kernel: usize) -> bool {
        self.processes
            .get(&process)
            .is_some_and(|process| process.actors.contains_key(&kernel))
    }

    fn times(&self, process: u64) -> Timestamp {
        Timestamp {
            mono: self.local_of(process),
            wall: self.now,
        }
    }

    /// The actor of a kernel whose log was read.
    pub(super) fn start_actor(&mut self, id: u64, adoption: Adoption) -> Result<(), String> {
        let Adoption { fenced, epoch, log } = adoption;
        // It would take the socket away from the process that has the kernel now.
        if !self.may_act(id) {
            return Ok(());
        }
        let (kernel, now) = (fenced.0, self.times(id));
        let log = log.unwrap_or_default();
        let records = numbered(0, &log, now.wall);
        let read = |seq: u64| records.get(usize::try_from(seq).ok()?.checked_sub(1)?).cloned();
        let core = Core::recover(settings(epoch), now, None, &records, read)?;
        let mut actor = Actor::new(core, fenced, epoch, Some(now.mono + ADOPTION_GRACE));
        self.shows(kernel, &records, 0)?;
        actor.records = records;
        if let Transport::Unix(bound) = &mut self.sandboxes[kernel].transport {
            *bound = Some(id);
        }
        self.note(|| {
            format!(
                "process {id} adopts kernel {kernel} under epoch {epoch}, {} records",
                log.len()
            )
        });
        if let Some(process) = self.processes.get_mut(&id) {
            process.actors.insert(kernel, actor);
        }
        self.round(id, kernel, |_, _, _| Ok(()))
    }

    /// The actor ends, and the kernel stays.
    pub(super) fn stop_actor(&mut self, id: u64, kernel: usize) {
        let actor = self
            .processes
            .get_mut(&id)
            .and_then(|process| process.actors.remove(&kernel));
        let Some(actor) = actor else { return };
        self.note(|| format!("process {id} leaves kernel {kernel}"));
        let lanes = Lane::ALL.into_iter().filter_map(|lane| actor.lanes[lane]);
        for cable in lanes.chain(actor.arrivals) {
            self.gateway_closes(cable);
        }
    }

    /// Whether the process may act, by its own clock.
    pub(super) fn may_act(&self, id: u64) -> bool {
        self.processes
            .get(&id)
            .is_some_and(|process| process.term.is_valid(self.local_of(id)))
    }

    /// One thing that an actor does, if it may.
    pub(super) fn round(
        &mut self,
        id: u64,
        kernel: usize,
        work: impl FnOnce(&mut Self, &mut Actor, Timestamp) -> Result<(), String>,
    ) -> Result<(), String> {
        if !self.may_act(id) {
            self.stop_actor(id, kernel);
            return Ok(());
        }
        let now = self.times(id);
        let Some(process) = self.processes.get_mut(&id) else {
            return Ok(());
        };
        let Some(mut actor) = process.actors.remove(&kernel) else {
            return Ok(());
        };
        if !self.database.has(process.me, actor.fenced) {
            let owner = self.database.owner(kernel);
            return Err(format!(
                "process {id} acts on kernel {kernel}, which replica {owner} has taken"
            ));
        }
        work(self, &mut actor, now)?;
        let at = actor.records.len();
        let process = self.processes.get_mut(&id).ok_or("a process ended in a round")?;
        if actor.committing.is_none()
            && let Some(batch) = actor.core.take_batch()
        {
            process.commits.push_back(Part {
                kernel,
                at,
                batch: Arc::new(batch.clone()),
            });
            actor.committing = Some(batch);
        }
        process.actors.insert(kernel, actor);
        // It may be paused before it writes.
        if self.is_quiet || self.rng.percent(80) {
            self.flush(id, kernel);
        }
        Ok(())
    }

    /// Writes what is queued. Nothing is checked any more.
    pub(super) fn flush(&mut self, id: u64, kernel: usize) {
        let Some(actor) = self.actor(id, kernel) else {
            return;
        };
        for (cable, down) in std::mem::take(&mut actor.queued) {
            let wire = &mut self.cables[cable].wire;
            if wire.gateway && wire.shim {
                wire.to_shim.push_back(down);
            }
        }
    }

    /// What is due.
    pub(super) fn actor_tick(&mut self, id: u64, kernel: usize) -> Result<(), String> {
        let local = self.local_of(id);
        let Some(actor) = self.actor(id, kernel) else {
            return Ok(());
        };
        if actor.lanes.now.is_some() && actor.lanes.data.is_some() {
            actor.deadline = None;
        }
        let expired = actor.deadline.is_some_and(|at| at <= local) && actor.arrivals.is_empty();
        let due = actor.core.deadline().is_some_and(|at| at <= local);
        if expired && self.may_act(id) {
            return Err(format!(
                "process {id} gives up kernel {kernel}, whose shim is there"
            ));
        }
        let Some(actor) = self.actor(id, kernel) else {
            return Ok(());
        };
        if let Some(done) = actor.committed.take() {
            return self.written(id, kernel, done);
        }
        if due || !self.may_act(id) {
            return self.round(id, kernel, |_, actor, now| step(actor, Event::Tick, now));
        }
        Ok(())
    }

    /// A batch is in the log, or is refused.
    fn written(&mut self, id: u64, kernel: usize, done: bool) -> Result<(), String> {
        if !done {
            self.stop_actor(id, kernel);
            return Ok(());
        }
        self.round(id, kernel, |world, actor, now| {
            let batch = actor.committing.take().ok_or("a commit of nothing")?;
            let first = actor.records.len();
            actor.records.extend(numbered(first, &batch, now.wall));
            world.shows(kernel, &actor.records, first)?;
            let first_seq = first as u64 + 1;
            step(actor, Event::Written { first_seq, batch }, now)
        })
    }

    pub(super) fn order(&mut self, id: u64, kernel: usize, event: Event) -> Result<(), String> {
        self.round(id, kernel, |_, actor, now| step(actor, event, now))
    }

    /// The process takes one frame, or notices that the other end is gone.
    pub(super) fn gateway_takes(&mut self, id: u64, kernel: usize, lane: Lane) -> Result<bool, String> {
        let Some(actor) = self
            .processes
            .get_mut(&id)
            .and_then(|process| process.actors.get_mut(&kernel))
        else {
            return Ok(false);
        };
        let cables = &mut self.cables;
        if let Some(at) = actor.arrivals.iter().position(|id| cables[*id].lane == lane) {
            let cable = actor.arrivals.remove(at);
            let Some(bytes) = cables[cable].wire.to_gateway.pop_front() else {
                return Ok(true);
            };
            let ToGateway::Hello(hello) = parsed(&bytes) else {
                return Err("the first frame must be a hello".to_owned());
            };
            if hello.epoch_seen > actor.epoch && self.defences.shim_epoch {
                self.gateway_closes(cable);
                return Ok(true);
            }
            let before = actor.lanes[lane].replace(cable);
            if let Some(before) = before {
                self.gateway_closes(before);
            }
            self.round(id, kernel, |_, actor, now| step(actor, Event::Hello(hello), now))?;
            return Ok(true);
        }
        let Some(cable) = actor.lanes[lane] else {
            return Ok(false);
        };
        let wire = &mut cables[cable].wire;
        if let Some(bytes) = wire.to_gateway.pop_front() {
            let event = Event::Shim(lane, parsed(&bytes));
            self.round(id, kernel, |_, actor, now| step(actor, event, now))?;
            return Ok(true);
        }
        if wire.shim {
            return Ok(false);
        }
        wire.gateway = false;
        actor.lanes[lane] = None;
        self.round(id, kernel, |_, actor, now| {
            step(actor, Event::LaneClosed(lane), now)
        })?;
        Ok(true)
    }

    /// A process shows records to clients, those from `first` on for the first time.
    fn shows(&mut self, kernel: usize, records: &[Arc<Record>], first: usize) -> Result<(), String> {
        let seen = &mut self.visible[kernel];
        for (at, record) in records.iter().enumerate().skip(first) {
            let shown = fingerprint(record);
            match seen.get(at) {
                Some(seen) if *seen == shown => {}
                None if at == seen.len() => seen.push(shown),
                _ => {
                    return Err(format!(
                        "kernel {kernel}: record {} was seen with another content",
                        at + 1
                    ));
                }
            }
        }
        Ok(())
    }

    /// A log that a process has read has all that was seen of it.
    pub(super) fn check_log(&self, kernel: usize, log: &[NewRecord]) -> Result<(), String> {
        let records = numbered(0, log, 0);
        let found: Vec<u64> = records.iter().map(|record| fingerprint(record)).collect();
        if found.starts_with(&self.visible[kernel]) {
            return Ok(());
        }
        Err(format!(
            "kernel {kernel}: a record that was seen is not in the log"
        ))
    }
}

/// One event, and what follows from it for the shim.
fn step(actor: &mut Actor, event: Event, now: Timestamp) -> Result<(), String> {
    let mut effects = Vec::new();
    actor.core.step(event, now, &mut effects);
    for effect in effects {
        let (lane, down) = match effect {
            Effect::Welcome(lane, resume) => (
                lane,
                Down::Welcome(Welcome {
                    protocol: PROTOCOL_MAX,
                    epoch: actor.epoch,
                    resume: vec![resume],
                }),
            ),
            Effect::Send(lane, pending) => (lane, Down::Request(pending)),
            Effect::Ack(lane, link) => (Lane::Now, Down::Ack(lane, link)),
            Effect::Fetch(seq) => {
                let at = usize::try_from(seq).ok().and_then(|seq| seq.checked_sub(1));
                let record = at.and_then(|at| actor.records.get(at)).cloned();
                step(actor, Event::Fetched { seq, record }, now)?;
                continue;
            }
            Effect::Ended { .. } | Effect::WantSandbox => {
                return Err(format!("kernel {} is given up", actor.fenced.0));
            }
            Effect::Done(..) | Effect::ProcessStarted(..) | Effect::CheckMemory | Effect::MeasureDisk => {
                continue;
            }
        };
        if let Some(cable) = actor.lanes[lane] {
            actor.queued.push((cable, down));
        }
    }
    Ok(())
}

/// Records as they are read.
fn numbered(before: usize, batch: &[NewRecord], at_micros: u64) -> Vec<Arc<Record>> {
    let records = (before as u64 + 1..).zip(batch).map(|(seq, new)| {
        let NewRecord { kind, meta, body } = new.clone();
        Arc::new(Record {
            seq,
            at_micros,
            kind,
            meta,
            body,
        })
    });
    records.collect()
}
