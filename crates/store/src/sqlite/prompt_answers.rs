//! The ids of messages that have answered prompts of a webhook.

use rusqlite::params;
use uuid::Uuid;

use super::SqliteStore;
use crate::StoreError;

impl SqliteStore {
    pub(super) async fn do_has_prompt_answer(&self, hook: Uuid, message: String) -> Result<bool, StoreError> {
        self.read(move |connection| {
            let mut select = connection
                .prepare_cached("SELECT 1 FROM prompt_answers WHERE trigger_id = ?1 AND message = ?2")?;
            Ok(select.exists(params![hook.to_string(), message])?)
        })
        .await
    }

    pub(super) async fn do_note_prompt_answer(
        &self,
        hook: Uuid,
        message: String,
        micros: i64,
    ) -> Result<(), StoreError> {
        self.write(move |transaction| {
            transaction
                .prepare_cached("INSERT OR IGNORE INTO prompt_answers VALUES (?1, ?2, ?3)")?
                .execute(params![hook.to_string(), message, micros])?;
            Ok(())
        })
        .await
    }
}
