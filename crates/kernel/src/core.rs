//! The state machine of one kernel. Pure: no clock, no disk, no socket.
//!
//! The driver feeds [`Event`]s and carries out [`Effect`]s in order; after each round it takes the batch for the journal
//! ([`Core::take_batch`]), writes it, and reports that as an event too. What may only happen once a record is stored (a
//! request being sent, a message being acknowledged) waits for that report.

use std::collections::BTreeMap;

use himalia_journal::NewRecord;
use himalia_model::{ExecutionState, Unresponsive};
use himalia_shim_protocol::{KernelState, PerLane};
use himalia_wire::Channel;

use super::activity::Activity;
use super::disk::DiskWatch;
use super::early::Early;
use super::event::{Answer, Command, CommandError, Effect, Event, Now};
use super::executions::Executions;
use super::held::RequestBacklog;
use super::ledger::Ledger;
use super::life::{Life, Phase};
use super::messages::IopubParent;
use super::names::Names;
use super::outbox::Outbox;
use super::questions::Questions;
use super::readiness::Readiness;
use super::recovery::Carried;
use super::rules::{Rules, Stopwatch};
use super::writes::{Next, Writes};

/// What does not change while a kernel lives.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The kernel's number on its link; 0 is the shim.
    pub kernel: u16,
    /// Of this gateway.
    pub epoch: u64,
    /// Automatic restarts in a row after crashes.
    pub restart_limit: u32,
    /// Grace of a stop, milliseconds.
    pub grace_ms: u64,
    /// Bytes of a message of the kernel, without its framing. A larger one becomes a gap.
    pub message_bytes: usize,
}

/// What others see of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one kernel")]
pub struct Snapshot {
    /// What is being done to it.
    pub phase: Phase,
    /// What clients are told that it does.
    pub state: ExecutionState,
    /// Counts its processes.
    pub incarnation: u32,
    /// It answers, and its clients miss nothing that it says.
    pub ready: bool,
    /// Its shim is connected.
    pub connected: bool,
    /// It answers heartbeats.
    pub alive: bool,
    /// What the latest process died of, or why the kernel is over.
    pub reason: Option<String>,
    /// It runs and does not answer.
    pub unresponsive: Option<Unresponsive>,
    /// Its sandbox is gone: no process can be started in it.
    pub lost: bool,
    /// Session id of the kernel's own messages; empty before the first one.
    pub kernel_session: std::sync::Arc<str>,
}

/// Bytes that may wait for a slow disk before the driver stops reading output.
const UNWRITTEN_BYTES: usize = 16 << 20;

/// One kernel as a pure state machine: events in, effects out. Time, disk and links are all events.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one kernel")]
pub struct Core {
    pub(super) settings: Settings,
    pub(super) now: Now,
    pub(super) outbox: Outbox,
    pub(super) writes: Writes,
    pub(super) ledger: Ledger,
    pub(super) activity: Activity,
    pub(super) life: Life,
    pub(super) readiness: Readiness,
    pub(super) kernel_session: std::sync::Arc<str>,
    pub(super) iopub_parent: Option<IopubParent>,
    pub(super) held: RequestBacklog,
    pub(super) executions: Executions,
    pub(super) names: Names,
    pub(super) questions: Questions,
    /// Orders that wait for the sandbox's connections, in the order in which they came.
    pub(super) early: Vec<Early>,
    /// Requests of earlier epochs that the shim may not have accepted.
    pub(super) carried: PerLane<BTreeMap<u64, Carried>>,
    pub(super) alive: bool,
    pub(super) unresponsive: Option<Unresponsive>,
    pub(super) rules: Rules,
    pub(super) stopwatch: Stopwatch,
    pub(super) disk: DiskWatch,
    /// The kernel's latest question is for a password: its answers are not written.
    pub(super) secret_asked: bool,
    /// What the shim last said that the kernel is doing, and its incarnation.
    pub(super) met: (KernelState, u32),
    /// Rebuilt from a journal.
    pub(super) adopted: bool,
    pub(super) changed: bool,
}

