//! Everything there is, and what can happen to it.

use std::collections::{BTreeMap, BTreeSet};

use himalia_lease::Term;

use super::super::rng::Rng;
use super::super::world::spec;
use super::actor::{Actor, settings};
use super::clients::Relayed;
use super::database::{Answer, Database, Statement};
use super::process::{Call, Process, beat};
use super::sandbox::{Cable, Sandbox, Transport};
use super::{Defences, REPLICAS};
use crate::core::Core;
use crate::event::{Command, Event, Timestamp};

#[derive(Debug)]
pub(super) struct Machine {
    /// How fast its clock is, in thousandths.
    rate: u64,
    offset: u64,
    pub(super) paused_until: u64,
    pub(super) process: Option<u64>,
    /// When a process starts.
    pub(super) start_at: u64,
    /// The epoch of the last process with its data directory; 0: the directory is new.
    pub(super) known: u64,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) rng: Rng,
    /// The time of the database; the clocks of processes have another speed.
    pub(super) now: u64,
    pub(super) defences: Defences,
    pub(super) database: Database,
    /// It does nothing until then.
    pub(super) stalled_until: u64,
    pub(super) calls: Vec<Call>,
    pub(super) machines: Vec<Machine>,
    pub(super) processes: BTreeMap<u64, Process>,
    next_process: u64,
    pub(super) sandboxes: Vec<Sandbox>,
    pub(super) cables: Vec<Cable>,
    pub(super) relayed: Vec<Relayed>,
    pub(super) next_id: [u64; 3],
    /// Requests of clients that have a reply, by kernel.
    pub(super) asked: Vec<BTreeSet<String>>,
    /// What was shown to clients, by kernel.
    pub(super) visible: Vec<Vec<u64>>,
    pub(super) is_quiet: bool,
    pub(super) kills_left: u32,
    pub(super) pauses_left: u32,
    pub(super) handovers_left: u32,
    pub(super) stalls_left: u32,
    pub(super) losses_left: u32,
    pub(super) breaks_left: u32,
    pub(super) holds_left: u32,
    trace: Option<Vec<String>>,
}

