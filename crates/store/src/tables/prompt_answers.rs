//! The ids of messages that have answered prompts of a webhook.

use uuid::Uuid;

use crate::failure::Failure;
use crate::part::part;
use crate::sql::{Sql, exists, params};

part! {
    /// Messages that have answered prompts.
    PromptAnswerStore {
        /// Returns true if a message has answered a prompt of a webhook before.
        read fn has_prompt_answer(hook: Uuid, message: String) -> bool;

        /// Notes that a message has answered a prompt of a webhook. Deleted with its webhook, or by
        /// [`forget_trigger_runs`](crate::TriggerRunStore::forget_trigger_runs).
        write fn note_prompt_answer(hook: Uuid, message: String, micros: i64) -> ();
    }
}

const HELD: &str = "SELECT 1 FROM himalia.prompt_answers WHERE trigger_id = $1 AND message = $2";

const NOTE: &str = "
INSERT INTO himalia.prompt_answers (trigger_id, message, answered_micros) SELECT $1, $2, $3 WHERE {member}
ON CONFLICT DO NOTHING";

async fn has_prompt_answer(sql: &impl Sql, hook: Uuid, message: String) -> Result<bool, Failure> {
    exists(sql, HELD, params![hook, message]).await
}

async fn note_prompt_answer(sql: &impl Sql, hook: Uuid, message: String, micros: i64) -> Result<(), Failure> {
    sql.execute(NOTE, params![hook, message, micros]).await.map(drop)
}