impl Core {
    /// A kernel that was never started.
    pub fn new(settings: Settings, now: Now) -> Self {
        Self {
            settings,
            now,
            outbox: Outbox::new(settings.kernel, settings.epoch, PerLane::default()),
            writes: Writes::default(),
            ledger: Ledger::default(),
            activity: Activity::new(now.wall),
            life: Life::new(),
            readiness: Readiness::default(),
            kernel_session: "".into(),
            iopub_parent: None,
            held: RequestBacklog::default(),
            executions: Executions::default(),
            names: Names::default(),
            questions: Questions::default(),
            early: Vec::new(),
            carried: PerLane::default(),
            alive: true,
            unresponsive: None,
            rules: Rules {
                restart_limit: settings.restart_limit,
                ..Rules::default()
            },
            stopwatch: Stopwatch::default(),
            disk: DiskWatch::default(),
            secret_asked: false,
            met: (KernelState::New, 0),
            adopted: false,
            changed: true,
        }
    }

    /// The sandbox of a kernel that was rebuilt is gone, before anything is done with the kernel. `cause` is one line.
    pub fn sandbox_lost(&mut self, cause: String, now: Now) {
        // Nobody waits yet for what follows from it; its state is what counts.
        self.step(Event::SandboxGone(cause), now, &mut Vec::new());
    }

    /// One event. Effects are appended in the order in which they are to be carried out.
    pub(crate) fn step(&mut self, event: Event, now: Now, out: &mut Vec<Effect>) {
        self.now = now;
        match event {
            Event::Shim(lane, frame) => self.shim(lane, frame, out),
            Event::Written { first_seq, batch } => self.written(first_seq, batch, out),
            Event::Request(request) => {
                self.revive_for(&request, out);
                self.request(request);
            }
            Event::Command { waiter, command } => self.command(waiter, command, out),
            Event::Hello(hello) => self.hello(&hello, out),
            Event::LaneClosed(lane) => {
                self.outbox.lane_closed(lane);
                self.changed = true;
            }
            Event::WriteFailed { batch } => {
                self.take_back(batch, out);
            }
            Event::SandboxGone(cause) => self.sandbox_gone(cause, out),
            Event::NewSandbox { waiter, rules, lost } => self.new_sandbox(waiter, rules, lost, out),
            Event::Fetched { seq, record } => self.fetched(seq, record.as_ref()),
            Event::MemoryChecked { killed } => self.memory_checked(killed, out),
            Event::DiskMeasured(found) => self.disk_measured(found, out),
            Event::Tick => self.tick(out),
        }
        self.judge_health();
        if !self.early.is_empty() {
            self.give_held_orders(out);
        }
        self.next_execution(out);
        self.questions.give(out);
        self.outbox.ack(now.mono, out);
    }

    fn written(&mut self, first_seq: u64, batch: Vec<NewRecord>, out: &mut Vec<Effect>) {
        let then = self.writes.written(batch);
        for (seq, then) in (first_seq..).zip(&then) {
            match *then {
                Next::Nothing => {}
                Next::Stored(lane, link) => self.outbox.stored(lane, link, self.now.mono),
                Next::Send(lane, id) => {
                    self.ledger.set_seq(id, seq);
                    self.outbox.may_send(lane, id, seq, out);
                }
                Next::Greet => self.greet(out),
                Next::Submitted(waiter) => self.submitted(waiter, seq, out),
            }
        }
        self.writes.reuse(then);
        self.release();
    }

    fn tick(&mut self, out: &mut Vec<Effect>) {
        if self
            .life
            .exit
            .as_ref()
            .is_some_and(|exit| exit.deadline <= self.now.mono)
        {
            self.settle_exit(out);
        }
        let memory = self.life.exit.as_ref().and_then(|exit| exit.memory);
        if memory.is_some_and(|at| at <= self.now.mono) {
            self.memory_checked(false, out);
        }
        self.limit_execution(out);
        self.limit_questions();
        self.look_at_disk(out);
        self.limit_native(out);
        self.decide_execution();
        if self.life.phase == Phase::Running
            && self.outbox.greeted()
            && self.readiness.nudge_due(self.now.mono)
        {
            self.probe();
        }
        self.writes.end_pause(self.now.mono);
        self.held.end_pauses(self.now.mono);
        self.release();
        if self.life.stop_deadline.is_some_and(|at| at <= self.now.mono) {
            self.over("killed_by_user", out);
        }
    }

