//! Sign-in of people by an identity provider: what the provider says of a person becomes a principal, and a browser gets its cookie.
//!
//! The sign-in is an access token that the engine makes: it expires, is listed and revoked, ends its connections, and counts at all
//! replicas, like any other. The browser has it in a cookie that scripts cannot read, under the rules of [`cookie`](crate::auth::cookie).

mod answer;
mod grants;
mod routes;

pub use grants::Grant;
pub(crate) use routes::{callback, start, ways};

use std::time::Duration;

use himalia_oidc::Provider;

/// Sign-in with an identity provider.
#[derive(Clone, Debug)]
pub struct Oidc {
    /// The identity provider.
    pub provider: Provider,
    /// The name of the provider that people see.
    pub name: String,
    /// The claim with the name of the caller that a person becomes.
    pub caller_claim: String,
    /// The claim that grants are compared with.
    pub grants_claim: String,
    /// The rights of people: the first grant that fits applies, and a person without one is refused.
    pub grants: Vec<Grant>,
    /// Lifetime of a sign-in.
    pub lifetime: Duration,
}
