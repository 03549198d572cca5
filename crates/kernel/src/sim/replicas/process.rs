//! One process of the gateway: its lease, what it takes over, and what it has asked of the database.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use himalia_lease::{AGAIN, Heartbeat, Next, Renewal, TakeOverPlan, Term};

use super::LEASE;
use super::actor::Actor;
use super::database::{Answer, Me, Part, Statement};
use super::taking::{Adoption, Work};
use super::world::World;

/// The pause between two attempts to join, and after a commit that failed.
const RETRY: u64 = 250_000;
/// How long a process waits for an answer of the database.
const PATIENCE: u64 = 10_000_000;
/// How long a stop waits for what is being committed.
const LAST_COMMIT: u64 = 2_000_000;

/// The connections of a process to the database; each has one statement at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    Lease,
    Work,
    Log(usize),
    Commits,
}

/// A statement on its way.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) process: u64,
    pub(super) connection: Connection,
    pub(super) me: Me,
    pub(super) statement: Statement,
    /// When it was sent, by the clock of the process.
    pub(super) asked: u64,
    pub(super) answer: Option<Answer>,
    /// No process waits for it any more.
    pub(super) forgotten: bool,
    /// It is not done before, by the clock of the database.
    pub(super) not_before: u64,
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) me: Me,
    pub(super) machine: usize,
    /// It has the name of its replica.
    pub(super) joined: bool,
    /// When it tries to join again.
    join_at: u64,
    asked: u64,
    pub(super) term: Term,
    renew_at: u64,
    pub(super) plan: TakeOverPlan,
    pub(super) work: Work,
    pub(super) look_at: u64,
    pub(super) claims: BTreeMap<usize, u64>,
    pub(super) link_epoch: u64,
    pub(super) adopting: Vec<Adoption>,
    pub(super) failed: Vec<Adoption>,
    pub(super) retry_at: u64,
    pub(super) actors: BTreeMap<usize, Actor>,
    pub(super) commits: VecDeque<Part>,
    commit_at: u64,
    /// It hands its kernels over since then.
    pub(super) stopping: Option<u64>,
}

impl Process {
    /// One that starts at this time of its own clock.
    pub(super) fn new(machine: usize, local: u64) -> Self {
        Self {
            me: Me {
                replica: machine,
                epoch: 0,
            },
            machine,
            joined: false,
            join_at: local,
            asked: local,
            term: Term::ENDED,
            renew_at: 0,
            plan: TakeOverPlan::default(),
            work: Work::Nothing,
            look_at: 0,
            claims: BTreeMap::new(),
            link_epoch: 0,
            adopting: Vec::new(),
            failed: Vec::new(),
            retry_at: 0,
            actors: BTreeMap::new(),
            commits: VecDeque::new(),
            commit_at: 0,
            stopping: None,
        }
    }

    pub(super) fn has_joined(&mut self, me: Me, term: Term, local: u64) {
        (self.me, self.joined, self.term, self.link_epoch) = (me, true, term, me.epoch);
        self.renew_at = local + micros(beat().pause());
        self.look_at = local;
    }

    /// A kernel is being adopted, or could not be until now.
    pub(super) fn is_taking(&self) -> bool {
        !matches!(self.work, Work::Nothing | Work::Look)
            || !self.adopting.is_empty()
            || !self.failed.is_empty()
    }
}

impl World {
    pub(super) fn has_call(&self, process: u64, connection: Connection) -> bool {
        self.calls
            .iter()
            .any(|call| call.process == process && call.connection == connection && !call.forgotten)
    }

    pub(super) fn call(&mut self, id: u64, connection: Connection, statement: Statement) {
        let local = self.local_of(id);
        let Some(process) = self.processes.get(&id) else {
            return;
        };
        self.calls.push(Call {
            process: id,
            connection,
            me: process.me,
            statement,
            asked: local,
            answer: None,
            forgotten: false,
            not_before: 0,
        });
    }

    /// What is due by the clock of the process.
    pub(super) fn tick(&mut self, id: u64) -> Result<(), String> {
        let local = self.local_of(id);
        let late = self
            .calls
            .iter_mut()
            .find(|call| call.process == id && !call.forgotten && local > call.asked + PATIENCE);
        if let Some(call) = late {
            call.forgotten = true;
            let connection = call.connection;
            self.answered(id, connection, None, None);
        }
        let Some(process) = self.processes.get(&id) else {
            return Ok(());
        };
        if !process.joined {
            if local >= process.join_at && !self.has_call(id, Connection::Lease) {
                self.call(id, Connection::Lease, Statement::NextEpoch);
            }
            return Ok(());
        }
        self.keep_lease(id, local);
        self.commit(id, local);
        self.keep_taking_over(id, local)?;
        self.stop_step(id, local);
        let actors = self
            .processes
            .get(&id)
            .into_iter()
            .flat_map(|process| process.actors.keys().copied());
        for kernel in actors.collect::<Vec<_>>() {
            self.actor_tick(id, kernel)?;
        }
        Ok(())
    }

    fn keep_lease(&mut self, id: u64, local: u64) {
        let Some(process) = self.processes.get(&id) else {
            return;
        };
        let (term, due) = (process.term, local >= process.renew_at);
        let waits = self.has_call(id, Connection::Lease);
        if due && !waits && term.is_valid(local) {
            self.call(id, Connection::Lease, Statement::Renew);
        } else if !term.is_valid(local) {
            // It is not waited for longer than the term.
            self.forget(id, Connection::Lease);
            self.renewed(id, Renewal::Failed);
        }
    }

