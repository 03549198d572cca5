//! The task of one kernel: it alone touches the state machine, the two connections and the log's writing end.
//!
//! Each round takes one thing that happened, control before data, and a bounded number of those that wait behind it;
//! then what is to be journaled goes to the journal in one write, and what follows from that to the shim.

mod close_link;
mod effects;

use std::collections::HashMap;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use himalia_journal::{NewRecord, StagedBatch};
use himalia_link::{Arrival, Connection};
use himalia_metrics::JournalTimes;
use himalia_model::{Clock, DiskUse, KernelId};
use himalia_shim_protocol::{Hello, Lane, PerLane, ToGateway};
use himalia_wire::Channel;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};

use crate::core::Core;
use crate::event::{Answer, CommandError, Effect, Event, Timestamp};
use crate::handle::{Envelope, Handle, Mailboxes, Move, Order, Stage};
use crate::host::KernelHost;
use crate::life::Phase;
use crate::link::Link;

/// Messages of a client's lane that are taken in one round.
const PER_ROUND: usize = 32;

#[derive(Debug)]
pub struct Actor {
    /// The state machine.
    pub core: Core,
    /// Handle of the kernel for the rest of the gateway.
    pub handle: Arc<Handle>,
    /// The receiving ends of the handle.
    pub mailboxes: Mailboxes,
    /// Connections of the shim; `None` once the link is not listened on any more.
    pub arrivals: Option<mpsc::Receiver<Arrival>>,
    pub link_kernel: u16,
    /// Owner of the kernel: its session.
    pub host: Box<dyn KernelHost>,
    /// Tells, once, how the sandbox ended; `None` when it was gone from the beginning.
    pub sandbox_exit: Option<oneshot::Receiver<String>>,
    /// Ends the actor and leaves the kernel running.
    pub stop: CancellationToken,
    /// Ends what listens and watches for the sandbox.
    pub done: DropGuard,
    /// Channel on which the kernel asks for a new sandbox.
    pub wants: mpsc::Sender<KernelId>,
    /// Without a call of the shim by then the sandbox is given up.
    pub adoption_deadline: Option<Instant>,
    /// Epoch of this gateway.
    pub epoch: u64,
    /// Zero of the monotonic clock.
    pub started: Instant,
    /// Clock for ages.
    pub time: Clock,
    /// Clock for the times of its log.
    pub journal_times: JournalTimes,
}

/// State that exists only while the kernel runs.
struct RunningActor {
    actor: Actor,
    /// Completes on [`Actor::stop`].
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
    lanes: PerLane<Option<Connection>>,
    waiters: HashMap<u64, oneshot::Sender<Result<Answer, CommandError>>>,
    next_waiter: u64,
    /// Answers to callers; they are given when what they speak of can be seen.
    answers: Vec<(u64, Result<Answer, CommandError>)>,
    effects: Vec<Effect>,
    protocol: u16,
    /// Numbers of records that the state machine wants to see.
    fetches: Vec<u64>,
    /// Tells whether a process had run out of memory, once for each question.
    memory: (mpsc::Sender<bool>, mpsc::Receiver<bool>),
    /// Tells the space that the files take, once for each question.
    disk: (mpsc::Sender<Option<DiskUse>>, mpsc::Receiver<Option<DiskUse>>),
    /// The kernel has ended, to be forgotten or not.
    ended: Option<bool>,
    roll_due: bool,
    /// A batch that is being committed where the log is shared.
    committing: Option<CommittingBatch>,
}

/// A batch on its way to the place where a shared log is kept.
struct CommittingBatch {
    staged: StagedBatch,
    batch: Vec<NewRecord>,
    /// When it was begun.
    begun: std::time::Instant,
}

enum Wake {
    Stop,
    Order(Option<Order>),
    Move(Option<Move>),
    Arrival(Arrival),
    Lane(Lane, std::io::Result<()>),
    Urgent(Option<Envelope>),
    Shell(Option<Envelope>),
    SandboxExit(Option<String>),
    Memory(bool),
    Disk(Option<DiskUse>),
    Deadline,
    Committed(Result<(), oneshot::error::RecvError>),
}

