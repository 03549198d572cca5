//! Directories that are watched: their lists are compared, now and then.
//!
//! What is made and removed between two looks is not seen, and a file that was moved is one that is gone and one that is new.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use himalia_engine::{Engine, FileKind, ListedFile, MAX_LISTED, Principal, SessionId};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Entry, Files};
use crate::connect::{Code, RpcFailure};
use crate::limits::{LOOK, SILENCE, WATCH_DEPTH, WATCH_UNUSED, WATCHERS_PER_OWNER, WATCHERS_PER_SANDBOX};

/// Watched directory, and options.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    pub(super) path: String,
    pub(super) recursive: bool,
    /// Events have the entries of their files.
    pub(super) has_entries: bool,
}

/// The files of a directory by their paths below it.
type Snapshot = BTreeMap<String, ListedFile>;

/// Changes between two snapshots, in the order in which a directory would report them.
fn changes(before: &Snapshot, after: &Snapshot) -> Vec<(String, &'static str)> {
    let mut events = Vec::new();
    for (name, old) in before {
        if after.get(name).is_none_or(|new| new.kind != old.kind) {
            events.push((name.clone(), "EVENT_TYPE_REMOVE"));
        }
    }
    for (name, new) in after {
        let old = before.get(name).filter(|old| old.kind == new.kind);
        let is_file = new.kind != FileKind::Directory;
        if old.is_none() {
            events.push((name.clone(), "EVENT_TYPE_CREATE"));
        }
        let has_content = match old {
            Some(old) => (old.bytes, old.modified) != (new.bytes, new.modified),
            None => new.bytes > 0,
        };
        // The time of a directory changes with what is in it, which has events of its own.
        let is_written = is_file && has_content;
        // An upload sets the permissions of a new file before it writes.
        let has_new_mode = old.map_or(is_written, |old| old.mode != new.mode);
        if has_new_mode {
            events.push((name.clone(), "EVENT_TYPE_CHMOD"));
        }
        if is_written {
            events.push((name.clone(), "EVENT_TYPE_WRITE"));
        }
    }
    events
}

impl Files<'_> {
    /// Takes a snapshot of the directory, by paths below it.
    async fn look(&self, watch: &Watch) -> Result<Snapshot, RpcFailure> {
        let named = self.dir.client_path(&watch.path);
        let relative = named.path();
        let found = self
            .engine
            .stat_file(self.principal, self.kernel, relative)
            .await?;
        if found.kind == FileKind::File {
            let reason = format!("{} is not a directory", named.shown());
            return Err(RpcFailure::new(Code::InvalidArgument, reason));
        }
        let depth = if watch.recursive { WATCH_DEPTH } else { 1 };
        let listed = self
            .engine
            .list_files(self.principal, self.kernel, relative, depth, MAX_LISTED, None)
            .await?;
        if listed.truncated {
            let reason = format!("there are more than {MAX_LISTED} entries: watch fewer directories at once");
            return Err(RpcFailure::new(Code::ResourceExhausted, reason));
        }
        let name = |file: &ListedFile| {
            let below = file.path.strip_prefix(relative).unwrap_or(&file.path);
            below.trim_start_matches('/').to_owned()
        };
        let snapshot = listed.entries.into_iter().map(|file| (name(&file), file));
        Ok(snapshot.collect())
    }

    /// The events since `before`, which becomes what is there now.
    async fn since(&self, watch: &Watch, before: &mut Snapshot) -> Result<Vec<Value>, RpcFailure> {
        let after = self.look(watch).await?;
        let events = changes(before, &after);
        *before = after;
        let named = self.dir.client_path(&watch.path);
        let shown = |(name, kind): (String, &str)| {
            let file = before
                .get(&name)
                .filter(|_| watch.has_entries && kind != "EVENT_TYPE_REMOVE");
            match file {
                None => json!({ "name": name, "type": kind }),
                Some(file) => json!({ "name": name, "type": kind, "entry": Entry::new(file, &named) }),
            }
        };
        Ok(events.into_iter().map(shown).collect())
    }
}

