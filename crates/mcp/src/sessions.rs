//! Sessions as models name and see them.

use std::fmt::Write as _;

use himalia_engine::{Engine, EngineError, KernelId, Principal, SessionInfo};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;

use crate::failure::Failure;

/// The label that holds a session's name.
pub(crate) const NAME: &str = "name";
/// Characters of an id that name a session, at least.
const PREFIX_CHARS: usize = 4;

/// A session by its id, its name, or the beginning of its id.
pub(crate) fn find(engine: &Engine, principal: &Principal, wanted: &str) -> Result<KernelId, Failure> {
    let all = engine.session_infos(principal)?;
    let ids = |is: &dyn Fn(&SessionInfo) -> bool| -> Vec<KernelId> {
        all.iter()
            .filter(|info| is(info))
            .map(|info| info.kernel.id)
            .collect()
    };
    let mut found = ids(&|info| info.kernel.id.to_string() == wanted);
    if found.is_empty() {
        found = ids(&|info| name(info) == Some(wanted));
    }
    if found.is_empty() && wanted.len() >= PREFIX_CHARS {
        found = ids(&|info| info.kernel.id.to_string().starts_with(wanted));
    }
    let shown: String = wanted.chars().take(64).flat_map(char::escape_debug).collect();
    match found[..] {
        [one] => Ok(one),
        [] => Err(EngineError::NotFound {
            what: "Session",
            id: shown,
        }
        .into()),
        _ => Err(Failure::argument(
            "session",
            format!("{} sessions are meant by {shown}", found.len()),
        )),
    }
}

/// The name that its maker gave it.
pub(crate) fn name(info: &SessionInfo) -> Option<&str> {
    info.labels.get(NAME).map(String::as_str)
}

/// What a model needs of a session.
pub(crate) fn to_json(info: &SessionInfo) -> Value {
    json!({
        "id": info.kernel.id,
        "name": name(info),
        "state": info.kernel.execution_state.as_str(),
        "reason": info.kernel.reason,
        "incarnation": info.kernel.incarnation,
        "template": info.template,
        "parent": info.parent,
        "last_activity": info.kernel.last_activity.format(&Rfc3339).ok(),
    })
}

/// The same in one line.
pub(crate) fn to_line(info: &SessionInfo) -> String {
    let mut line = format!("{} {}", info.kernel.id, info.kernel.execution_state);
    if let Some(name) = name(info) {
        line.insert_str(0, &format!("{name}: "));
    }
    if let Some(reason) = &info.kernel.reason {
        let _ = write!(line, " ({reason})");
    }
    let _ = write!(
        line,
        ", kernel process {}, {}",
        info.kernel.incarnation, info.template
    );
    if let Some(parent) = info.parent {
        let _ = write!(line, ", branch of {parent}");
    }
    line
}
