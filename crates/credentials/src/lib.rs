//! Secrets that are added to requests outside of sandboxes. Pure: nothing in here waits, or knows where secrets are stored or how requests
//! are sent.
//!
//! ```text
//! at rest      KeyRing (keyring.rs): seals a value, bound to its owner, its name and its definition
//! requests     Credential::add, ::replace (apply.rs): in the place that its kind names; a signature is made by sigv4.rs
//! where from   CredentialSource (source.rs): what the owner of the values implements
//! refusals     challenge_parameter (challenge.rs): what a server wants of a credential
//! responses    Mask, LiveMask (mask.rs), KnownSecrets (known.rs): finds the secret and its usual encodings in a stream, wherever the stream is cut
//!              ask_for_whole, is_part (parts.rs): no response with a part of a secret
//! ```

mod apply;
mod challenge;
mod credential;
mod keyring;
mod known;
mod mask;
mod parts;
mod secret;
mod sigv4;
mod source;

pub use apply::{ApplyError, ApplyOutcome, PayloadHash};
pub use challenge::challenge_parameter;
pub use credential::{Credential, CredentialValue, GivenSecrets, MIN_VALUE_BYTES, Unusable, check_secret};
pub use keyring::{KeyError, KeyRing, OpenError, SealedValue};
pub use known::KnownSecrets;
pub use mask::{LiveMask, Mask, MaskStream};
pub use parts::{ask_for_whole, is_part};
pub use secret::SecretText;
pub use source::{
    CredentialSource, FoundCredentials, NotedScope, ReadyCredential, RenewedCredential, SourceError,
};
