//! Finds sessions by the names that models use, and describes them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use himalia_engine::{Engine, EngineError, KernelId, Principal, SessionId, SessionInfo};
use serde::Deserialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::call::Call;
use crate::failure::Failure;

/// Characters of an id that name a session, at least.
const PREFIX_CHARS: usize = 4;

/// The first kernel of a session, by its id, its name, or the beginning of its id.
pub(crate) fn find(call: &Call, wanted: &str) -> Result<KernelId, Failure> {
    let id = sought(&call.engine, &call.principal, wanted)?;
    call.subject.is_kernel(id);
    Ok(id)
}

fn sought(engine: &Engine, principal: &Principal, wanted: &str) -> Result<KernelId, Failure> {
    let unknown = match engine.find_session(principal, wanted) {
        Err(error) if error.is_absent() && wanted.len() >= PREFIX_CHARS => error,
        found => return Ok(found?.first_kernel()),
    };
    let all = engine.session_infos(principal)?;
    let ids = all.iter().map(|info| info.kernel.id);
    let found: Vec<KernelId> = ids.filter(|id| id.to_string().starts_with(wanted)).collect();
    match found[..] {
        [one] => Ok(one),
        [] => Err(unknown.into()),
        _ => Err(Failure::argument(
            "session",
            format!("{} sessions begin with this", found.len()),
        )),
    }
}

/// A kernel of a session: the first one, or the one with this id.
pub(crate) fn kernel(call: &Call, session: &str, kernel: Option<&str>) -> Result<KernelId, Failure> {
    let first = sought(&call.engine, &call.principal, session)?;
    let session = SessionId::of_first_kernel(first);
    let found = call.engine.session_kernel(&call.principal, session, kernel);
    let id = found.map_err(Failure::Engine)?;
    call.subject.is_kernel(id);
    Ok(id)
}

/// Fields of a session that a model needs; also read from another replica's list of its own (`GET /v1/sessions`).
#[derive(Debug, Deserialize)]
pub(crate) struct SessionSummary {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    state: String,
    reason: Option<String>,
    unresponsive: Option<NotAnswering>,
    incarnation: u32,
    template: String,
    parent: Option<String>,
    created: String,
    last_activity: String,
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct NotAnswering {
    problem: String,
    advice: String,
}

impl From<&SessionInfo> for SessionSummary {
    fn from(info: &SessionInfo) -> Self {
        let unresponsive = info.kernel.unresponsive.map(|found| NotAnswering {
            problem: found.problem.as_str().to_owned(),
            advice: found.problem.advice().to_owned(),
        });
        Self {
            id: info.kernel.id.to_string(),
            name: info.session.name.clone(),
            state: info.kernel.execution_state.as_str().to_owned(),
            reason: info.kernel.reason.clone(),
            unresponsive,
            incarnation: info.kernel.incarnation,
            template: info.session.template.clone(),
            parent: info.session.parent.map(|parent| parent.to_string()),
            created: text(info.session.created()),
            last_activity: text(info.kernel.last_activity),
            labels: info.session.labels.clone(),
        }
    }
}

fn text(time: OffsetDateTime) -> String {
    time.format(&Rfc3339).unwrap_or_default()
}

impl SessionSummary {
    /// The sessions that a caller sees, the oldest first: those of this replica, and those that the others have listed.
    ///
    /// # Errors
    /// As [`Engine::session_infos`].
    pub(crate) fn all(
        engine: &Engine,
        principal: &Principal,
        peers: Vec<Value>,
    ) -> Result<Vec<Self>, EngineError> {
        let own = engine.session_infos(principal)?;
        let mut all: Vec<Self> = own.iter().map(Self::from).collect();
        for session in peers {
            // A session that has just moved is at two replicas.
            if let Ok(shown) = serde_json::from_value::<Self>(session)
                && all.iter().all(|known| known.id != shown.id)
            {
                all.push(shown);
            }
        }
        all.sort_by_cached_key(Self::created);
        Ok(all)
    }

    fn created(&self) -> Option<OffsetDateTime> {
        OffsetDateTime::parse(&self.created, &Rfc3339).ok()
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "state": self.state,
            "reason": self.reason,
            "unresponsive": self.unresponsive.as_ref().map(|found| &found.advice),
            "incarnation": self.incarnation,
            "template": self.template,
            "parent": self.parent,
            "last_activity": self.last_activity,
            "labels": self.labels,
        })
    }

    /// The same in one line.
    pub(crate) fn to_line(&self) -> String {
        let mut line = format!("{} {}", self.id, self.state);
        if let Some(name) = &self.name {
            line.insert_str(0, &format!("{name}: "));
        }
        if let Some(reason) = &self.reason {
            let _ = write!(line, " ({reason})");
        }
        if let Some(found) = &self.unresponsive {
            let _ = write!(line, " (does not answer: {})", found.problem);
        }
        let _ = write!(line, ", kernel process {}, {}", self.incarnation, self.template);
        if let Some(parent) = &self.parent {
            let _ = write!(line, ", branch of {parent}");
        }
        line
    }
}