/// A directory that a client asks about by an id.
#[derive(Debug)]
struct Watcher {
    owner: String,
    session: SessionId,
    watch: Watch,
    snapshot: Snapshot,
    used: Instant,
}

/// All that clients ask about. One that is not asked about for ten minutes is forgotten. Clones name the same table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watchers(Arc<Mutex<HashMap<String, Watcher>>>);

impl Watchers {
    pub(super) async fn create(
        &self,
        files: &Files<'_>,
        session: SessionId,
        watch: Watch,
    ) -> Result<Value, RpcFailure> {
        let owner = files.principal.owner().to_owned();
        self.room(&owner, session)?;
        let snapshot = files.look(&watch).await?;
        let id = Uuid::new_v4().to_string();
        let watcher = Watcher {
            owner: owner.clone(),
            session,
            watch,
            snapshot,
            used: Instant::now(),
        };
        self.room(&owner, session)?;
        self.0.lock().insert(id.clone(), watcher);
        Ok(json!({ "watcherId": id }))
    }

    fn room(&self, owner: &str, session: SessionId) -> Result<(), RpcFailure> {
        let mut all = self.0.lock();
        all.retain(|_, one| one.used.elapsed() < WATCH_UNUSED);
        let of_owner = all.values().filter(|one| one.owner == owner);
        let of_sandbox = all.values().filter(|one| one.session == session);
        if of_owner.count() >= WATCHERS_PER_OWNER || of_sandbox.count() >= WATCHERS_PER_SANDBOX {
            let reason = format!(
                "a sandbox has at most {WATCHERS_PER_SANDBOX} watchers, and its owner {WATCHERS_PER_OWNER}"
            );
            return Err(RpcFailure::new(Code::ResourceExhausted, reason));
        }
        Ok(())
    }

    /// Changes since the last call.
    pub(super) async fn events(
        &self,
        files: &Files<'_>,
        session: SessionId,
        id: &str,
    ) -> Result<Value, RpcFailure> {
        let found = {
            let mut all = self.0.lock();
            let watcher = all.get_mut(id).filter(|one| one.session == session);
            watcher.map(|one| {
                one.used = Instant::now();
                (one.watch.clone(), one.snapshot.clone())
            })
        };
        let (watch, mut snapshot) = found.ok_or_else(|| unknown(id))?;
        let events = files.since(&watch, &mut snapshot).await?;
        if let Some(watcher) = self.0.lock().get_mut(id) {
            watcher.snapshot = snapshot;
        }
        Ok(json!({ "events": events }))
    }

    pub(super) fn remove(&self, session: SessionId, id: &str) -> Result<Value, RpcFailure> {
        let mut all = self.0.lock();
        if all.get(id).is_none_or(|one| one.session != session) {
            return Err(unknown(id));
        }
        all.remove(id);
        Ok(json!({}))
    }
}

fn unknown(id: &str) -> RpcFailure {
    let id: String = id.chars().take(64).flat_map(char::escape_debug).collect();
    RpcFailure::new(Code::NotFound, format!("watcher {id} not found"))
}

/// A directory that is looked at for as long as the client listens.
struct WatchStream {
    engine: Engine,
    principal: Principal,
    session: SessionId,
    watch: Watch,
    snapshot: Snapshot,
    shutdown: CancellationToken,
    end: Option<Instant>,
    said: Instant,
    events: std::vec::IntoIter<Value>,
}

