//! The common parts of schedules, webhooks and webhooks of prompts: all are triggers of the engine.

use himalia_engine::{EngineError, Principal};
use himalia_runs::{RunTarget, TriggerInfo, TriggerKind};

use super::input::{Cursor, Limit, PAGE_MOST, limit, page};
use crate::app::App;
use crate::error::ApiError;

/// A page of those of the caller's tenant, for the operator of all, by owner and name; and the cursor of the next one.
pub(crate) async fn trigger_page<T, const LIST: char>(
    app: &App,
    principal: &Principal,
    kind: TriggerKind,
    (cursor, most): (Option<&Cursor<LIST>>, Option<Limit>),
    shown: impl Fn(TriggerInfo) -> Result<T, ApiError>,
) -> Result<(Vec<T>, Option<String>), ApiError> {
    let key = |one: &TriggerInfo| format!("{} {}", one.owner, one.name);
    let mut all = app.runs().triggers(principal, kind).await?;
    all.sort_by_cached_key(key);
    let (all, next) = page(all, cursor, limit(most, PAGE_MOST), key);
    let shown = all.into_iter().map(shown).collect::<Result<_, _>>()?;
    Ok((shown, next))
}

/// The target of a schedule or a webhook. It has one from its start on.
pub(crate) fn target_of(info: &TriggerInfo) -> Result<RunTarget, ApiError> {
    let missing = || EngineError::internal("reading a trigger", "it has no target");
    Ok(info.target.clone().ok_or_else(missing)?)
}
