//! `GET /v1/pools`: kernels that are kept ready.

use axum::extract::State;
use axum::http::HeaderMap;
use himalia_engine::PoolStatus;
use schemars::JsonSchema;
use serde::Serialize;

use super::answers::TaggedJson;
use super::input::{ListQuery, Parameters};
use super::models::Pool;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// All pools, one for each template that has one.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PoolPage {
    pools: Vec<Pool>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

/// The letter of its cursors.
const LIST: char = 'p';

/// `GET /v1/pools`.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Parameters(wanted): Parameters<ListQuery<LIST>>,
    headers: HeaderMap,
) -> Result<TaggedJson<PoolPage>, ApiError> {
    let mut pools = app.engine().pools(&principal)?;
    pools.sort_by(|one, other| one.template.cmp(&other.template));
    let key = |pool: &PoolStatus| pool.template.clone();
    let (pools, next) = wanted.page(pools, key);
    let pools = pools.into_iter().map(Pool::from).collect();
    TaggedJson::json(&headers, &PoolPage { pools, next })
}
