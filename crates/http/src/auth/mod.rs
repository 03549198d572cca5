//! Who is calling, and from where: tokens, the back-off for wrong ones, origins and CORS.

mod backoff;
mod cors;
mod credential;
mod layer;
mod origin;
mod token;

pub(crate) use backoff::Backoff;
pub(crate) use cors::cors;
pub(crate) use credential::PathToken;
pub(crate) use layer::{Caller, authenticate};
pub use origin::AllowedOrigins;
pub use token::Token;
