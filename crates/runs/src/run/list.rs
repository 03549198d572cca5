//! The list of runs, the latest first, in pages.
//!
//! Three places have runs: rows of triggers, rows of workflows, and sessions of skills. A run that a schedule or a webhook has asked for is
//! listed by its row alone. Each place gives a page of candidates; what comes after the end of a page that is full is on a later page of all.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use himalia_engine::Object;
use himalia_model::{Action, EngineError, KernelId, Principal, SessionId, SessionInfo};
use himalia_store::{
    TriggerRecord, TriggerRun, TriggerRunFilter, TriggerRunsOf, WorkflowRunBrief, WorkflowRunFilter,
};
use uuid::Uuid;

use super::info::skill_of;
use super::{RunInfo, RunKind, RunOrigin, RunOriginKind, RunState, id_of_run, uuid_of_run};
use crate::Commands;
use crate::triggers::{TriggerKind, run_info, stored};
use crate::workflows::workflow_run_info;

/// Runs of a page, at most.
pub const MAX_RUN_PAGE: usize = 100;

/// A place in the list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunPlace {
    /// When the run was asked for, or due; microseconds since 1970.
    pub created_micros: i64,
    /// The id of the run.
    pub id: String,
}

/// A filter of the list of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Only runs of this kind.
    pub kind: Option<RunKind>,
    /// Only runs of the skill or workflow of this name.
    pub name: Option<String>,
    /// Only runs that this schedule or webhook has asked for, by its id or name.
    pub trigger: Option<(TriggerKind, String)>,
    /// Only runs with this status.
    pub status: Option<RunState>,
    /// Only runs in this session, and runs that its code has started.
    pub session: Option<SessionId>,
    /// Only runs that something of this kind has started.
    pub origin: Option<RunOriginKind>,
    /// Only runs that come after this place.
    pub after: Option<RunPlace>,
    /// At most so many, and at most [`MAX_RUN_PAGE`].
    pub limit: usize,
}

/// A page of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunPage {
    /// The latest first.
    pub runs: Vec<RunInfo>,
    /// The place after which the next page begins; `None` at the end. A page may have fewer runs than were asked for, and a next one.
    pub next: Option<RunPlace>,
}

/// A run that a page may have.
enum Candidate {
    Asked(TriggerRun),
    Workflow(WorkflowRunBrief),
    Skill(Box<SessionInfo>),
}

impl Candidate {
    fn place(&self) -> RunPlace {
        let (created_micros, id) = match self {
            Self::Asked(run) => (run.due_micros, id_of_run(run.id)),
            Self::Workflow(brief) => (brief.created_micros, brief.id.clone()),
            Self::Skill(info) => (
                i64::try_from(info.session.created_micros).unwrap_or(i64::MAX),
                id_of_run(info.kernel.id.0),
            ),
        };
        RunPlace { created_micros, id }
    }

    /// The run of a trigger that this may be.
    fn uuid(&self) -> Option<Uuid> {
        match self {
            Self::Asked(_) => None,
            Self::Workflow(brief) => uuid_of_run(&brief.id),
            Self::Skill(info) => Some(info.kernel.id.0),
        }
    }
}

/// The candidates of a page.
struct Candidates {
    all: Vec<(RunPlace, Candidate)>,
    most: usize,
    /// The end of the shortest page of a place that has more.
    end: Option<RunPlace>,
}

impl Candidates {
    /// Adds the page of one place, the latest first.
    fn add(&mut self, found: impl IntoIterator<Item = Candidate>) {
        let mut count = 0;
        for one in found {
            count += 1;
            self.all.push((one.place(), one));
        }
        if count >= self.most
            && let Some((last, _)) = self.all.last()
        {
            self.end = self.end.take().max(Some(last.clone()));
        }
    }
}

