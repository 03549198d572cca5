//! The network of a sandbox that has none: clients in it connect to [`ADDRESS`], and each connection is carried to the gateway, which
//! is their proxy. Nothing of what they say is read here.
//!
//! A thread of its own carries all bytes, so that they never delay a message of a kernel. A few connections to the gateway wait
//! ([`parked`]), so that a new client does not wait for one.

mod clients;
mod parked;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use himalia_link::Gateway;
use tokio::runtime::Builder;
use tokio::sync::{Mutex, mpsc, watch};

use clients::{CLIENTS_MAX, accept};
use parked::{PARKED, ParkedConnection};

/// Address of the proxy.
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 3128);

/// The thread that carries the network of the sandbox. It runs as long as the shim.
#[derive(Debug)]
pub(crate) struct Network(watch::Sender<GatewayRoute>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct GatewayRoute {
    link: Option<String>,
    /// The highest epoch that was seen.
    epoch: u64,
}

impl Network {
    /// Listens, and starts the thread.
    pub(crate) fn start(gateway: &Gateway, key: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(ADDRESS)?;
        listener.set_nonblocking(true)?;
        let (way, seen) = watch::channel(GatewayRoute::default());
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (gateway, key) = (gateway.clone(), key.to_owned());
        let thread = std::thread::Builder::new().name("network".to_owned());
        thread.spawn(move || runtime.block_on(run(listener, gateway, key, seen)))?;
        Ok(Self(way))
    }

    /// The link whose gateway is asked.
    pub(crate) fn set_link(&self, name: Option<&str>) {
        self.0.send_if_modified(|way| {
            let changes = way.link.as_deref() != name;
            way.link = name.map(str::to_owned);
            changes
        });
    }

    /// A gateway of this epoch has welcomed the shim.
    pub(crate) fn saw_epoch(&self, epoch: u64) {
        self.0.send_if_modified(|way| {
            let changes = epoch > way.epoch;
            way.epoch = way.epoch.max(epoch);
            changes
        });
    }
}

async fn run(listener: TcpListener, gateway: Gateway, key: String, way: watch::Receiver<GatewayRoute>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("the proxy of the sandbox does not listen: {error}"),
    };
    let (wanted, wants) = mpsc::channel(CLIENTS_MAX);
    let wants = Arc::new(Mutex::new(wants));
    for _ in 0..PARKED {
        let parked = ParkedConnection {
            gateway: gateway.clone(),
            key: key.clone(),
            way: way.clone(),
            wants: Arc::clone(&wants),
        };
        tokio::spawn(parked.run());
    }
    accept(listener, wanted).await;
}
