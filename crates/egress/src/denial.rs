//! Reasons why a connection is refused, or could not be made.

use std::fmt;

use himalia_model::network::{AllowList, Host};

/// Characters of a message.
const MESSAGE_CHARS: usize = 1000;

/// Host and port that a client wanted to reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub host: Host,
    pub port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// A refusal. Its text begins with its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub kind: DenialKind,
    text: String,
}

/// Kinds of refusals, and of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenialKind {
    /// The session may not: `egress_denied`.
    Policy,
    /// The request of the client is malformed or not supported: `egress_request`.
    Request,
    /// As many connections as may be are open: `egress_limit`.
    Limit,
    /// The host was not reached: `egress_unreachable`.
    Unreachable,
    /// A credential cannot be used, or not so: `credential_denied`.
    Credential,
    /// Credentials cannot be read at present: `credential_unavailable`.
    CredentialUnavailable,
}

impl DenialKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "egress_denied",
            Self::Request => "egress_request",
            Self::Limit => "egress_limit",
            Self::Unreachable => "egress_unreachable",
            Self::Credential => "credential_denied",
            Self::CredentialUnavailable => "credential_unavailable",
        }
    }

    fn says(self, text: impl fmt::Display) -> Denial {
        let text = format!("{}: {text}", self.as_str());
        Denial {
            kind: self,
            text: text
                .chars()
                .filter(|c| !c.is_control())
                .take(MESSAGE_CHARS)
                .collect(),
        }
    }
}

impl Denial {
    pub(crate) fn not_listed(target: &Target, method: Option<&str>, list: &AllowList) -> Self {
        let method = method.map(|method| format!("{method} ")).unwrap_or_default();
        DenialKind::Policy.says(format_args!(
            "{method}{target} is not on this session's list (allowed: {list})"
        ))
    }

    /// The session may not.
    pub fn policy(text: impl fmt::Display) -> Self {
        DenialKind::Policy.says(text)
    }

    /// The request cannot be understood, or is not supported.
    pub fn request(text: impl fmt::Display) -> Self {
        DenialKind::Request.says(text)
    }

    /// As much as may be is in use.
    pub fn limit(text: impl fmt::Display) -> Self {
        DenialKind::Limit.says(text)
    }

    pub(crate) fn credential(text: impl fmt::Display) -> Self {
        DenialKind::Credential.says(text)
    }

    pub(crate) fn credential_unavailable(text: impl fmt::Display) -> Self {
        DenialKind::CredentialUnavailable.says(text)
    }

    /// The host was not reached.
    pub fn unreachable(text: impl fmt::Display) -> Self {
        DenialKind::Unreachable.says(text)
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
