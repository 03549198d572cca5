//! Ended sessions: their logs can be read for a time; for longer it is known that they were there.
//!
//! The rows of the store are held in memory too, so that a lookup costs no query.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use himalia_journal::Journal;
use himalia_model::{
    Clock, EndedSession, EngineError, KernelId, Origin, Principal, RemovedBy, Retention, SessionId,
    from_micros,
};
use himalia_store::EndedRecord;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::snapshot::EndedSessionSnapshot;
use crate::SessionKernel;

/// The cause of the end of a session that retention ended.
pub(crate) const BY_RETENTION: &str = "retention";
/// Logs of ended sessions.
pub const MAX_KEPT: usize = 1000;
/// Sessions whose logs were removed that are still known.
const MAX_REMOVED: usize = 10_000;
/// Time for which removed sessions are remembered.
pub(crate) const REMOVED_KNOWN: Duration = Duration::from_hours(30 * 24);

/// All ended sessions, by the directories of their logs.
#[derive(Debug)]
pub struct EndedSessions {
    retention: Retention,
    clock: Clock,
    all: Mutex<BTreeMap<String, EndedRecord>>,
    /// Bytes of the logs of those that are kept, where they are known.
    sizes: Mutex<HashMap<String, u64>>,
    pub(crate) one_more: Notify,
}

impl EndedSessions {
    pub(crate) fn new(retention: Retention, rows: Vec<EndedRecord>) -> Self {
        let by_dir = |row: EndedRecord| (row.session_dir.clone(), row);
        Self {
            retention,
            clock: Clock::default(),
            all: Mutex::new(rows.into_iter().map(by_dir).collect()),
            sizes: Mutex::default(),
            one_more: Notify::new(),
        }
    }

    /// Counts ages by this clock.
    pub(crate) fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    pub fn retention(&self) -> Retention {
        self.retention
    }

    /// A session has ended: what is to be written down of it, if anything is kept of it. That is so for sessions of the native
    /// API that had a process: only their executions can be asked for by an id.
    pub(crate) fn end(&self, handle: &SessionKernel) -> Option<EndedRecord> {
        let record = self.record(handle)?;
        let mut all = self.all.lock();
        all.insert(record.session_dir.clone(), record.clone());
        self.one_more.notify_one();
        Some(record)
    }

    /// These have ended at another replica, whose place this one has taken.
    pub(crate) fn add(&self, rows: Vec<EndedRecord>) {
        let mut all = self.all.lock();
        all.extend(rows.into_iter().map(|row| (row.session_dir.clone(), row)));
        self.one_more.notify_one();
    }

    /// Bytes of a log that is kept, as it was measured.
    pub(crate) fn size(&self, dir: &str) -> Option<u64> {
        self.sizes.lock().get(dir).copied()
    }

    /// Bytes of an owner's logs that are kept, of those that were measured, and the directories of the others.
    pub(crate) fn kept_bytes(&self, owner: &str) -> (u64, Vec<String>) {
        let (all, sizes) = (self.all.lock(), self.sizes.lock());
        let kept = all
            .iter()
            .filter(|(_, row)| row.removed_micros.is_none() && row.owner == owner);
        kept.fold((0, Vec::new()), |(mut known, mut unknown), (dir, _)| {
            match sizes.get(dir) {
                Some(bytes) => known += bytes,
                None => unknown.push(dir.clone()),
            }
            (known, unknown)
        })
    }

    /// Notes the measured bytes of one log, if it is kept.
    pub(crate) fn add_size(&self, dir: String, bytes: u64) {
        if self.keeps(&dir) {
            self.sizes.lock().insert(dir, bytes);
        }
    }

    /// Sets the measured sizes of all kept logs.
    pub(crate) fn set_sizes(&self, sizes: HashMap<String, u64>) {
        *self.sizes.lock() = sizes;
    }

    /// Record of an ended session that has its id still; `None` if it lives, or if nothing is kept of it.
    pub fn ending(&self, handle: &SessionKernel) -> Option<EndedRecord> {
        self.of(handle).filter(|_| handle.is_over())
    }

    pub(super) fn of(&self, handle: &SessionKernel) -> Option<EndedRecord> {
        let known = log_name(&handle.journal).and_then(|dir| self.all.lock().get(&dir).cloned());
        known.or_else(|| self.record(handle))
    }

