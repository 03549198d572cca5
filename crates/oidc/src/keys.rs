//! The provider's keys.

use std::sync::Arc;

use reqwest::{Client, Url};
use serde::Deserialize;

use crate::SignInError;
use crate::fetch;
use crate::jws::{Algorithm, Key, PublishedKey};

const WHAT: &str = "keys (jwks_uri)";
/// Keys that are looked at.
const MOST: usize = 64;

/// The keys that the provider published last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys(Arc<Vec<Key>>);

#[derive(Deserialize)]
struct PublishedKeys {
    keys: Vec<serde_json::Value>,
}

impl Keys {
    pub(crate) async fn fetch(http: &Client, address: &Url) -> Result<Self, SignInError> {
        let (status, published) = fetch::json::<PublishedKeys>(WHAT, http.get(address.clone())).await?;
        if !status.is_success() {
            return Err(SignInError::Answer {
                what: WHAT,
                reason: format!("status {}", status.as_u16()),
            });
        }
        // A key that cannot be read is one of a kind that is not known here.
        let keys = published.keys.into_iter().take(MOST);
        let keys = keys.filter_map(|key| Key::read(serde_json::from_value::<PublishedKey>(key).ok()?));
        Ok(Self(Arc::new(keys.collect())))
    }

    /// Keys that may have signed a token with this header.
    pub(crate) fn candidates(&self, id: Option<&str>, algorithm: Algorithm) -> Vec<&Key> {
        let named = |key: &&Key| id.is_none() || key.id.as_deref() == id;
        self.0
            .iter()
            .filter(named)
            .filter(|key| key.is_for(algorithm))
            .collect()
    }
}
