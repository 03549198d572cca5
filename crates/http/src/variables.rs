//! Environment variables in request bodies.

use std::collections::BTreeMap;

use crate::body::Fields;
use crate::error::ApiError;

/// Largest variable, name and value, bytes (the system's limit for one string of `execve`).
const BYTES: usize = 128 << 10;
/// Most variables of one request.
pub(crate) const COUNT: usize = 1000;

/// The member `name`: an object of strings that `execve` can take; empty if it is absent. Errors name a variable, never
/// its value.
pub(crate) fn read(fields: &mut Fields, name: &'static str) -> Result<BTreeMap<String, String>, ApiError> {
    let Some(given) = fields.object(name)? else {
        return Ok(BTreeMap::new());
    };
    let variables = given.into_strings()?;
    check(name, &variables)?;
    Ok(variables)
}

/// Refuses what `execve` cannot take.
pub(crate) fn check(name: &str, variables: &BTreeMap<String, String>) -> Result<(), ApiError> {
    if variables.len() > COUNT {
        return Err(ApiError::bad_field(name, format!("more than {COUNT} variables")));
    }
    for (key, value) in variables {
        let shown: String = key.chars().take(100).flat_map(char::escape_debug).collect();
        let bad = |reason: String| Err(ApiError::bad_field(format!("{name}.{shown}"), reason));
        if key.is_empty() || key.contains(['=', '\0']) {
            return bad("not a variable's name".to_owned());
        }
        if value.contains('\0') {
            return bad("holds a NUL character".to_owned());
        }
        if key.len() + value.len() > BYTES {
            return bad(format!("longer than {BYTES} bytes"));
        }
    }
    Ok(())
}
