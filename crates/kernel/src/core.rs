//! The state machine of one kernel. Pure: no clock, no disk, no socket.
//!
//! The driver feeds [`Event`]s and carries out [`Effect`]s in order; after each round it takes the batch for the journal
//! ([`Core::take_batch`]), writes it, and reports that as an event too. What may only happen once a record is stored (a
//! request being sent, a message being acknowledged) waits for that report.

use std::sync::Arc;

use himalia_journal::NewRecord;
use himalia_model::{ExecutionState, Unresponsive};
use himalia_shim_protocol::PerLane;
use himalia_wire::Channel;

use super::activity::Activity;
use super::commands::awaiting_link::CommandsAwaitingLink;
use super::disk::watch::DiskWatch;
use super::event::{Answer, Effect, Event, Timestamp};
use super::executions::names::Names;
use super::executions::observed::Observation;
use super::executions::queue::Executions;
use super::life::Phase;
use super::life::state::Life;
use super::network::NetworkTotals;
use super::prompts::open::Prompts;
use super::prompts::prompt::OpenPrompt;
use super::questions::open::Questions;
use super::readiness::state::Readiness;
use super::requests::state::Requests;
use super::returned::ReturnedText;
use super::rules::Rules;
use super::shim::outbox::Outbox;
use super::time_limit::stopwatch::Stopwatch;
use super::tool_calls::{ModelCallTotals, ToolCallTotals, ToolCalls};
use super::writes::{Next, Writes};

/// Settings that stay the same while a kernel lives.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The kernel's number on its link; 0 is the shim.
    pub kernel: u16,
    /// Epoch of this gateway.
    pub epoch: u64,
    /// Automatic restarts in a row after crashes.
    pub restart_limit: u32,
    /// Grace of a stop, milliseconds.
    pub grace_ms: u64,
    /// Bytes of a message of the kernel, without its framing. A larger one becomes a gap.
    pub message_bytes: usize,
}

/// Public state of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one kernel")]
pub struct Snapshot {
    /// Phase: start, run, stop, end.
    pub phase: Phase,
    /// Execution state, as clients see it.
    pub state: ExecutionState,
    /// Counts its processes.
    pub incarnation: u32,
    /// It answers, and its clients miss nothing that it says.
    pub ready: bool,
    /// True if its shim is connected.
    pub connected: bool,
    /// It answers heartbeats.
    pub alive: bool,
    /// Reason why the latest process died or the kernel has ended.
    pub reason: Option<String>,
    /// It runs and does not answer.
    pub unresponsive: Option<Unresponsive>,
    /// True if its sandbox is gone: no process can be started in it.
    pub lost: bool,
    /// Session id of the kernel's own messages; empty before the first one.
    pub kernel_session: std::sync::Arc<str>,
    /// Sums of its connections to the network.
    pub network: NetworkTotals,
    /// Sums of its tool calls.
    pub tool_calls: ToolCallTotals,
    /// Sums of its model calls.
    pub model_calls: ModelCallTotals,
    /// Characters returned to models.
    pub returned: Arc<ReturnedText>,
    /// The prompts to a person that are open, in the order in which they were asked.
    pub open_prompts: Vec<OpenPrompt>,
    /// The number of the latest of them. A later one has a larger number.
    pub latest_prompt: u64,
}

/// Bytes that may wait for a slow disk before the driver stops reading output.
const UNWRITTEN_BYTES: usize = 16 << 20;

/// One kernel as a pure state machine: events in, effects out. Time, disk and links are all events.
#[derive(Debug)]
pub struct Core {
    pub(super) settings: Settings,
    pub(super) now: Timestamp,
    pub(super) outbox: Outbox,
    pub(super) writes: Writes,
    pub(super) requests: Requests,
    pub(super) activity: Activity,
    pub(super) life: Life,
    pub(super) readiness: Readiness,
    pub(super) kernel_session: std::sync::Arc<str>,
    pub(super) executions: Executions,
    pub(super) names: Names,
    pub(super) questions: Questions,
    pub(super) prompts: Prompts,
    pub(super) awaiting_link: CommandsAwaitingLink,
    pub(super) rules: Rules,
    pub(super) stopwatch: Stopwatch,
    pub(super) disk: DiskWatch,
    pub(super) network: NetworkTotals,
    pub(super) tool_calls: ToolCalls,
    pub(super) returned: Arc<ReturnedText>,
    pub(super) changed: bool,
}

/// A part of the core that has a state, and times, of its own. Events are given to the part that they are for.
struct SubMachine {
    /// Does what is due by now; comes with [`Event::Tick`].
    on_time: fn(&mut Core, &mut Vec<Effect>),
    /// When that is due next, monotonic microseconds.
    deadline: fn(&Core) -> Option<u64>,
    /// Does what any event may have made possible; comes after every event.
    after_event: fn(&mut Core, &mut Vec<Effect>),
}

