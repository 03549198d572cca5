//! Prompts that are posted to a URL.
//!
//! A prompt is a run of its webhook, whose key is the id of the prompt: it is posted once, whichever replica sees it first (`teller.rs`), by
//! the deliveries that results of runs have.

use himalia_executions::PromptInfo;
use himalia_model::EngineError;
use himalia_store::TriggerRecord;
use serde_json::{Value, json};
use uuid::Uuid;

use super::definition::{Detail, stored};
use super::new_run;
use crate::Commands;
use crate::run::RunState;

/// Bytes of a prompt that is posted, as JSON. Of a larger one the arguments are left out.
const PROMPT_BYTES: usize = 64 << 10;

/// Adds a prompt to the runs of a webhook, once.
pub(super) async fn add(
    commands: &Commands,
    record: &TriggerRecord,
    prompt: &PromptInfo,
    now: i64,
) -> Result<(), EngineError> {
    // A person types a password, not a service.
    if prompt.password {
        return Ok(());
    }
    let store = commands.services.store();
    let known = store.trigger_run_of(record.id, prompt.id.to_string());
    if known.await.map_err(stored)?.is_some() {
        return Ok(());
    }
    let mut detail = Detail::new(RunState::Queued);
    detail.outputs = Some(shown(prompt.clone())?);
    let run = new_run(record, Uuid::new_v4(), prompt.id.to_string(), now, &detail)?;
    let _room = commands.room(&record.owner, run.detail.len()).await?;
    let adding = store.add_trigger_run(run);
    adding.await.map(drop).map_err(stored)
}

/// A prompt as it is posted.
fn shown(mut prompt: PromptInfo) -> Result<Value, EngineError> {
    let large = prompt
        .arguments
        .as_ref()
        .is_some_and(|arguments| arguments.to_string().len() > PROMPT_BYTES);
    if large {
        prompt.arguments = Some(json!("(left out: they are too long)"));
    }
    serde_json::to_value(prompt)
        .map_err(|error| EngineError::internal("cannot write a prompt as JSON", error))
}
