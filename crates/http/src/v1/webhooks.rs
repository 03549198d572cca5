//! `/v1/webhooks`: runs of skills and workflows that signed messages of other services start. `/hooks/{webhook_id}` takes the messages.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use himalia_runs::{
    MAX_CALLBACK_URL, MAX_TRIGGER_NAME, MAX_WEBHOOK_BYTES, NewTrigger, RunInfo, RunTarget, TriggerChange,
    TriggerInfo, TriggerKind, WebhookMessage,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::answers::{JsonWithStatus, ShownOnce};
use super::dates::date;
use super::input::{ListQuery, Members, Parameters, Text, Whole};
use super::runs::ListedRun;
use super::runs::start::TIMEOUT_MOST;
use super::triggers::{TriggerView, message_head, target_of, trigger_page};
use crate::app::App;
use crate::auth::{Caller, signature_check, wrong_token};
use crate::body;
use crate::error::ApiError;
use crate::listen::Peer;

/// A webhook to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewWebhook")]
pub(crate) struct CreateWebhookRequest {
    /// 1 to 64 lower-case letters, digits and hyphens; one of the tenant.
    #[schemars(extend("pattern" = "^[a-z0-9-]+$", "maxLength" = MAX_TRIGGER_NAME))]
    name: String,
    /// A skill or a workflow.
    target: RunTarget,
    /// Inputs of each run, independent of the message.
    #[serde(default)]
    inputs: Map<String, Value>,
    /// The template of the sessions of runs of a skill. Default: the template of the skill, or the default kernelspec.
    template: Option<String>,
    /// Seconds that a run of a skill may take, if that is less than the skill says.
    timeout_s: Option<Whole<1, TIMEOUT_MOST>>,
    /// If true, it starts runs; default true.
    enabled: Option<bool>,
    /// The URL that the result of each run is posted to.
    callback: Option<Text<1, MAX_CALLBACK_URL>>,
}

impl From<CreateWebhookRequest> for NewTrigger {
    fn from(wanted: CreateWebhookRequest) -> Self {
        Self {
            name: wanted.name,
            target: Some(wanted.target),
            inputs: wanted.inputs,
            template: wanted.template,
            timeout: wanted.timeout_s.map(|Whole(time)| Duration::from_secs(time)),
            times: None,
            enabled: wanted.enabled.unwrap_or(true),
            callback: wanted.callback.map(|Text(url)| url),
        }
    }
}

/// The changes. Members that are left out stay.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WebhookChange")]
pub(crate) struct ChangeWebhookRequest {
    target: Option<RunTarget>,
    inputs: Option<Map<String, Value>>,
    /// Empty: the template of the skill, or the default kernelspec.
    template: Option<String>,
    timeout_s: Option<Whole<1, TIMEOUT_MOST>>,
    enabled: Option<bool>,
}

impl From<ChangeWebhookRequest> for TriggerChange {
    fn from(changed: ChangeWebhookRequest) -> Self {
        Self {
            target: changed.target,
            inputs: changed.inputs,
            template: changed.template,
            timeout: changed.timeout_s.map(|Whole(time)| Duration::from_secs(time)),
            enabled: changed.enabled,
            ..Self::default()
        }
    }
}

/// A webhook.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Webhook {
    #[schemars(extend("format" = "uuid"))]
    id: String,
    name: String,
    /// The tenant of its owner, or `operator`.
    owner: String,
    /// As whom runs are started.
    caller: String,
    /// The target of messages: a path of the gateway's address.
    path: String,
    target: RunTarget,
    inputs: Map<String, Value>,
    template: Option<String>,
    timeout_s: Option<u64>,
    enabled: bool,
    /// The target of results: scheme, host and port. The rest of the URL can be a secret, and is not shown.
    callback: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    created: String,
    /// The latest run.
    last_run: Option<ListedRun>,
}

impl TriggerView for Webhook {
    const KIND: TriggerKind = TriggerKind::Webhook;

    fn of(app: &App, info: TriggerInfo) -> Result<Self, ApiError> {
        Ok(Self {
            target: target_of(&info)?,
            path: app.url(&format!("/hooks/{}", info.id)),
            id: info.id.to_string(),
            name: info.name,
            owner: info.owner,
            caller: info.caller,
            inputs: info.inputs,
            template: info.template,
            timeout_s: info.timeout_s,
            enabled: info.enabled,
            callback: info.callback,
            created: date(info.created_micros),
            last_run: info.last_run.map(ListedRun::from),
        })
    }
}

/// A new webhook.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CreatedWebhook {
    /// With which senders sign. It is shown once.
    secret: String,
    /// Secret that signs results posted to `callback`. It is shown once.
    callback_secret: Option<String>,
    #[serde(flatten)]
    shown: Webhook,
}

/// `POST /v1/webhooks`: 201 with the secrets.
pub(crate) async fn create(
    State(app): State<App>,
    Caller(principal): Caller,
    Members(wanted): Members<CreateWebhookRequest>,
) -> Result<ShownOnce<JsonWithStatus<201, CreatedWebhook>>, ApiError> {
    let (made, secrets) = app
        .runs()
        .create_trigger(&principal, Webhook::KIND, wanted.into())
        .await?;
    Ok(ShownOnce(JsonWithStatus(CreatedWebhook {
        secret: secrets.incoming.unwrap_or_default(),
        callback_secret: secrets.outgoing,
        shown: Webhook::of(&app, made)?,
    })))
}

/// A page of the list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WebhookPage {
    webhooks: Vec<Webhook>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

/// The letter of its cursors.
const LIST: char = 'b';

/// `GET /v1/webhooks`: those of the caller's tenant, for the operator all, by owner and name.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Parameters(wanted): Parameters<ListQuery<LIST>>,
) -> Result<Json<WebhookPage>, ApiError> {
    let (webhooks, next) = trigger_page(&app, &principal, &wanted).await?;
    Ok(Json(WebhookPage { webhooks, next }))
}

/// `POST /hooks/{webhook_id}`: 202 with the run of a message. What is not signed well is 401, whatever is wrong with it.
pub(crate) async fn receive(State(app): State<App>, Path(id): Path<String>, request: Request) -> Response {
    let peer = request.extensions().get::<Peer>().cloned();
    match received(&app, &id, peer.as_ref(), request).await {
        Ok(Some(run)) => {
            let body = json!({ "run": run.id, "status": run.status });
            (StatusCode::ACCEPTED, Json(body)).into_response()
        }
        Ok(None) => wrong_token(&app, peer.as_ref()).into_response(),
        Err(error) => error.into_response(),
    }
}

async fn received(
    app: &App,
    id: &str,
    peer: Option<&Peer>,
    request: Request,
) -> Result<Option<RunInfo>, ApiError> {
    let (parts, content) = request.into_parts();
    let (Ok(hook), Some(head)) = (Uuid::try_parse(id), message_head(&parts.headers)) else {
        return Ok(None);
    };
    let body = body::within(app, &parts.headers, content, MAX_WEBHOOK_BYTES).await?;
    let message = WebhookMessage { body: &body, ..head };
    let _check = signature_check(app, peer)?;
    Ok(app.runs().receive_webhook(hook, message).await?)
}
