//! `POST /sandboxes`: a sandbox is started.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use himalia_engine::{Engine, EngineError, KernelId, Network, Origin, Principal, SessionInfo, StartSession};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::shown::Sandbox;
use super::{Answer, lifetime};
use crate::caller::{Caller, Domain, message};
use crate::facade::Facade;
use crate::failure::Failure;
use crate::limits::{KEY_BYTES, TIMEOUT_S, VARIABLE_BYTES, VARIABLES};

/// Templates of E2B for which the default template stands, unless one of the gateway has that name.
const DEFAULTS: [&str; 3] = ["base", "code-interpreter-v1", "code-interpreter"];
/// Variable of every process in a sandbox of E2B, set here too.
const MARK: (&str, &str) = ("E2B_SANDBOX", "true");
/// All addresses, in a list of those that are denied.
const ALL_TRAFFIC: &str = "0.0.0.0/0";

/// Body of a request for a sandbox. Members that are null, false or empty ask for nothing.
#[derive(Debug, Deserialize)]
struct CreateRequest {
    #[serde(rename = "templateID")]
    template: String,
    timeout: Option<u64>,
    metadata: Option<BTreeMap<String, String>>,
    #[serde(rename = "envVars")]
    env_vars: Option<BTreeMap<String, String>>,
    allow_internet_access: Option<bool>,
    network: Option<Map<String, Value>>,
    /// Every sandbox is reached with a token.
    #[serde(rename = "secure")]
    _secure: Option<bool>,
    /// Only of a sandbox that is paused.
    #[serde(rename = "autoPauseMemory")]
    _auto_pause_memory: Option<bool>,
    #[serde(rename = "autoResume")]
    auto_resume: Option<Map<String, Value>>,
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}

pub(super) async fn start(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    domain: Domain,
    headers: HeaderMap,
    body: Body,
) -> Answer<(StatusCode, Json<Sandbox>)> {
    let requested: CreateRequest = message(body).await?;
    let key = key(&headers)?;
    let id = key.map(|key| (facade.of_key)(&principal, key));
    let start = StartSession {
        name: template(&facade.engine, &principal, &requested.template).await?,
        id,
        ..requested.read()?
    };
    let started = facade.engine.start_session(&principal, start).await;
    let info = match (started, id) {
        (Err(EngineError::Conflict { reason }), Some(id)) => {
            repeated(&facade.engine, &principal, id, reason)?
        }
        (started, _) => started?,
    };
    let token = (facade.issue)(&principal, &info.id().to_string());
    Ok((StatusCode::CREATED, Json(Sandbox::new(&info, token, domain))))
}

/// The sandbox that an earlier request with the same key has started.
fn repeated(
    engine: &Engine,
    principal: &Principal,
    id: KernelId,
    reason: String,
) -> Result<SessionInfo, Failure> {
    let info = engine.session_info(principal, id).ok();
    let info = info.filter(|info| info.end.is_none());
    info.ok_or_else(|| Failure::new(StatusCode::CONFLICT, reason))
}

/// The template of a name or of an alias, as `GET /templates/aliases/{alias}` shows it.
#[derive(Debug, Serialize)]
pub(super) struct FoundTemplate {
    #[serde(rename = "templateID")]
    id: String,
    public: bool,
}

pub(super) async fn find_template(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    Path(name): Path<String>,
) -> Answer<Json<FoundTemplate>> {
    let all = facade.engine.templates(&principal).await?;
    if !DEFAULTS.contains(&name.as_str()) && all.iter().all(|one| one.name != name) {
        return Err(Failure::new(StatusCode::NOT_FOUND, "there is no such template").into());
    }
    Ok(Json(FoundTemplate {
        id: name,
        public: false,
    }))
}

/// The gateway's template for a name; `None` is the default one.
pub(super) async fn template(
    engine: &Engine,
    principal: &Principal,
    name: &str,
) -> Result<Option<String>, Failure> {
    if !name.is_empty() && !DEFAULTS.contains(&name) {
        return Ok(Some(name.to_owned()));
    }
    let all = engine.templates(principal).await?;
    let is_there = all.iter().any(|one| one.name == name);
    Ok(is_there.then(|| name.to_owned()))
}

/// Idempotency key of a start.
fn key(headers: &HeaderMap) -> Result<Option<&[u8]>, Failure> {
    let Some(key) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    if key.is_empty() || key.len() > KEY_BYTES {
        return Err(Failure::field(
            "Idempotency-Key",
            format!("must have 1 to {KEY_BYTES} bytes"),
        ));
    }
    Ok(Some(key.as_bytes()))
}

