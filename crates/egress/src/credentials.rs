//! Requests to which the gateway adds secrets that the sandbox does not have.
//!
//! ```text
//! http.rs, socks.rs -> Destination::open (destination.rs)
//!   |- relay.rs         http://NAME.credential.internal/: TLS to the credential's host, with the secret added
//!   `- intercept.rs     TLS to a host that the template names: a certificate of authority.rs; the placeholder is replaced
//! both -> Exchange (exchange.rs): the list, the connection (upstreams.rs), the secret (crate credentials), the response (masked.rs)
//! ```
//!
//! The secret is read for each request (`CredentialSource`): one that was changed or revoked counts at once.

mod access;
mod authority;
mod exchange;
pub(crate) mod intercept;
mod key_store;
mod masked;
pub(crate) mod relay;
mod tls;
mod upstreams;

pub use access::CredentialAccess;
pub use authority::{InterceptAuthority, InterceptKey};
pub use tls::{Roots, TrustStore};
