//! One request for tokens at a time for each credential: others wait for the same.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::record::Reason;
use super::{Key, TokenKeeper};

/// An authorization server that has just given nothing is not asked again for so long.
const PAUSE: Duration = Duration::from_secs(5);

type Outcome = Result<(), String>;

/// Requests for tokens that are being made, and those that have just failed.
#[derive(Default)]
pub(super) struct Flights(Mutex<HashMap<Key, Flight>>);

enum Flight {
    Flying(watch::Receiver<Option<Outcome>>),
    Failed(Instant, String),
}

impl Flights {
    /// Begins a request for tokens, or waits for the one that is being made. It is made to its end, whether it is waited for or not: what
    /// the server gives must be written.
    pub(super) fn join(
        &self,
        keeper: &Arc<TokenKeeper>,
        key: &Key,
        reason: Reason,
    ) -> impl Future<Output = Outcome> + use<> {
        let mut flights = self.0.lock();
        let receiver = match flights.get(key) {
            Some(Flight::Flying(receiver)) => Ok(receiver.clone()),
            Some(Flight::Failed(at, reason)) if at.elapsed() < PAUSE => Err(reason.clone()),
            _ => {
                let (sender, receiver) = watch::channel(None);
                flights.insert(key.clone(), Flight::Flying(receiver.clone()));
                let (keeper, key) = (Arc::clone(keeper), key.clone());
                tokio::spawn(async move {
                    // It ends also if this task panics: then the sender is dropped, and the entry is replaced below.
                    let ended = FlightGuard {
                        keeper: Arc::clone(&keeper),
                        key: key.clone(),
                    };
                    let outcome = keeper.refresh(&key, &reason).await;
                    ended.with(&outcome);
                    let _ = sender.send(Some(outcome));
                });
                Ok(receiver)
            }
        };
        drop(flights);
        async move {
            let mut receiver = receiver?;
            let ended = receiver.wait_for(Option::is_some).await;
            match ended {
                Ok(outcome) => outcome.clone().unwrap_or(Ok(())),
                Err(_) => Err("the gateway is stopping".to_owned()),
            }
        }
    }
}

impl Flights {
    /// Forgets a failure: the credential was set or granted.
    pub(super) fn forget(&self, key: &Key) {
        let mut flights = self.0.lock();
        if matches!(flights.get(key), Some(Flight::Failed(..))) {
            flights.remove(key);
        }
    }
}

/// Takes a flight off the list.
struct FlightGuard {
    keeper: Arc<TokenKeeper>,
    key: Key,
}

impl FlightGuard {
    fn with(self, outcome: &Outcome) {
        if let Err(reason) = outcome {
            let failed = Flight::Failed(Instant::now(), reason.clone());
            self.keeper.flights.0.lock().insert(self.key.clone(), failed);
        }
    }
}

impl Drop for FlightGuard {
    fn drop(&mut self) {
        let mut flights = self.keeper.flights.0.lock();
        if matches!(flights.get(&self.key), Some(Flight::Flying(_))) {
            flights.remove(&self.key);
        }
    }
}
