//! Users of a sandbox: there is one.

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::failure::Failure;

/// The name that E2B has for it.
const USER: &str = "user";

/// Refuses another user than the one that there is, by name.
pub(super) fn check(name: &str) -> Result<(), Failure> {
    if name.is_empty() || name == USER {
        return Ok(());
    }
    let name: String = name.chars().take(64).flat_map(char::escape_debug).collect();
    Err(Failure::field(
        USER,
        format!("a sandbox of this gateway has one user, not {name:?}"),
    ))
}

/// The same for a call, whose client names the user in `Authorization`.
pub(super) fn check_header(headers: &HeaderMap) -> Result<(), Failure> {
    let Some(value) = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
    else {
        return Ok(());
    };
    let Some(encoded) = value.strip_prefix("Basic ") else {
        return Ok(());
    };
    let decoded = BASE64_STANDARD.decode(encoded).ok();
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.ok_or_else(|| Failure::field("Authorization", "names no user"))?;
    check(text.split(':').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_user() {
        for (name, is_there) in [("", true), ("user", true), ("root", false)] {
            assert_eq!(check(name).is_ok(), is_there, "{name}");
            let value = format!("Basic {}", BASE64_STANDARD.encode(format!("{name}:")));
            let headers = [(header::AUTHORIZATION, value.parse().unwrap())]
                .into_iter()
                .collect();
            assert_eq!(check_header(&headers).is_ok(), is_there, "{name}");
        }
        assert!(check_header(&HeaderMap::new()).is_ok());
        let headers = [(header::AUTHORIZATION, "Basic ?".parse().unwrap())]
            .into_iter()
            .collect();
        assert!(check_header(&headers).is_err());
    }
}
