//! The control plane: `/sandboxes` and `/v2/sandboxes`.

mod create;
mod fork;
mod list;
mod shown;

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use himalia_engine::{SessionChange, SessionInfo, TimeChange};
use serde::Deserialize;
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::caller::{Caller, Domain, SandboxName, is_over, message};
use crate::facade::Facade;
use crate::failure::{ControlFailure, Failure};
use crate::limits::{TIMEOUT_MOST_S, TIMEOUT_S};
pub(crate) use create::variables;
pub(crate) use shown::text;
use shown::{Detail, Metric, Sandbox};

pub(crate) fn routes() -> Router<Facade> {
    let list_and_start = || get(list::page).post(create::start);
    Router::new()
        .route("/sandboxes", list_and_start())
        .route("/v2/sandboxes", list_and_start())
        .route("/sandboxes/{sandbox}", get(show).delete(kill))
        .route("/sandboxes/{sandbox}/timeout", post(set_timeout))
        .route("/sandboxes/{sandbox}/connect", post(connect))
        .route("/sandboxes/{sandbox}/resume", post(connect))
        .route("/v2/sandboxes/{sandbox}/connect", post(connect))
        .route("/sandboxes/{sandbox}/fork", post(fork::fork))
        .route("/sandboxes/{sandbox}/metrics", get(metrics))
        .route("/sandboxes/{sandbox}/pause", post(pause))
        .route("/sandboxes/{sandbox}/snapshots", post(snapshot))
        .route("/sandboxes/{sandbox}/network", put(network))
        .route("/snapshots", get(snapshots))
        .route("/templates/{template}", delete(no_template))
        .route("/templates/aliases/{alias}", get(create::find_template))
}

type Answer<T> = Result<T, ControlFailure>;

/// A lifetime in seconds from now.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Timeout {
    timeout: Option<u64>,
}

/// A lifetime that a client gives. 0 is as soon as possible.
fn lifetime(seconds: u64) -> Result<Duration, Failure> {
    if seconds > TIMEOUT_MOST_S {
        return Err(Failure::field(
            "timeout",
            format!("is more than {TIMEOUT_MOST_S} seconds"),
        ));
    }
    Ok(Duration::from_secs(seconds.max(1)))
}

/// `GET /sandboxes/{id}`.
async fn show(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
    domain: Domain,
) -> Answer<Json<Detail>> {
    let info = living(&facade, &principal, &named)?;
    let token = (facade.issue)(&principal, &info.id().to_string());
    Ok(Json(Detail::new(&info, token, domain)))
}

/// A sandbox that lives.
fn living(
    facade: &Facade,
    principal: &himalia_engine::Principal,
    named: &SandboxName,
) -> Result<SessionInfo, Failure> {
    let session = named.session(&facade.engine, principal)?;
    let info = facade.engine.session_info(principal, session.first_kernel());
    let info = info.map_err(|error| Failure::of_sandbox(error, &named.0))?;
    if is_over(&info) {
        return Err(Failure::no_sandbox(&named.0));
    }
    Ok(info)
}