impl RunFilter {
    fn admits(&self, run: &RunInfo) -> bool {
        self.kind.is_none_or(|kind| run.kind == kind)
            && self.name.as_ref().is_none_or(|name| run.name == *name)
            && self.status.is_none_or(|status| run.status == status)
            && self.origin.is_none_or(|origin| run.origin.kind == origin)
            && self
                .session
                .is_none_or(|id| run.session == Some(id) || run.origin.is_code_of(id))
    }

    /// Returns true if runs of this kind and of one of these origins may be listed.
    fn wants(&self, kind: RunKind, origins: &[RunOriginKind]) -> bool {
        self.trigger.is_none()
            && self.kind.is_none_or(|wanted| wanted == kind)
            && self.origin.is_none_or(|origin| origins.contains(&origin))
    }

    /// Returns true if the run of a session may be listed, by what the session has of it.
    fn may_admit(&self, info: &SessionInfo) -> bool {
        let origin = RunOrigin::of_session(info);
        self.origin.is_none_or(|wanted| origin.kind == wanted)
            && self
                .session
                .is_none_or(|id| info.id() == id || origin.is_code_of(id))
            && self.name.as_ref().is_none_or(|name| skill_of(info) == Some(name))
    }

    fn is_after(&self, place: &RunPlace) -> bool {
        self.after.as_ref().is_none_or(|after| place < after)
    }
}

impl Commands {
    pub(crate) async fn runs(
        &self,
        principal: &Principal,
        filter: RunFilter,
    ) -> Result<RunPage, EngineError> {
        self.allow(principal, Action::Read, Object::Workflows)?;
        let limit = filter.limit.clamp(1, MAX_RUN_PAGE);
        let mut found = Candidates {
            all: Vec::new(),
            most: limit + 1,
            end: None,
        };
        found.add(self.asked_candidates(principal, &filter, found.most).await?);
        found.add(self.workflow_candidates(principal, &filter, found.most).await?);
        // The owner may have thousands of ended sessions.
        let skills = || self.skill_candidates(principal, &filter, limit + 1);
        found.add(self.in_turn(principal, skills).await?);
        let Candidates { mut all, end, .. } = found;
        all.retain(|(place, _)| end.as_ref().is_none_or(|end| place >= end));
        all.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
        let ids = all.iter().filter_map(|(_, one)| one.uuid()).collect();
        let by_row = self
            .services
            .store()
            .trigger_runs_among(ids)
            .await
            .map_err(stored)?;
        let by_row: HashSet<Uuid> = by_row.into_iter().collect();
        all.retain(|(_, one)| one.uuid().is_none_or(|id| !by_row.contains(&id)));
        let mut page = RunPage::default();
        let mut triggers = HashMap::new();
        let mut rest = all.into_iter();
        for (place, candidate) in rest.by_ref() {
            let info = self.listed(principal, candidate, &mut triggers).await?;
            page.runs.extend(info.filter(|run| filter.admits(run)));
            page.next = Some(place);
            if page.runs.len() >= limit {
                break;
            }
        }
        if rest.len() == 0 {
            page.next = end;
        }
        Ok(page)
    }

    /// Runs that a schedule or a webhook has asked for, or all of the owner.
    async fn asked_candidates(
        &self,
        principal: &Principal,
        filter: &RunFilter,
        most: usize,
    ) -> Result<Vec<Candidate>, EngineError> {
        let of = match &filter.trigger {
            Some((kind, text)) => TriggerRunsOf::Trigger(self.find_trigger(principal, *kind, text).await?.id),
            None => TriggerRunsOf::Owner(principal.owner().to_owned()),
        };
        let origins = [RunOriginKind::Schedule, RunOriginKind::Webhook];
        if filter.origin.is_some_and(|origin| !origins.contains(&origin)) {
            return Ok(Vec::new());
        }
        let after = filter.after.as_ref();
        let rows = TriggerRunFilter {
            of,
            after: after.map(|place| (place.created_micros, uuid_of_run(&place.id).unwrap_or_default())),
            limit: i64::try_from(most).unwrap_or(i64::MAX),
        };
        let rows = self.services.store().trigger_runs(rows).await.map_err(stored)?;
        Ok(rows.into_iter().map(Candidate::Asked).collect())
    }

