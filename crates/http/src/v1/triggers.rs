//! The common parts of schedules, webhooks and webhooks of prompts: all are triggers of the engine.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use himalia_engine::{EngineError, Principal};
use himalia_runs::{DeliveriesOf, RunTarget, TriggerChange, TriggerInfo, TriggerKind, WebhookMessage};

use super::answers::Empty;
use super::deliveries::{DELIVERIES, DeliveryPage, delivery_page};
use super::input::{ListQuery, Members, Parameters};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// A kind of trigger as the API shows it.
pub(crate) trait TriggerView: Sized {
    const KIND: TriggerKind;

    fn of(app: &App, info: TriggerInfo) -> Result<Self, ApiError>;
}

/// A page of those of the caller's tenant, for the operator of all, by owner and name; and the cursor of the next one.
pub(crate) async fn trigger_page<T: TriggerView, const LIST: char>(
    app: &App,
    principal: &Principal,
    wanted: &ListQuery<LIST>,
) -> Result<(Vec<T>, Option<String>), ApiError> {
    let key = |one: &TriggerInfo| format!("{} {}", one.owner, one.name);
    let mut all = app.runs().triggers(principal, T::KIND).await?;
    all.sort_by_cached_key(key);
    let (all, next) = wanted.page(all, key);
    let shown = all.into_iter().map(|info| T::of(app, info));
    Ok((shown.collect::<Result<_, _>>()?, next))
}

/// `GET /v1/schedules/{schedule}`, `GET /v1/webhooks/{webhook}`.
pub(crate) async fn show<T: TriggerView>(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(text): Path<String>,
) -> Result<Json<T>, ApiError> {
    let found = app.runs().trigger(&principal, T::KIND, &text).await?;
    Ok(Json(T::of(&app, found)?))
}

/// `PATCH /v1/schedules/{schedule}`, `PATCH /v1/webhooks/{webhook}`.
pub(crate) async fn change<T: TriggerView, C: Into<TriggerChange>>(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(text): Path<String>,
    Members(changed): Members<C>,
) -> Result<Json<T>, ApiError> {
    let changing = app
        .runs()
        .change_trigger(&principal, T::KIND, &text, changed.into());
    Ok(Json(T::of(&app, changing.await?)?))
}

/// `DELETE /v1/schedules/{schedule}`, `DELETE /v1/webhooks/{webhook}`, `DELETE /v1/prompt-webhooks/{prompt_webhook}`: 204. Runs in
/// progress continue. A webhook takes no more messages or answers.
pub(crate) async fn delete<T: TriggerView>(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(text): Path<String>,
) -> Result<Empty<204>, ApiError> {
    app.runs().delete_trigger(&principal, T::KIND, &text).await?;
    Ok(Empty)
}

/// The `deliveries` below a trigger: of results or prompts, the latest first.
pub(crate) async fn deliveries<T: TriggerView>(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(text): Path<String>,
    Parameters(wanted): Parameters<ListQuery<DELIVERIES>>,
) -> Result<Json<DeliveryPage>, ApiError> {
    let of = DeliveriesOf::Trigger(T::KIND);
    let all = app.runs().deliveries(&principal, of, &text).await?;
    Ok(Json(delivery_page(all, &wanted)))
}

/// The target of a schedule or a webhook. It has one from its start on.
pub(crate) fn target_of(info: &TriggerInfo) -> Result<RunTarget, ApiError> {
    let missing = || EngineError::internal("reading a trigger", "it has no target");
    Ok(info.target.clone().ok_or_else(missing)?)
}

/// A signed message without its body, if the headers of its signature are there.
pub(crate) fn message_head(headers: &HeaderMap) -> Option<WebhookMessage<'_>> {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    Some(WebhookMessage {
        id: header("webhook-id")?,
        timestamp: header("webhook-timestamp")?,
        signature: header("webhook-signature")?,
        body: &[],
    })
}
