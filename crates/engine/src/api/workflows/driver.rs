//! What drives runs: a task for each run that continues at this replica. It owns the state of the run, writes what changes, and starts and stops
//! what the run says. Whatever happens to it, the next task reads the run from the store and continues.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use himalia_journal::may_block;
use himalia_model::{EngineError, Principal};
use himalia_session::Room;
use himalia_store::{RUNNING, ReplicaRecord, StepsWritten, StoreError, WorkflowRunEnd, WorkflowRunRecord};
use himalia_workflows::{AttemptId, AttemptStatus, Effect, End, Failure, Outcome, Run, RunStatus};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::definitions::Definitions;
use super::pauses::Pauses;
use super::runs::LOOK;
use super::starter::{GATEWAY, Starter, token_ended};
use super::step::step_run;
use super::{prompts, records};
use crate::api::Commands;

/// Reports of attempts that wait for the task of their run.
const REPORTS: usize = 64;
/// How often a replica looks for runs whose process has gone.
const CLAIM: Duration = Duration::from_secs(5);
/// How often runs are forgotten that ended too long ago.
const FORGET: Duration = Duration::from_mins(10);
/// How long a run is kept after its end.
const KEPT: Duration = Duration::from_hours(30 * 24);
/// Pauses after errors of the store.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(500), Duration::from_secs(30));

/// The runs that continue at this replica.
#[derive(Debug, Default)]
pub(crate) struct Drivers {
    open: Mutex<HashMap<String, Driver>>,
    pub(super) definitions: Definitions,
}

#[derive(Debug)]
struct Driver {
    wake: Arc<Notify>,
    changed: watch::Sender<()>,
    /// The caller who started it, once it was read.
    starter: Option<Starter>,
}

impl Drivers {
    /// Tells the task of a run to look at the store, if it is here.
    pub(super) fn wake(&self, id: &str) {
        if let Some(driver) = self.open.lock().get(id) {
            driver.wake.notify_one();
        }
    }

    /// Tells when something of a run has changed, if its task is here. It ends with the task.
    pub(super) fn changed(&self, id: &str) -> Option<watch::Receiver<()>> {
        self.open.lock().get(id).map(|driver| driver.changed.subscribe())
    }

    fn set_starter(&self, id: &str, starter: &Starter) {
        if let Some(driver) = self.open.lock().get_mut(id) {
            driver.starter = Some(starter.clone());
        }
    }

    /// Tells the tasks of runs of these starters to look.
    fn wake_of(&self, has_ended: impl Fn(&Starter) -> bool) {
        for driver in self.open.lock().values() {
            if driver.starter.as_ref().is_some_and(&has_ended) {
                driver.wake.notify_one();
            }
        }
    }

    fn tell(&self, id: &str) {
        if let Some(driver) = self.open.lock().get(id) {
            driver.changed.send_replace(());
        }
    }
}

/// What the task of an attempt says.
#[derive(Debug)]
pub(super) enum Report {
    /// Where it runs.
    Started {
        place: AttemptId,
        session: String,
        execution: Option<String>,
    },
    /// Its session is at another replica.
    Elsewhere(AttemptId, ReplicaRecord),
    /// What came of it.
    Finished(AttemptId, Outcome),
}

/// Why a task stops working on what it has read.
enum Stop {
    /// The run has ended, or another replica has it.
    Over,
    /// What it has read is old.
    Stale,
    /// The store does not work.
    Store(EngineError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Store(super::stored(error))
    }
}

/// The attempts of one run that have a task.
struct Attempts {
    tasks: JoinSet<()>,
    open: HashMap<AttemptId, AbortHandle>,
    /// Those of them whose sessions are at other replicas.
    elsewhere: HashSet<AttemptId>,
    reports: mpsc::Sender<Report>,
    /// True if the run ends because its token is not valid any more.
    without_rights: bool,
}