    async fn workflow_candidates(
        &self,
        principal: &Principal,
        filter: &RunFilter,
        most: usize,
    ) -> Result<Vec<Candidate>, EngineError> {
        if !filter.wants(RunKind::Workflow, &[RunOriginKind::Client]) || filter.session.is_some() {
            return Ok(Vec::new());
        }
        let rows = WorkflowRunFilter {
            workflow: filter.name.clone(),
            status: filter.status.map(|status| status.as_str().to_owned()),
            after: filter
                .after
                .as_ref()
                .map(|place| (place.created_micros, place.id.clone())),
            limit: i64::try_from(most).unwrap_or(i64::MAX),
        };
        let rows = self
            .services
            .store()
            .workflow_runs(principal.owner().to_owned(), rows);
        Ok(rows
            .await
            .map_err(stored)?
            .into_iter()
            .map(Candidate::Workflow)
            .collect())
    }

    /// Sessions of the owner here that live, and the latest ones that have ended.
    fn skill_candidates(
        &self,
        principal: &Principal,
        filter: &RunFilter,
        most: usize,
    ) -> Result<Vec<Candidate>, EngineError> {
        use RunOriginKind::{Client, Code, Schedule, Step, Webhook};
        if !filter.wants(RunKind::Skill, &[Client, Code, Schedule, Step, Webhook]) {
            return Ok(Vec::new());
        }
        let live = self.engine.session_infos(principal)?;
        let all = live.into_iter().chain(self.engine.ended_sessions(principal)?);
        let is_mine = |info: &SessionInfo| info.session.owner == principal.owner();
        let mine = all.filter(|info| is_mine(info) && skill_of(info).is_some() && filter.may_admit(info));
        let mine = mine.map(|info| Candidate::Skill(Box::new(info)));
        let mut found: HashMap<RunPlace, Candidate> = mine.map(|one| (one.place(), one)).collect();
        found.retain(|place, _| filter.is_after(place));
        let mut found: Vec<(RunPlace, Candidate)> = found.into_iter().collect();
        found.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
        found.truncate(most);
        Ok(found.into_iter().map(|(_, one)| one).collect())
    }

    /// A candidate as a run; `None` if there is none, or none any more.
    async fn listed(
        &self,
        principal: &Principal,
        candidate: Candidate,
        triggers: &mut HashMap<Uuid, Option<Arc<TriggerRecord>>>,
    ) -> Result<Option<RunInfo>, EngineError> {
        match candidate {
            Candidate::Workflow(brief) => workflow_run_info(brief).map(Some),
            Candidate::Asked(run) => {
                let record = if let Some(known) = triggers.get(&run.trigger) {
                    known.clone()
                } else {
                    let found = self.services.store().trigger(run.trigger).await.map_err(stored)?;
                    let found = found.map(Arc::new);
                    triggers.insert(run.trigger, found.clone());
                    found
                };
                let Some(record) = record else {
                    return Ok(None);
                };
                // The row of a run that has not ended has its inputs.
                let view = self.in_turn(principal, || run_info(&record, &run)).await?;
                Ok(Some(view.info))
            }
            Candidate::Skill(info) => {
                let kernel: KernelId = info.kernel.id;
                let view = async {
                    match self.execution_of_run(principal, kernel).await? {
                        Some(execution) => self.skill_view(principal, execution).await.map(Some),
                        None => Ok(None),
                    }
                };
                match view.await {
                    Ok(view) => Ok(view.map(|view| view.info)),
                    Err(
                        EngineError::NotFound { .. }
                        | EngineError::Removed { .. }
                        | EngineError::SessionEnded(_)
                        | EngineError::KernelDead { .. },
                    ) => Ok(None),
                    Err(other) => Err(other),
                }
            }
        }
    }
}