impl Actor {
    /// Runs until the kernel has ended, or `stop`.
    pub async fn run(self) {
        let mut running = RunningActor {
            stopped: Box::pin(self.stop.clone().cancelled_owned()),
            actor: self,
            lanes: PerLane {
                now: None,
                data: None,
            },
            waiters: HashMap::new(),
            next_waiter: 1,
            answers: Vec::new(),
            effects: Vec::new(),
            protocol: 0,
            fetches: Vec::new(),
            memory: mpsc::channel(1),
            disk: mpsc::channel(1),
            ended: None,
            roll_due: false,
            committing: None,
        };
        if running.actor.core.snapshot().phase == Phase::Ended {
            running.ended = Some(true);
        } else if running.actor.sandbox_exit.is_none() {
            running.ended = Some(false);
        }
        running.write_and_send(running.now());
        loop {
            match running.ended.take() {
                None => {}
                Some(true) => return running.end().await,
                Some(false) => running.bury().await,
            }
            let wake = running.wait().await;
            if !running.actor.host.may_act() {
                tracing::warn!(kernel = %running.actor.handle.id(), "this gateway may not act on a kernel any more");
                return;
            }
            if matches!(wake, Wake::Committed(Err(_))) {
                tracing::warn!(kernel = %running.actor.handle.id(), "the log of a kernel has another owner");
                return;
            }
            if matches!(wake, Wake::Stop) {
                running.commit_rest().await;
                running.write_and_send(running.now());
                return;
            }
            running.round(wake);
        }
    }
}

