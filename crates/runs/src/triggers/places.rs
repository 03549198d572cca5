//! Places for what the task of triggers does at once. An owner has a part of them, so that it does not hold up the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use himalia_model::HttpUrl;
use himalia_store::DueDelivery;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{TriggerKind, Triggers};

/// Sessions that are started for runs at once.
const STARTS: Number = Number { all: 8, of_one: 2 };
/// Results that are posted at once.
const RESULTS: Number = Number { all: 8, of_one: 2 };
/// Prompts that are posted at once.
const PROMPTS: Number = Number { all: 8, of_one: 2 };
/// Attempts at once that wait for hosts which take long.
const PATIENT: Number = Number { all: 16, of_one: 2 };
/// An attempt that has no answer for so long waits apart.
const PATIENCE: Duration = Duration::from_secs(2);
/// Hosts that are remembered because they took long.
const MAX_SLOW_HOSTS: usize = 1_000;
/// The time for which a host is remembered after that.
const SLOW_FOR: Duration = Duration::from_mins(10);

#[derive(Clone, Copy, Debug)]
struct Number {
    all: usize,
    of_one: usize,
}

pub(super) struct Places {
    number: Number,
    state: Mutex<State>,
    triggers: Arc<Triggers>,
}

#[derive(Default)]
struct State {
    /// Places that are taken, by owner.
    taken: HashMap<String, usize>,
    /// True if an owner had to go without one.
    short: bool,
}

impl State {
    fn has_room(&mut self, number: Number, owner: &str) -> bool {
        let all: usize = self.taken.values().sum();
        let own = self.taken.get(owner).copied().unwrap_or(0);
        let room = all < number.all && own < number.of_one;
        self.short |= !room;
        room
    }
}

/// A place, until it is dropped.
pub(super) struct Slot {
    places: Arc<Places>,
    owner: String,
}

impl Places {
    fn new(number: Number, triggers: &Arc<Triggers>) -> Arc<Self> {
        Arc::new(Self {
            number,
            state: Mutex::default(),
            triggers: Arc::clone(triggers),
        })
    }

    pub(super) fn of_starts(triggers: &Arc<Triggers>) -> Arc<Self> {
        Self::new(STARTS, triggers)
    }

    /// Returns true if there is a place for something of an owner. If there is none, the task of triggers looks again when one is free.
    pub(super) fn has_room(&self, owner: &str) -> bool {
        self.state.lock().has_room(self.number, owner)
    }

