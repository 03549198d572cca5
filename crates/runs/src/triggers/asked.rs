//! Runs of triggers that a client asks for.

use himalia_engine::Object;
use himalia_model::{Action, EngineError, Principal};
use himalia_schedules::Overlap;
use himalia_skills::address;
use himalia_store::TriggerRecord;
use serde_json::json;
use uuid::Uuid;

use super::definition::{Detail, Times, definition, detail, stored};
use super::kind::TriggerKind;
use super::{MAX_OPEN_RUNS, TRIES, busy, new_run};
use crate::Commands;
use crate::run::{RunState, id_of_run};
use crate::workflows::StartedRun;

const MAX_KEY_BYTES: usize = 256;

/// A run of a trigger that a client asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedRun {
    /// The same key again is the same run, if it is the same request.
    pub key: Option<String>,
    /// The policy while an earlier run is in progress; `None`: the policy of the trigger for its due times.
    pub overlap: Option<Overlap>,
}

impl Commands {
    pub(crate) async fn run_trigger(
        &self,
        principal: &Principal,
        kind: TriggerKind,
        text: &str,
        asked: AskedRun,
    ) -> Result<StartedRun, EngineError> {
        self.allow(principal, Action::Execute, Object::Schedules)?;
        self.services.check_open()?;
        let key = asked.key.as_deref();
        if key.is_some_and(|key| !(1..=MAX_KEY_BYTES).contains(&key.len())) {
            let reason = format!("must have 1 to {MAX_KEY_BYTES} bytes");
            return Err(EngineError::bad_request("idempotency_key", reason));
        }
        let id = Uuid::new_v4();
        let key = match key {
            Some(key) => format!("asked {}", address(json!([principal.name(), key]))),
            None => format!("asked {id}"),
        };
        for _ in 0..TRIES {
            let record = self.find_trigger(principal, kind, text).await?;
            if let Some(started) = self.asked_before(&record, &key, &asked).await? {
                return Ok(started);
            }
            if let Err(error) = self.check_open_runs(&record, asked.overlap).await {
                // The open run may be that of the same request at the same time.
                let same = self.asked_before(&record, &key, &asked).await?;
                return same.ok_or(error);
            }
            let mut new = Detail::new(RunState::Queued);
            new.asked_by = Some(principal.name().to_owned());
            new.asked_overlap = asked.overlap;
            let now = self.trigger_time().await?;
            let run = new_run(&record, id, key.clone(), now, &new)?;
            let _room = self.room(&record.owner, run.detail.len()).await?;
            // It changes the trigger, so that of two requests at once the second one sees the run of the first one.
            let changed = self
                .services
                .store()
                .change_trigger(record, Some(run.clone()))
                .await;
            if changed.map_err(stored)? {
                self.triggers.wake();
                return Ok(StartedRun::of(id_of_run(run.id), true));
            }
        }
        Err(busy())
    }

    /// The run that was asked for with this key before.
    async fn asked_before(
        &self,
        record: &TriggerRecord,
        key: &str,
        asked: &AskedRun,
    ) -> Result<Option<StartedRun>, EngineError> {
        let found = self
            .services
            .store()
            .trigger_run_of(record.id, key.to_owned())
            .await;
        let Some(run) = found.map_err(stored)? else {
            return Ok(None);
        };
        if detail(&run)?.asked_overlap != asked.overlap {
            return Err(EngineError::KeyReused);
        }
        Ok(Some(StartedRun::of(id_of_run(run.id), false)))
    }

    /// A run more must not be one too many.
    async fn check_open_runs(
        &self,
        record: &TriggerRecord,
        overlap: Option<Overlap>,
    ) -> Result<(), EngineError> {
        let open = self.services.store().count_open_trigger_runs(record.id).await;
        let open = usize::try_from(open.map_err(stored)?).unwrap_or(0);
        let conflict = |reason: String| Err(EngineError::Conflict { reason });
        if open >= MAX_OPEN_RUNS {
            return conflict(format!("{open} runs of this {} have not ended", record.kind));
        }
        let own = definition(record)?.times.map(|times: Times| times.overlap);
        if open > 0 && overlap.or(own) == Some(Overlap::Skip) {
            return conflict(format!(
                "an earlier run of this {} is in progress; with \"overlap\": \"allow\" another one starts",
                record.kind
            ));
        }
        Ok(())
    }
}
