//! The other gateways on the same store: what this one shows them, and where it listens for them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use himalia_engine::Engine;
use himalia_http::{Cluster, Peers};
use himalia_relay::{Authority, Identity, Pool};
use tokio::net::TcpListener;

use crate::config::{RelaySettings, Replica};
use crate::keys::shared_key;

/// The listener for other gateways, bound, and what they know this one by.
pub(crate) struct Relay {
    listener: TcpListener,
    address: String,
    identity: Identity,
    /// The lease, if replicas take over from each other.
    lease: Option<Duration>,
}

impl Relay {
    /// Binds the listener; `None` if this gateway is reached by no other.
    pub(crate) async fn bind(replica: &Replica) -> anyhow::Result<Option<Self>> {
        let Some(settings) = &replica.relay else {
            return Ok(None);
        };
        let authority = read_key(&settings.key)?;
        let listener = TcpListener::bind(settings.listen).await;
        let listener = listener.with_context(|| format!("cannot listen on {}", settings.listen))?;
        let address = address(settings, listener.local_addr().context("cannot listen")?);
        let host = address.rsplit_once(':').map_or(&*address, |(host, _)| host);
        let identity = authority
            .identity(&replica.name, host)
            .context("--replica-address")?;
        Ok(Some(Self {
            listener,
            address,
            identity,
            lease: replica
                .store
                .as_ref()
                .filter(|store| store.object_store.is_some())
                .map(|store| store.lease),
        }))
    }

    /// Tells the others where it listens, and what the HTTP server needs.
    pub(crate) async fn join(self, engine: &Engine) -> anyhow::Result<(Cluster, Peers)> {
        let cluster = Cluster::new(Arc::new(engine.clone()), Pool::new(self.identity.clone()));
        let cluster = match self.lease {
            Some(lease) => cluster.taking_over(lease),
            None => cluster,
        };
        let peers = Peers {
            listener: self.listener,
            identity: self.identity,
        };
        engine.listens_for_replicas(self.address).await?;
        Ok((cluster, peers))
    }
}

/// Address for the other replicas: the configured one, or the bound one with its port.
fn address(settings: &RelaySettings, bound: SocketAddr) -> String {
    settings.address.clone().unwrap_or_else(|| bound.to_string())
}

fn read_key(path: &Path) -> anyhow::Result<Authority> {
    let text = shared_key("--replica-key", path)?;
    Authority::from_pem(&text).with_context(|| format!("--replica-key {}", path.display()))
}