impl Commands {
    /// Continues with the runs that an earlier process of this gateway left, or one of another replica, until the engine stops.
    pub(crate) async fn keep_workflows(self) {
        let mut claims = interval(CLAIM);
        claims.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut forgets = interval(FORGET);
        forgets.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut tokens = self.tokens.issued();
        loop {
            let ended = |starter: &Starter| self.triggers.knows_tokens() && !self.may_continue(starter);
            self.workflows.wake_of(ended);
            tokio::select! {
                () = self.inner.draining.cancelled() => return,
                Ok(()) = tokens.changed() => {}
                _ = claims.tick() => match self.inner.store().claim_workflow_runs().await {
                    Ok(ids) => {
                        for id in &ids {
                            self.drive(id);
                        }
                    }
                    Err(StoreError::Closed | StoreError::LeaseLost) => return,
                    Err(error) => tracing::warn!(%error, "cannot look for runs of workflows to continue with"),
                },
                _ = forgets.tick() => {
                    let kept = i64::try_from(KEPT.as_micros()).unwrap_or(i64::MAX);
                    let before = self.inner.config.clock.stored_micros().saturating_sub(kept);
                    if let Err(error) = self.inner.store().forget_workflow_runs(before).await {
                        tracing::warn!(%error, "cannot forget runs of workflows that ended long ago");
                    }
                }
            }
        }
    }

    /// Starts the task of a run, unless it is there.
    pub(super) fn drive(&self, id: &str) {
        let wake = Arc::new(Notify::new());
        {
            let mut open = self.workflows.open.lock();
            if open.contains_key(id) {
                return;
            }
            let driver = Driver {
                wake: Arc::clone(&wake),
                changed: watch::Sender::new(()),
                starter: None,
            };
            open.insert(id.to_owned(), driver);
        }
        let (commands, id) = (self.clone(), id.to_owned());
        self.inner.background.spawn(async move {
            let stop = commands.inner.draining.clone();
            tokio::select! {
                biased;
                // What runs continues in its sandbox, and the next gateway finds it.
                () = stop.cancelled() => {}
                () = Box::pin(commands.drive_run(&id, &wake)) => {}
            }
            commands.workflows.open.lock().remove(&id);
        });
    }

    async fn drive_run(&self, id: &str, wake: &Notify) {
        let (reports, mut reported) = mpsc::channel(REPORTS);
        let mut attempts = Attempts {
            tasks: JoinSet::new(),
            open: HashMap::new(),
            elsewhere: HashSet::new(),
            reports,
            without_rights: false,
        };
        let mut pauses = PAUSES;
        loop {
            let worked = self.work_on(id, wake, &mut attempts, &mut reported, &mut pauses);
            match worked.await {
                Ok(()) | Err(Stop::Stale) => pauses.reset(),
                Err(Stop::Over) => return,
                Err(Stop::Store(error)) => {
                    tracing::warn!(run = id, %error, "the run of a workflow cannot continue now");
                    sleep(pauses.take()).await;
                }
            }
        }
    }

