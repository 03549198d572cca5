//! Webhooks: signed messages of other services that start runs, by the scheme of Standard Webhooks. An id of a message is one run.

use himalia_engine::{CallNames, Effect, Subject};
use himalia_model::{EngineError, Principal};
use himalia_schedules::{Secret, SignatureError, SignedMessage};
use himalia_store::TriggerRecord;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;
use zeroize::Zeroizing;

use super::definition::{Definition, Detail, definition, stored};
use super::kind::TriggerKind;
use super::{new_run, run_info, runner};
use crate::Commands;
use crate::Runs;
use crate::run::{RunInfo, RunState};

/// Bytes of a message that starts a run.
pub const MAX_WEBHOOK_BYTES: usize = 128 << 10;
/// Seconds after which a sender may try again whose runs are too many.
const RETRY_S: u64 = 10;

/// The sealed part of a trigger.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Secrets {
    /// With which senders of a webhook sign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) incoming: Option<String>,
    /// With which results are signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) outgoing: Option<String>,
}

/// A message as it was received.
#[derive(Clone, Copy, Debug)]
pub struct WebhookMessage<'a> {
    /// `webhook-id`.
    pub id: &'a str,
    /// `webhook-timestamp`.
    pub timestamp: &'a str,
    /// `webhook-signature`.
    pub signature: &'a str,
    /// The body.
    pub body: &'a [u8],
}

pub(super) fn new_secret() -> Result<Secret, EngineError> {
    let mut random = [0; 32];
    getrandom::fill(&mut random)
        .map_err(|error| EngineError::internal("the random number generator failed", error))?;
    Ok(Secret::of(random))
}

impl Runs {
    /// Takes a message that was sent to a webhook. It has no principal; who holds the secret may start what the webhook starts. `None`:
    /// it is refused, and its sender is to learn no more than that. The same message again is the same run. A signed message counts as a
    /// request of the webhook's owner.
    pub async fn receive_webhook(
        &self,
        hook: Uuid,
        message: WebhookMessage<'_>,
    ) -> Result<Option<RunInfo>, EngineError> {
        let commands = &self.commands;
        commands.services.check_open()?;
        let checked = commands
            .checked_message(hook, TriggerKind::Webhook, message)
            .await?;
        let Some((record, definition, now)) = checked else {
            return Ok(None);
        };
        let principal = runner::holder(commands, &record, &definition);
        let noted = match &principal {
            Ok(principal) => principal.clone(),
            Err(_) => Principal::operator().read_only().in_place_of(&record.owner),
        };
        let text = hook.to_string();
        let names = CallNames {
            command: "receive_webhook",
            span: "himalia.receive_webhook",
        };
        let call = self.begin_call(names, Effect::Change, &noted, Subject::Named("trigger", &text));
        let result = match (self.engine().count_request(&noted), principal) {
            (Err(over), _) => Err(over),
            (Ok(()), Ok(principal)) => {
                commands
                    .received(&principal, &record, &definition, message, now)
                    .await
            }
            (Ok(()), Err(reason)) => Err(EngineError::Conflict {
                reason: reason.to_owned(),
            }),
        };
        call.end(&result, None);
        if result.as_ref().is_err_and(EngineError::is_limit) {
            self.engine().hold_back(&noted).await;
        }
        result.map(Some)
    }
}

impl Commands {
    /// The webhook of a message that is signed well, and the time. `None`: the message is refused.
    pub(super) async fn checked_message(
        &self,
        hook: Uuid,
        kind: TriggerKind,
        message: WebhookMessage<'_>,
    ) -> Result<Option<(TriggerRecord, Definition, i64)>, EngineError> {
        let Some(record) = self.services.store().trigger(hook).await.map_err(stored)? else {
            return Ok(None);
        };
        if record.kind != kind.as_str() {
            return Ok(None);
        }
        let secret = self.open_secrets(&record)?.incoming.map(Zeroizing::new);
        let secret = secret.and_then(|text| Secret::parse(&text));
        let now = self.trigger_time().await?;
        let signed = SignedMessage {
            id: message.id,
            timestamp: message.timestamp,
            body: message.body,
        };
        let checked = secret.map_or(Err(SignatureError::Signature), |secret| {
            secret.check(signed, message.signature, now / 1_000_000)
        });
        if let Err(refused) = checked {
            tracing::warn!(webhook = %hook, ?refused, "a message was refused");
            return Ok(None);
        }
        let definition = definition(&record)?;
        Ok(Some((record, definition, now)))
    }