/// A sub-machine that waits for nothing.
const NOTHING: SubMachine = SubMachine {
    on_time: |_, _| {},
    deadline: |_| None,
    after_event: |_, _| {},
};

/// All of them, in the order in which they are called: what ends, or frees room, is before what wants to begin.
const SUB_MACHINES: [SubMachine; 11] = [
    // The life of the kernel: a process that has ended, a stop.
    SubMachine {
        on_time: Core::expire_life,
        deadline: |core| core.life.deadline(),
        ..NOTHING
    },
    // The limit on the time of every execution.
    SubMachine {
        on_time: Core::limit_time,
        deadline: Core::time_limit_deadline,
        ..NOTHING
    },
    // The space of its files.
    SubMachine {
        on_time: Core::measure_disk,
        deadline: Core::disk_deadline,
        ..NOTHING
    },
    // Requests of clients, after a pause.
    SubMachine {
        on_time: Core::end_pauses,
        deadline: Core::pauses_end,
        ..NOTHING
    },
    // Requests of clients that were lost with a process.
    SubMachine {
        on_time: Core::answer_lost,
        deadline: Core::lost_deadline,
        after_event: Core::answer_lost,
    },
    // Whether its process answers.
    SubMachine {
        on_time: Core::probe_again,
        deadline: Core::probe_deadline,
        after_event: |core, _| core.judge_readiness(),
    },
    // Commands that wait for the link.
    SubMachine {
        deadline: |core| core.awaiting_link.deadline(),
        after_event: Core::carry_out_waiting,
        ..NOTHING
    },
    // Native executions.
    SubMachine {
        on_time: Core::limit_current,
        deadline: Core::execution_deadline,
        after_event: Core::next_execution,
    },
    // Prompts to a person.
    SubMachine {
        on_time: Core::expire_prompts,
        deadline: Core::prompts_deadline,
        after_event: Core::withdraw_prompts,
    },
    // Questions of the engine.
    SubMachine {
        on_time: |core, _| core.expire_questions(),
        deadline: |core| core.questions.deadline(),
        after_event: |core, out| core.questions.give(out),
    },
    // Acknowledgements of what the shim sent.
    SubMachine {
        deadline: |core| core.outbox.ack_at(),
        after_event: |core, out| core.outbox.ack(core.now.mono, out),
        ..NOTHING
    },
];

impl Core {
    /// A kernel that was never started.
    pub fn new(settings: Settings, now: Timestamp) -> Self {
        Self {
            settings,
            now,
            outbox: Outbox::new(settings.kernel, settings.epoch, PerLane::default()),
            writes: Writes::default(),
            requests: Requests::default(),
            activity: Activity::new(now.wall),
            life: Life::new(),
            readiness: Readiness::default(),
            kernel_session: "".into(),
            executions: Executions::default(),
            names: Names::default(),
            questions: Questions::default(),
            prompts: Prompts::default(),
            awaiting_link: CommandsAwaitingLink::default(),
            rules: Rules {
                restart_limit: settings.restart_limit,
                ..Rules::default()
            },
            stopwatch: Stopwatch::default(),
            disk: DiskWatch::default(),
            network: NetworkTotals::default(),
            tool_calls: ToolCalls::default(),
            returned: Arc::default(),
            changed: true,
        }
    }

    /// Takes the observations since the last call.
    pub(crate) fn take_observed(&mut self) -> Vec<Observation> {
        std::mem::take(&mut self.executions.observed)
    }

    /// The sandbox of a kernel that was rebuilt is gone, before anything is done with the kernel. `cause` is one line.
    pub fn sandbox_lost(&mut self, cause: String, now: Timestamp) {
        // No caller waits yet for what follows from it; its state is what counts.
        self.step(Event::SandboxGone(cause), now, &mut Vec::new());
    }

