//! Where credentials come from.

use std::pin::Pin;

use crate::Credential;

/// Why credentials cannot be read now. What it is in detail is in the log of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceError;

/// Credentials that are being read.
pub type FoundCredentials<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<Credential>, SourceError>> + Send + 'a>>;

/// Where credentials are. They are read for each request: one that was changed or revoked counts at once.
pub trait CredentialSource: Send + Sync {
    /// The credentials of these names, as they are now, that sessions of this owner may use: its own, or else those of the operator.
    /// One that does not exist is left out.
    fn find<'a>(&'a self, owner: &'a str, names: &'a [String]) -> FoundCredentials<'a>;
}
