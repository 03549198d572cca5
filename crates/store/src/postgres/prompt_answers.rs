//! The ids of messages that have answered prompts of a webhook, which all replicas share.

use uuid::Uuid;

use super::PostgresStore;
use crate::StoreError;

const HELD: &str = "SELECT 1 FROM himalia.prompt_answers WHERE trigger_id = $1 AND message = $2";

const NOTE: &str = "
INSERT INTO himalia.prompt_answers SELECT $3, $4, $5
WHERE EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
ON CONFLICT DO NOTHING";

impl PostgresStore {
    pub(super) async fn do_has_prompt_answer(&self, hook: Uuid, message: String) -> Result<bool, StoreError> {
        self.any_worker()?
            .run(move |link| async move { Ok(!link.query(HELD, &[&hook, &message]).await?.is_empty()) })
            .await
    }

    pub(super) async fn do_note_prompt_answer(
        &self,
        hook: Uuid,
        message: String,
        micros: i64,
    ) -> Result<(), StoreError> {
        let noted = self.changed(NOTE, move |_| {
            vec![Box::new(hook), Box::new(message), Box::new(micros)]
        });
        noted.await.map(drop)
    }
}
