//! Replicas whose lease has ended.
//!
//! A replica that is paused keeps its connections, and others have taken over what it had when its lease has ended. What waits for it
//! fails then, and looks for the next owner.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::Cluster;

/// How often it is looked, while there is a connection to another replica.
const EVERY: Duration = Duration::from_millis(500);

/// Cuts connections to replicas that do not live any more, until `shutdown`.
pub(crate) async fn keep_living(cluster: Cluster, shutdown: CancellationToken) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => {}
        }
        // Before it is asked who lives: a replica that has just begun may have a connection already.
        let connected = cluster.pool.connected_to();
        if connected.is_empty() {
            continue;
        }
        // Without an answer nothing is known.
        let Ok(living) = cluster.directory.peers().await else {
            continue;
        };
        for address in connected {
            if living.iter().all(|peer| peer.address != address) {
                tracing::info!(%address, "the lease of a replica has ended; what waits for it looks for the next owner");
                cluster.locations.forget(&address);
                cluster.pool.cut(&address);
            }
        }
    }
}
