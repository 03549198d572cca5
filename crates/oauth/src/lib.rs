//! OAuth 2.1 as a client. It sends by a [`Transport`] and remembers nothing: tokens, registrations and grants under way belong to its
//! caller.
//!
//! ```text
//! where to ask     discover (discovery.rs): protected resource metadata (RFC 9728), authorization server metadata (RFC 8414, OpenID Connect)
//! who asks         register (registration.rs): dynamic client registration (RFC 7591)
//! a person         authorization_url (grant.rs), challenge (pkce.rs), check_answer (grant.rs): PKCE, resource indicator (RFC 8707), issuer (RFC 9207)
//! tokens           Client::tokens, ::revoke (token.rs)
//! each             call (call.rs) -> Transport
//! ```

mod call;
mod discovery;
mod error;
mod grant;
mod pkce;
mod registration;
#[cfg(test)]
mod tests;
mod token;

pub use call::{MAX_RESPONSE_BYTES, ResponseFuture, Transport};
pub use discovery::{Server, discover};
pub use error::{OAuthError, shown};
pub use grant::{Answer, AuthorizationRequest, authorization_url, check_answer};
pub use pkce::{challenge, random};
pub use registration::register;
pub use token::{Client, Tokens, form_encoded};

use himalia_model::HttpUrl;
use himalia_model::credential::is_confidential;
use url::Url;

/// True if a request to this URL is encrypted, or stays on this machine.
pub fn is_safe(url: &Url) -> bool {
    let mut plain = url.clone();
    // A user and a fragment change nothing of it; a URL without a host has neither.
    let _ = plain.set_username("");
    let _ = plain.set_password(None);
    plain.set_fragment(None);
    HttpUrl::try_from(plain).is_ok_and(|url| is_confidential(&url))
}