    /// When [`Event::Tick`] is wanted next, monotonic microseconds.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let nudge = self
            .readiness
            .next_nudge
            .filter(|_| self.life.phase == Phase::Running && self.outbox.greeted());
        let exit = self.life.exit.as_ref().map(|exit| exit.deadline);
        [
            nudge,
            exit,
            self.life.exit.as_ref().and_then(|exit| exit.memory),
            self.stopwatch.deadline().filter(|_| self.outbox.greeted()),
            self.disk_deadline(),
            self.execution_deadline(),
            self.questions.deadline(),
            self.life.stop_deadline,
            self.writes.retry_at(),
            self.held.pause_ends(),
            self.held_order_deadline(),
            self.outbox.ack_at(),
        ]
        .iter()
        .flatten()
        .copied()
        .min()
    }

    /// The next batch for the journal, unless one is in flight. It comes back in an event.
    pub(crate) fn take_batch(&mut self) -> Option<Vec<NewRecord>> {
        self.writes.take(self.now.mono)
    }

    /// Whether every record is in the journal, so that [`Self::checkpoint`] describes it.
    pub(crate) fn settled(&self) -> bool {
        self.writes.is_empty()
    }

    /// Whether further requests of clients are taken on the channel.
    pub(crate) fn takes_requests(&self, channel: Channel) -> bool {
        let full = channel == Channel::Shell && self.ledger.is_full();
        self.held.has_room(channel) && !full && !self.writes.failing()
    }

    /// Whether the journal refuses records at present.
    pub(crate) fn disk_failing(&self) -> bool {
        self.writes.failing()
    }

    /// Whether further output is taken, or the disk has to catch up first.
    pub(crate) fn takes_output(&self) -> bool {
        self.writes.bytes() < UNWRITTEN_BYTES
    }

    /// What others see, if it has changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Option<Snapshot> {
        std::mem::take(&mut self.changed).then(|| self.snapshot())
    }

    /// What others see.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let connected = self.outbox.greeted();
        Snapshot {
            phase: self.life.phase,
            state: self.state(),
            incarnation: self.life.incarnation,
            ready: self.readiness.is_ready() && self.life.phase == Phase::Running,
            connected,
            alive: self.alive,
            reason: self.life.reason.clone(),
            unresponsive: self.unresponsive,
            lost: self.life.sandbox_gone,
            kernel_session: self.kernel_session.clone(),
        }
    }

    /// The execution state as clients see it.
    pub(crate) fn state(&self) -> ExecutionState {
        match self.life.phase {
            Phase::New | Phase::Starting => ExecutionState::Starting,
            Phase::Restarting => ExecutionState::Restarting,
            Phase::Dead | Phase::Over => ExecutionState::Dead,
            Phase::Running | Phase::Stopping if !self.outbox.greeted() => ExecutionState::Unknown,
            Phase::Running | Phase::Stopping => self.activity.state,
        }
    }

    /// Microseconds since 1970.
    pub(crate) fn last_activity(&self) -> u64 {
        self.activity.last_micros
    }

    /// Requests whose end was not seen.
    #[cfg(test)]
    pub(super) fn open_requests(&self) -> usize {
        self.ledger.len()
    }

    /// An order of a caller.
    pub(super) fn command(&mut self, waiter: u64, command: Command, out: &mut Vec<Effect>) {
        let result = match command {
            command if self.is_early(&command) => self.hold_order(waiter, command),
            Command::Start(spec) => self.start(waiter, *spec, out),
            Command::Interrupt => self.interrupt(waiter, out),
            Command::Restart => self.restart(waiter, out),
            Command::Revive => self.revive_for_caller(waiter, out),
            Command::GiveUpSandbox(cause) => {
                self.give_up_sandbox(cause, out);
                Ok(true)
            }
            Command::Claim(claim) => self.claim(waiter, *claim, out),
            Command::Fork(fork) => self.fork(waiter, fork, out),
            Command::AddLink(socket) => self.add_link(waiter, socket, out),
            Command::Open(open) => self.open_stream(*open, out),
            Command::Ask(question) => self.ask(waiter, &question),
            Command::Submit(submission) => self.submit(waiter, *submission, out),
            Command::StopExecution(seq) => {
                let answer = Answer::Stopping(self.stop_execution(seq, out));
                out.push(Effect::Done(waiter, Ok(answer)));
                Ok(false)
            }
            Command::Input { seq, value } => self.answer_input(seq, &value),
            Command::ListExecutions => {
                let answer = Answer::Executions(self.executions.briefs().collect());
                out.push(Effect::Done(waiter, Ok(answer)));
                Ok(false)
            }
            Command::Stop(cause) => {
                self.stop(cause, out);
                Ok(true)
            }
        };
        match result {
            Ok(true) => out.push(Effect::Done(waiter, Ok(Answer::Done))),
            Ok(false) => {}
            Err(error) => out.push(Effect::Done(waiter, Err::<Answer, CommandError>(error))),
        }
    }
}
