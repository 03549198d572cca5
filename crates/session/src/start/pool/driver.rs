//! The task of one pool: it alone touches the state machine.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use himalia_model::{PoolConfig, PoolStatus};
use himalia_provisioner::SandboxId;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::task::TaskTracker;

use super::core::{Core, Counts, Effect, Event, Rules};
use super::member::PooledKernel;
use crate::SessionManager;

/// Messages to the task that wait. Claims wait for room; there are never more starts under way than the pool is large.
const INBOX: usize = 256;

/// Interval of checks if the machines of waiting kernels are to be emptied.
const LOOK: Duration = Duration::from_secs(10);

/// Messages to the task.
#[derive(Debug)]
pub(super) enum Message {
    /// With the member that was held for it.
    Claim(Option<u64>, oneshot::Sender<Option<PooledKernel>>),
    Hold(oneshot::Sender<Option<u64>>),
    Release(u64),
    Started(u64, Box<Result<PooledKernel, String>>),
    Died(u64),
    Leaving(Vec<u64>),
    Stale,
    Close(oneshot::Sender<()>),
}

/// A pool, as the rest of the engine sees it.
#[derive(Clone, Debug)]
pub struct Pool {
    template: String,
    inbox: mpsc::Sender<Message>,
    counts: Arc<Mutex<Counts>>,
}

impl Pool {
    pub(crate) fn start(inner: &Arc<SessionManager>, template: &str, config: PoolConfig) -> Self {
        let (inbox, messages) = mpsc::channel(INBOX);
        let rules = Rules {
            size: config.size,
            max: config.max,
            max_age: u64::try_from(config.max_age.as_micros()).unwrap_or(u64::MAX),
        };
        let core = Core::new(rules);
        let counts = Arc::new(Mutex::new(core.counts(0)));
        let task = Task {
            inner: Arc::clone(inner),
            template: template.to_owned(),
            core,
            members: HashMap::new(),
            claims: HashMap::new(),
            holds: HashMap::new(),
            next_claim: 0,
            counts: Arc::clone(&counts),
            me: inbox.clone(),
            ends: TaskTracker::new(),
            begun: Instant::now(),
        };
        inner.background.spawn(task.run(messages));
        Self {
            template: template.to_owned(),
            inbox,
            counts,
        }
    }

    /// A kernel that is ready, the one that was held for the caller first; `None` when there is none, or the gateway stops. It is the
    /// caller's to use or to end.
    pub(crate) async fn claim(&self, held: Option<u64>) -> Option<PooledKernel> {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Message::Claim(held, reply)).await.ok()?;
        answer.await.ok().flatten()
    }

    /// Holds a kernel that is ready for one caller, for a few seconds; `None` when there is none.
    pub(crate) async fn hold(&self) -> Option<u64> {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Message::Hold(reply)).await.ok()?;
        answer.await.ok().flatten()
    }

    /// Releases a held kernel, if it was not claimed.
    pub(crate) fn release(&self, member: u64) {
        // Otherwise it is held until its time has passed.
        let _ = self.inbox.try_send(Message::Release(member));
    }

    /// Replaces the waiting kernels, since their template has changed.
    pub(crate) async fn stale(&self) {
        // A task that has ended holds nothing stale.
        let _ = self.inbox.send(Message::Stale).await;
    }

    /// Ends what waits. Returns when it is gone.
    pub(crate) async fn close(&self) {
        let (reply, done) = oneshot::channel();
        if self.inbox.send(Message::Close(reply)).await.is_ok() {
            let _ = done.await;
        }
    }

    pub fn status(&self) -> PoolStatus {
        let counts = self.counts.lock().clone();
        PoolStatus {
            template: self.template.clone(),
            ready: counts.ready,
            starting: counts.starting,
            target: counts.target,
            size: counts.size,
            max: counts.max,
            hits: counts.hits,
            misses: counts.misses,
            failures: counts.failures,
            problem: counts.problem,
        }
    }
}

struct Task {
    inner: Arc<SessionManager>,
    template: String,
    core: Core,
    members: HashMap<u64, PooledKernel>,
    claims: HashMap<u64, oneshot::Sender<Option<PooledKernel>>>,
    holds: HashMap<u64, oneshot::Sender<Option<u64>>>,
    next_claim: u64,
    counts: Arc<Mutex<Counts>>,
    me: mpsc::Sender<Message>,
    /// Kernels that are being ended, or were being started when the pool was closed.
    ends: TaskTracker,
    begun: Instant,
}

