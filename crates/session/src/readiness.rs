//! Readiness for new work, for load balancers.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::SessionManager;

/// Time for the store and for each provisioner.
const CHECK_TIME: Duration = Duration::from_secs(2);
/// Time for which a result is valid: probes cost one check each second, however many there are.
const FRESH: Duration = Duration::from_secs(1);

impl SessionManager {
    /// Reasons why no new work can be accepted; empty if it can. Single words and names of provisioners, since any caller may ask: `draining`,
    /// `lease` (of a replica), `store`, `provisioner docker`. Causes are in the log.
    pub async fn not_ready(self: &Arc<Self>) -> Vec<String> {
        if self.draining.is_cancelled() {
            return vec!["draining".to_owned()];
        }
        if !self.store.lease().is_valid() {
            return vec!["lease".to_owned()];
        }
        let _turn = self.starts.gate.enter("readiness").await;
        let last = self.starts.last_check.lock().clone();
        if let Some((_, reasons)) = last.filter(|(at, _)| at.elapsed() < FRESH) {
            return reasons;
        }
        let reasons = self.check_now().await;
        *self.starts.last_check.lock() = Some((Instant::now(), reasons.clone()));
        reasons
    }

    async fn check_now(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if let Some(error) = failure(self.store.check()).await {
            tracing::warn!(error, "not ready: the store cannot be written");
            reasons.push("store".to_owned());
        }
        for one in self.provisioners.iter() {
            if let Some(error) = failure(one.list()).await {
                let kind = one.kind();
                tracing::warn!(%kind, error, "not ready: a provisioner fails");
                reasons.push(format!("provisioner {kind}"));
            }
        }
        // Two of one kind, at two levels, are one reason.
        reasons.dedup();
        reasons
    }
}

/// Error of a call; `None` if it succeeds.
async fn failure<T, E: std::fmt::Display>(call: impl Future<Output = Result<T, E>>) -> Option<String> {
    match timeout(CHECK_TIME, call).await {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("it does not answer".to_owned()),
    }
}
