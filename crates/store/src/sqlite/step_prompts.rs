//! Steps of runs of workflows that ask a person: rows of `workflow_steps` that have a prompt. Those that wait are in indexes.

use rusqlite::{OptionalExtension as _, Row, params};

use super::SqliteStore;
use crate::{StepAnswer, StepPromptFilter, StepPromptRecord, StoreError};

const COLUMNS: &str =
    "run, step, owner, turn, prompt, status, begun_micros, due_micros, answer, answered_by, error";

const OF_OWNER: &str = "
FROM workflow_steps WHERE status = 'waiting' AND prompt IS NOT NULL AND owner = ?1 AND (begun_micros, run, step) > (?2, ?3, ?4)
ORDER BY begun_micros, run, step LIMIT ?5";

const OF_ALL: &str = "
FROM workflow_steps WHERE status = 'waiting' AND prompt IS NOT NULL AND (turn, begun_micros, run, step) > (?1, ?2, ?3, ?4)
ORDER BY turn, begun_micros, run, step LIMIT ?5";

impl SqliteStore {
    pub(super) async fn do_step_prompts(
        &self,
        filter: StepPromptFilter,
    ) -> Result<Vec<StepPromptRecord>, StoreError> {
        self.read(move |connection| {
            let after = filter.after.unwrap_or_default();
            let (begun, run, step) = (after.begun_micros, after.run, after.step);
            let found = match filter.owner {
                Some(owner) => connection
                    .prepare_cached(&format!("SELECT {COLUMNS} {OF_OWNER}"))?
                    .query_map(params![owner, begun, run, step, filter.limit], read)?
                    .collect::<Result<_, _>>(),
                None => connection
                    .prepare_cached(&format!("SELECT {COLUMNS} {OF_ALL}"))?
                    .query_map(params![after.turn, begun, run, step, filter.limit], read)?
                    .collect::<Result<_, _>>(),
            };
            Ok(found?)
        })
        .await
    }

    pub(super) async fn do_step_prompt(
        &self,
        run: String,
        step: String,
    ) -> Result<Option<StepPromptRecord>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM workflow_steps WHERE run = ?1 AND step = ?2 AND prompt IS NOT NULL"
            ))?;
            Ok(select.query_row([&run, &step], read).optional()?)
        })
        .await
    }

    pub(super) async fn do_untold_step_prompts(
        &self,
        most: i64,
    ) -> Result<Vec<StepPromptRecord>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM workflow_steps WHERE status = 'waiting' AND prompt IS NOT NULL AND told = 0
                 ORDER BY turn, begun_micros LIMIT ?1"
            ))?;
            let rows = select.query_map([most], read)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    pub(super) async fn do_set_told(&self, steps: Vec<(String, String)>) -> Result<(), StoreError> {
        self.write(move |transaction| {
            let mut update = transaction
                .prepare_cached("UPDATE workflow_steps SET told = 1 WHERE run = ?1 AND step = ?2")?;
            for (run, step) in &steps {
                update.execute([run, step])?;
            }
            Ok(())
        })
        .await
    }

    pub(super) async fn do_step_answers(&self, run: String) -> Result<Vec<StepAnswer>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(
                "SELECT run, step, answer, answered_by FROM workflow_steps WHERE run = ?1 AND status = 'answered'",
            )?;
            let rows = select.query_map([run], |row| {
                Ok(StepAnswer {
                    run: row.get(0)?,
                    step: row.get(1)?,
                    answer: row.get(2)?,
                    by: row.get(3)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    pub(super) async fn do_run_asks(&self, run: String) -> Result<bool, StoreError> {
        self.read(move |connection| {
            let mut select = connection
                .prepare_cached("SELECT 1 FROM workflow_steps WHERE run = ?1 AND status = 'waiting'")?;
            Ok(select.exists(params![run])?)
        })
        .await
    }
}

fn read(row: &Row<'_>) -> Result<StepPromptRecord, rusqlite::Error> {
    Ok(StepPromptRecord {
        run: row.get("run")?,
        step: row.get("step")?,
        owner: row.get("owner")?,
        turn: row.get("turn")?,
        prompt: row.get("prompt")?,
        status: row.get("status")?,
        begun_micros: row.get("begun_micros")?,
        due_micros: row.get("due_micros")?,
        answer: row.get("answer")?,
        answered_by: row.get("answered_by")?,
        error: row.get("error")?,
    })
}
