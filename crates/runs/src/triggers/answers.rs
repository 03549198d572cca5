//! Signed answers to prompts. An answer is a message by the scheme of Standard Webhooks whose body names its prompt, so that it fits no
//! other one. Its id is remembered once it counted.

use std::time::Duration;

use himalia_executions::PromptName;
use himalia_model::{EngineError, Principal};
use himalia_store::TriggerRecord;
use uuid::Uuid;

use super::definition::stored;
use super::kind::TriggerKind;
use super::runner;
use super::runner::KEPT;
use super::webhooks::WebhookMessage;
use crate::Commands;
use crate::Runs;

/// Bytes of the id of an answer.
const MAX_ID: usize = 256;

/// The holder of the secret with which answers to a webhook of prompts are signed.
#[derive(Clone, Debug)]
pub struct AnswerSigner {
    /// The principal that made the webhook: answers are its own.
    pub principal: Principal,
    record: TriggerRecord,
    message: String,
    now: i64,
}

impl Runs {
    /// The signer of a message that was sent to a webhook of prompts. `None`: the message is refused, and its sender is to learn no more
    /// than that.
    pub async fn signer_of_answer(
        &self,
        hook: Uuid,
        message: WebhookMessage<'_>,
    ) -> Result<Option<AnswerSigner>, EngineError> {
        let commands = &self.commands;
        commands.services.check_open()?;
        let checked = commands
            .checked_message(hook, TriggerKind::Prompts, message)
            .await?;
        let Some((record, definition, now)) = checked else {
            return Ok(None);
        };
        let conflict = |reason: &str| EngineError::Conflict {
            reason: reason.to_owned(),
        };
        if !definition.enabled {
            return Err(conflict("the webhook is switched off"));
        }
        if message.id.len() > MAX_ID {
            let reason = format!("is longer than {MAX_ID} bytes");
            return Err(EngineError::bad_request("webhook-id", reason));
        }
        let principal = runner::holder(commands, &record, &definition).map_err(conflict)?;
        Ok(Some(AnswerSigner {
            principal,
            record,
            message: message.id.to_owned(),
            now,
        }))
    }

    /// Checks that a prompt was posted to the webhook of a signer, and that the message did not answer one before. The replica that has the
    /// kernel of the prompt checks it.
    pub async fn check_answer(&self, signer: &AnswerSigner, prompt: &PromptName) -> Result<(), EngineError> {
        let store = self.commands.services.store();
        let used = store.has_prompt_answer(signer.record.id, signer.message.clone());
        if used.await.map_err(stored)? {
            return Err(EngineError::Conflict {
                reason: "a message with this webhook-id has answered a prompt before".to_owned(),
            });
        }
        if self.commands.was_told_of(signer, prompt).await? {
            return Ok(());
        }
        Err(EngineError::no_prompt(&prompt.to_string()))
    }

    /// Remembers that the message of a signer has answered a prompt, for at least ten minutes.
    pub async fn note_answer(&self, signer: AnswerSigner) -> Result<(), EngineError> {
        let AnswerSigner {
            record, message, now, ..
        } = signer;
        let store = self.commands.services.store();
        store
            .note_prompt_answer(record.id, message, now)
            .await
            .map_err(stored)
    }
}

impl Commands {
    async fn was_told_of(&self, signer: &AnswerSigner, name: &PromptName) -> Result<bool, EngineError> {
        let told = self
            .services
            .store()
            .trigger_run_of(signer.record.id, name.to_string());
        if told.await.map_err(stored)?.is_some() {
            return Ok(true);
        }
        // Rows of old ones are forgotten. The webhook received all prompts that its maker sees, except passwords.
        match self.engine.prompt(&signer.principal, name, Duration::ZERO).await {
            Ok(prompt) => {
                let age = signer.now / 1_000_000 - prompt.created.unix_timestamp();
                let kept = i64::try_from(KEPT.as_secs()).unwrap_or(i64::MAX);
                Ok(!prompt.password && age >= kept)
            }
            Err(EngineError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