    fn record(&self, handle: &SessionKernel) -> Option<EndedRecord> {
        let session = handle.session();
        let (incarnation, reason) = {
            let snapshot = handle.snapshot.borrow();
            (snapshot.incarnation, snapshot.reason.clone())
        };
        if session.origin != Origin::V1 || incarnation == 0 || self.retention.time.is_zero() {
            return None;
        }
        let now = self.clock.stored_micros();
        let cause = reason.unwrap_or_default();
        let removed = cause == BY_RETENTION;
        let snapshot = if removed {
            serde_json::json!({})
        } else {
            EndedSessionSnapshot::of(handle).to_json()
        };
        Some(EndedRecord {
            id: handle.id().0,
            owner: session.owner.clone(),
            name: session.name.clone(),
            session_dir: log_name(&handle.journal)?,
            created_micros: i64::try_from(session.created_micros).unwrap_or(i64::MAX),
            ended_micros: now,
            removed_micros: removed.then_some(now),
            cause,
            facts: snapshot,
        })
    }

    /// The latest session of those that the principal sees that had this id and has ended.
    pub fn get(&self, principal: &Principal, id: KernelId) -> Option<EndedRecord> {
        // Times are of one length in hexadecimal, so the last one is the latest; the dot follows the hyphen.
        let all = self.all.lock();
        let found = all.range(format!("kernels/{id}-")..format!("kernels/{id}."));
        let mut found = found.rev().filter(|(_, row)| principal.sees(&row.owner));
        found.next().map(|(_, row)| row.clone())
    }

    /// Error for a session whose log was removed, if it was.
    pub(crate) fn removed(&self, principal: &Principal, id: KernelId) -> Option<EngineError> {
        self.get(principal, id).as_ref().and_then(removed)
    }

    /// Error for an id that no kernel has.
    pub fn absent(&self, principal: &Principal, id: KernelId) -> EngineError {
        let unknown = || EngineError::no_kernel(id);
        self.get(principal, id).map_or_else(unknown, |row| over(&row))
    }

    /// The latest session of an owner that had this name and has ended, if its log is kept.
    pub fn named(&self, owner: &str, name: &str) -> Option<EndedRecord> {
        let all = self.all.lock();
        let kept = all.values().filter(|row| {
            row.removed_micros.is_none() && row.owner == owner && row.name.as_deref() == Some(name)
        });
        kept.max_by_key(|row| row.ended_micros).cloned()
    }

    /// Sessions whose logs are kept, the latest end first.
    pub(crate) fn kept(&self) -> Vec<EndedRecord> {
        self.kept_of(|_| true)
    }

    /// Sessions of the wanted owners whose logs are kept.
    pub fn kept_of(&self, wanted: impl Fn(&str) -> bool) -> Vec<EndedRecord> {
        let mut kept: Vec<EndedRecord> = {
            let all = self.all.lock();
            let kept = all.values().filter(|row| row.removed_micros.is_none());
            kept.filter(|row| wanted(&row.owner)).cloned().collect()
        };
        kept.sort_by_key(|row| std::cmp::Reverse(row.ended_micros));
        kept
    }

    /// True if a log is to be kept.
    pub(crate) fn keeps(&self, dir: &str) -> bool {
        let all = self.all.lock();
        all.get(dir).is_some_and(|row| row.removed_micros.is_none())
    }

    /// From now on no client begins to read these logs.
    pub(crate) fn set_removed(&self, dirs: &[String], at_micros: i64) {
        let mut all = self.all.lock();
        for dir in dirs {
            if let Some(row) = all.get_mut(dir) {
                row.removed_micros = Some(at_micros);
                row.facts = serde_json::json!({});
            }
        }
    }

    /// Forgets sessions whose logs were removed long ago, or that are too many; gives the time before which that is so.
    pub(crate) fn forget(&self, now_micros: i64) -> i64 {
        let known = i64::try_from(REMOVED_KNOWN.as_micros()).unwrap_or(i64::MAX);
        let mut all = self.all.lock();
        let mut times: Vec<i64> = all.values().filter_map(|row| row.removed_micros).collect();
        times.sort_unstable_by_key(|at| std::cmp::Reverse(*at));
        let oldest = times.get(MAX_REMOVED).map_or(i64::MIN, |at| at.saturating_add(1));
        let before = oldest.max(now_micros.saturating_sub(known));
        all.retain(|_, row| row.removed_micros.is_none_or(|at| at >= before));
        before
    }
}

fn removed(row: &EndedRecord) -> Option<EngineError> {
    row.removed_micros.map(|_| EngineError::Removed {
        by: RemovedBy::Retention,
        reason: "this session has ended, and what was kept of it was removed".into(),
    })
}