    async fn received(
        &self,
        principal: &Principal,
        record: &TriggerRecord,
        definition: &Definition,
        message: WebhookMessage<'_>,
        now: i64,
    ) -> Result<RunInfo, EngineError> {
        if !definition.enabled {
            return Err(EngineError::Conflict {
                reason: "the webhook is switched off".to_owned(),
            });
        }
        let known = self
            .services
            .store()
            .trigger_run_of(record.id, message.id.to_owned());
        if let Some(known) = known.await.map_err(stored)? {
            return Ok(run_info(record, &known)?.info);
        }
        // Before anything is done with the body: a flood of messages is refused here.
        let open = self.services.store().count_open_trigger_runs(record.id).await;
        let full = usize::try_from(open.map_err(stored)?).unwrap_or(0) >= super::MAX_OPEN_RUNS;
        if full {
            return Err(EngineError::OverBudget {
                what: "runs",
                reason: format!("{} runs of this webhook have not ended", super::MAX_OPEN_RUNS),
                gateways: false,
                retry_after: RETRY_S,
            });
        }
        let read = || serde_json::from_slice::<Map<String, Value>>(message.body);
        let read = self.answer_in_turn(principal, message.body.len(), read).await?;
        let mut inputs = read.map_err(|_| EngineError::bad_request("body", "expected an object as JSON"))?;
        // What the webhook says is not its sender's choice.
        inputs.extend(definition.inputs.clone());
        let mut detail = Detail::new(RunState::Queued);
        detail.inputs = Some(inputs);
        self.check_target(principal, definition, &detail, true).await?;
        let run = new_run(record, Uuid::new_v4(), message.id.to_owned(), now, &detail)?;
        let _room = self.room(&record.owner, run.detail.len()).await?;
        let there = self.services.store().add_trigger_run(run.clone()).await;
        if let Some(there) = there.map_err(stored)? {
            return Ok(run_info(record, &there)?.info);
        }
        self.triggers.wake();
        Ok(run_info(record, &run)?.info)
    }

    /// Seals the secrets of a trigger for its id and its owner.
    pub(super) fn seal_secrets(
        &self,
        record: &mut TriggerRecord,
        secrets: &Secrets,
    ) -> Result<(), EngineError> {
        let plain = serde_json::to_vec(secrets).map(Zeroizing::new);
        let plain = plain.map_err(|error| EngineError::internal("writing secrets", error))?;
        let id = record.id.to_string();
        let sealed = self.services.seal(&[&record.owner, &id, KEPT], &plain)?;
        (record.key_id, record.sealed) = sealed;
        Ok(())
    }

    /// Seals secrets with the current key that were sealed with an earlier one.
    pub(super) async fn seal_again(&self, all: Vec<TriggerRecord>) -> Result<(), EngineError> {
        let Some(current) = self.services.sealing_key() else {
            return Ok(());
        };
        for mut record in all {
            if record.sealed.is_empty() || record.key_id == current {
                continue;
            }
            let secrets = self.open_secrets(&record)?;
            self.seal_secrets(&mut record, &secrets)?;
            // Who changes it at the same time seals it, too, or the next start does.
            self.services
                .store()
                .change_trigger(record, None)
                .await
                .map_err(stored)?;
        }
        Ok(())
    }

    pub(super) fn open_secrets(&self, record: &TriggerRecord) -> Result<Secrets, EngineError> {
        if record.sealed.is_empty() {
            return Ok(Secrets::default());
        }
        let id = record.id.to_string();
        let (key_id, bytes) = (record.key_id.clone(), record.sealed.clone());
        let plain = self
            .services
            .open_sealed(&[&record.owner, &id, KEPT], key_id, bytes)?;
        serde_json::from_slice(&plain)
            .map_err(|_| EngineError::internal("reading secrets", "they are not well-formed"))
    }
}

/// The purpose for which the secrets are sealed, beside owner and id.
const KEPT: &str = "trigger";
