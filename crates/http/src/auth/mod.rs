//! Authentication: tokens, the back-off for wrong ones, browsers that signed in, origins and CORS.

mod audit;
mod authenticator;
mod backoff;
mod bearer;
mod browser;
mod caller;
mod challenge;
pub(crate) mod cookie;
mod cors;
mod credential;
mod layer;
mod origin;
mod sandbox;
mod sandbox_tokens;
mod sign_ins;
mod token;
mod tokens;
mod valid_tokens;

pub(crate) use audit::SignedIn;
pub(crate) use backoff::Backoff;
pub(crate) use caller::{Caller, signature_check, wrong_token};
#[cfg(test)]
pub(crate) use challenge::METADATA;
pub(crate) use challenge::{SCOPE, address};
pub(crate) use cors::cors;
pub(crate) use credential::PathToken;
pub(crate) use layer::authenticate;
pub use origin::AllowedOrigins;
pub(crate) use origin::may_be_rebound;
pub(crate) use sandbox::{E2B_CREDENTIALS, SANDBOX_ID};
pub use sandbox_tokens::SandboxTokens;
pub(crate) use sign_ins::SignIns;
pub use token::Token;
pub(crate) use token::hash;
pub(crate) use tokens::ShownCredential;
pub use tokens::Tokens;
pub(crate) use valid_tokens::ValidTokens;