/// The error for a caller that wants more of an ended session than its log.
pub fn over(row: &EndedRecord) -> EngineError {
    removed(row).unwrap_or_else(|| EngineError::SessionEnded(ended_session(row)))
}

pub fn ended_session(row: &EndedRecord) -> EndedSession {
    EndedSession {
        id: SessionId(row.id),
        ended: from_micros(u64::try_from(row.ended_micros).unwrap_or(0)),
        cause: row.cause.clone(),
    }
}

/// The directory of a log, relative to the data directory.
fn log_name(journal: &Journal) -> Option<String> {
    let name = journal.dir().file_name()?.to_str()?;
    Some(format!("kernels/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: u128, created: u64, ended: i64, removed: Option<i64>) -> EndedRecord {
        let id = uuid::Uuid::from_u128(id);
        EndedRecord {
            id,
            owner: "operator".into(),
            name: None,
            session_dir: format!("kernels/{id}-{created:x}"),
            created_micros: 0,
            ended_micros: ended,
            cause: "ttl".into(),
            removed_micros: removed,
            facts: serde_json::json!({}),
        }
    }

    #[test]
    fn the_latest_of_an_id_is_found() {
        let rows = vec![
            row(1, 0x10, 5, Some(9)),
            row(1, 0x11, 6, None),
            row(2, 0x10, 7, Some(8)),
        ];
        let ended = EndedSessions::new(Retention::default(), rows);
        let id = |n| KernelId(uuid::Uuid::from_u128(n));
        let op = Principal::operator();
        assert_eq!(ended.get(&op, id(1)).unwrap().ended_micros, 6);
        assert!(ended.removed(&op, id(1)).is_none());
        assert_eq!(ended.removed(&op, id(2)).unwrap().code(), "removed_by_retention");
        assert!(ended.get(&op, id(3)).is_none());
        assert_eq!(ended.kept().len(), 1);
    }

    #[test]
    fn a_log_is_measured_once() {
        let rows = vec![row(1, 0x10, 5, None), row(2, 0x10, 7, Some(8))];
        let ended = EndedSessions::new(Retention::default(), rows);
        let (known, unknown) = ended.kept_bytes("operator");
        assert_eq!((known, unknown.len()), (0, 1));
        assert_eq!(ended.kept_bytes("acme"), (0, Vec::new()));
        ended.add_size(unknown[0].clone(), 7);
        assert_eq!(ended.kept_bytes("operator"), (7, Vec::new()));
        ended.set_removed(&unknown, 9);
        ended.add_size(unknown[0].clone(), 7);
        assert_eq!(ended.kept_bytes("operator"), (0, Vec::new()));
    }

    #[test]
    fn an_id_that_another_tenant_took_later_still_leads_to_ones_own() {
        let mut mine = row(1, 0x10, 5, None);
        mine.owner = "acme".into();
        let ended = EndedSessions::new(Retention::default(), vec![mine, row(1, 0x11, 6, Some(7))]);
        let (id, of) = (KernelId(uuid::Uuid::from_u128(1)), Principal::of_tenant);
        let ada = of("acme", "ada").unwrap();
        assert_eq!(ended.get(&ada, id).unwrap().ended_micros, 5);
        assert!(ended.removed(&ada, id).is_none());
        assert!(ended.get(&of("other", "ada").unwrap(), id).is_none());
        assert!(ended.removed(&Principal::operator(), id).is_some());
    }

    #[test]
    fn what_was_removed_long_ago_is_forgotten() {
        let known = i64::try_from(REMOVED_KNOWN.as_micros()).unwrap();
        let rows = vec![row(1, 1, 0, Some(10)), row(2, 1, 0, Some(11)), row(3, 1, 0, None)];
        let ended = EndedSessions::new(Retention::default(), rows);
        assert_eq!(ended.forget(known + 11), 11);
        let op = Principal::operator();
        assert!(ended.get(&op, KernelId(uuid::Uuid::from_u128(1))).is_none());
        assert!(ended.get(&op, KernelId(uuid::Uuid::from_u128(2))).is_some());
        assert!(ended.get(&op, KernelId(uuid::Uuid::from_u128(3))).is_some());
    }

    #[test]
    fn at_most_so_many_are_known() {
        let rows = (0..=MAX_REMOVED as u128 + 4)
            .map(|n| row(n, 1, 0, Some(i64::try_from(n).unwrap())))
            .collect();
        let ended = EndedSessions::new(Retention::default(), rows);
        ended.forget(0);
        assert_eq!(ended.all.lock().len(), MAX_REMOVED);
    }
}
