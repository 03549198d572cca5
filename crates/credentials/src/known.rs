//! Secrets of one credential that come and go, such as access tokens.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::SecretText;

/// Most secrets of one credential. The ones that were used longest ago are forgotten.
const MAX_KNOWN: usize = 16;

/// Secrets that responses are searched for beside the value of a credential. Clones are the same, and know what is added later.
#[derive(Clone, Default)]
pub struct KnownSecrets(Arc<Inner>);

#[derive(Default)]
struct Inner {
    secrets: RwLock<VecDeque<SecretText>>,
    /// Changes with them.
    version: AtomicU64,
}

impl KnownSecrets {
    /// Adds those that are not known yet.
    pub fn add(&self, secrets: impl IntoIterator<Item = SecretText>) {
        let mut known = self.0.secrets.write().unwrap_or_else(PoisonError::into_inner);
        for secret in secrets {
            if secret.expose().is_empty() || known.contains(&secret) {
                continue;
            }
            if known.len() == MAX_KNOWN {
                known.pop_front();
            }
            known.push_back(secret);
            self.0.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Another number when there are others.
    pub(crate) fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    pub(crate) fn all(&self) -> Vec<SecretText> {
        let known = self.0.secrets.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().cloned().collect()
    }
}

impl fmt::Debug for KnownSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownSecrets(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_ones_are_known_once() {
        let known = KnownSecrets::default();
        let secret = |number: usize| SecretText::new(format!("secret-{number}"));
        known.add((0..20).map(secret));
        let version = known.version();
        known.clone().add([secret(19), SecretText::default()]);
        assert_eq!((known.all().len(), known.version()), (MAX_KNOWN, version));
        assert_eq!(known.all().first(), Some(&secret(4)));
    }
}
