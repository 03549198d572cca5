//! Prompts that are posted to a URL.
//!
//! A prompt is a run of its webhook, whose key is the id of the prompt: it is posted once, whichever replica sees it first, by the
//! deliveries that results of runs have.

use std::collections::HashSet;

use himalia_executions::PromptInfo;
use himalia_model::EngineError;
use himalia_store::TriggerRecord;
use parking_lot::Mutex;
use serde_json::{Value, json};
use uuid::Uuid;

use super::definition::{Detail, TriggerKind, TriggerRunStatus, definition, stored};
use super::{new_run, runner};
use crate::api::Commands;

/// Bytes of a prompt that is posted, as JSON. Of a larger one the arguments are left out.
const PROMPT_BYTES: usize = 64 << 10;

/// Webhooks and prompts that were noted before.
pub(super) type Noted = Mutex<HashSet<(Uuid, String)>>;

/// Notes prompts that are open for the webhooks of those who see them.
pub(super) async fn note(commands: &Commands, noted: &Noted, now: i64) -> Result<(), EngineError> {
    let store = commands.inner.store();
    let hooks = store
        .triggers(None, TriggerKind::Prompts.as_str().to_owned())
        .await;
    let mut open = HashSet::new();
    for record in hooks.map_err(stored)? {
        if let Err(error) = note_for(commands, &record, noted, now, &mut open).await {
            // The others learn of theirs. What was added before has its key, and is there once.
            tracing::warn!(id = %record.id, owner = record.owner, %error, "cannot tell a webhook of what is asked");
        }
    }
    *noted.lock() = open;
    Ok(())
}

/// Notes those for one webhook, and adds them to those that are open.
async fn note_for(
    commands: &Commands,
    record: &TriggerRecord,
    noted: &Noted,
    now: i64,
    open: &mut HashSet<(Uuid, String)>,
) -> Result<(), EngineError> {
    let definition = definition(record)?;
    // Who made it sees what is asked. Once that is not so any more, nothing is posted.
    let Ok(principal) = runner::holder(commands, record, &definition) else {
        return Ok(());
    };
    for prompt in commands.listed_prompts(&principal).await? {
        // A person types a password, not a service.
        if prompt.password {
            continue;
        }
        let key = (record.id, prompt.id.to_string());
        if !noted.lock().contains(&key) {
            let mut detail = Detail::new(TriggerRunStatus::Due);
            detail.outputs = Some(shown(prompt)?);
            let run = new_run(record, Uuid::new_v4(), key.1.clone(), now, &detail)?;
            let adding = commands.inner.store().add_trigger_run(run);
            adding.await.map_err(stored)?;
        }
        open.insert(key);
    }
    Ok(())
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
    serde_json::to_value(prompt).map_err(|error| EngineError::internal("a prompt is no JSON", error))
}