/// The events of a directory: `start`, then what happens, with a sign of life in between.
pub(super) async fn follow(
    files: &Files<'_>,
    session: SessionId,
    watch: Watch,
    limit: Option<Duration>,
    shutdown: CancellationToken,
) -> Result<impl Stream<Item = Result<Value, RpcFailure>> + Send + use<>, RpcFailure> {
    let snapshot = files.look(&watch).await?;
    let following = WatchStream {
        engine: files.engine.clone(),
        principal: files.principal.clone(),
        session,
        watch,
        snapshot,
        shutdown,
        end: limit.map(|limit| Instant::now() + limit),
        said: Instant::now(),
        events: vec![json!({ "start": {} })].into_iter(),
    };
    Ok(stream::unfold(following, async |mut following| {
        let next = following.next().await?;
        Some((next, following))
    }))
}

impl WatchStream {
    async fn next(&mut self) -> Option<Result<Value, RpcFailure>> {
        loop {
            if let Some(event) = self.events.next() {
                self.said = Instant::now();
                return Some(Ok(event));
            }
            if self.end.is_some_and(|end| end <= Instant::now()) {
                let reason = "the time of this call has expired";
                return Some(Err(RpcFailure::new(Code::DeadlineExceeded, reason)));
            }
            if self.said.elapsed() >= SILENCE {
                self.events = vec![json!({ "keepalive": {} })].into_iter();
                continue;
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return None,
                () = sleep(LOOK) => {}
            }
            match self.look().await {
                Ok(events) => self.events = events.into_iter(),
                Err(failure) => return Some(Err(failure)),
            }
        }
    }

    async fn look(&mut self) -> Result<Vec<Value>, RpcFailure> {
        let files = Files::of(&self.engine, &self.principal, self.session)?;
        let events = files.since(&self.watch, &mut self.snapshot).await?;
        Ok(events
            .into_iter()
            .map(|event| json!({ "filesystem": event }))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;

    fn seen(kind: FileKind, bytes: u64, at: i64, mode: u32) -> ListedFile {
        ListedFile {
            path: String::new(),
            kind,
            bytes,
            modified: OffsetDateTime::from_unix_timestamp(at).unwrap(),
            mode: Some(mode),
            target: None,
            metadata: BTreeMap::new(),
        }
    }

    #[test]
    fn two_lists_differ_by_events() {
        use FileKind::{Directory, File};
        let list = |files: &[(&str, ListedFile)]| -> Snapshot {
            files
                .iter()
                .map(|(name, seen)| ((*name).to_owned(), seen.clone()))
                .collect()
        };
        let before = list(&[
            ("dir", seen(Directory, 0, 1, 0o755)),
            ("gone", seen(File, 1, 1, 0o644)),
            ("longer", seen(File, 1, 1, 0o644)),
            ("mode", seen(File, 1, 1, 0o644)),
            ("same", seen(File, 1, 1, 0o644)),
            ("turned", seen(File, 1, 1, 0o644)),
        ]);
        let after = list(&[
            ("dir", seen(Directory, 0, 9, 0o755)),
            ("empty", seen(File, 0, 9, 0o644)),
            ("full", seen(File, 3, 9, 0o644)),
            ("longer", seen(File, 2, 9, 0o644)),
            ("mode", seen(File, 1, 1, 0o600)),
            ("same", seen(File, 1, 1, 0o644)),
            ("turned", seen(Directory, 0, 9, 0o755)),
        ]);
        let events = changes(&before, &after);
        let shown: Vec<_> = events.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
        assert_eq!(
            shown,
            [
                ("gone", "EVENT_TYPE_REMOVE"),
                ("turned", "EVENT_TYPE_REMOVE"),
                ("empty", "EVENT_TYPE_CREATE"),
                ("full", "EVENT_TYPE_CREATE"),
                ("full", "EVENT_TYPE_CHMOD"),
                ("full", "EVENT_TYPE_WRITE"),
                ("longer", "EVENT_TYPE_WRITE"),
                ("mode", "EVENT_TYPE_CHMOD"),
                ("turned", "EVENT_TYPE_CREATE"),
            ]
        );
        assert_eq!(changes(&after, &after), []);
    }
}
