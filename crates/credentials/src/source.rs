//! Sources of credentials.

use std::pin::Pin;

use crate::Credential;

/// Credentials cannot be read now. The gateway log has the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceError;

/// Credentials that are being read.
pub type FoundCredentials<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<Credential>, SourceError>> + Send + 'a>>;

/// A credential whose token is being got.
pub type ReadyCredential<'a> = Pin<Box<dyn Future<Output = Result<Credential, SourceError>> + Send + 'a>>;

/// A credential that takes the place of a refused one; `None`: there is no other.
pub type RenewedCredential<'a> = Pin<Box<dyn Future<Output = Option<Credential>> + Send + 'a>>;

pub type NotedScope<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Source of credentials. The gateway reads it for each request, so a changed or revoked credential applies at once.
pub trait CredentialSource: Send + Sync {
    /// The credentials of these names, as they are now, that sessions of this owner may use: its own, or else those of the operator.
    /// One that does not exist is left out. Asks no authorization server: a token may have expired.
    fn find<'a>(&'a self, owner: &'a str, names: &'a [String]) -> FoundCredentials<'a>;

    /// Makes one that was found ready for a request: a token that has expired is replaced first. One that cannot be had is
    /// [`Credential::unusable`].
    fn ready<'a>(&'a self, _owner: &'a str, credential: Credential) -> ReadyCredential<'a> {
        Box::pin(async move { Ok(credential) })
    }

    /// After a host has refused the token of one (401): the same with another token, if there is one.
    fn renewed<'a>(&'a self, _owner: &'a str, _refused: &'a Credential) -> RenewedCredential<'a> {
        Box::pin(async { None })
    }

    /// After a host has refused a request because the token lacks these scopes (403, `insufficient_scope`): the next grant asks for them.
    fn lacks_scope<'a>(
        &'a self,
        _owner: &'a str,
        _refused: &'a Credential,
        _scope: &'a str,
    ) -> NotedScope<'a> {
        Box::pin(async {})
    }
}
