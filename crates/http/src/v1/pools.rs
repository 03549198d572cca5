//! `GET /v1/pools`: kernels that are kept ready.

use axum::extract::State;
use axum::http::HeaderMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::answers::Tagged;
use super::models::Pool;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// All pools, one for each template that has one.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Pools {
    pools: Vec<Pool>,
}

/// `GET /v1/pools`.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    headers: HeaderMap,
) -> Result<Tagged<Pools>, ApiError> {
    let pools = app
        .engine()
        .pools(&principal)?
        .into_iter()
        .map(Pool::from)
        .collect();
    Tagged::json(&headers, &Pools { pools })
}