/// `DELETE /sandboxes/{id}`.
async fn kill(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
) -> Answer<StatusCode> {
    let session = named.session(&facade.engine, &principal)?;
    let _killed = facade.killed.enter(session);
    let ended = facade.engine.shutdown_kernel(&principal, session.first_kernel());
    let ended = ended.await;
    ended.map_err(|error| Failure::of_sandbox(error, &named.0))?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /sandboxes/{id}/timeout`: it ends that long from now.
async fn set_timeout(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
    body: Body,
) -> Answer<StatusCode> {
    let Timeout { timeout } = message(body).await?;
    let timeout = timeout.ok_or_else(|| Failure::field("timeout", "is missing"))?;
    let session = named.session(&facade.engine, &principal)?;
    let change = SessionChange {
        lifetime: TimeChange::Set(lifetime(timeout)?),
        ..SessionChange::default()
    };
    let changed = facade.engine.change_session(&principal, session, change).await;
    changed.map_err(|error| Failure::of_sandbox(error, &named.0))?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /v2/sandboxes/{id}/connect`: the sandbox with a token for the caller. It lives at least so long from now.
async fn connect(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
    domain: Domain,
    body: Body,
) -> Answer<Json<Sandbox>> {
    let Timeout { timeout } = message(body).await?;
    let wanted = lifetime(timeout.unwrap_or(TIMEOUT_S))?;
    let mut info = living(&facade, &principal, &named)?;
    let ends = info.session.expires();
    if ends.is_some_and(|ends| ends < OffsetDateTime::now_utc() + wanted) {
        let change = SessionChange {
            lifetime: TimeChange::Set(wanted),
            ..SessionChange::default()
        };
        let changed = facade.engine.change_session(&principal, info.id(), change).await;
        info = changed.map_err(|error| Failure::of_sandbox(error, &named.0))?;
    }
    let token = (facade.issue)(&principal, &info.id().to_string());
    Ok(Json(Sandbox::new(&info, token, domain)))
}

/// Seconds since 1970 that samples must lie between.
#[derive(Debug, Default, Deserialize)]
struct TimeRange {
    start: Option<i64>,
    end: Option<i64>,
}

impl TimeRange {
    /// Samples lie in steps of five seconds in the cloud, so that clients ask for a range that ends before the sample was taken.
    const STEP_S: i64 = 5;

    fn has(&self, at: OffsetDateTime) -> bool {
        let at = at.unix_timestamp();
        self.start.is_none_or(|start| at >= start - Self::STEP_S)
            && self.end.is_none_or(|end| at <= end + Self::STEP_S)
    }
}

/// `GET /sandboxes/{id}/metrics`: one sample, as of now; none if the client asks for another time.
async fn metrics(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
    Query(range): Query<TimeRange>,
) -> Answer<Json<Vec<Metric>>> {
    let info = living(&facade, &principal, &named)?;
    let now = OffsetDateTime::now_utc();
    if !range.has(now) {
        return Ok(Json(Vec::new()));
    }
    let usage = facade.engine.session_usage(&principal, info.id()).await?;
    Ok(Json(vec![Metric::new(&info, &usage.sandbox, now)]))
}

/// `POST /sandboxes/{id}/pause`.
async fn pause(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
) -> Answer<StatusCode> {
    living(&facade, &principal, &named)?;
    let reason =
        "this gateway does not pause sandboxes: their memory would be lost. A longer timeout keeps one alive";
    Err(Failure::not_offered(reason).into())
}

/// `POST /sandboxes/{id}/snapshots`.
async fn snapshot(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
) -> Answer<StatusCode> {
    living(&facade, &principal, &named)?;
    Err(
        Failure::not_offered("this gateway keeps no snapshots; fork starts copies of a sandbox that runs")
            .into(),
    )
}

/// `GET /snapshots`: there are none.
async fn snapshots(_: Caller) -> Json<Value> {
    Json(json!([]))
}

/// `DELETE /templates/{id}`, with which clients delete snapshots: there are none.
async fn no_template(_: Caller) -> ControlFailure {
    Failure::new(StatusCode::NOT_FOUND, "there is no such snapshot").into()
}

/// `PUT /sandboxes/{id}/network`.
async fn network(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
) -> Answer<StatusCode> {
    living(&facade, &principal, &named)?;
    Err(Failure::not_offered("the network of a sandbox is chosen at its start, and does not change").into())
}

/// `GET /health`, of one sandbox: 204 while it runs, else 502.
pub(crate) async fn health(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
) -> Answer<StatusCode> {
    let session = named.running(&facade.engine, &principal)?;
    if facade.killed.is_gone(&facade.engine, &principal, session) {
        return Err(Failure::not_running(&named.0).into());
    }
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_lies_within_the_range_that_was_asked_for() {
        let at = OffsetDateTime::from_unix_timestamp(1000).unwrap();
        let has = |start, end| TimeRange { start, end }.has(at);
        assert!(
            has(None, None) && has(Some(1000), Some(1000)) && has(Some(900), None) && has(None, Some(996))
        );
        assert!(!has(Some(1006), None) && !has(None, Some(994)) && !has(Some(0), Some(500)));
    }
}
