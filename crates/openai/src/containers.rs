//! Containers.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use himalia_engine::{
    Engine, EngineError, KernelId, Network, Origin, Principal, SessionInfo, SessionLimits, StartSession,
};
use himalia_facade::{Caller, message};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::facade::Facade;
use crate::failure::{self, Failure};
use crate::ids;
use crate::limits::{MESSAGE_BYTES, MINUTES, MINUTES_MOST, NAME_CHARS};
use crate::page::{ListQuery, page};

/// The label of a session that has the name of its container.
const LABEL: &str = "openai-container";
/// The label that has the memory as the client said it.
const MEMORY: &str = "openai-memory";
const GIB: u64 = 1 << 30;

/// Body of a request for a container.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateContainerRequest {
    name: String,
    expires_after: Option<ExpiresAfter>,
    #[serde(default)]
    file_ids: Vec<Value>,
    memory_limit: Option<String>,
    network_policy: Option<NetworkPolicy>,
    #[serde(default)]
    skills: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpiresAfter {
    anchor: String,
    minutes: u64,
}

#[derive(Debug, Deserialize)]
struct NetworkPolicy {
    r#type: String,
}

/// `POST /containers`.
pub(crate) async fn create(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    body: Body,
) -> Result<Json<Value>, Failure> {
    let requested: CreateContainerRequest = message(body, MESSAGE_BYTES).await?;
    let info = facade.engine.start_session(&principal, requested.read()?).await?;
    Ok(Json(shown(&info)))
}

/// `GET /containers`.
pub(crate) async fn list(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    Query(asked): Query<ListQuery>,
) -> Result<Json<Value>, Failure> {
    let mut all = facade.engine.session_infos(&principal)?;
    all.retain(|info| {
        let name = info.session.labels.get(LABEL);
        name.is_some() && asked.name.as_ref().is_none_or(|wanted| name == Some(wanted))
    });
    all.sort_by_key(|info| (info.session.created_micros, info.id().to_string()));
    Ok(Json(page(all.iter().map(shown).collect(), &asked)?))
}

/// `GET /containers/{id}`.
pub(crate) async fn show(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    Path(container): Path<String>,
) -> Result<Json<Value>, Failure> {
    let (_, info) = found(&facade.engine, &principal, &container)?;
    Ok(Json(shown(&info)))
}

/// `DELETE /containers/{id}`.
pub(crate) async fn end(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    Path(container): Path<String>,
) -> Result<Json<Value>, Failure> {
    let (id, _) = found(&facade.engine, &principal, &container)?;
    facade.engine.shutdown_kernel(&principal, id).await?;
    Ok(Json(
        json!({ "id": container, "object": "container.deleted", "deleted": true }),
    ))
}

/// A container that is there: the session was started as one.
pub(crate) fn found(
    engine: &Engine,
    principal: &Principal,
    container: &str,
) -> Result<(KernelId, SessionInfo), Failure> {
    let absent = || failure::absent("container", container);
    let id = ids::session(container).ok_or_else(absent)?.first_kernel();
    let info = engine.session_info(principal, id);
    let info = info.map_err(|error: EngineError| if error.is_absent() { absent() } else { error.into() })?;
    let is_container = info.end.is_none() && info.session.labels.contains_key(LABEL);
    if is_container {
        Ok((id, info))
    } else {
        Err(absent())
    }
}

impl CreateContainerRequest {
    fn read(self) -> Result<StartSession, Failure> {
        if self.name.is_empty() || self.name.chars().count() > NAME_CHARS {
            return Err(Failure::field(
                "name",
                format!("must have 1 to {NAME_CHARS} characters"),
            ));
        }
        let refused = [
            ("file_ids", !self.file_ids.is_empty()),
            ("skills", !self.skills.is_empty()),
        ];
        if let Some((name, _)) = refused.iter().find(|(_, asked)| *asked) {
            return Err(Failure::field(name, "this gateway does not offer this"));
        }
        let minutes = match self.expires_after {
            None => MINUTES,
            Some(ExpiresAfter { anchor, minutes })
                if anchor == "last_active_at" && (1..=MINUTES_MOST).contains(&minutes) =>
            {
                minutes
            }
            Some(_) => {
                let reason = format!("expected last_active_at and 1 to {MINUTES_MOST} minutes");
                return Err(Failure::field("expires_after", reason));
            }
        };
        if self
            .network_policy
            .is_some_and(|policy| policy.r#type != "disabled")
        {
            let reason = "a container has no network here; /v1/sessions starts sessions with a list of hosts";
            return Err(Failure::field("network_policy", reason));
        }
        let memory = self.memory_limit.as_deref().map(memory).transpose()?;
        let mut labels = std::collections::BTreeMap::from([(LABEL.to_owned(), self.name)]);
        labels.extend(self.memory_limit.map(|word| (MEMORY.to_owned(), word)));
        Ok(StartSession {
            origin: Origin::V1,
            network: Some(Network::None),
            idle_timeout: Some(Duration::from_secs(minutes * 60)),
            limits: SessionLimits {
                memory_bytes: memory,
                ..SessionLimits::default()
            },
            labels,
            ..StartSession::default()
        })
    }
}

fn memory(word: &str) -> Result<u64, Failure> {
    match word {
        "1g" => Ok(GIB),
        "4g" => Ok(4 * GIB),
        "16g" => Ok(16 * GIB),
        "64g" => Ok(64 * GIB),
        _ => Err(Failure::field("memory_limit", "must be 1g, 4g, 16g or 64g")),
    }
}

fn shown(info: &SessionInfo) -> Value {
    let (session, kernel) = (&info.session, &info.kernel);
    let minutes = session.idle_timeout.map(|time| time.as_secs() / 60);
    json!({
        "id": ids::container(info.id()),
        "object": "container",
        "created_at": session.created().unix_timestamp(),
        "name": session.labels.get(LABEL),
        "status": "running",
        "last_active_at": kernel.last_activity.unix_timestamp(),
        "expires_after": minutes.map(|minutes| json!({ "anchor": "last_active_at", "minutes": minutes })),
        "memory_limit": session.labels.get(MEMORY),
        "network_policy": { "type": "disabled" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;

    #[test]
    fn what_is_not_offered_is_refused_by_name() {
        let read = |body: Value| {
            serde_json::from_value::<CreateContainerRequest>(body)
                .unwrap()
                .read()
        };
        let plain =
            read(json!({ "name": "a", "memory_limit": "4g", "network_policy": { "type": "disabled" } }))
                .unwrap();
        assert_eq!(plain.idle_timeout, Some(Duration::from_mins(MINUTES)));
        assert_eq!(plain.limits.memory_bytes, Some(4 * GIB));
        for refused in [
            json!({ "name": "" }),
            json!({ "name": "a", "file_ids": ["file_1"] }),
            json!({ "name": "a", "skills": [{}] }),
            json!({ "name": "a", "memory_limit": "2g" }),
            json!({ "name": "a", "network_policy": { "type": "allowlist", "allowed_domains": [] } }),
            json!({ "name": "a", "expires_after": { "anchor": "created_at", "minutes": 1 } }),
            json!({ "name": "a", "expires_after": { "anchor": "last_active_at", "minutes": 0 } }),
        ] {
            assert_eq!(
                read(refused.clone()).unwrap_err().answer.status,
                StatusCode::BAD_REQUEST,
                "{refused}"
            );
        }
    }
}
