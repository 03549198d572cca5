//! What callers send: its bounds, and the start that follows from it.

use himalia_model::{EngineError, NewSession, StartSession};

/// Characters of a path, a name or a type.
pub(super) const MAX_CHARS: usize = 4096;

/// The variable by which a kernel knows the document that it was started for (`SessionManager.get_kernel_env`).
const SESSION_NAME_VARIABLE: &str = "JPY_SESSION_NAME";

/// The kernel of a session starts in the directory of its document, where that is an absolute path.
pub(super) fn start_for(new: &NewSession) -> StartSession {
    let mut env = new.env.clone();
    env.entry(SESSION_NAME_VARIABLE.to_owned())
        .or_insert_with(|| new.path.clone());
    let cwd = new
        .path
        .starts_with('/')
        .then(|| new.path.rsplit_once('/'))
        .flatten();
    StartSession {
        name: new.kernel.name.clone(),
        id: new.kernel.id,
        cwd: cwd.map(|(dir, _)| {
            if dir.is_empty() {
                "/".to_owned()
            } else {
                dir.to_owned()
            }
        }),
        env,
        ..StartSession::default()
    }
}

/// Checks one text; `filled`: it must not be empty.
pub(super) fn check(field: &'static str, text: &str, filled: bool) -> Result<(), EngineError> {
    if filled && text.is_empty() {
        return Err(EngineError::bad_request(field, "must not be empty"));
    }
    if text.contains('\0') {
        return Err(EngineError::bad_request(field, "contains a NUL character"));
    }
    if text.chars().count() > MAX_CHARS {
        return Err(EngineError::bad_request(
            field,
            format!("has more than {MAX_CHARS} characters"),
        ));
    }
    Ok(())
}
