//! Callbacks: what came of a run is posted to a URL, signed by the scheme of Standard Webhooks, and tried again for about a day.

use std::sync::Arc;

use himalia_engine::Object;
use himalia_journal::may_block;
use himalia_model::{Action, EngineError, HttpUrl, Principal, from_micros};
use himalia_schedules::{DELIVERY_ATTEMPTS, Secret, SignedMessage, pause};
use himalia_store::{DeliveryRecord, TriggerRecord, TriggerRun};
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::client_run;
use super::definition::{definition, detail, stored, write};
use super::kind::TriggerKind;
use super::places::PlacedDelivery;
use super::run_info;
use crate::Commands;
use crate::Runs;
use crate::run::{id_of_run, uuid_of_run};

/// Bytes of the URL of a callback.
pub const MAX_CALLBACK_URL: usize = 2048;
/// Deliveries that are listed.
pub const MAX_DELIVERIES: usize = 100;
/// Attempts of one delivery that are kept.
const KEPT_ATTEMPTS: usize = 16;
/// Characters of the error of an attempt.
const ERROR_CHARS: usize = 300;
/// Seconds after an attempt of a delivery before a client may ask for another one.
const RETRY_PAUSE_S: u64 = 5;
/// A receiver that wants no more.
const GONE: u16 = 410;

/// How far a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It is to be tried, perhaps again.
    Pending,
    /// The receiver has it.
    Delivered,
    /// It was given up.
    Failed,
}

/// An attempt of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryAttempt {
    /// When it began, microseconds since 1970.
    pub at_micros: i64,
    /// The status of the response.
    pub status: Option<u16>,
    /// The reason why there was no response.
    pub error: Option<String>,
}

/// A delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryInfo {
    /// The id.
    pub id: Uuid,
    /// The run that it tells of.
    pub run: String,
    /// The origin of the URL.
    pub url: String,
    /// The state.
    pub state: DeliveryState,
    /// The latest attempts, the latest one last.
    pub attempts: Vec<DeliveryAttempt>,
    /// When it is tried next, microseconds since 1970.
    pub next_micros: Option<i64>,
    /// When it was made, microseconds since 1970.
    pub created_micros: i64,
}

/// The object whose deliveries are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveriesOf {
    /// A trigger of this kind, by its id or name.
    Trigger(TriggerKind),
    /// A run, by its id.
    Run,
}

/// The stored part of a delivery that the store does not read.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Posting {
    url: String,
    state: DeliveryState,
    /// Failed attempts in a row, since it was asked for.
    failed: u32,
    attempts: Vec<DeliveryAttempt>,
}

/// The URL of a callback, which this member of a request has. The error does not repeat it.
pub(super) fn check_url(field: &'static str, url: &str) -> Result<(), EngineError> {
    let wrong = |reason: String| Err(EngineError::bad_request(field, reason));
    if url.len() > MAX_CALLBACK_URL {
        return wrong(format!("is longer than {MAX_CALLBACK_URL} bytes"));
    }
    match HttpUrl::parse_secret(url) {
        Ok(_) => Ok(()),
        Err(reason) => wrong(reason),
    }
}

/// The URL of a callback as all callers see it, its maker too: the path and the query can be a secret, as those of chat services are.
pub(super) fn shown_url(url: &str) -> String {
    HttpUrl::parse_secret(url).map_or_else(|_| "…".to_owned(), |url| url.without_path())
}

/// The delivery of a run that has ended, if its trigger has a callback.
pub(super) fn new_delivery(
    record: &TriggerRecord,
    run: &TriggerRun,
    now: i64,
) -> Result<Option<DeliveryRecord>, EngineError> {
    let Some(url) = definition(record)?.callback else {
        return Ok(None);
    };
    let told = Posting {
        url,
        state: DeliveryState::Pending,
        failed: 0,
        attempts: Vec::new(),
    };
    Ok(Some(DeliveryRecord {
        id: Uuid::new_v4(),
        trigger: record.id,
        run: run.id,
        created_micros: now,
        next_micros: Some(now),
        detail: write(&told)?,
        claim: String::new(),
    }))
}

fn told(record: &DeliveryRecord) -> Result<Posting, EngineError> {
    serde_json::from_str(&record.detail).map_err(|error| EngineError::internal("reading a delivery", error))
}

