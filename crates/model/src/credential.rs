//! Credentials: what is known of a secret beside its value. The value stays outside of sandboxes, and is added to requests on their way to
//! the hosts that the credential is bound to.

mod bound;
mod config;
mod definition;
mod oauth;
mod session;

pub use bound::{BoundHost, UrlScheme};
pub use config::{ConfiguredCredential, CredentialKeys, CredentialSettings, ValueSource};
pub use definition::{CredentialDefinition, CredentialFields, CredentialKind};
pub use oauth::{OAuth, OAuthFields, OAuthGrant, TokenSource, is_confidential};
pub use session::{Intercept, TemplateCredential, placeholder};

/// Most characters of the name of a credential.
pub const MAX_CREDENTIAL_NAME: usize = 40;
/// Most hosts of a credential.
pub const MAX_CREDENTIAL_HOSTS: usize = 32;
/// Most credentials of a template.
pub const MAX_CREDENTIALS_OF_TEMPLATE: usize = 16;

/// Checks the name of a credential, which is a part of a host name: 1 to 40 lower-case letters, digits and hyphens, with a letter
/// or digit at both ends.
///
/// # Errors
/// What is wrong with it.
pub fn check_credential_name(name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte == b'-' || byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = !name.starts_with('-') && !name.ends_with('-');
    if (1..=MAX_CREDENTIAL_NAME).contains(&name.len()) && name.bytes().all(plain) && ends {
        return Ok(());
    }
    Err(format!(
        "a name has 1 to {MAX_CREDENTIAL_NAME} lower-case letters, digits and hyphens, with a letter or digit at both ends"
    ))
}

/// A credential as lists show it: all but its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialInfo {
    /// Name, unique for its owner.
    pub name: String,
    /// Tenant, or `operator`.
    pub owner: String,
    /// Kind and hosts, without the secret.
    pub definition: CredentialDefinition,
    /// Caller that set it last; `None`: it is in the configuration.
    pub set_by: Option<String>,
    /// When it was set last, microseconds since 1970.
    pub set_micros: Option<i64>,
    /// State of the tokens; only for kind `oauth2`.
    pub tokens: Option<TokenInfo>,
}

/// State of the tokens of a credential.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenInfo {
    /// Availability of a token.
    pub state: TokenState,
    /// Reason why there is no token.
    pub problem: Option<String>,
    /// Caller that granted access.
    pub granted_by: Option<String>,
    /// When that was, microseconds since 1970.
    pub granted_micros: Option<i64>,
    /// Until when the access token is good, microseconds since 1970. Another one is got before.
    pub expires_micros: Option<i64>,
    /// The scopes that the authorization server gave, with spaces between.
    pub scope: Option<String>,
}

/// Availability of a token for requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenState {
    /// There is one, or one is got when it is needed.
    #[default]
    Ready,
    /// A person has to grant it first.
    GrantNeeded,
    /// The authorization server has ended the grant, or refuses the gateway.
    Ended,
}

impl TokenState {
    /// The word in replies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::GrantNeeded => "grant_needed",
            Self::Ended => "ended",
        }
    }
}