impl World {
    pub(super) fn new(seed: u64, defences: Defences, trace: bool) -> Result<Self, String> {
        let mut rng = Rng::new(seed);
        let kernels = 1 + rng.index(4);
        let machine = |rng: &mut Rng| Machine {
            rate: 850 + rng.below(301),
            offset: 1 + rng.below(1_000_000_000),
            paused_until: 0,
            process: None,
            start_at: 0,
            known: 0,
        };
        let mut world = Self {
            now: 1,
            defences,
            database: Database::default(),
            stalled_until: 0,
            calls: Vec::new(),
            machines: (0..REPLICAS).map(|_| machine(&mut rng)).collect(),
            processes: BTreeMap::new(),
            next_process: 1,
            sandboxes: (0..kernels).map(|_| Sandbox::new(&mut rng)).collect(),
            cables: Vec::new(),
            relayed: Vec::new(),
            next_id: [0; 3],
            asked: vec![BTreeSet::new(); kernels],
            visible: vec![Vec::new(); kernels],
            is_quiet: false,
            kills_left: rng.small(4),
            pauses_left: rng.small(5),
            handovers_left: rng.small(3),
            stalls_left: rng.small(3),
            losses_left: rng.small(12),
            breaks_left: rng.small(6),
            holds_left: rng.small(6),
            trace: trace.then(Vec::new),
            rng,
        };
        for replica in 0..REPLICAS {
            world.first(replica);
        }
        for kernel in 0..kernels {
            world.create(kernel)?;
        }
        // A kernel that no process has started yet ends with its owner.
        world.settle(1)?;
        world.is_quiet = false;
        Ok(world)
    }

    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9} {}", self.now / 1000, text()));
        }
    }

    pub(super) fn print(&self) {
        for line in self.trace.iter().flatten() {
            println!("{line}");
        }
    }

    /// A replica that has joined already.
    fn first(&mut self, replica: usize) {
        let me = self.database.first(replica);
        let local = self.local(replica);
        let id = self.start_process(replica);
        let term = self.granted(local);
        self.machines[replica].known = me.epoch;
        if let Some(process) = self.processes.get_mut(&id) {
            process.has_joined(me, term, local);
        }
    }

    fn create(&mut self, kernel: usize) -> Result<(), String> {
        let replica = self.rng.index(REPLICAS);
        let Some(id) = self.machines[replica].process else {
            return Ok(());
        };
        let now = Timestamp {
            mono: self.local(replica),
            wall: self.now,
        };
        let Some(process) = self.processes.get_mut(&id) else {
            return Ok(());
        };
        let me = process.me;
        let core = Core::new(settings(me.epoch), now);
        process.claims.insert(kernel, 1);
        process
            .actors
            .insert(kernel, Actor::new(core, (kernel, 1), me.epoch, None));
        self.database.insert(me);
        if let Transport::Unix(bound) = &mut self.sandboxes[kernel].transport {
            *bound = Some(id);
        }
        let command = Command::Start(Box::new(spec()));
        self.order(id, kernel, Event::Command { waiter: 0, command })
    }

    pub(super) fn start_process(&mut self, machine: usize) -> u64 {
        let id = self.next_process;
        self.next_process += 1;
        let local = self.local(machine);
        self.processes.insert(id, Process::new(machine, local));
        self.machines[machine].process = Some(id);
        self.note(|| format!("process {id} starts as replica {machine}"));
        id
    }

    /// What a statement gives that was sent at this time of the process's clock.
    pub(super) fn granted(&self, asked: u64) -> Term {
        if self.defences.half_lease {
            Term::granted(asked, beat().lease())
        } else {
            Term::UNLIMITED
        }
    }

    /// The time of a machine, which continues while its processes are paused.
    fn local(&self, machine: usize) -> u64 {
        let Machine { rate, offset, .. } = self.machines[machine];
        offset + self.now * rate / 1000
    }

    pub(super) fn local_of(&self, process: u64) -> u64 {
        self.processes
            .get(&process)
            .map_or(0, |process| self.local(process.machine))
    }

    /// Processes that run now.
    pub(super) fn running(&self) -> Vec<u64> {
        let machines = self.machines.iter();
        machines
            .filter(|machine| machine.paused_until <= self.now)
            .filter_map(|machine| machine.process)
            .collect()
    }

    pub(super) fn runs(&self, process: u64) -> bool {
        self.running().contains(&process)
    }

    /// A process ends by itself, or is killed.
    pub(super) fn end(&mut self, id: u64) {
        let Some(process) = self.processes.get(&id) else {
            return;
        };
        let machine = process.machine;
        let kernels: Vec<usize> = process.actors.keys().copied().collect();
        for kernel in kernels {
            self.stop_actor(id, kernel);
        }
        self.processes.remove(&id);
        for cable in 0..self.cables.len() {
            if self.cables[cable].process == id {
                self.gateway_closes(cable);
                if self.rng.percent(30) {
                    self.hold(cable);
                }
            }
        }
        for at in 0..self.calls.len() {
            if self.calls[at].process == id {
                self.calls[at].forgotten = true;
                self.delay(at);
            }
        }
        let pause = 100_000 + self.rng.below(8_000_000);
        let machine = &mut self.machines[machine];
        (machine.process, machine.start_at) = (None, self.now + pause);
    }

    /// Something happens to one statement: it is done, or its answer arrives.
    pub(super) fn database_step(&mut self, at: usize) -> Result<bool, String> {
        if self.calls[at].answer.is_none() {
            if self.now < self.stalled_until || self.now < self.calls[at].not_before {
                return Ok(false);
            }
            if !self.is_quiet && self.losses_left > 0 && self.rng.percent(4) {
                return self.lose(at).map(|()| true);
            }
            let (me, statement) = (self.calls[at].me, self.calls[at].statement.clone());
            let answer = self.database.run(me, &statement, self.now, self.defences)?;
            if let (Statement::TakeLog { kernel }, Answer::Log(Some(log))) = (&statement, &answer) {
                self.check_log(*kernel, log)?;
            }
            if !matches!(statement, Statement::Dead | Statement::Renew) {
                self.note(|| format!("database: {statement:.60?} of {me:?}: {answer:.60?}"));
            }
            self.calls[at].answer = Some(answer);
            if self.calls[at].forgotten {
                self.calls.remove(at);
            }
            return Ok(true);
        }
        let process = self.calls[at].process;
        if !self.processes.contains_key(&process) || self.calls[at].forgotten {
            self.calls.remove(at);
            return Ok(true);
        }
        if !self.runs(process) {
            return Ok(false);
        }
        let mut call = self.calls.remove(at);
        let answer = call.answer.take();
        self.answered(process, call.connection, answer, Some(call));
        Ok(true)
    }
}