    /// Reads a run, and works on it until that has to be done again.
    async fn work_on(
        &self,
        id: &str,
        wake: &Notify,
        attempts: &mut Attempts,
        reported: &mut mpsc::Receiver<Report>,
        pauses: &mut Pauses,
    ) -> Result<(), Stop> {
        let record = self.inner.store().workflow_run(id.to_owned()).await?;
        let record = record
            .filter(|record| record.brief.status == RUNNING)
            .ok_or(Stop::Over)?;
        let steps = self.inner.store().workflow_steps(id.to_owned()).await?;
        let starter = Starter::read(&record.principal).map_err(Stop::Store)?;
        let principal = &starter.principal;
        self.tokens_known(&starter).await;
        self.workflows.set_starter(id, &starter);
        let workflow = self.workflow_of(&record.brief).await.map_err(Stop::Store)?;
        let mut run = records::run(workflow, &record, steps).map_err(Stop::Store)?;
        // Outputs of up to 8 MiB are copied: in a turn, and on no thread that other tasks wait for.
        let is_cancelled = record.brief.cancelled_by.is_some();
        let begun = self.in_turn(principal, || Ok(run.begin(self.now_micros(), is_cancelled)));
        let mut begun = begun.await.map_err(Stop::Store)?;
        attempts.without_rights = record.brief.cancelled_by.as_deref() == Some(GATEWAY)
            || self
                .end_without_rights(id, &starter, &mut run, &mut begun)
                .await
                .map_err(Stop::Store)?;
        self.act(&record, principal, &run, begun, attempts).await?;
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        looks.tick().await;
        loop {
            let due = run.due().map(|due| self.until(due));
            let tick = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            // Until the outputs of an attempt are written.
            let mut room = None;
            let mut over = None;
            let mut effects = tokio::select! {
                Some(report) = reported.recv() => match report {
                    Report::Started { place, session, execution } => {
                        attempts.elsewhere.remove(&place);
                        run.started(&place, &session, execution.as_deref())
                    }
                    Report::Elsewhere(place, replica) => {
                        self.hand_over(id, place, &replica, attempts).await?;
                        Vec::new()
                    }
                    Report::Finished(place, outcome) => {
                        attempts.open.remove(&place);
                        attempts.elsewhere.remove(&place);
                        let (outcome, held) = self.with_room(&record.brief.owner, outcome).await;
                        room = held;
                        let now = self.now_micros();
                        let effects = may_block(|| run.finished(&place, outcome, now));
                        over = Some(place);
                        effects
                    }
                },
                () = wake.notified() => self.signals(id, &mut run, &mut attempts.without_rights).await?,
                // Another replica may have written an answer.
                _ = looks.tick(), if self.inner.store().is_shared() => self.signals(id, &mut run, &mut attempts.without_rights).await?,
                () = tick => run.tick(self.now_micros()),
            };
            while attempts.tasks.try_join_next().is_some() {}
            if !attempts.without_rights {
                let ending = self.end_without_rights(id, &starter, &mut run, &mut effects);
                attempts.without_rights = ending.await.map_err(Stop::Store)?;
            }
            let acted = self.act(&record, principal, &run, effects, attempts).await;
            if let (Some(place), Ok(()) | Err(Stop::Over)) = (over, &acted) {
                // What came of it is written.
                self.end_attempt(principal, id, place);
            }
            drop(room);
            acted?;
            pauses.reset();
        }
    }

    /// Gives a run to the replica that has the session of an attempt, unless something of it runs here.
    async fn hand_over(
        &self,
        id: &str,
        place: AttemptId,
        replica: &ReplicaRecord,
        attempts: &mut Attempts,
    ) -> Result<(), Stop> {
        attempts.elsewhere.insert(place);
        let here = attempts.open.keys().any(|one| !attempts.elsewhere.contains(one));
        let given = !here
            && self
                .inner
                .store()
                .hand_over_workflow_run(id.to_owned(), replica.epoch)
                .await?;
        if given {
            tracing::info!(
                run = id,
                replica = replica.name,
                "the run of a workflow continues where its session is"
            );
            return Err(Stop::Over);
        }
        Ok(())
    }

    /// What others have written of a run: answers, and that it is to end, `without_rights` if its token is not valid any more.
    async fn signals(&self, id: &str, run: &mut Run, without_rights: &mut bool) -> Result<Vec<Effect>, Stop> {
        let record = self.inner.store().workflow_run(id.to_owned()).await?;
        let record = record
            .filter(|record| record.brief.status == RUNNING)
            .ok_or(Stop::Over)?;
        let now = self.now_micros();
        let mut effects = Vec::new();
        let waits = |status: AttemptStatus| status == AttemptStatus::Waiting;
        if run.attempts().any(|attempt| waits(attempt.status)) {
            for given in self.inner.store().step_answers(id.to_owned()).await? {
                effects.extend(run.answered(&given.step, &given.answer, &given.by, now));
            }
        }
        if let Some(by) = record.brief.cancelled_by {
            *without_rights |= by == GATEWAY;
            effects.extend(run.cancel(now));
        }
        Ok(effects)
    }

