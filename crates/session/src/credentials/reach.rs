//! Checks the credentials of a start.

use himalia_credentials::Credential;
use himalia_credentials::CredentialSource as _;
use himalia_model::credential::BoundHost;
use himalia_model::network::{Access, AllowList};
use himalia_model::{EngineError, NotOffered, Session, StartSession};

use super::Credentials;

impl Credentials {
    /// Refuses a session whose credentials cannot be used: one that it asks for does not exist, or one whose host is not on its list. A
    /// credential of the template that does not exist may be set later.
    ///
    /// # Errors
    /// [`EngineError::NotOffered`] on `credentials`; [`EngineError::Unavailable`] when they cannot be read.
    pub(crate) async fn check_start(
        &self,
        session: &Session,
        start: &StartSession,
    ) -> Result<(), EngineError> {
        let names = &session.sandbox.credentials;
        if names.is_empty() {
            return Ok(());
        }
        let refused =
            |reason: String| EngineError::not_offered(NotOffered::Credential, "credentials", reason);
        let found = self.find(&session.owner, names).await;
        let found =
            found.map_err(|_| EngineError::unavailable("the gateway cannot read its credentials now"))?;
        for name in start.credentials.iter().flatten() {
            if !found.iter().any(|credential| credential.name == *name) {
                return Err(refused(format!("the credential {name} does not exist")));
            }
        }
        // A caller that asks for a shorter list knows what it leaves out.
        if start.allow.is_some() && start.credentials.is_none() {
            return Ok(());
        }
        let allow = &session.sandbox.allow;
        match found.iter().find_map(|credential| unreachable(credential, allow)) {
            Some((name, host)) => Err(refused(format!(
                "the host {host} of the credential {name} is not on the session's list (allowed: {allow})"
            ))),
            None => Ok(()),
        }
    }
}

/// A credential whose host a list does not have, with that host.
fn unreachable<'a>(credential: &'a Credential, allow: &AllowList) -> Option<(&'a str, &'a BoundHost)> {
    let base = credential.definition.base()?;
    (!allow.permits(base.host(), base.port(), Access::Http)).then_some((credential.name.as_str(), base))
}