    fn forget(&mut self, id: u64, connection: Connection) {
        for call in &mut self.calls {
            call.forgotten |= call.process == id && call.connection == connection;
        }
    }

    fn renewed(&mut self, id: u64, renewal: Renewal) {
        let local = self.local_of(id);
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        match beat().after(renewal, process.term, local) {
            Next::Continue(term, pause) => {
                process.term = term;
                process.renew_at = local + micros(pause);
            }
            Next::End(reason) => {
                self.note(|| format!("process {id} ends, because {reason}"));
                self.end(id);
            }
        }
    }

    /// The committer: one transaction at a time, with all that waits.
    fn commit(&mut self, id: u64, local: u64) {
        let busy = self.has_call(id, Connection::Commits);
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        if busy || local < process.commit_at || process.commits.is_empty() || !process.term.is_valid(local) {
            return;
        }
        let parts = Arc::new(process.commits.iter().cloned().collect());
        self.call(id, Connection::Commits, Statement::Commit { parts });
    }

    /// A statement has this answer; `None`: it is not known whether it was done.
    pub(super) fn answered(
        &mut self,
        id: u64,
        connection: Connection,
        answer: Option<Answer>,
        call: Option<Call>,
    ) {
        let local = self.local_of(id);
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        match (connection, answer) {
            (Connection::Lease, answer) if !process.joined => self.join(id, answer.as_ref(), call),
            (Connection::Lease, answer)
                if process.stopping.is_none()
                    || matches!(call.as_ref().map(|call| &call.statement), Some(Statement::Renew)) =>
            {
                let asked = call.map_or(0, |call| call.asked);
                let renewal = match answer {
                    Some(Answer::Changed(true)) => Renewal::Renewed(self.granted(asked)),
                    Some(_) => Renewal::Refused,
                    None => Renewal::Failed,
                };
                self.renewed(id, renewal);
            }
            // The lease was given back, or ends by itself.
            (Connection::Lease, _) => self.end(id),
            (Connection::Work, answer) => self.worked(id, answer),
            (Connection::Log(kernel), Some(Answer::Log(Some(log)))) => {
                let one = process.adopting.iter_mut().find(|one| one.fenced.0 == kernel);
                if let Some(one) = one {
                    one.log = Some(log);
                }
            }
            (Connection::Log(kernel), _) => {
                // Another process has it, or it is not known.
                if let Some(at) = process.adopting.iter().position(|one| one.fenced.0 == kernel) {
                    let one = process.adopting.remove(at);
                    process.failed.push(one);
                    process.retry_at = local + micros(AGAIN);
                }
            }
            (Connection::Commits, Some(Answer::Committed(done))) => {
                let Some(Call {
                    statement: Statement::Commit { parts },
                    ..
                }) = call
                else {
                    return;
                };
                for part in parts.iter() {
                    process.commits.pop_front();
                    if let Some(actor) = process.actors.get_mut(&part.kernel) {
                        actor.committed = Some(done.contains(&part.kernel));
                    }
                }
            }
            (Connection::Commits, _) => process.commit_at = local + RETRY,
        }
    }

    fn join(&mut self, id: u64, answer: Option<&Answer>, call: Option<Call>) {
        let local = self.local_of(id);
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        match answer {
            Some(Answer::Epoch(epoch)) => {
                process.me.epoch = *epoch;
                process.asked = call.map_or(0, |call| call.asked);
                let before = self.machines[process.machine].known;
                self.call(id, Connection::Lease, Statement::Join { before });
            }
            Some(Answer::Changed(true)) => {
                let me = process.me;
                let term = self.granted(process_asked(self, id));
                let Some(process) = self.processes.get_mut(&id) else {
                    return;
                };
                self.machines[process.machine].known = me.epoch;
                process.has_joined(me, term, local);
                process.work = Work::Own;
                self.note(|| format!("process {id} joins as {me:?}"));
                self.call(id, Connection::Work, Statement::TakeOwn);
            }
            Some(_) => process.join_at = local + RETRY,
            None => self.end(id),
        }
    }

    /// A process that hands its kernels over: their actors stop, then it gives its lease back.
    fn stop_step(&mut self, id: u64, local: u64) {
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        let Some(since) = process.stopping else { return };
        let waits = |actor: &Actor| actor.committing.is_some() && local < since + LAST_COMMIT;
        let ended: Vec<usize> = process
            .actors
            .iter()
            .filter(|(_, actor)| !waits(actor))
            .map(|(kernel, _)| *kernel)
            .collect();
        for kernel in ended {
            self.stop_actor(id, kernel);
        }
        let Some(process) = self.processes.get(&id) else {
            return;
        };
        if process.actors.is_empty() && !self.has_call(id, Connection::Lease) {
            self.note(|| format!("process {id} gives its lease back"));
            // From then on it does nothing more.
            if let Some(process) = self.processes.get_mut(&id) {
                process.adopting.clear();
            }
            self.call(id, Connection::Lease, Statement::Leave);
        }
    }
}

fn process_asked(world: &World, id: u64) -> u64 {
    world.processes.get(&id).map_or(0, |process| process.asked)
}

pub(super) fn beat() -> Heartbeat {
    Heartbeat::new(Duration::from_micros(LEASE))
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
