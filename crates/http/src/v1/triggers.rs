//! What schedules, webhooks and webhooks of prompts share: all are triggers of the engine.

use himalia_engine::{Principal, TriggerInfo, TriggerKind};

use super::input::{Cursor, Limit, PAGE_MOST, limit, page};
use crate::app::App;
use crate::error::ApiError;

/// A page of those of the caller's tenant, for the operator of all, by owner and name; and the cursor of the next one.
pub(crate) async fn trigger_page<T, const LIST: char>(
    app: &App,
    principal: &Principal,
    kind: TriggerKind,
    (cursor, most): (Option<&Cursor<LIST>>, Option<Limit>),
    shown: impl Fn(TriggerInfo) -> T,
) -> Result<(Vec<T>, Option<String>), ApiError> {
    let key = |one: &TriggerInfo| format!("{} {}", one.owner, one.name);
    let mut all = app.engine().triggers(principal, kind).await?;
    all.sort_by_cached_key(key);
    let (all, next) = page(all, cursor, limit(most, PAGE_MOST), key);
    Ok((all.into_iter().map(shown).collect(), next))
}