fn info(record: &DeliveryRecord) -> Result<DeliveryInfo, EngineError> {
    let told = told(record)?;
    Ok(DeliveryInfo {
        id: record.id,
        run: id_of_run(record.run),
        url: shown_url(&told.url),
        state: told.state,
        attempts: told.attempts,
        next_micros: record.next_micros,
        created_micros: record.created_micros,
    })
}

pub(super) fn url_of(record: &DeliveryRecord) -> Result<String, EngineError> {
    Ok(told(record)?.url)
}

/// Tries a delivery that this process has claimed.
pub(super) async fn deliver(runs: Runs, record: DeliveryRecord, place: PlacedDelivery) {
    let id = record.id;
    if let Err(error) = tried(&runs.commands, record, place).await {
        tracing::error!(delivery = %id, %error, "a delivery cannot be tried");
    }
}

async fn tried(
    commands: &Commands,
    mut record: DeliveryRecord,
    place: PlacedDelivery,
) -> Result<(), EngineError> {
    let store = commands.services.store();
    let now = commands.trigger_time().await?;
    let mut told = told(&record)?;
    let mut attempt = DeliveryAttempt {
        at_micros: now,
        status: None,
        error: None,
    };
    match place
        .await_answer(posted(commands, &record, &told.url, now))
        .await
    {
        Ok(status) => attempt.status = Some(status),
        Err(error) => attempt.error = Some(error.chars().take(ERROR_CHARS).collect()),
    }
    if commands.services.check_open().is_err() && attempt.status.is_none() {
        // The next gateway tries it anew.
        return Ok(());
    }
    let now = commands.trigger_time().await?;
    (told.state, record.next_micros) = match attempt.status {
        Some(200..=299) => (DeliveryState::Delivered, None),
        Some(GONE) => (DeliveryState::Failed, None),
        _ => {
            told.failed = told.failed.saturating_add(1);
            match pause(told.failed.min(DELIVERY_ATTEMPTS)) {
                Some(pause) => {
                    let pause = i64::try_from(pause.as_micros()).unwrap_or(i64::MAX);
                    (DeliveryState::Pending, Some(now.saturating_add(pause)))
                }
                None => (DeliveryState::Failed, None),
            }
        }
    };
    told.attempts.push(attempt);
    let extra = told.attempts.len().saturating_sub(KEPT_ATTEMPTS);
    told.attempts.drain(..extra);
    record.detail = write(&told)?;
    store.change_delivery(record).await.map_err(stored)?;
    Ok(())
}

/// Posts what came of a run; the status of the response.
async fn posted(commands: &Commands, record: &DeliveryRecord, url: &str, now: i64) -> Result<u16, String> {
    let failed = |error: EngineError| error.to_string();
    let store = commands.services.store();
    let trigger = store
        .trigger(record.trigger)
        .await
        .map_err(|error| failed(stored(error)))?;
    let run = store
        .trigger_run(record.run)
        .await
        .map_err(|error| failed(stored(error)))?;
    let (Some(trigger), Some(run)) = (trigger, run) else {
        return Err("the run is not kept any more".to_owned());
    };
    let secret = commands.open_secrets(&trigger).map_err(failed)?.outgoing;
    let secret = secret
        .and_then(|text| Secret::parse(&text))
        .ok_or("there is no secret to sign with")?;
    let body = body(&trigger, &run).map_err(failed)?;
    let (id, at) = (
        format!("msg_{}", record.id.simple()),
        (now / 1_000_000).to_string(),
    );
    let signature = may_block(|| {
        secret.sign(SignedMessage {
            id: &id,
            timestamp: &at,
            body: &body,
        })
    });
    let headers = [
        ("webhook-id", id),
        ("webhook-timestamp", at),
        ("webhook-signature", signature),
    ];
    commands.services.post(url, &headers, body).await
}

