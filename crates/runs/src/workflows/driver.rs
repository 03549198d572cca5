//! The tasks that drive runs, one for each run that continues at this replica. A task owns the state of its run, writes changes, and starts
//! and stops attempts. If a task ends early, the next one reads the run from the store and continues.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use himalia_backoff::Backoff;
use himalia_journal::may_block;
use himalia_model::{EngineError, Principal};
use himalia_session::Room;
use himalia_store::{RUNNING, ReplicaRecord, StepsWritten, StoreError, WorkflowRunEnd, WorkflowRunRecord};
use himalia_workflows::{AttemptId, AttemptStatus, Effect, End, Failure, Outcome, Run, RunStatus};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::drivers::Driver;
use super::rights::{GATEWAY, token_ended};
use super::runs::LOOK;
use super::starter::Starter;
use super::step::step_run;
use super::{prompts, records};
use crate::Commands;

/// Reports of attempts that wait for the task of their run.
const REPORTS: usize = 64;
/// The time between two looks for runs whose process has gone.
const CLAIM: Duration = Duration::from_secs(5);
/// The time between two removals of old runs.
const FORGET: Duration = Duration::from_mins(10);
/// The time for which a run is kept after its end.
const KEPT: Duration = Duration::from_hours(30 * 24);
/// Pauses after errors of the store.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// A report of the task of an attempt.
#[derive(Debug)]
pub(super) enum Report {
    /// The session and the execution of the attempt are known.
    Started {
        place: AttemptId,
        session: String,
        execution: Option<String>,
    },
    /// The session is at another replica.
    Elsewhere(AttemptId, ReplicaRecord),
    /// The attempt has ended.
    Finished(AttemptId, Outcome),
}

/// The reason why a task stops working on what it has read.
enum Stop {
    /// The run has ended, or another replica has it.
    Over,
    /// The state that it has read is old.
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
    /// Attempts of these whose sessions are at other replicas.
    elsewhere: HashSet<AttemptId>,
    reports: mpsc::Sender<Report>,
    /// True if the run ends because its token is not valid any more.
    without_rights: bool,
}

impl Commands {
    /// Continues with the runs that an earlier process of this gateway left, or one of another replica, until the engine stops.
    pub(crate) async fn keep_workflows(&self) {
        let mut claims = interval(CLAIM);
        claims.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut forgets = interval(FORGET);
        forgets.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut tokens = self.engine.issued_tokens();
        loop {
            let ended = |starter: &Starter| self.triggers.knows_tokens() && !self.may_continue(starter);
            self.workflows.wake_of(ended);
            tokio::select! {
                () = self.services.stopping().cancelled() => return,
                Ok(()) = tokens.changed() => {}
                _ = claims.tick() => match self.services.store().claim_workflow_runs().await {
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
                    let before = self.services.now_micros().saturating_sub(kept);
                    if let Err(error) = self.services.store().forget_workflow_runs(before).await {
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
        self.services.spawn(async move {
            let stop = commands.services.stopping().clone();
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
                    sleep(pauses.pause()).await;
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
        pauses: &mut Backoff,
    ) -> Result<(), Stop> {
        let record = self.services.store().workflow_run(id.to_owned()).await?;
        let record = record
            .filter(|record| record.brief.status == RUNNING)
            .ok_or(Stop::Over)?;
        let steps = self.services.store().workflow_steps(id.to_owned()).await?;
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
                _ = looks.tick(), if self.services.store().is_shared() => self.signals(id, &mut run, &mut attempts.without_rights).await?,
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
                .services
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

    /// The effects of what others have written of a run: answers, and that it is to end, `without_rights` if its token is not valid any
    /// more.
    async fn signals(&self, id: &str, run: &mut Run, without_rights: &mut bool) -> Result<Vec<Effect>, Stop> {
        let record = self.services.store().workflow_run(id.to_owned()).await?;
        let record = record
            .filter(|record| record.brief.status == RUNNING)
            .ok_or(Stop::Over)?;
        let now = self.now_micros();
        let mut effects = Vec::new();
        let waits = |status: AttemptStatus| status == AttemptStatus::Waiting;
        if run.attempts().any(|attempt| waits(attempt.status)) {
            for given in self.services.store().step_answers(id.to_owned()).await? {
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
                .services
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
                    // Until the outputs are written: the disk has its turns as a processor has.
                    let _turn = self.services.turn(principal).await.map_err(Stop::Store)?;
                    let end = himalia_budget::work(usize::MAX, || records::end(*end, self.now_micros()));
                    let (end, _room) = self.end_with_room(&record.brief.owner, end).await;
                    let status = end.status.clone();
                    if self.services.store().end_workflow_run(id.clone(), end).await? {
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
        self.services.spawn(async move {
            commands.stop_step(&principal, &run, &place).await;
        });
    }

    pub(super) fn now_micros(&self) -> i64 {
        self.services.now_micros()
    }

    fn until(&self, micros: i64) -> Instant {
        let wait = u64::try_from(micros.saturating_sub(self.now_micros())).unwrap_or(0);
        Instant::now() + Duration::from_micros(wait)
    }
}
