//! A mask whose secrets change.

use std::fmt;
use std::sync::Arc;

use super::Mask;
use crate::Credential;

/// A mask that follows the secrets of its credentials: one that is got while a response is passed on is looked for from then on.
pub struct LiveMask {
    credentials: Vec<Credential>,
    mask: Arc<Mask>,
    version: u64,
}

impl LiveMask {
    /// For the secrets of these credentials.
    pub fn new(credentials: Vec<Credential>) -> Self {
        let version = version(&credentials);
        Self {
            mask: Arc::new(Mask::new(&credentials)),
            credentials,
            version,
        }
    }

    /// As it is now.
    pub fn current(&mut self) -> &Arc<Mask> {
        let version = version(&self.credentials);
        if version != self.version {
            self.mask = Arc::new(Mask::new(&self.credentials));
            self.version = version;
        }
        &self.mask
    }
}

/// Secrets are added only, so the sum changes with each one.
fn version(credentials: &[Credential]) -> u64 {
    let versions = credentials.iter().map(|credential| credential.known.version());
    versions.fold(0, u64::wrapping_add)
}

impl fmt::Debug for LiveMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mask.fmt(f)
    }
}
