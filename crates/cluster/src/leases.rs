//! Replicas whose lease has ended.
//!
//! A paused replica keeps its connections, and other replicas take over its sessions when its lease has ended. Requests that wait for it
//! fail then, and look for the next owner.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;

/// Interval of the checks, while there is a connection to another replica.
const INTERVAL: Duration = Duration::from_millis(500);

/// Cuts connections to replicas whose lease has ended, until `shutdown`.
pub async fn cut_ended(cluster: Cluster, shutdown: CancellationToken) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => {}
        }
        // Before the query: a replica that has just started may have a connection already.
        let connected = cluster.pool().connected_to();
        if connected.is_empty() {
            continue;
        }
        // Without an answer nothing is known.
        let Ok(living) = cluster.peers().await else {
            continue;
        };
        for address in connected {
            if living.iter().all(|peer| peer.address != address) {
                tracing::info!(%address, "the lease of a replica has ended; what waits for it looks for the next owner");
                cluster.forget(&address);
            }
        }
    }
}