    /// One event. Effects are appended in the order in which they are to be carried out.
    pub(crate) fn step(&mut self, event: Event, now: Timestamp, out: &mut Vec<Effect>) {
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
            Event::WriteFailed { batch } => self.take_back(batch, out),
            Event::SandboxGone(cause) => self.sandbox_gone(cause, out),
            Event::NewSandbox { waiter, rules, lost } => self.new_sandbox(waiter, rules, lost, out),
            Event::Fetched { seq, record } => self.fetched(seq, record.as_ref()),
            Event::MemoryChecked { killed } => self.memory_checked(killed, out),
            Event::DiskMeasured(found) => self.disk_measured(found, out),
            Event::Tick => SUB_MACHINES
                .iter()
                .for_each(|machine| (machine.on_time)(self, out)),
        }
        for machine in &SUB_MACHINES {
            (machine.after_event)(self, out);
        }
        for (way, lost) in self.requests.take_ended_ways() {
            for step in way.spans(self.now.wall, lost) {
                Observation::Step(step).push_to(&mut self.executions.observed);
            }
        }
    }

    /// When [`Event::Tick`] is wanted next, monotonic microseconds.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let deadlines = SUB_MACHINES.iter().map(|machine| (machine.deadline)(self));
        deadlines.flatten().min()
    }

    fn written(&mut self, first_seq: u64, batch: Vec<NewRecord>, out: &mut Vec<Effect>) {
        let then = self.writes.written(batch);
        for (seq, then) in (first_seq..).zip(&then) {
            match *then {
                Next::Nothing => {}
                Next::Stored(lane, link) => self.outbox.stored(lane, link, self.now.mono),
                Next::Question { lane, link } => {
                    self.outbox.stored(lane, link, self.now.mono);
                    self.prompts.question_written(seq, self.now.wall, out);
                }
                Next::Send(lane, id) => {
                    self.requests.recorded(id, seq, self.now.wall);
                    self.outbox.may_send(lane, id, seq, out);
                }
                Next::SendAnswer { lane, id, execution } => {
                    self.requests.recorded(id, seq, self.now.wall);
                    self.outbox.may_send(lane, id, seq, out);
                    self.prompts.answer_written(execution, out);
                }
                Next::Greet => self.greet(out),
                Next::Submitted(waiter) => self.executions.submitted(waiter, seq, self.now.wall, out),
                Next::Prompted(waiter) => self.prompted(waiter, seq, out),
                Next::ApprovalUsed(waiter) => out.push(Effect::Done(waiter, Ok(Answer::Done))),
                Next::PromptEnded(prompt) => self.prompt_ended(prompt, out),
                Next::ToolCall { waiter, call } => {
                    let trace = self.requests.running_trace();
                    out.push(Effect::Done(waiter, Ok(Answer::ToolCallBegun { call, trace })));
                }
            }
        }
        self.writes.reuse(then);
        self.release();
    }

    /// The version that the sandbox speaks, as negotiated for the connection that has just come.
    pub(crate) fn set_protocol(&mut self, version: u16) {
        self.outbox.set_protocol(version);
    }

    /// The next batch for the journal, unless one is in flight. It comes back in an event.
    pub(crate) fn take_batch(&mut self) -> Option<Vec<NewRecord>> {
        self.writes.take(self.now.mono)
    }

    /// True if every record is in the journal, so that [`Self::checkpoint`] describes it.
    pub(crate) fn is_written(&self) -> bool {
        self.writes.is_empty()
    }

    /// True if more requests of clients are accepted on the channel.
    pub(crate) fn takes_requests(&self, channel: Channel) -> bool {
        self.requests.has_room(channel) && !self.writes.failing()
    }

    /// True if the journal refuses records at present.
    pub(crate) fn disk_failing(&self) -> bool {
        self.writes.failing()
    }

    /// True if more output is accepted; false if the disk has to catch up first.
    pub(crate) fn takes_output(&self) -> bool {
        self.writes.bytes() < UNWRITTEN_BYTES
    }

    /// Public state, if it has changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Option<Snapshot> {
        std::mem::take(&mut self.changed).then(|| self.snapshot())
    }

    /// Public state.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let connected = self.outbox.greeted();
        Snapshot {
            network: self.network,
            tool_calls: self.tool_calls.totals,
            model_calls: self.tool_calls.models,
            returned: Arc::clone(&self.returned),
            open_prompts: self.prompts.open_ones(),
            latest_prompt: self.prompts.latest_open(),
            phase: self.life.phase(),
            state: self.state(),
            incarnation: self.life.incarnation(),
            ready: self.readiness.is_ready() && self.life.phase() == Phase::Running,
            connected,
            alive: self.readiness.is_alive(),
            reason: self.life.reason().map(str::to_owned),
            unresponsive: self.readiness.unresponsive(),
            lost: self.life.sandbox_is_gone(),
            kernel_session: self.kernel_session.clone(),
        }
    }

    /// The execution state as clients see it.
    pub(crate) fn state(&self) -> ExecutionState {
        match self.life.phase() {
            Phase::New | Phase::Starting => ExecutionState::Starting,
            Phase::Restarting => ExecutionState::Restarting,
            Phase::Dead | Phase::Ended => ExecutionState::Dead,
            Phase::Running | Phase::Stopping if !self.outbox.greeted() => ExecutionState::Unknown,
            Phase::Running | Phase::Stopping => self.activity.state,
        }
    }

    /// Microseconds since 1970.
    pub(crate) fn last_activity(&self) -> u64 {
        self.activity.last_micros
    }
}