impl Task {
    async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        let mut sharers = self.inner.replica.living.subscribe();
        self.step(Event::Sharers(*sharers.borrow_and_update()));
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let deadline = self.core.deadline(self.now());
            let message = tokio::select! {
                message = messages.recv() => message,
                () = until(deadline.map(|at| self.begun + Duration::from_micros(at))) => {
                    self.step(Event::Tick);
                    continue;
                }
                Ok(()) = sharers.changed() => {
                    self.step(Event::Sharers(*sharers.borrow_and_update()));
                    continue;
                }
                _ = looks.tick() => {
                    self.look();
                    continue;
                }
            };
            match message {
                None => return,
                Some(Message::Close(done)) => return self.close(messages, done).await,
                Some(message) => self.take(message),
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Claim(held, reply) => {
                let claim = self.number();
                self.claims.insert(claim, reply);
                self.step(match held {
                    Some(member) => Event::ClaimHeld { claim, member },
                    None => Event::Claim(claim),
                });
            }
            Message::Hold(reply) => {
                let claim = self.number();
                self.holds.insert(claim, reply);
                self.step(Event::Hold(claim));
            }
            Message::Release(member) => self.step(Event::Release(member)),
            Message::Started(member, started) => match *started {
                Ok(pooled) => {
                    self.watch(member, &pooled);
                    self.members.insert(member, pooled);
                    self.step(Event::Ready(member));
                }
                Err(problem) => {
                    tracing::warn!(template = %self.template, problem, "cannot start a kernel for a pool");
                    self.step(Event::Failed(member, problem));
                }
            },
            Message::Died(member) => {
                if let Some(pooled) = self.members.remove(&member) {
                    tracing::warn!(template = %self.template, "a pooled kernel has died");
                    self.ends.spawn(pooled.end());
                    self.step(Event::Died(member));
                }
            }
            Message::Leaving(members) => {
                for member in members {
                    if self.members.contains_key(&member) {
                        tracing::info!(template = %self.template, "a pooled kernel is replaced: its machine is to be emptied");
                        self.step(Event::Leaving(member));
                    }
                }
            }
            Message::Stale => self.step(Event::Stale),
            Message::Close(_) => {}
        }
    }

    /// A number for a claim.
    fn number(&mut self) -> u64 {
        let claim = self.next_claim;
        self.next_claim += 1;
        claim
    }

    fn step(&mut self, event: Event) {
        let now = self.now();
        let mut out = Vec::new();
        self.core.step(event, now, &mut out);
        for effect in out {
            self.carry_out(effect);
        }
        let counts = self.core.counts(now);
        self.inner.store.set_ready(&self.template, counts.ready);
        *self.counts.lock() = counts;
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Start(member) => {
                let (inner, template, me) = (Arc::clone(&self.inner), self.template.clone(), self.me.clone());
                self.ends.spawn(async move {
                    let started = Box::pin(inner.start_pooled(&template)).await;
                    let started = started.map_err(|error| error.to_string());
                    let message = Message::Started(member, Box::new(started));
                    if let Err(unheard) = me.send(message).await
                        && let Message::Started(_, started) = unheard.0
                        && let Ok(pooled) = *started
                    {
                        pooled.end().await;
                    }
                });
            }
            Effect::Grant { claim, member } => {
                let (reply, pooled) = (self.claims.remove(&claim), self.members.remove(&member));
                let Some(reply) = reply else { return };
                if let Err(Some(pooled)) = reply.send(pooled) {
                    // Used or not, it was promised to one caller.
                    self.ends.spawn(pooled.end());
                }
            }
            Effect::Held { claim, member } => {
                let reply = self.holds.remove(&claim);
                if reply.is_none_or(|reply| reply.send(Some(member)).is_err()) {
                    // The caller has gone.
                    self.step(Event::Release(member));
                }
            }
            Effect::Miss { claim } => {
                self.holds.remove(&claim);
                if let Some(reply) = self.claims.remove(&claim) {
                    // The caller may have gone.
                    let _ = reply.send(None);
                }
            }
            Effect::End(member) => {
                // One that is still being started is ended when it is up.
                if let Some(pooled) = self.members.remove(&member) {
                    self.ends.spawn(pooled.end());
                }
            }
        }
    }

    /// Tells the task when a member is not fit to be claimed any more.
    fn watch(&self, member: u64, pooled: &PooledKernel) {
        let (unfit, me) = (pooled.unfit(), self.me.clone());
        tokio::spawn(async move {
            unfit.await;
            // The pool may be closed.
            let _ = me.send(Message::Died(member)).await;
        });
    }

    /// Asks whether the machines of kernels that wait are to be emptied.
    fn look(&self) {
        let waiting: Vec<(u64, SandboxId)> = self
            .members
            .iter()
            .map(|(member, pooled)| (*member, pooled.handle.lease().id()))
            .collect();
        let Some(pooled) = self.members.values().next() else {
            return;
        };
        let (provisioner, me) = (Arc::clone(pooled.handle.lease().provisioner()), self.me.clone());
        let template = self.template.clone();
        tokio::spawn(async move {
            let ids = waiting.iter().map(|(_, id)| *id).collect();
            match provisioner.leaving(ids).await {
                Ok(leaving) => {
                    let leaves = |(member, id): &(u64, SandboxId)| leaving.contains(id).then_some(*member);
                    let members: Vec<u64> = waiting.iter().filter_map(leaves).collect();
                    if !members.is_empty() {
                        // The pool may be closed.
                        let _ = me.send(Message::Leaving(members)).await;
                    }
                }
                Err(error) => {
                    tracing::debug!(%template, %error, "cannot look at the machines of pooled kernels");
                }
            }
        });
    }

    /// Ends everything, what is being started included.
    async fn close(mut self, mut messages: mpsc::Receiver<Message>, done: oneshot::Sender<()>) {
        self.step(Event::Close);
        self.ends.close();
        let ends = self.ends.clone();
        loop {
            let message = tokio::select! {
                biased;
                message = messages.recv() => message,
                // The last word of a task that has ended may still wait: it can be a kernel that is to be ended.
                () = ends.wait() => messages.try_recv().ok(),
            };
            match message {
                Some(Message::Close(other)) => drop(other),
                Some(message) => self.take(message),
                None => break,
            }
        }
        let _ = done.send(());
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
