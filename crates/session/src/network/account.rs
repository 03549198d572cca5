//! Counts the connections of a session: for its own bound, its tenant's share and day, the daily usage, and the metrics.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use himalia_budget::{Places, TrafficGate};
use himalia_egress::{Account, ConnectionPermit};
use himalia_metrics::Network;
use himalia_model::{NetworkLimits, Principal};

use crate::meter::Traffic;
use crate::{SessionKernel, SessionManager};

struct SessionAccount {
    owner: String,
    limits: NetworkLimits,
    carried: AtomicU64,
    places: Places,
    day: Option<TrafficGate>,
    traffic: Arc<Traffic>,
    metrics: Network,
}

impl SessionManager {
    /// Has the connections of a kernel count for the session that it belongs to now.
    pub(crate) fn set_account(&self, kernel: &SessionKernel) {
        let session = kernel.session();
        // One session leaves places to the others of its tenant, as one caller does of other things.
        let principal = Principal::of_tenant(&session.owner, &kernel.session_id().to_string())
            .unwrap_or_else(|_| Principal::operator());
        let totals = kernel.snapshot.borrow().network;
        kernel.network().set_account(Arc::new(SessionAccount {
            owner: session.owner.clone(),
            limits: self.config.network,
            carried: AtomicU64::new(totals.sent_bytes.saturating_add(totals.received_bytes)),
            places: self.budget.network(&principal),
            day: self.budget.traffic(&session.owner).cloned(),
            traffic: self.usage.meter.traffic(&session.owner),
            metrics: self.metrics.network().clone(),
        }));
    }
}

impl Account for SessionAccount {
    fn owner(&self) -> &str {
        &self.owner
    }

    fn connection(&self) -> Result<ConnectionPermit, String> {
        match self.places.take() {
            Ok(held) => Ok(Box::new(held)),
            Err(error) => Err(error.to_string()),
        }
    }

    fn carried(&self, sent: u64, received: u64) -> Result<(), String> {
        let bytes = sent.saturating_add(received);
        if bytes > 0 {
            self.traffic.carried(sent, received);
            self.metrics.carried(sent, received);
        }
        let carried = self
            .carried
            .fetch_add(bytes, Ordering::Relaxed)
            .saturating_add(bytes);
        if let Some(limit) = self.limits.session_bytes.filter(|limit| carried >= *limit) {
            return Err(format!(
                "the limit of {limit} bytes of this session is reached (network_session_bytes)"
            ));
        }
        self.day.as_ref().map_or(Ok(()), |day| day.carried(bytes))
    }

    fn longest(&self) -> Option<Duration> {
        self.limits.connection_time
    }
}

impl fmt::Debug for SessionAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionAccount")
            .field("carried", &self.carried)
            .finish_non_exhaustive()
    }
}