fn body(trigger: &TriggerRecord, run: &TriggerRun) -> Result<Vec<u8>, EngineError> {
    let detail = detail(run)?;
    let date = |micros: i64| timestamp(from_micros(u64::try_from(micros).unwrap_or(0)));
    let ended = detail.ended_micros.map(date);
    let body = if trigger.kind == TriggerKind::Prompts.as_str() {
        json!({
            "type": "prompt.asked",
            "timestamp": ended,
            "data": {
                "prompt": detail.outputs,
                "answer": format!("/hooks/{}/prompts/{}", trigger.id, run.key),
            },
        })
    } else {
        let shown = run_info(trigger, run)?.info;
        let mut data = json!({
            "run": shown.id, "kind": shown.kind, "name": shown.name, "version": shown.version, "status": shown.status,
            "error": shown.error, "outputs": detail.outputs, "origin": shown.origin, "execution": shown.execution,
            "created": date(run.due_micros), "started": detail.started_micros.map(date), "ended": ended,
        });
        if trigger.kind != client_run::KIND {
            data["origin"]["name"] = trigger.name.as_str().into();
        }
        json!({ "type": "run.ended", "timestamp": ended, "data": data })
    };
    serde_json::to_vec(&body).map_err(|error| EngineError::internal("writing a callback", error))
}

/// A client may try a delivery again some time after its latest attempt.
fn check_pause(record: &DeliveryRecord, told: &Posting, now: i64) -> Result<(), EngineError> {
    if !record.claim.is_empty() {
        return Err(EngineError::Conflict {
            reason: "an attempt of this delivery is in progress".to_owned(),
        });
    }
    let latest = told
        .attempts
        .last()
        .map(|attempt| now.saturating_sub(attempt.at_micros));
    let passed = latest.map(|micros| u64::try_from(micros / 1_000_000).unwrap_or(0));
    match passed.and_then(|seconds| RETRY_PAUSE_S.checked_sub(seconds)) {
        Some(left) if left > 0 => Err(EngineError::OverBudget {
            what: "deliveries",
            reason: format!("the latest attempt of this delivery was less than {RETRY_PAUSE_S} s ago"),
            gateways: false,
            retry_after: left,
        }),
        _ => Ok(()),
    }
}

impl Commands {
    pub(crate) async fn deliveries(
        &self,
        principal: &Principal,
        of: DeliveriesOf,
        text: &str,
    ) -> Result<Vec<DeliveryInfo>, EngineError> {
        self.allow(principal, Action::Read, Object::Schedules)?;
        let (record, run) = match of {
            DeliveriesOf::Trigger(kind) => (self.find_trigger(principal, kind, text).await?, None),
            DeliveriesOf::Run => {
                let found = match uuid_of_run(text) {
                    Some(id) => self.trigger_run(principal, id).await?,
                    None => None,
                };
                let Some((record, run)) = found else {
                    // A run without a callback has none, and one that is not there is unknown.
                    self.find_run(principal, text).await?;
                    return Ok(Vec::new());
                };
                (Arc::unwrap_or_clone(record), Some(run.id))
            }
        };
        let most = i64::try_from(MAX_DELIVERIES).unwrap_or(i64::MAX);
        let all = self.services.store().deliveries(record.id, most).await;
        let all = all.map_err(stored)?.into_iter();
        let all = all.filter(|one| run.is_none_or(|run| one.run == run));
        all.map(|one| info(&one)).collect()
    }

    pub(crate) async fn redeliver(
        &self,
        principal: &Principal,
        text: &str,
    ) -> Result<DeliveryInfo, EngineError> {
        self.allow(principal, Action::Execute, Object::Schedules)?;
        self.services.check_open()?;
        let unknown = || EngineError::NotFound {
            what: "Delivery",
            id: text.chars().take(128).collect(),
        };
        let id = Uuid::try_parse(text).map_err(|_| unknown())?;
        let store = self.services.store();
        let mut record = store.delivery(id).await.map_err(stored)?.ok_or_else(unknown)?;
        let trigger = store.trigger(record.trigger).await.map_err(stored)?;
        if !trigger.is_some_and(|trigger| principal.sees(&trigger.owner)) {
            return Err(unknown());
        }
        let mut told = told(&record)?;
        let now = self.trigger_time().await?;
        check_pause(&record, &told, now)?;
        (told.state, told.failed) = (DeliveryState::Pending, 0);
        record.next_micros = Some(now);
        record.detail = write(&told)?;
        if !store.change_delivery(record.clone()).await.map_err(stored)? {
            return Err(EngineError::Conflict {
                reason: "it was tried at the same time".to_owned(),
            });
        }
        self.triggers.wake();
        info(&record)
    }
}