    /// Does what a run says: writes first, then starts and stops, and its end last.
    async fn act(
        &self,
        record: &WorkflowRunRecord,
        principal: &Principal,
        run: &Run,
        effects: Vec<Effect>,
        attempts: &mut Attempts,
    ) -> Result<(), Stop> {
        let id = &record.brief.id;
        let (mut written, mut others) = (Vec::new(), Vec::new());
        for effect in effects {
            match effect {
                Effect::Write(attempt) => {
                    let prompt = prompts::question(run, &attempt).map_err(Stop::Store)?;
                    written.push(records::record(*attempt, prompt));
                }
                other => others.push(other),
            }
        }
        if !written.is_empty() {
            let asks = written.iter().any(|step| step.prompt.is_some());
            match self
                .inner
                .store()
                .write_workflow_steps(id.clone(), written)
                .await?
            {
                StepsWritten::Done => {
                    self.workflows.tell(id);
                    if asks {
                        self.triggers.asks.notify_one();
                    }
                }
                StepsWritten::Stale => return Err(Stop::Stale),
                StepsWritten::Lost => return Err(Stop::Over),
            }
        }
        for effect in others {
            match effect {
                Effect::Write(_) => {}
                Effect::Start(place, inputs) => {
                    if attempts.open.contains_key(&place) {
                        continue;
                    }
                    let known = run.attempts().find(|attempt| attempt.place == place);
                    let Some(step) = step_run(record, principal, run, known, inputs) else {
                        continue;
                    };
                    let (commands, reports) = (self.clone(), attempts.reports.clone());
                    let task = attempts.tasks.spawn(async move {
                        Box::pin(commands.run_step(step, &reports)).await;
                    });
                    attempts.open.insert(place, task);
                }
                Effect::Stop(place) => {
                    if let Some(task) = attempts.open.remove(&place) {
                        task.abort();
                    }
                    attempts.elsewhere.remove(&place);
                    self.end_attempt(principal, id, place);
                }
                Effect::End(mut end) => {
                    if attempts.without_rights && end.status == RunStatus::Cancelled {
                        end.failure = Some(token_ended());
                    }
                    let end = self.in_turn(principal, || Ok(records::end(*end, self.now_micros())));
                    let end = end.await.map_err(Stop::Store)?;
                    let (end, _room) = self.end_with_room(&record.brief.owner, end).await;
                    let status = end.status.clone();
                    if self.inner.store().end_workflow_run(id.clone(), end).await? {
                        tracing::info!(run = %id, workflow = record.brief.workflow, %status, "a run of a workflow has ended");
                    }
                    self.workflows.tell(id);
                    return Err(Stop::Over);
                }
            }
        }
        Ok(())
    }

    /// The same with room for its outputs, or its failure if there is none for them.
    async fn with_room(&self, owner: &str, outcome: Outcome) -> (Outcome, Option<Room>) {
        let Outcome::Done(outputs) = &outcome else {
            return (outcome, None);
        };
        match self.room(owner, outputs.to_string().len()).await {
            Ok(room) => (outcome, Some(room)),
            Err(error) => {
                let failed = Outcome::Failed {
                    failure: Failure::new(error.code(), &error.to_string()),
                    again: false,
                };
                (failed, None)
            }
        }
    }

    /// The end of a run with room for its outputs, or as a failure if there is none for them.
    async fn end_with_room(&self, owner: &str, end: WorkflowRunEnd) -> (WorkflowRunEnd, Option<Room>) {
        let bytes = end.outputs.as_ref().map_or(0, String::len);
        if bytes == 0 {
            return (end, None);
        }
        match self.room(owner, bytes).await {
            Ok(room) => (end, Some(room)),
            Err(error) => {
                let failed = End {
                    status: RunStatus::Failed,
                    outputs: None,
                    failure: Some(Failure::new(error.code(), &error.to_string())),
                    step: None,
                    item: None,
                };
                (records::end(failed, end.ended_micros), None)
            }
        }
    }

    /// Ends the session of an attempt, beside what else is to be done.
    fn end_attempt(&self, principal: &Principal, run: &str, place: AttemptId) {
        let (commands, principal, run) = (self.clone(), principal.clone(), run.to_owned());
        self.inner.background.spawn(async move {
            commands.stop_step(&principal, &run, &place).await;
        });
    }

    pub(super) fn now_micros(&self) -> i64 {
        self.inner.config.clock.stored_micros()
    }

    fn until(&self, micros: i64) -> Instant {
        let wait = u64::try_from(micros.saturating_sub(self.now_micros())).unwrap_or(0);
        Instant::now() + Duration::from_micros(wait)
    }
}
