//! Reasons why a sign-in failed: the check for the log, and advice for the person.

use thiserror::Error;

/// Reasons why a sign-in failed. No text has a token, a code or a secret.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignInError {
    /// The redirect belongs to no sign-in of this browser.
    #[error("state: {0}")]
    State(&'static str),
    /// The provider let the person not in, or refused the request.
    #[error("the provider refused: {error}{}", described(description))]
    Refused {
        /// The provider's code, such as `access_denied`.
        error: String,
        /// Description by the provider, shortened. May be empty.
        description: String,
    },
    /// The provider gave no answer.
    #[error("{what}: {reason}")]
    Unreachable {
        /// Name of the endpoint.
        what: &'static str,
        /// Error of the connection.
        reason: String,
    },
    /// The provider gave an answer that cannot be used.
    #[error("{what}: {reason}")]
    Answer {
        /// Name of the endpoint.
        what: &'static str,
        reason: String,
    },
    /// A check of the id token failed.
    #[error("id token, {check}: {reason}")]
    Token {
        /// `algorithm`, `key`, `signature`, `issuer`, `audience`, `expiry`, `nonce`, `subject` or `format`.
        check: &'static str,
        reason: String,
    },
    /// Too many sign-ins are being finished at once.
    #[error("too many sign-ins at once")]
    Busy,
    /// The system gave no random bytes.
    #[error("no random bytes")]
    Random,
}

fn described(description: &str) -> String {
    if description.is_empty() {
        String::new()
    } else {
        format!(" ({description})")
    }
}

impl SignInError {
    pub(crate) fn token(check: &'static str, reason: impl Into<String>) -> Self {
        Self::Token {
            check,
            reason: reason.into(),
        }
    }

    /// Name of the failed check, in one word.
    pub fn check(&self) -> &'static str {
        match self {
            Self::State(_) => "state",
            Self::Refused { .. } => "provider_refused",
            Self::Unreachable { .. } => "provider_unreachable",
            Self::Answer { .. } => "provider_answer",
            Self::Token { check, .. } => check,
            Self::Busy => "busy",
            Self::Random => "random",
        }
    }

    /// Advice for the person, in whole sentences.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::State(_) => {
                "This sign-in was not started in this browser, was used already, or is older than 10 minutes. Sign in again. \
                 If that fails as well, allow cookies for this address."
            }
            Self::Refused { .. } => {
                "The identity provider did not confirm the sign-in. Sign in again, or ask its administrator for access."
            }
            Self::Unreachable { .. } => {
                "The identity provider cannot be reached from this gateway. Try again in a minute. \
                 If it does not work then, tell the operator of this gateway."
            }
            Self::Answer { .. } | Self::Token { .. } => {
                "The identity provider's answer was not accepted. Sign in again. If it happens again, tell the operator of this gateway."
            }
            Self::Busy => "Many people sign in at this moment. Try again in a few seconds.",
            Self::Random => "The gateway cannot make a sign-in now. Tell its operator.",
        }
    }
}
