//! Finds sessions by the names that models use, and describes them.

use std::fmt::Write as _;

use himalia_engine::{Engine, KernelId, Principal, SessionInfo};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;

use crate::failure::Failure;

/// Characters of an id that name a session, at least.
const PREFIX_CHARS: usize = 4;

/// The first kernel of a session, by its id, its name, or the beginning of its id.
pub(crate) fn find(engine: &Engine, principal: &Principal, wanted: &str) -> Result<KernelId, Failure> {
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

/// What a model needs of a session.
pub(crate) fn to_json(info: &SessionInfo) -> Value {
    json!({
        "id": info.kernel.id,
        "name": info.session.name,
        "state": info.kernel.execution_state.as_str(),
        "reason": info.kernel.reason,
        "unresponsive": info.kernel.unresponsive.map(|found| found.problem.advice()),
        "incarnation": info.kernel.incarnation,
        "template": info.session.template,
        "parent": info.session.parent,
        "last_activity": info.kernel.last_activity.format(&Rfc3339).ok(),
    })
}

/// The same in one line.
pub(crate) fn to_line(info: &SessionInfo) -> String {
    let mut line = format!("{} {}", info.kernel.id, info.kernel.execution_state);
    if let Some(name) = &info.session.name {
        line.insert_str(0, &format!("{name}: "));
    }
    if let Some(reason) = &info.kernel.reason {
        let _ = write!(line, " ({reason})");
    }
    if let Some(found) = info.kernel.unresponsive {
        let _ = write!(line, " (does not answer: {})", found.problem.as_str());
    }
    let _ = write!(
        line,
        ", kernel process {}, {}",
        info.kernel.incarnation, info.session.template
    );
    if let Some(parent) = info.session.parent {
        let _ = write!(line, ", branch of {parent}");
    }
    line
}
