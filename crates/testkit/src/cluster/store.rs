//! Objects with versions, and the changes that watches read.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Changes that are kept.
const KEPT: usize = 4096;

/// What the API refuses, and how often.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refusals {
    /// Requests that get 429.
    pub too_many: usize,
    /// Requests that get 503.
    pub unavailable: usize,
    /// Permissions are denied by reviews.
    pub deny_reviews: bool,
}

/// One change.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) resource: String,
    pub(super) kind: &'static str,
    pub(super) object: Value,
}

#[derive(Debug)]
pub(super) struct Store {
    state: Mutex<State>,
    /// The latest version, and how often watches were broken.
    pub(super) changed: watch::Sender<(u64, u64)>,
}

#[derive(Debug, Default)]
struct State {
    version: u64,
    /// By resource, namespace and name.
    objects: BTreeMap<(String, String, String), Value>,
    changes: VecDeque<Change>,
    /// Changes up to this are forgotten.
    forgotten: u64,
    refusals: Refusals,
    requests: Vec<String>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            changed: watch::Sender::new((0, 0)),
        }
    }
}

/// Why something was not done: a status.
#[derive(Debug)]
pub(super) struct Refused(pub(super) u16, pub(super) &'static str, pub(super) String);

fn key(resource: &str, object: &Value) -> (String, String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (resource.to_owned(), text("namespace"), text("name"))
}

impl State {
    fn change(&mut self, resource: &str, kind: &'static str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let place = key(resource, &object);
        if kind == "DELETED" {
            self.objects.remove(&place);
        } else {
            self.objects.insert(place, object.clone());
        }
        self.changes.push_back(Change {
            version: self.version,
            resource: resource.to_owned(),
            kind,
            object: object.clone(),
        });
        if self.changes.len() > KEPT
            && let Some(gone) = self.changes.pop_front()
        {
            self.forgotten = gone.version;
        }
        object
    }
}

impl Store {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let result = change(&mut state);
        let version = state.version;
        drop(state);
        self.changed.send_modify(|(latest, _)| *latest = version);
        result
    }

    pub(super) fn note_request(&self, line: String) -> Option<Refused> {
        let mut state = self.state.lock();
        state.requests.push(line);
        let refusals = &mut state.refusals;
        if refusals.too_many > 0 {
            refusals.too_many -= 1;
            return Some(Refused(429, "TooManyRequests", "too many requests".to_owned()));
        }
        if refusals.unavailable > 0 {
            refusals.unavailable -= 1;
            return Some(Refused(503, "ServiceUnavailable", "starting".to_owned()));
        }
        None
    }

    pub(super) fn requests(&self, part: &str) -> usize {
        let state = self.state.lock();
        state.requests.iter().filter(|line| line.contains(part)).count()
    }

    pub(super) fn refuse(&self, refusals: Refusals) {
        self.state.lock().refusals = refusals;
    }

    pub(super) fn denies_reviews(&self) -> bool {
        self.state.lock().refusals.deny_reviews
    }

    pub(super) fn all(&self, resource: &str) -> Vec<Value> {
        let state = self.state.lock();
        let found = state.objects.iter().filter(|((kind, _, _), _)| kind == resource);
        found.map(|(_, object)| object.clone()).collect()
    }

    pub(super) fn list(&self, resource: &str, namespace: &str) -> (u64, Vec<Value>) {
        let state = self.state.lock();
        let found = state
            .objects
            .iter()
            .filter(|((kind, space, _), _)| kind == resource && space == namespace);
        (state.version, found.map(|(_, object)| object.clone()).collect())
    }

    pub(super) fn get(&self, resource: &str, namespace: &str, name: &str) -> Result<Value, Refused> {
        let state = self.state.lock();
        let place = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        let missing = || Refused(404, "NotFound", format!("{resource} {name:?} not found"));
        state.objects.get(&place).cloned().ok_or_else(missing)
    }

    pub(super) fn put(&self, resource: &str, object: Value) -> Value {
        self.with(|state| {
            let kind = if state.objects.contains_key(&key(resource, &object)) {
                "MODIFIED"
            } else {
                "ADDED"
            };
            state.change(resource, kind, object)
        })
    }

    pub(super) fn create(&self, resource: &str, object: Value) -> Result<Value, Refused> {
        self.with(|state| {
            if state.objects.contains_key(&key(resource, &object)) {
                let name = object["metadata"]["name"].clone();
                return Err(Refused(
                    409,
                    "AlreadyExists",
                    format!("{resource} {name} already exists"),
                ));
            }
            Ok(state.change(resource, "ADDED", object))
        })
    }

    /// Changes an object in one step. `None` leaves it as it is.
    pub(super) fn update(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        change: impl FnOnce(Value) -> Result<Option<Value>, Refused>,
    ) -> Result<Value, Refused> {
        self.with(|state| {
            let place = (resource.to_owned(), namespace.to_owned(), name.to_owned());
            let object = state.objects.get(&place).cloned();
            let object =
                object.ok_or_else(|| Refused(404, "NotFound", format!("{resource} {name:?} not found")))?;
            match change(object.clone())? {
                Some(new) => Ok(state.change(resource, "MODIFIED", new)),
                None => Ok(object),
            }
        })
    }

    pub(super) fn remove(&self, resource: &str, namespace: &str, name: &str) -> Result<Value, Refused> {
        let object = self.get(resource, namespace, name)?;
        Ok(self.with(|state| state.change(resource, "DELETED", object)))
    }

    /// What a watch from this version on gets, or 410.
    pub(super) fn since(
        &self,
        resource: &str,
        namespace: &str,
        version: u64,
    ) -> Result<Vec<Change>, Refused> {
        let state = self.state.lock();
        if version < state.forgotten {
            let reason = format!("too old resource version: {version} ({})", state.forgotten);
            return Err(Refused(410, "Expired", reason));
        }
        let fits = |change: &&Change| {
            change.version > version
                && change.resource == resource
                && change.object["metadata"]["namespace"].as_str() == Some(namespace)
        };
        Ok(state.changes.iter().filter(fits).cloned().collect())
    }

    pub(super) fn version(&self) -> u64 {
        self.state.lock().version
    }

    pub(super) fn compact(&self) {
        let mut state = self.state.lock();
        state.changes.clear();
        // The next version, so that watches that have seen everything are not behind.
        state.version += 1;
        state.forgotten = state.version;
    }

    pub(super) fn break_watches(&self) {
        self.changed.send_modify(|(_, breaks)| *breaks += 1);
    }
}
