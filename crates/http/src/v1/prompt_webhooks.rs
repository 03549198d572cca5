//! `/v1/prompt-webhooks`: URLs to which prompts are posted. `/hooks/{webhook_id}/prompts/{prompt_id}` takes signed answers.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use himalia_engine::{EngineError, MAX_ANSWER_BYTES, PromptName};
use himalia_runs::{
    MAX_CALLBACK_URL, MAX_TRIGGER_NAME, NewTrigger, TriggerInfo, TriggerKind, WebhookMessage,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Map;
use uuid::Uuid;

use super::answers::{JsonWithStatus, ShownOnce};
use super::dates::date;
use super::input::{ListQuery, Members, Parameters, Text};
use super::triggers::{TriggerView, message_head, trigger_page};
use crate::app::App;
use crate::auth::{Caller, signature_check, wrong_token};
use crate::body;
use crate::error::ApiError;
use crate::listen::Peer;
use crate::relay::answer_elsewhere;

/// A webhook of prompts to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewPromptWebhook")]
pub(crate) struct CreatePromptWebhookRequest {
    /// 1 to 64 lower-case letters, digits and hyphens; one of the tenant.
    #[schemars(extend("pattern" = "^[a-z0-9-]+$", "maxLength" = MAX_TRIGGER_NAME))]
    name: String,
    /// The URL that prompts are posted to.
    url: Text<1, MAX_CALLBACK_URL>,
}

/// A webhook of prompts.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PromptWebhook {
    #[schemars(extend("format" = "uuid"))]
    id: String,
    name: String,
    /// The tenant of its owner, or `operator`.
    owner: String,
    /// As whom answers are given.
    caller: String,
    /// The target of prompts: scheme, host and port. The rest of the URL can be a secret, and is not shown.
    url: String,
    #[schemars(extend("format" = "date-time"))]
    created: String,
}

impl TriggerView for PromptWebhook {
    const KIND: TriggerKind = TriggerKind::Prompts;

    fn of(_: &App, info: TriggerInfo) -> Result<Self, ApiError> {
        Ok(Self {
            id: info.id.to_string(),
            name: info.name,
            owner: info.owner,
            caller: info.caller,
            url: info.callback.unwrap_or_default(),
            created: date(info.created_micros),
        })
    }
}

/// A new webhook of prompts.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CreatedPromptWebhook {
    /// With which prompts are signed. It is shown once.
    secret: String,
    /// Secret that signs the answers. It is shown once.
    answer_secret: String,
    #[serde(flatten)]
    shown: PromptWebhook,
}

/// `POST /v1/prompt-webhooks`: 201 with the secrets.
pub(crate) async fn create(
    State(app): State<App>,
    Caller(principal): Caller,
    Members(wanted): Members<CreatePromptWebhookRequest>,
) -> Result<ShownOnce<JsonWithStatus<201, CreatedPromptWebhook>>, ApiError> {
    let new = NewTrigger {
        name: wanted.name,
        target: None,
        inputs: Map::new(),
        template: None,
        timeout: None,
        times: None,
        enabled: true,
        callback: Some(wanted.url.0),
    };
    let (made, secrets) = app
        .runs()
        .create_trigger(&principal, PromptWebhook::KIND, new)
        .await?;
    Ok(ShownOnce(JsonWithStatus(CreatedPromptWebhook {
        secret: secrets.outgoing.unwrap_or_default(),
        answer_secret: secrets.incoming.unwrap_or_default(),
        shown: PromptWebhook::of(&app, made)?,
    })))
}

/// A page of the list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PromptWebhookPage {
    webhooks: Vec<PromptWebhook>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

/// The letter of its cursors.
const LIST: char = 'n';

/// `GET /v1/prompt-webhooks`: those of the caller's tenant, for the operator all, by owner and name.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Parameters(wanted): Parameters<ListQuery<LIST>>,
) -> Result<Json<PromptWebhookPage>, ApiError> {
    let (webhooks, next) = trigger_page(&app, &principal, &wanted).await?;
    Ok(Json(PromptWebhookPage { webhooks, next }))
}

/// The body of an answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignedAnswer {
    /// The prompt that it answers, as the path has it.
    prompt: String,
    value: String,
}

/// `POST /hooks/{webhook_id}/prompts/{prompt_id}`: 200 with the prompt once the answer counts, 409 if it has ended before. A message that
/// is not signed well is 401, whatever is wrong with it.
pub(crate) async fn receive(
    State(app): State<App>,
    Path((hook, prompt)): Path<(String, String)>,
    request: Request,
) -> Response {
    let peer = request.extensions().get::<Peer>().cloned();
    match received(&app, (&hook, &prompt), peer.as_ref(), request).await {
        Ok(Some(response)) => response,
        Ok(None) => wrong_token(&app, peer.as_ref()).into_response(),
        Err(error) => error.into_response(),
    }
}

async fn received(
    app: &App,
    (hook, prompt): (&str, &str),
    peer: Option<&Peer>,
    request: Request,
) -> Result<Option<Response>, ApiError> {
    let (parts, content) = request.into_parts();
    let (Ok(hook), Some(head)) = (Uuid::try_parse(hook), message_head(&parts.headers)) else {
        return Ok(None);
    };
    let body = body::within(app, &parts.headers, content, MAX_ANSWER_BYTES + 1024).await?;
    let message = WebhookMessage { body: &body, ..head };
    let check = signature_check(app, peer)?;
    let signer = app.runs().signer_of_answer(hook, message).await?;
    drop(check);
    let Some(signer) = signer else {
        return Ok(None);
    };
    let given: SignedAnswer = serde_json::from_slice(&body).map_err(|_| {
        EngineError::bad_request(
            "body",
            "expected {\"prompt\": \"...\", \"value\": \"...\"} as JSON",
        )
    })?;
    if given.prompt != prompt {
        let reason = format!("must be the prompt of the path, {prompt}");
        return Err(EngineError::bad_request("prompt", reason).into());
    }
    let name: PromptName = prompt.parse()?;
    if let PromptName::Kernel(id) = name {
        let message = Request::from_parts(parts, Body::from(body));
        let elsewhere = answer_elsewhere(app, &signer.principal, id, message).await?;
        if elsewhere.is_some() {
            return Ok(elsewhere);
        }
    }
    app.runs().check_answer(&signer, &name).await?;
    let answered = app.engine().answer(&signer.principal, &name, given.value).await?;
    if let Err(error) = app.runs().note_answer(signer).await {
        tracing::warn!(%error, "the id of an answer is not remembered");
    }
    Ok(Some(Json(answered).into_response()))
}
