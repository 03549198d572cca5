//! Credentials that a session may use.

use std::fmt;
use std::sync::Arc;

use himalia_credentials::{Credential, CredentialSource, SourceError};
use himalia_model::credential::Intercept;

use crate::denial::Denial;
use crate::gate::Gate;

/// Credentials that one session may use.
#[derive(Clone)]
pub struct CredentialAccess {
    pub owner: String,
    pub names: Vec<String>,
    /// Hosts whose TLS is read.
    pub intercept: Intercept,
    pub source: Arc<dyn CredentialSource>,
}

impl CredentialAccess {
    /// All of them, once it is the turn of the session.
    pub(super) async fn find_all(&self, gate: &Gate) -> Result<Vec<Credential>, Denial> {
        if self.names.is_empty() {
            return Ok(Vec::new());
        }
        let _turn = gate.turn_to_look().await;
        let found = self.source.find(&self.owner, &self.names).await;
        found.map_err(|SourceError| not_read())
    }

    /// One of them, with a token that is good.
    pub(super) async fn ready(&self, credential: Credential) -> Result<Credential, Denial> {
        let ready = self.source.ready(&self.owner, credential).await;
        ready.map_err(|SourceError| not_read())
    }

    /// One of them whose token a host has refused, with another one.
    pub(super) async fn renewed(&self, refused: &Credential) -> Option<Credential> {
        self.source.renewed(&self.owner, refused).await
    }
}

fn not_read() -> Denial {
    Denial::credential_unavailable("the gateway cannot read its credentials now")
}

impl fmt::Debug for CredentialAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialAccess")
            .field("owner", &self.owner)
            .field("names", &self.names)
            .field("intercept", &self.intercept)
            .finish_non_exhaustive()
    }
}
