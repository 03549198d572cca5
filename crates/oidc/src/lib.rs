//! Sign-in of people by `OpenID` Connect: the authorization code flow with PKCE, against one provider.
//!
//! [`Provider::begin`] gives the address of the provider's page and a sealed cookie. [`Provider::finish`] takes that cookie and what
//! the provider's page sent back, and gives the [`Person`] of the checked id token. Nothing is remembered between the two: what has to
//! be is in the cookie, under a key that replicas share, so any of them can finish what another one began.
//!
//! Only what the provider publishes is kept: its metadata for an hour, its keys for five minutes, and keys are read again when a token
//! names an unknown one.
//!
//! This crate knows neither who may do what nor how a browser is answered.

mod claims;
mod error;
mod fetch;
mod jws;
mod keys;
mod metadata;
mod person;
mod provider;
mod seal;
mod settings;

pub use error::SignInError;
pub use jws::Algorithm;
pub use person::Person;
pub use provider::{Callback, Provider, STATE_LIFETIME, StartedSignIn};
pub use seal::CookieKey;
pub use settings::{ProviderSettings, SettingsError};
