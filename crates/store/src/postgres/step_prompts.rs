//! Steps of runs of workflows that ask a person: rows of `workflow_steps` that have a prompt, which all replicas share.

use tokio_postgres::Row;

use super::PostgresStore;
use super::failure::Failure;
use crate::{StepAnswer, StepPromptFilter, StepPromptRecord, StoreError};

/// Selects rows of the condition.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT run, step, owner, turn, prompt, status, begun_micros, due_micros, answer, answered_by, error
FROM himalia.workflow_steps WHERE ",
            $rest
        )
    };
}

const OF_OWNER: &str = select!(
    r#"status = 'waiting' AND prompt IS NOT NULL AND owner = $1
    AND (begun_micros, run COLLATE "C", step COLLATE "C") > ($2, $3, $4)
ORDER BY begun_micros, run COLLATE "C", step COLLATE "C" LIMIT $5"#
);

const OF_ALL: &str = select!(
    r#"status = 'waiting' AND prompt IS NOT NULL AND (turn, begun_micros, run COLLATE "C", step COLLATE "C") > ($1, $2, $3, $4)
ORDER BY turn, begun_micros, run COLLATE "C", step COLLATE "C" LIMIT $5"#
);

const ONE: &str = select!("run = $1 AND step = $2 AND prompt IS NOT NULL");

const UNTOLD: &str =
    select!("status = 'waiting' AND prompt IS NOT NULL AND NOT told ORDER BY turn, begun_micros LIMIT $1");

const TELL: &str = "
UPDATE himalia.workflow_steps SET told = true
WHERE (run, step) IN (SELECT * FROM unnest($3::text[], $4::text[]))
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const ANSWERS: &str = "
SELECT run, step, answer, answered_by FROM himalia.workflow_steps WHERE run = $1 AND status = 'answered'";

const ASKS: &str = "SELECT 1 FROM himalia.workflow_steps WHERE run = $1 AND status = 'waiting' LIMIT 1";

impl PostgresStore {
    pub(super) async fn do_step_prompts(
        &self,
        filter: StepPromptFilter,
    ) -> Result<Vec<StepPromptRecord>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let after = filter.after.unwrap_or_default();
                let (begun, run, step) = (after.begun_micros, after.run, after.step);
                let rows = match &filter.owner {
                    Some(owner) => {
                        link.query(OF_OWNER, &[owner, &begun, &run, &step, &filter.limit])
                            .await?
                    }
                    None => {
                        link.query(OF_ALL, &[&after.turn, &begun, &run, &step, &filter.limit])
                            .await?
                    }
                };
                rows.iter().map(read).collect()
            })
            .await
    }

    pub(super) async fn do_step_prompt(
        &self,
        run: String,
        step: String,
    ) -> Result<Option<StepPromptRecord>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                link.query(ONE, &[&run, &step])
                    .await?
                    .first()
                    .map(read)
                    .transpose()
            })
            .await
    }

    pub(super) async fn do_untold_step_prompts(
        &self,
        most: i64,
    ) -> Result<Vec<StepPromptRecord>, StoreError> {
        self.any_worker()?
            .run(move |link| async move { link.query(UNTOLD, &[&most]).await?.iter().map(read).collect() })
            .await
    }

    pub(super) async fn do_set_told(&self, steps: Vec<(String, String)>) -> Result<(), StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                let (runs, ids): (Vec<String>, Vec<String>) = steps.into_iter().unzip();
                link.execute(TELL, &[&replica, &me.epoch, &runs, &ids]).await?;
                Ok(())
            })
            .await
    }

    pub(super) async fn do_step_answers(&self, run: String) -> Result<Vec<StepAnswer>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let rows = link.query(ANSWERS, &[&run]).await?;
                let answer = |row: &Row| -> Result<StepAnswer, Failure> {
                    Ok(StepAnswer {
                        run: row.try_get("run")?,
                        step: row.try_get("step")?,
                        answer: row.try_get("answer")?,
                        by: row.try_get("answered_by")?,
                    })
                };
                rows.iter().map(answer).collect()
            })
            .await
    }

    pub(super) async fn do_run_asks(&self, run: String) -> Result<bool, StoreError> {
        self.any_worker()?
            .run(move |link| async move { Ok(!link.query(ASKS, &[&run]).await?.is_empty()) })
            .await
    }
}

fn read(row: &Row) -> Result<StepPromptRecord, Failure> {
    Ok(StepPromptRecord {
        run: row.try_get("run")?,
        step: row.try_get("step")?,
        owner: row.try_get("owner")?,
        turn: row.try_get("turn")?,
        prompt: row.try_get("prompt")?,
        status: row.try_get("status")?,
        begun_micros: row.try_get("begun_micros")?,
        due_micros: row.try_get("due_micros")?,
        answer: row.try_get("answer")?,
        answered_by: row.try_get("answered_by")?,
        error: row.try_get("error")?,
    })
}