impl RunningActor {
    async fn wait(&mut self) -> Wake {
        let Self {
            actor,
            stopped,
            lanes,
            memory: (_, memory),
            disk: (_, disk),
            committing,
            ..
        } = self;
        let takes_output = actor.core.takes_output();
        let takes_urgent = actor.core.takes_requests(Channel::Control);
        let takes_shell = actor.core.takes_requests(Channel::Shell);
        let deadline = actor
            .core
            .deadline()
            .map(|mono| actor.started + Duration::from_micros(mono));
        let deadline = match (deadline, actor.adoption_deadline) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let Actor {
            mailboxes,
            arrivals,
            sandbox_exit,
            ..
        } = actor;
        let (now, data) = (&mut lanes.now, &mut lanes.data);
        tokio::select! {
            biased;
            wake = poll_fn(|cx| {
                if stopped.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Wake::Stop);
                }
                if let Poll::Ready(order) = mailboxes.orders.poll_recv(cx) {
                    return Poll::Ready(Wake::Order(order));
                }
                if let Poll::Ready(moved) = mailboxes.moves.poll_recv(cx) {
                    return Poll::Ready(Wake::Move(moved));
                }
                match arrivals.as_mut().map(|waiting| waiting.poll_recv(cx)) {
                    Some(Poll::Ready(Some(arrival))) => return Poll::Ready(Wake::Arrival(arrival)),
                    // A closed channel is ready for ever: it is asked no more.
                    Some(Poll::Ready(None)) => *arrivals = None,
                    Some(Poll::Pending) | None => {}
                }
                Poll::Pending
            }) => wake,
            committed = poll_fn(|cx| match committing {
                Some(CommittingBatch { staged, .. }) => Pin::new(&mut staged.committed).poll(cx),
                None => Poll::Pending,
            }) => Wake::Committed(committed),
            read = poll_fn(|cx| poll_lane(now, cx, true)) => Wake::Lane(Lane::Now, read),
            envelope = mailboxes.urgent.recv(), if takes_urgent => Wake::Urgent(envelope),
            wake = poll_fn(|cx| {
                // `None`: the sandbox is not watched any more, since the runtime is ending.
                if let Some(exit) = sandbox_exit
                    && let Poll::Ready(cause) = Pin::new(exit).poll(cx)
                {
                    return Poll::Ready(Wake::SandboxExit(cause.ok()));
                }
                if let Poll::Ready(Some(killed)) = memory.poll_recv(cx) {
                    return Poll::Ready(Wake::Memory(killed));
                }
                match disk.poll_recv(cx) {
                    Poll::Ready(Some(found)) => Poll::Ready(Wake::Disk(found)),
                    _ => Poll::Pending,
                }
            }) => wake,
            () = reached(deadline) => Wake::Deadline,
            read = poll_fn(|cx| poll_lane(data, cx, takes_output)) => Wake::Lane(Lane::Data, read),
            envelope = mailboxes.shell.recv(), if takes_shell => Wake::Shell(envelope),
        }
    }

    /// One thing that happened, and a bounded number of what waits behind it.
    fn round(&mut self, wake: Wake) {
        let now = self.now();
        match wake {
            Wake::Stop => {}
            Wake::Order(order) => self.order(order, now),
            Wake::Move(moved) => self.move_to(moved, now),
            Wake::Arrival(arrival) => self.arrival(arrival, now),
            Wake::Lane(lane, Ok(())) => self.read(lane, now),
            Wake::Lane(lane, Err(error)) => self.close(lane, &error.to_string(), now),
            Wake::Urgent(envelope) | Wake::Shell(envelope) => self.request(envelope, now),
            Wake::SandboxExit(cause) => {
                self.actor.sandbox_exit = None;
                if let Some(cause) = cause {
                    self.step(Event::SandboxGone(cause), now);
                }
            }
            Wake::Memory(killed) => {
                self.actor.handle.metrics.out_of_memory.inc_by(u64::from(killed));
                self.step(Event::MemoryChecked { killed }, now);
            }
            Wake::Disk(found) => self.step(Event::DiskMeasured(found), now),
            Wake::Deadline => self.deadline(now),
            Wake::Committed(_) => self.committed(now),
        }
        for _ in 0..PER_ROUND {
            let Ok(order) = self.actor.mailboxes.orders.try_recv() else {
                break;
            };
            self.order(Some(order), now);
        }
        for _ in 0..PER_ROUND {
            let core = &self.actor.core;
            let (takes_urgent, takes_shell) = (
                core.takes_requests(Channel::Control),
                core.takes_requests(Channel::Shell),
            );
            let mailboxes = &mut self.actor.mailboxes;
            let urgent = if takes_urgent {
                mailboxes.urgent.try_recv().ok()
            } else {
                None
            };
            let shell = if takes_shell {
                mailboxes.shell.try_recv().ok()
            } else {
                None
            };
            if urgent.is_none() && shell.is_none() {
                break;
            }
            for envelope in [urgent, shell].into_iter().flatten() {
                self.request(Some(envelope), now);
            }
        }
        self.write_and_send(now);
    }

    fn now(&self) -> Timestamp {
        let mono = Instant::now().saturating_duration_since(self.actor.started);
        Timestamp {
            mono: u64::try_from(mono.as_micros()).unwrap_or(u64::MAX),
            wall: self.actor.time.micros(),
        }
    }

    /// Keeps whom to answer, under a number of its own.
    fn keep(&mut self, reply: oneshot::Sender<Result<Answer, CommandError>>) -> u64 {
        let waiter = self.next_waiter;
        self.next_waiter += 1;
        self.waiters.insert(waiter, reply);
        waiter
    }

    fn order(&mut self, order: Option<Order>, now: Timestamp) {
        let Some(Order { command, reply }) = order else {
            return;
        };
        let waiter = self.keep(reply);
        self.step(Event::Command { waiter, command }, now);
    }

    /// Continues in a new sandbox, if the one before is gone and buried.
    fn move_to(&mut self, moved: Option<Move>, now: Timestamp) {
        let Some(Move {
            host,
            link,
            sandbox_exit,
            rules,
            lost,
            reply,
        }) = moved
        else {
            return;
        };
        let waiter = self.keep(reply);
        self.step(Event::NewSandbox { waiter, rules, lost }, now);
        if self.actor.core.life.sandbox_is_gone() {
            // Refused: the caller that made it ends it.
            return;
        }
        let Link { arrivals, done, .. } = link;
        self.lanes = PerLane {
            now: None,
            data: None,
        };
        self.protocol = 0;
        self.actor.arrivals = Some(arrivals);
        self.actor.done = done;
        self.actor.sandbox_exit = Some(sandbox_exit);
        host.moved_in();
        self.actor.host = host;
    }

    fn request(&mut self, envelope: Option<Envelope>, now: Timestamp) {
        let Some(Envelope { request, share }) = envelope else {
            return;
        };
        self.step(Event::Request(request), now);
        drop(share);
    }

    fn arrival(&mut self, arrival: Arrival, now: Timestamp) {
        let Arrival {
            hello,
            protocol,
            connection,
        } = arrival;
        let Hello { lane, .. } = *hello;
        self.protocol = protocol;
        self.actor.core.set_protocol(protocol);
        // A newer connection replaces the older one.
        self.lanes[lane] = Some(connection);
        self.step(Event::Hello(hello), now);
        if self.lanes.now.is_some() && self.lanes.data.is_some() {
            self.actor.adoption_deadline = None;
        }
        self.read(lane, now);
    }

    fn read(&mut self, lane: Lane, now: Timestamp) {
        while let Some(io) = &mut self.lanes[lane] {
            let parsed = match io.next_frame() {
                Ok(None) => return,
                Ok(Some(frame)) if frame.kernel != self.actor.link_kernel => continue,
                Ok(Some(frame)) => ToGateway::parse(frame),
                Err(error) => Err(error),
            };
            match parsed {
                Ok(ToGateway::Stats { stats, .. }) => self.actor.host.measured(stats),
                Ok(frame) => self.step(Event::Shim(lane, frame), now),
                Err(error) => self.close(lane, &error.to_string(), now),
            }
        }
    }

    fn close(&mut self, lane: Lane, reason: &str, now: Timestamp) {
        tracing::debug!(kernel = %self.actor.handle.id(), lane = lane.as_str(), reason, "a lane is closed");
        self.lanes[lane] = None;
        self.step(Event::LaneClosed(lane), now);
    }

    fn deadline(&mut self, now: Timestamp) {
        if self
            .actor
            .adoption_deadline
            .is_some_and(|at| at <= Instant::now())
        {
            self.actor.adoption_deadline = None;
            self.step(Event::SandboxGone("sandbox_lost".to_owned()), now);
        }
        self.step(Event::Tick, now);
    }

    /// The kernel has ended: its log is complete. Additional kernels of its session go first, then its sandbox, if no other kernel is
    /// in it.
    async fn end(mut self) {
        self.actor.host.end_additional().await;
        if !self.actor.host.leave() {
            self.close_link().await;
        }
        self.lanes = PerLane {
            now: None,
            data: None,
        };
        self.actor.mailboxes.stage.send_replace(Stage::Complete);
        self.actor.host.clean_up(true).await;
        self.actor.mailboxes.stage.send_replace(Stage::Gone);
    }

    /// The sandbox is lost: what is left of it goes, the kernel stays listed as dead until it is deleted.
    async fn bury(&mut self) {
        self.lanes = PerLane {
            now: None,
            data: None,
        };
        self.actor.sandbox_exit = None;
        self.actor.adoption_deadline = None;
        self.actor.host.leave();
        self.actor.host.clean_up(false).await;
    }
}

/// Completes at this time; never, if there is none.
async fn reached(deadline: Option<Instant>) {
    match deadline {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

fn poll_lane(lane: &mut Option<Connection>, cx: &mut Context<'_>, read: bool) -> Poll<std::io::Result<()>> {
    let Some(connection) = lane else {
        return Poll::Pending;
    };
    if let Err(error) = connection.write_on(cx) {
        return Poll::Ready(Err(error));
    }
    if read {
        connection.poll_read(cx)
    } else {
        Poll::Pending
    }
}