    /// A place for something of an owner, as [`Places::has_room`].
    pub(super) fn take(self: &Arc<Self>, owner: &str) -> Option<Slot> {
        let mut state = self.state.lock();
        if !state.has_room(self.number, owner) {
            return None;
        }
        *state.taken.entry(owner.to_owned()).or_default() += 1;
        Some(Slot {
            places: Arc::clone(self),
            owner: owner.to_owned(),
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.places.state.lock();
        if let Some(own) = state.taken.get_mut(&self.owner) {
            *own -= 1;
            if *own == 0 {
                state.taken.remove(&self.owner);
            }
        }
        if std::mem::take(&mut state.short) {
            self.places.triggers.wake();
        }
    }
}

/// Places for deliveries. Prompts have their own, so that no results of runs are before them.
pub(super) struct Lanes {
    results: Lane,
    prompts: Lane,
    slow: Mutex<HashMap<Host, Instant>>,
}

/// Places for deliveries of one kind.
struct Lane {
    quick: Arc<Places>,
    /// For hosts that take long.
    patient: Arc<Places>,
}

impl Lane {
    fn new(number: Number, triggers: &Arc<Triggers>) -> Self {
        Self {
            quick: Places::new(number, triggers),
            patient: Places::new(PATIENT, triggers),
        }
    }
}

/// A host as an owner has seen it.
type Host = (String, String);

pub(super) struct PlacedDelivery {
    lanes: Arc<Lanes>,
    host: Host,
    place: Slot,
    /// The places for long waits, unless it has one of them.
    patient: Option<Arc<Places>>,
}

impl Lanes {
    pub(super) fn new(triggers: &Arc<Triggers>) -> Arc<Self> {
        Arc::new(Self {
            results: Lane::new(RESULTS, triggers),
            prompts: Lane::new(PROMPTS, triggers),
            slow: Mutex::default(),
        })
    }

    /// A place for a delivery to this URL, if there is one.
    pub(super) fn take(self: &Arc<Self>, due: &DueDelivery, url: &str) -> Option<PlacedDelivery> {
        let host = HttpUrl::parse(url).map_or_else(|_| url.to_owned(), |url| url.host().to_string());
        let host = (due.owner.clone(), host);
        let lane = if due.kind == TriggerKind::Prompts.as_str() {
            &self.prompts
        } else {
            &self.results
        };
        let (places, patient) = if self.is_slow(&host) {
            (&lane.patient, None)
        } else {
            (&lane.quick, Some(Arc::clone(&lane.patient)))
        };
        let place = places.take(&due.owner)?;
        Some(PlacedDelivery {
            lanes: Arc::clone(self),
            host,
            place,
            patient,
        })
    }

    fn is_slow(&self, host: &Host) -> bool {
        let slow = self.slow.lock();
        slow.get(host).is_some_and(|since| since.elapsed() < SLOW_FOR)
    }

    fn note(&self, host: Host, slow: bool) {
        let mut hosts = self.slow.lock();
        if !slow {
            hosts.remove(&host);
            return;
        }
        if hosts.len() >= MAX_SLOW_HOSTS && !hosts.contains_key(&host) {
            hosts.retain(|_, since| since.elapsed() < SLOW_FOR);
            let oldest = hosts.iter().min_by_key(|(_, since)| **since);
            if let Some(oldest) = oldest.map(|(host, _)| host.clone()) {
                hosts.remove(&oldest);
            }
        }
        hosts.insert(host, Instant::now());
    }
}

impl PlacedDelivery {
    /// Waits for the answer of a host. If that takes long, it waits apart, as far as there is a place for it.
    pub(super) async fn await_answer<T>(self, answer: impl Future<Output = T>) -> T {
        let Self {
            lanes,
            host,
            place,
            patient,
        } = self;
        let mut answer = std::pin::pin!(answer);
        if let Ok(answered) = tokio::time::timeout(PATIENCE, &mut answer).await {
            lanes.note(host, false);
            return answered;
        }
        lanes.note(host.clone(), true);
        let apart = patient.and_then(|patient| patient.take(&host.0));
        let _place = apart.unwrap_or(place);
        answer.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(all: usize, of_one: usize) -> Arc<Places> {
        Places::new(Number { all, of_one }, &Arc::default())
    }

    #[test]
    fn an_owner_leaves_places_to_others() {
        let places = places(3, 2);
        let first = places.take("acme").unwrap();
        let _second = places.take("acme").unwrap();
        assert!(places.take("acme").is_none());
        let _other = places.take("other").unwrap();
        assert!(places.take("third").is_none(), "all are taken");
        drop(first);
        let _third = places.take("third").unwrap();
        assert!(places.take("acme").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_that_was_missed_wakes_the_task() {
        let places = places(1, 1);
        let wake = |places: &Arc<Places>| {
            let triggers = Arc::clone(&places.triggers);
            async move {
                tokio::time::timeout(Duration::from_secs(1), triggers.wake.notified())
                    .await
                    .is_ok()
            }
        };
        drop(places.take("acme").unwrap());
        assert!(!wake(&places).await, "no task waits for it");
        let taken = places.take("acme").unwrap();
        assert!(places.take("other").is_none());
        drop(taken);
        assert!(wake(&places).await);
        // To ask is enough.
        let taken = places.take("acme").unwrap();
        assert!(!places.has_room("acme"));
        drop(taken);
        assert!(wake(&places).await && places.has_room("acme"));
    }

    fn due(owner: &str, kind: &str) -> DueDelivery {
        let record = himalia_store::DeliveryRecord {
            id: uuid::Uuid::nil(),
            trigger: uuid::Uuid::nil(),
            run: uuid::Uuid::nil(),
            created_micros: 0,
            next_micros: Some(0),
            detail: String::new(),
            claim: String::new(),
        };
        DueDelivery {
            record,
            owner: owner.to_owned(),
            kind: kind.to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_does_not_answer_leaves_its_place() {
        let lanes = Lanes::new(&Arc::default());
        let of = |kind: &str, url: &str| lanes.take(&due("acme", kind), url);
        let never = "http://never.example/a";
        let waiting: Vec<_> = std::iter::from_fn(|| of("run", never)).collect();
        assert_eq!(waiting.len(), RESULTS.of_one);
        assert!(of("run", "http://good.example/").is_none());
        let prompt = TriggerKind::Prompts.as_str();
        assert!(
            of(prompt, "http://good.example/").is_some(),
            "prompts have their own"
        );
        let mut tasks: Vec<_> = waiting
            .into_iter()
            .map(|placed| Box::pin(placed.await_answer(std::future::pending::<()>())))
            .collect();
        for task in &mut tasks {
            let waited = tokio::time::timeout(PATIENCE + Duration::from_millis(1), task.as_mut()).await;
            assert!(waited.is_err());
        }
        // The host waits apart, and the others have the places.
        assert!(of("run", "http://never.example/b").is_none());
        assert!(of(prompt, never).is_some(), "also to hosts that take long");
        assert_eq!(
            std::iter::from_fn(|| of("run", "http://good.example/"))
                .take(9)
                .collect::<Vec<_>>()
                .len(),
            2
        );
        // Another owner has not seen it.
        assert!(lanes.take(&due("other", "run"), never).is_some());
        drop(tasks);
        let again = of("run", never).unwrap();
        again.await_answer(async {}).await;
        assert!(!lanes.is_slow(&("acme".to_owned(), "never.example".to_owned())));
    }

    #[test]
    fn the_hosts_that_are_remembered_are_bounded() {
        let lanes = Lanes::new(&Arc::default());
        for n in 0..MAX_SLOW_HOSTS + 5 {
            lanes.note(("acme".to_owned(), n.to_string()), true);
        }
        assert_eq!(lanes.slow.lock().len(), MAX_SLOW_HOSTS);
    }
}