impl CreateRequest {
    fn read(self) -> Result<StartSession, Failure> {
        let refuse = |name: &str| Err(Failure::field(name, "this gateway does not offer this"));
        if let Some((name, _)) = self.more.iter().find(|(_, value)| asks(value)) {
            return refuse(name);
        }
        let resumes = self.auto_resume.as_ref().and_then(|resume| resume.get("enabled"));
        if resumes.is_some_and(asks) {
            return refuse("autoResume");
        }
        let mut env = self.env_vars.unwrap_or_default();
        variables("envVars", &env)?;
        env.entry(MARK.0.to_owned()).or_insert_with(|| MARK.1.to_owned());
        let is_closed =
            self.allow_internet_access == Some(false) || closes(self.network.unwrap_or_default())?;
        Ok(StartSession {
            env,
            origin: Origin::V1,
            network: is_closed.then_some(Network::None),
            lifetime: Some(lifetime(self.timeout.unwrap_or(TIMEOUT_S))?),
            labels: self.metadata.unwrap_or_default(),
            ..StartSession::default()
        })
    }
}

/// True if a value requests something.
fn asks(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(all) => !all.is_empty(),
        Value::Object(all) => !all.is_empty(),
        _ => true,
    }
}

/// True if a configuration of the network closes it as a whole. It is refused if it asks for more than that.
fn closes(network: Map<String, Value>) -> Result<bool, Failure> {
    let mut is_closed = false;
    for (name, value) in network {
        match name.as_str() {
            // No port of a sandbox is reached without its token.
            "allowPublicTraffic" => {}
            "denyOut"
                if value
                    .as_array()
                    .is_some_and(|all| all.iter().any(|one| one == ALL_TRAFFIC)) =>
            {
                is_closed = true;
            }
            _ if !asks(&value) => {}
            _ => {
                let reason = "this gateway does not offer this; denyOut can close the network as a whole";
                return Err(Failure::field(&format!("network.{name}"), reason));
            }
        }
    }
    Ok(is_closed)
}

/// Refuses environment variables that no process can have. Errors name a variable, never its value.
pub(crate) fn variables(field: &str, variables: &BTreeMap<String, String>) -> Result<(), Failure> {
    if variables.len() > VARIABLES {
        return Err(Failure::field(field, format!("more than {VARIABLES} variables")));
    }
    for (name, value) in variables {
        let reason = if name.is_empty() || name.contains(['=', '\0']) {
            "must be a valid name of a variable"
        } else if value.contains('\0') {
            "has a NUL character in its value"
        } else if name.len() + value.len() > VARIABLE_BYTES {
            "is too long"
        } else {
            continue;
        };
        return Err(Failure::field(&format!("{field}.{name}"), reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn read(body: Value) -> Result<StartSession, String> {
        let requested: CreateRequest = serde_json::from_value(body).map_err(|error| error.to_string())?;
        requested.read().map_err(|failure| failure.message)
    }

    #[test]
    fn a_timeout_is_a_lifetime_and_metadata_are_labels() {
        let start = read(json!({
            "templateID": "base", "timeout": 60, "metadata": {"a": "b"}, "envVars": {"X": "1"},
            "autoPause": false, "autoPauseMemory": true, "mcp": null, "secure": true, "volumeMounts": [],
        }));
        let start = start.unwrap();
        assert_eq!(start.lifetime, Some(Duration::from_mins(1)));
        assert_eq!(start.labels["a"], "b");
        assert_eq!(start.env["X"], "1");
        assert_eq!(start.env["E2B_SANDBOX"], "true");
        assert_eq!(start.network, None);
        let plain = read(json!({"templateID": "base"})).unwrap();
        assert_eq!(plain.lifetime, Some(Duration::from_secs(TIMEOUT_S)));
        assert_eq!(
            read(json!({"templateID": "x", "timeout": 0})).unwrap().lifetime,
            Some(Duration::from_secs(1))
        );
    }

    #[test]
    fn a_network_is_closed_or_that_of_the_template() {
        let network = |network: Value| {
            let start = read(json!({"templateID": "base", "network": network}));
            start.map(|start| start.network)
        };
        assert_eq!(
            network(json!({"denyOut": ["0.0.0.0/0"]})),
            Ok(Some(Network::None))
        );
        assert_eq!(
            network(json!({"allowPublicTraffic": false, "allowOut": []})),
            Ok(None)
        );
        let refused = network(json!({"allowOut": ["example.com"]})).unwrap_err();
        assert!(refused.starts_with("network.allowOut: "), "{refused}");
        let closed = read(json!({"templateID": "base", "allow_internet_access": false})).unwrap();
        assert_eq!(closed.network, Some(Network::None));
    }

    #[test]
    fn what_is_not_offered_is_refused_by_name() {
        for (name, value) in [
            ("autoPause", json!(true)),
            ("autoResume", json!({"enabled": true})),
            ("mcp", json!({"exa": {}})),
            ("iam", json!({"tokens": {"a": {}}})),
            ("volumeMounts", json!([{"name": "a"}])),
            ("fromTheFuture", json!(1)),
        ] {
            let mut body = json!({"templateID": "base"});
            body[name] = value;
            let refused = read(body).unwrap_err();
            assert!(refused.starts_with(&format!("{name}: ")), "{refused}");
        }
        let refused = read(json!({"templateID": "base", "envVars": {"A=B": "x"}})).unwrap_err();
        assert_eq!(refused, "envVars.A=B: must be a valid name of a variable");
        assert!(read(json!({"templateID": "base", "timeout": u64::MAX})).is_err());
        assert!(read(json!({})).is_err());
    }
}
