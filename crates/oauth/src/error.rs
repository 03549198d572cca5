//! Reasons why there is no token.

use thiserror::Error;

/// Characters of a server's own words that are kept.
const WORDS_CHARS: usize = 200;

/// Errors of calls to an authorization server. No text has a token, a code or a secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OAuthError {
    /// There was no answer; it may be worth trying again.
    #[error("{what}: {reason}")]
    Unreachable {
        /// Name of the endpoint.
        what: &'static str,
        reason: String,
    },
    /// The answer cannot be used.
    #[error("{what}: {reason}")]
    Answer {
        /// Name of the endpoint.
        what: &'static str,
        reason: String,
    },
    /// It refuses, as its code says.
    #[error("the authorization server refused: {error}{}", described(description))]
    Refused {
        /// Error code, such as `invalid_grant`.
        error: String,
        /// Description by the server, shortened. May be empty.
        description: String,
    },
}

impl OAuthError {
    pub(crate) fn answer(what: &'static str, reason: impl Into<String>) -> Self {
        Self::Answer {
            what,
            reason: reason.into(),
        }
    }

    pub(crate) fn unreachable(what: &'static str, reason: impl Into<String>) -> Self {
        Self::Unreachable {
            what,
            reason: reason.into(),
        }
    }

    /// With the words of the server.
    pub fn refused(error: &str, description: Option<&str>) -> Self {
        Self::Refused {
            error: shown(error),
            description: shown(description.unwrap_or_default()),
        }
    }

    /// True if a retry is refused too: the grant or the client is no longer accepted.
    pub fn is_final(&self) -> bool {
        const FINAL: &[&str] = &[
            "invalid_grant",
            "invalid_client",
            "unauthorized_client",
            "access_denied",
        ];
        matches!(self, Self::Refused { error, .. } if FINAL.contains(&error.as_str()))
    }
}

fn described(description: &str) -> String {
    if description.is_empty() {
        String::new()
    } else {
        format!(" ({description})")
    }
}

/// Words of a server, for people: shortened, and without characters that control a terminal.
pub fn shown(words: &str) -> String {
    let plain = words.chars().filter(|c| !c.is_control());
    plain.take(WORDS_CHARS).collect()
}
