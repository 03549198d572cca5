//! Settings of the facade.

use std::path::PathBuf;
use std::time::Duration;

use himalia_cluster::Cluster;
use thiserror::Error;
use tokio::sync::watch;

use crate::auth::{AllowedOrigins, Token, Tokens};
use crate::listen::Tls;
use crate::mounted::{E2b, MountedService};
use crate::oidc::Oidc;
use crate::viewer::Viewer;

/// Settings of the HTTP facade. Build with [`HttpConfig::new`], change fields, hand to [`serve`](crate::serve),
/// which validates them.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// The path above all routes; `/` by default. Lower case, since gateway clients lower-case WebSocket addresses.
    pub base_url: String,
    /// The operator's token and those of tenants' callers; kept as hashes, never shown.
    pub tokens: Tokens,
    /// Tokens that replace `tokens` when they are sent. Connections end if their token was removed or has another
    /// principal now.
    pub new_tokens: Option<watch::Receiver<Tokens>>,
    /// TLS of the listener; none by default.
    pub tls: Tls,
    /// Origins other than the gateway's own that browsers may call from. Empty: none.
    pub allow_origin: AllowedOrigins,
    /// Largest request body, bytes. Larger: 413.
    pub body_bytes: usize,
    /// Time that a request body may take. Longer: 408.
    pub body_timeout: Duration,
    /// Time from a connection's readiness for a request to the end of that request's headers; also how long a
    /// connection may stay idle between two requests. Longer: closed.
    pub header_timeout: Duration,
    /// Connections at once that have not yet sent a request with a right token. When one more arrives, the oldest of
    /// them is closed, so that idle strangers cannot keep clients out.
    pub max_waiting: usize,
    /// Largest WebSocket message from a client, bytes. Larger: close 1009.
    pub message_bytes: usize,
    /// Interval of the pings to a WebSocket client.
    pub ping_interval: Duration,
    /// Time after which a WebSocket client without a sign of life (a frame, or progress of its TCP acknowledgements) is cut off.
    pub pong_timeout: Duration,
    /// Time after which a client that takes nothing of the bytes written to it is cut off (WebSocket close 1013, if that can still be
    /// sent). Its position is kept.
    pub stall_timeout: Duration,
    /// Interval of the comments in an idle event stream, so that proxies keep it open.
    pub sse_keep_alive: Duration,
    /// Time for open requests after the stop signal.
    pub drain_timeout: Duration,
    /// The service of `POST /mcp`; `None`: that route is 404.
    pub mcp: Option<MountedService>,
    /// The service of E2B's clients; `None`: its routes are 404.
    pub e2b: Option<E2b>,
    /// The service of Azure's dynamic sessions, below `/azure`; `None`: its routes are 404.
    pub azure: Option<MountedService>,
    /// The service of `OpenAI`'s containers, below `/openai`; `None`: its routes are 404.
    pub openai: Option<MountedService>,
    /// The replicas of which this is one; `None`: it is the only one.
    pub cluster: Option<Cluster>,
    /// The page at `/`; without files it says how to build it.
    pub viewer: Viewer,
    /// Sign-in of people with an identity provider; `None`: there is none.
    pub oidc: Option<Oidc>,
    /// Signs in one browser as the operator, once, within 15 minutes from the start of the facade; kept as a hash.
    pub sign_in_code: Option<Token>,
    /// File with the sign-ins of browsers, as hashes, which outlive the process; `None`: they end with it.
    pub sign_ins_file: Option<PathBuf>,
}

/// A setting that cannot be used.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
#[error("{field}: {reason}")]
pub struct ConfigError {
    pub field: &'static str,
    /// One line.
    pub reason: String,
}

impl HttpConfig {
    /// Defaults with this token of the operator.
    pub fn new(token: &str) -> Self {
        Self {
            base_url: "/".into(),
            tokens: Tokens::new(Token::new(token)),
            new_tokens: None,
            tls: Tls::default(),
            allow_origin: AllowedOrigins::default(),
            body_bytes: 8 << 20,
            body_timeout: Duration::from_secs(30),
            header_timeout: Duration::from_secs(30),
            max_waiting: 1024,
            message_bytes: 64 << 20,
            ping_interval: Duration::from_secs(25),
            pong_timeout: Duration::from_secs(90),
            stall_timeout: Duration::from_mins(1),
            sse_keep_alive: Duration::from_secs(15),
            drain_timeout: Duration::from_secs(10),
            mcp: None,
            e2b: None,
            azure: None,
            openai: None,
            cluster: None,
            viewer: Viewer::default(),
            oidc: None,
            sign_in_code: None,
            sign_ins_file: None,
        }
    }

    /// Checks what the types do not say, and brings `base_url` into the form `/a/b` (or empty).
    pub(crate) fn validated(mut self) -> Result<Self, ConfigError> {
        let fail = |field, reason: &str| {
            Err(ConfigError {
                field,
                reason: reason.into(),
            })
        };
        if self.tokens.has_empty() {
            return fail("tokens", "must not be empty");
        }
        let trimmed = self.base_url.trim_matches('/');
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._~/".contains(c);
        if !trimmed.chars().all(plain) || trimmed.split('/').any(|s| s == "." || s == "..") {
            return fail(
                "base_url",
                "only lower-case letters, digits and - . _ ~ / are allowed",
            );
        }
        if trimmed.contains("//") {
            return fail("base_url", "has an empty segment");
        }
        self.base_url = if trimmed.is_empty() {
            String::new()
        } else {
            format!("/{trimmed}")
        };
        for (field, value) in [
            ("body_bytes", self.body_bytes),
            ("max_waiting", self.max_waiting),
            ("message_bytes", self.message_bytes),
        ] {
            if value == 0 {
                return fail(field, "must be positive");
            }
        }
        for (field, value) in [
            ("body_timeout", self.body_timeout),
            ("header_timeout", self.header_timeout),
            ("ping_interval", self.ping_interval),
            ("pong_timeout", self.pong_timeout),
            ("stall_timeout", self.stall_timeout),
            ("sse_keep_alive", self.sse_keep_alive),
            ("drain_timeout", self.drain_timeout),
        ] {
            if value.is_zero() {
                return fail(field, "must be positive");
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_url_is_normalised() {
        for (given, wanted) in [("/", ""), ("", ""), ("/jupyter/", "/jupyter"), ("a/b", "/a/b")] {
            let config = HttpConfig {
                base_url: given.into(),
                ..HttpConfig::new("secret")
            };
            assert_eq!(config.validated().unwrap().base_url, wanted);
        }
        for bad in ["/A", "/a b", "/a/../b", "/a//b", "/{id}"] {
            let config = HttpConfig {
                base_url: bad.into(),
                ..HttpConfig::new("secret")
            };
            assert_eq!(config.validated().unwrap_err().field, "base_url", "{bad}");
        }
    }

    #[test]
    fn an_empty_token_is_refused() {
        assert_eq!(HttpConfig::new("").validated().unwrap_err().field, "tokens");
    }

    #[test]
    fn debug_hides_the_token() {
        assert!(!format!("{:?}", HttpConfig::new("canary-token")).contains("canary"));
    }
}
