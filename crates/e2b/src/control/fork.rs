//! `POST /sandboxes/{id}/fork`: copies of a sandbox that runs.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use himalia_engine::{
    EngineError, ExecutionState, ForkKernel, KernelId, MAX_BRANCHES, Principal, SessionChange, SessionInfo,
    TimeChange,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::{Instant, sleep};

use super::shown::Sandbox;
use super::{Answer, lifetime};
use crate::caller::{Caller, Domain, SandboxName, message};
use crate::facade::Facade;
use crate::failure::Failure;
use crate::limits::TIMEOUT_S;

/// Longest wait for the start of the kernel of a sandbox that is to be copied.
const START_TIME: Duration = Duration::from_secs(30);
/// Time between two looks at it.
const START_LOOK: Duration = Duration::from_millis(50);

#[derive(Debug, Default, Deserialize)]
struct ForkRequest {
    timeout: Option<u64>,
    count: Option<u32>,
}

/// One copy, or why there is none.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ForkResult {
    Sandbox(Sandbox),
    Error { code: u16, message: String },
}

pub(super) async fn fork(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
    domain: Domain,
    body: Body,
) -> Answer<(StatusCode, Json<Vec<ForkResult>>)> {
    let ForkRequest { timeout, count } = message(body).await?;
    let count = count.unwrap_or(1);
    if !(1..=MAX_BRANCHES).contains(&count) {
        return Err(Failure::field("count", format!("expected 1 to {MAX_BRANCHES}")).into());
    }
    let lifetime = lifetime(timeout.unwrap_or(TIMEOUT_S))?;
    let session = named.session(&facade.engine, &principal)?;
    let wanted = ForkKernel {
        count,
        ..ForkKernel::default()
    };
    started(&facade, &principal, session.first_kernel()).await;
    let made = facade
        .engine
        .fork_kernel(&principal, session.first_kernel(), wanted)
        .await;
    let made = made.map_err(|error| Failure::of_sandbox(error, &named.0))?;
    let mut forked = Vec::new();
    let mut failed = None;
    for branch in made {
        let started = match branch {
            Ok(branch) => limited(&facade, &principal, branch.session, lifetime).await,
            Err(error) => Err(error),
        };
        match started {
            Ok(info) => {
                let token = (facade.issue)(&principal, &info.id().to_string());
                forked.push(ForkResult::Sandbox(Sandbox::new(&info, token, domain.clone())));
            }
            Err(error) => failed = failed.or(Some(Failure::from(error))),
        }
    }
    // After one that failed no other is tried.
    let failure = failed.unwrap_or_else(|| Failure::new(StatusCode::CONFLICT, "an earlier copy failed"));
    while forked.len() < count as usize {
        forked.push(ForkResult::Error {
            code: failure.answer.status.as_u16(),
            message: failure.message.clone(),
        });
    }
    Ok((StatusCode::CREATED, Json(forked)))
}

/// Waits until a kernel that is starting has started, or has not in time: then the fork says why there is none.
async fn started(facade: &Facade, principal: &Principal, kernel: KernelId) {
    let end = Instant::now() + START_TIME;
    while Instant::now() < end {
        let kernel = facade.engine.kernel(principal, kernel);
        if kernel.is_ok_and(|kernel| kernel.execution_state == ExecutionState::Starting) {
            sleep(START_LOOK).await;
        } else {
            return;
        }
    }
}

/// Gives a copy its own end. One that cannot have it does not stay.
async fn limited(
    facade: &Facade,
    principal: &Principal,
    branch: SessionInfo,
    lifetime: Duration,
) -> Result<SessionInfo, EngineError> {
    let change = SessionChange {
        lifetime: TimeChange::Set(lifetime),
        ..SessionChange::default()
    };
    let changed = facade.engine.change_session(principal, branch.id(), change).await;
    if changed.is_err() {
        let _ = facade.engine.shutdown_kernel(principal, branch.kernel.id).await;
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_the_shape_of_an_error() {
        let error = ForkResult::Error {
            code: 429,
            message: "full".into(),
        };
        let shown = serde_json::to_value(error).unwrap();
        assert_eq!(
            shown,
            serde_json::json!({"error": {"code": 429, "message": "full"}})
        );
    }
}
