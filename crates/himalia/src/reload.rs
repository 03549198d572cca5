//! Reads tokens again while the gateway runs.

use std::collections::BTreeSet;

use anyhow::ensure;
use himalia_http::Tokens;
use tokio::sync::watch;

use crate::config::Config;
use crate::settings::GivenSettings;
use crate::tenants;

/// Reads tokens again. Nothing else of the configuration changes before the next start.
#[derive(Debug)]
pub(crate) struct Reload {
    said: GivenSettings,
    /// The tenants at the start: the limits of a new tenant are unknown until the next start.
    tenants: BTreeSet<String>,
    tokens: watch::Sender<Tokens>,
}

impl Reload {
    /// `tokens` are those of the start, with this configuration, which was made of what was `said`.
    pub(crate) fn new(said: GivenSettings, config: &Config, tokens: Tokens) -> Self {
        Self {
            said,
            tenants: config.tenants.limits.keys().cloned().collect(),
            tokens: watch::channel(tokens).0,
        }
    }

    /// Receiver of later versions of the tokens.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Tokens> {
        self.tokens.subscribe()
    }

    /// Reads them now, and says in the log what has changed. When something is wrong with them, those before count on.
    pub(crate) fn run(&self) {
        let next = match self.read() {
            Ok(next) => next,
            Err(error) => {
                tracing::error!("the tokens stay as they were: {error:#}");
                return;
            }
        };
        let before = self.tokens.borrow().clone();
        let (revoked, new) = (before.without(&next), next.without(&before));
        for caller in &revoked {
            tracing::info!(caller, "a token is revoked");
        }
        for caller in &new {
            tracing::info!(caller, "a token is new");
        }
        if revoked.is_empty() && new.is_empty() {
            tracing::info!("no token has changed");
        } else {
            self.tokens.send_replace(next);
        }
    }

    fn read(&self) -> anyhow::Result<Tokens> {
        let config = Config::load(self.said.clone())?;
        for tenant in config.tenants.limits.keys() {
            ensure!(
                self.tenants.contains(tenant),
                "tenants.{tenant}: a tenant that is new needs a restart"
            );
        }
        Ok(tenants::read(&config)?.1)
    }
}
