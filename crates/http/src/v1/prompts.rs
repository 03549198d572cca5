//! `/v1/prompts`, `/v1/sessions/{id}/prompts` and `/v1/prompts/{id}`: what a person is asked, and the answers.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::Uri;
use himalia_engine::{
    Ask, DEFAULT_PROMPT_TIME, ListedPrompt, MAX_ANSWER_BYTES, MAX_PROMPT_TIME, PromptInfo, PromptName,
    PromptPlace, PromptState,
};
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::answers::{JsonWithStatus, SerializedJson};
use super::input::{Cursor, ListQuery, Members, Parameters, Text, Wait, parameters};
use super::kernels::kernel_id;
use super::sessions::of_session;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// Bytes of a prompt in JSON beside its text and its arguments, about.
const PROMPT_BYTES: usize = 512;

/// Seconds that a request may wait for an answer.
const WAIT_MOST: u64 = 60;

/// The prompts of a kernel.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Prompts {
    /// In the order in which they were asked.
    prompts: Vec<PromptInfo>,
}

/// A page of prompts that wait for an answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OpenPromptPage {
    /// In the order in which they were asked.
    prompts: Vec<OpenPrompt>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
    /// Replicas whose part is missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unanswered: Vec<String>,
}

/// A prompt that waits for an answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OpenPrompt {
    #[serde(flatten)]
    prompt: PromptInfo,
    /// In the operator's list: how many prompts of its owner waited when it was asked: of steps for a step, of kernels for a kernel. The pages
    /// of that list have low turns first, so that the prompts of one owner do not hide those of others. Without it: 0.
    #[serde(skip_serializing_if = "is_zero")]
    turn: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(turn: &u32) -> bool {
    *turn == 0
}

/// The cursors of that list.
const LIST: char = 'q';

/// The key by which pages are ordered, also those of another replica.
pub(crate) fn page_key(turn: u32, created: &str, id: &str) -> String {
    format!("{turn:010} {created} {id}")
}

/// The `next` of a page whose last prompt has this key.
pub(crate) fn next_of(key: &str) -> String {
    Cursor::<LIST>::write(key)
}

/// The key that a `next` was made of.
pub(crate) fn key_of(next: &str) -> Option<String> {
    Cursor::<LIST>::read(next).map(|Cursor(key)| key)
}

/// The number of prompts that a query of the list wants.
pub(crate) fn page_size(uri: &Uri) -> usize {
    let wanted = parameters::<ListQuery<LIST>>(uri).ok();
    wanted.unwrap_or_default().most()
}

/// The place that [`page_key`] was made of.
fn place(key: &str) -> Option<PromptPlace> {
    let mut parts = key.splitn(3, ' ');
    Some(PromptPlace {
        turn: parts.next()?.parse().ok()?,
        created: OffsetDateTime::parse(parts.next()?, &Rfc3339).ok()?,
        id: parts.next()?.to_owned(),
    })
}

/// `GET /v1/prompts?cursor=&limit=`: what waits for an answer in all sessions and workflows that the caller sees.
pub(crate) async fn open(
    State(app): State<App>,
    Caller(principal): Caller,
    Parameters(wanted): Parameters<ListQuery<LIST>>,
) -> Result<SerializedJson<OpenPromptPage>, ApiError> {
    let most = wanted.most();
    let after = wanted.cursor.map(|Cursor(key)| {
        let place = place(&key);
        place.ok_or_else(|| ApiError::bad_field("cursor", "is not the `next` of a page of this list"))
    });
    let page = app
        .engine()
        .open_prompts(&principal, after.transpose()?, most)
        .await?;
    let next = page
        .next
        .map(|last| next_of(&page_key(last.turn, &timestamp(last.created), &last.id)));
    let bytes = page.prompts.iter().map(|one| one.bytes() + PROMPT_BYTES).sum();
    let made = || {
        let mut prompts: Vec<OpenPrompt> = page
            .prompts
            .into_iter()
            .map(|ListedPrompt { prompt, turn }| OpenPrompt { prompt, turn })
            .collect();
        prompts.sort_by_cached_key(|one| (one.prompt.created, one.prompt.id.to_string()));
        SerializedJson::json(&OpenPromptPage {
            prompts,
            next,
            unanswered: Vec::new(),
        })
    };
    app.engine().answer_in_turn(&principal, bytes, made).await?
}

