//! Accepting connections: TCP options, limits, and the drain at the end.

use std::sync::Arc;
use std::time::Duration;

use himalia_cluster::cut_ended;
use himalia_relay::Identity;
use himalia_runs::Runs;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection;
use super::peer::Peer;
use super::waiting::WaitingConnections;
use crate::auth::Tokens;
use crate::config::{ConfigError, HttpConfig};
use crate::relay;
use crate::router::{Services, app_and_router};

/// The reason why serving did not start or had to stop.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Pause after a failed `accept` (file descriptors exhausted, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The addresses of a gateway.
#[derive(Debug)]
pub struct Listeners {
    pub clients: TcpListener,
    /// By other replicas; with [`HttpConfig::cluster`].
    pub peers: Option<Peers>,
}

/// The address of a gateway for other replicas, and its certificate.
#[derive(Debug)]
pub struct Peers {
    /// Bound already.
    pub listener: TcpListener,
    pub identity: Identity,
}

impl From<TcpListener> for Listeners {
    fn from(clients: TcpListener) -> Self {
        Self { clients, peers: None }
    }
}

/// Serves the API until `shutdown` is cancelled.
///
/// Then it accepts no more, ends event streams, closes sockets with 1012 and lets open requests finish, for
/// at most [`HttpConfig::drain_timeout`]. Kernels are not touched: what becomes of them is said to
/// [`Engine::drain`](himalia_engine::Engine::drain).
pub async fn serve(
    listeners: impl Into<Listeners>,
    runs: Runs,
    config: HttpConfig,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let Services {
        app,
        clients: router,
        peers: inside,
    } = app_and_router(runs, config, shutdown.clone())?;
    let tokens = app.clone();
    app.runs()
        .start_triggers(move |mark| tokens.tokens().marked(mark).cloned());
    let Listeners {
        clients: listener,
        peers,
    } = listeners.into();
    // A new waiting connection evicts the oldest one, so it has room however many are held.
    let most = app
        .engine()
        .max_connections()
        .saturating_add(app.config().max_waiting);
    let permits = Arc::new(Semaphore::new(most.saturating_add(1).min(Semaphore::MAX_PERMITS)));
    let waiting = Arc::new(WaitingConnections::new(
        app.config().max_waiting,
        Arc::clone(app.engine().clients()),
    ));
    let connections = TaskTracker::new();
    if let Some(Peers { listener, identity }) = peers {
        let service = relay::service(app.clone(), inside);
        let drain = app.config().drain_timeout;
        connections.spawn(himalia_relay::serve(
            listener,
            identity,
            service,
            shutdown.clone(),
            drain,
        ));
    }
    if let Some(cluster) = app.cluster() {
        connections.spawn(cut_ended(cluster.clone(), shutdown.clone()));
    }
    let stop_now = CancellationToken::new();
    let mut new_tokens = app.config().new_tokens.clone();
    let mut issued = app.engine().issued_tokens();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            tokens = changed(&mut new_tokens) => {
                app.set_tokens(tokens);
                continue;
            }
            Ok(()) = issued.changed() => {
                app.end_revoked();
                continue;
            }
            accepted = accept(&listener, &permits) => accepted,
        };
        let Some((stream, address, permit)) = accepted else {
            continue;
        };
        prepare(&stream, app.config());
        let peer = Peer::new(address, permit, &waiting, app.holders());
        let serve = connection::serve(stream, peer, router.clone(), app.clone());
        let stop_now = stop_now.clone();
        connections.spawn(async move {
            tokio::select! {
                () = serve => {}
                () = stop_now.cancelled() => {}
            }
        });
    }
    drop(listener);
    connections.close();
    app.streams().close();
    let drained = async {
        connections.wait().await;
        app.streams().wait().await;
    };
    if tokio::time::timeout(app.config().drain_timeout, drained)
        .await
        .is_err()
    {
        tracing::warn!(
            connections = connections.len(),
            streams = app.streams().len(),
            "drain took too long"
        );
        stop_now.cancel();
    }
    Ok(())
}

/// The next tokens. Pending for ever if nothing changes them.
async fn changed(new_tokens: &mut Option<watch::Receiver<Tokens>>) -> Tokens {
    if let Some(new) = new_tokens
        && new.changed().await.is_ok()
    {
        return new.borrow_and_update().clone();
    }
    std::future::pending().await
}

type AcceptedConnection = (TcpStream, std::net::SocketAddr, tokio::sync::OwnedSemaphorePermit);

/// The next connection, once there is room for it.
async fn accept(listener: &TcpListener, permits: &Arc<Semaphore>) -> Option<AcceptedConnection> {
    let permit = permits.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, address)) => Some((stream, address, permit)),
        Err(error) => {
            tracing::warn!(%error, "accept failed");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// No Nagle delay; a peer that takes nothing for as long as a WebSocket may stay silent is dropped by the kernel.
fn prepare(stream: &TcpStream, config: &HttpConfig) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
    let millis = u32::try_from(config.pong_timeout.as_millis()).unwrap_or(u32::MAX);
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(stream, millis) {
        tracing::debug!(%error, "TCP_USER_TIMEOUT");
    }
}