/// A query for the prompts of a kernel.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListPromptsQuery {
    /// A kernel of the session; default: the first one.
    kernel: Option<String>,
    /// List only prompts that wait for an answer.
    #[serde(default)]
    open: bool,
}

/// `GET /v1/sessions/{id}/prompts`: those that are open and the latest that have ended.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(ListPromptsQuery { kernel, open }): Parameters<ListPromptsQuery>,
) -> Result<Json<Prompts>, ApiError> {
    let kernel = kernel_id(&app, &principal, &id, kernel.as_deref())?;
    let listed = app.engine().prompts(&principal, kernel).await;
    let mut prompts = listed.map_err(|error| of_session(error, &id))?;
    prompts.retain(|prompt| !open || prompt.state == PromptState::Open);
    Ok(Json(Prompts { prompts }))
}

/// A question for a person.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPrompt {
    /// The text that the person reads.
    text: Text<1, 16_000>,
    /// The possible answers. Default: none, and the answer is a text.
    #[serde(default)]
    options: Vec<String>,
    /// A kernel of the session; default: the first one.
    kernel: Option<String>,
    /// Seconds that it may stay open; default: a day.
    timeout_s: Option<Wait<{ MAX_PROMPT_TIME.as_secs() }>>,
    /// A repeated request with the same key returns the same prompt.
    key: Option<String>,
}

/// `POST /v1/sessions/{id}/prompts`: 201 with the prompt, also with one that is there under the same key.
pub(crate) async fn create(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Members(wanted): Members<NewPrompt>,
) -> Result<JsonWithStatus<201, PromptInfo>, ApiError> {
    let kernel = kernel_id(&app, &principal, &id, wanted.kernel.as_deref())?;
    let ask = Ask {
        text: wanted.text.0,
        options: wanted.options,
        time: wanted.timeout_s.map_or(DEFAULT_PROMPT_TIME, |Wait(time)| time),
        key: wanted.key,
    };
    let asked = app.engine().ask_person(&principal, kernel, ask).await;
    Ok(JsonWithStatus(asked.map_err(|error| of_session(error, &id))?))
}

/// The time that a request may wait.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetPromptQuery {
    /// Seconds to wait for the end of the prompt; default 0.
    wait_s: Option<Wait<WAIT_MOST>>,
}

/// `GET /v1/prompts/{id}?wait_s=`: the prompt, when it has ended or after that time.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(GetPromptQuery { wait_s }): Parameters<GetPromptQuery>,
) -> Result<Json<PromptInfo>, ApiError> {
    let wait = wait_s.map_or(Duration::ZERO, |Wait(wait)| wait);
    let found = app.engine().prompt(&principal, &prompt_name(&id)?, wait).await?;
    Ok(Json(found))
}

/// The answer to a prompt.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PromptAnswer")]
pub(crate) struct AnswerPromptRequest {
    /// One of the options, if the prompt has some.
    value: Text<0, MAX_ANSWER_BYTES>,
}

/// `POST /v1/prompts/{id}/answer`: 200 with the prompt once the answer is in the log, 409 if it has ended before.
pub(crate) async fn answer(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Members(AnswerPromptRequest { value: Text(value) }): Members<AnswerPromptRequest>,
) -> Result<Json<PromptInfo>, ApiError> {
    let name = prompt_name(&id)?;
    let answered = app.engine().answer(&principal, &name, value);
    Ok(Json(answered.await?))
}

fn prompt_name(text: &str) -> Result<PromptName, ApiError> {
    Ok(text.parse::<PromptName>()?)
}
