//! Removing what no caller may ask for any more: sessions that ended too long ago, and what belongs to no session.
//!
//! The gateway does it at intervals, a bounded part each time; a command does all of it at once.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use himalia_kernel::{Command, Phase};
use himalia_model::{Collected, CollectedSession, EngineError, KernelId, Looks, Orphan, OrphanKind, Overdue};
use himalia_store::EndedRecord;

use crate::disk::size;
use crate::end::BY_RETENTION;
use crate::end::Sessions;
use crate::end::{known_files, remove_kept_files};
use crate::periodic::{PeriodicTask, Wake};
use crate::{MAX_KEPT, SessionKernel, SessionManager};

/// Interval of collections by the gateway itself.
const EVERY: Duration = Duration::from_mins(10);
/// Most that one such collection removes, of sessions and of orphans each, and pages of the database.
const BOUNDED: Bounds = Bounds {
    most: 50,
    pages: 1000,
};
/// Most that a command removes.
pub const WHOLE: Bounds = Bounds {
    most: 10_000,
    pages: 1_000_000,
};

/// Bounds of a collection.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    most: usize,
    pages: u32,
}

/// The log of an ended session, with its size.
struct MeasuredLog {
    row: EndedRecord,
    bytes: u64,
}

/// Collects at an interval, and when one more session has ended.
pub(crate) struct Collection {
    looks: Looks,
}

impl Collection {
    /// Starts the task; its first run waits for the interval.
    pub(crate) fn start(manager: &Arc<SessionManager>) {
        let looks = manager.time().looks();
        manager.spawn_periodic(EVERY, Self { looks });
    }
}

impl PeriodicTask for Collection {
    const NAME: &'static str = "collect";
    const WAITS: bool = true;

    async fn run(&mut self, manager: &Arc<SessionManager>, wake: Wake) -> Result<(), String> {
        let done = match wake {
            Wake::Event => manager.collect_surplus().await,
            Wake::Interval if self.looks.look().is_none() => return Ok(()),
            Wake::Interval => manager.collect(false, BOUNDED).await,
        };
        let done = done.map_err(|error| error.to_string())?;
        if !done.sessions.is_empty() || !done.orphans.is_empty() {
            tracing::info!(
                sessions = done.sessions.len(),
                orphans = done.orphans.len(),
                bytes = done.bytes,
                more = done.more,
                "removed data that is not kept any longer"
            );
        }
        Ok(())
    }

    async fn early(&self, manager: &SessionManager) {
        manager.ended.one_more.notified().await;
    }
}

impl SessionManager {
    /// Removes ended sessions until those that are left are as many and as large as they may be.
    async fn collect_surplus(self: &Arc<Self>) -> Result<Collected, EngineError> {
        let _turn = self.starts.gate.enter("collect").await;
        let mut done = Collected::default();
        loop {
            done.more = false;
            let before = done.sessions.len();
            self.collect_ended(&mut done, BOUNDED, false).await?;
            if !done.more || done.sessions.len() == before || self.draining.is_cancelled() {
                break;
            }
        }
        done.bytes = done.sessions.iter().map(|session| session.bytes).sum();
        Ok(done)
    }

    /// Removes what is due, or says what that is. One at a time.
    pub async fn collect(self: &Arc<Self>, dry_run: bool, bounds: Bounds) -> Result<Collected, EngineError> {
        let _turn = self.starts.gate.enter("collect").await;
        let mut done = Collected {
            dry_run,
            ..Collected::default()
        };
        self.collect_lost(&mut done, bounds).await?;
        self.collect_ended(&mut done, bounds, true).await?;
        self.collect_logs(&mut done, bounds).await?;
        self.collect_files(&mut done, bounds).await?;
        let orphans = done.orphans.iter().filter_map(|orphan| orphan.bytes);
        done.bytes = orphans
            .chain(done.sessions.iter().map(|session| session.bytes))
            .sum();
        let failed = |error| EngineError::internal("cannot compact the store", error);
        let before = self.store.space().await.map_err(failed)?;
        done.database_free_bytes = before.free_bytes;
        done.database_bytes = before.total_bytes;
        if !dry_run {
            let forgotten = self.ended.forget(self.time().stored_micros());
            self.store.forget_ended(forgotten).await.map_err(failed)?;
            done.database_bytes = self
                .store
                .compact(bounds.pages)
                .await
                .map_err(failed)?
                .total_bytes;
        }
        Ok(done)
    }

    /// Kernels without a sandbox that were not used for as long as an ended session is kept, unless they can have another
    /// one: those of `/api`, and forks.
    async fn collect_lost(&self, done: &mut Collected, bounds: Bounds) -> Result<(), EngineError> {
        let time = micros(self.ended.retention().time);
        if time == 0 {
            return Ok(());
        }
        let now = self.time().micros();
        let all = self.registry.all();
        let sessions = Sessions::of(&all);
        let is_due = |handle: &&Arc<SessionKernel>| {
            // An additional kernel goes with its session.
            let Some(facts) = sessions.cull_facts(handle) else {
                return false;
            };
            let snapshot = handle.snapshot.borrow();
            let lost = snapshot.lost && snapshot.phase == Phase::Dead && !handle.session().outlives_sandbox();
            lost && facts.last_micros.saturating_add(time) <= now
        };
        let mut due: Vec<Arc<SessionKernel>> = all.iter().filter(is_due).cloned().collect();
        done.more |= due.len() > bounds.most;
        due.truncate(bounds.most);
        for handle in due {
            let dir = handle.journal.dir().to_owned();
            done.sessions.push(CollectedSession {
                id: handle.id(),
                name: handle.session().name.clone(),
                reason: Overdue::Lost,
                bytes: blocking(move || size(&dir)).await?,
            });
            if !done.dry_run {
                handle.order(Command::Stop(BY_RETENTION)).await;
                handle.gone().await;
            }
        }
        Ok(())
    }

    /// Logs of ended sessions: those that are too old, then the oldest of those that are too large or too many.
    /// With `anew` all logs are measured, otherwise those that are new, and none goes for its age.
    async fn collect_ended(
        &self,
        done: &mut Collected,
        bounds: Bounds,
        anew: bool,
    ) -> Result<(), EngineError> {
        let retention = self.ended.retention();
        let (ended, data_dir) = (Arc::clone(&self.ended), self.config.data_dir.clone());
        let measured = blocking(move || {
            let measured = measured(&data_dir, ended.kept(), |dir| ended.size(dir).filter(|_| !anew));
            let sizes = measured
                .iter()
                .map(|one| (one.row.session_dir.clone(), one.bytes));
            ended.set_sizes(sizes.collect());
            measured
        });
        let measured = measured.await?;
        let time = i64::try_from(micros(retention.time)).unwrap_or(i64::MAX);
        let oldest = if anew {
            self.time().stored_micros().saturating_sub(time)
        } else {
            i64::MIN
        };
        let surplus = surplus(&measured, retention.bytes);
        let mut due = Vec::new();
        for (at, MeasuredLog { row, bytes }) in measured.into_iter().enumerate() {
            let reason = if row.ended_micros <= oldest {
                Overdue::Age
            } else if surplus.contains(&at) {
                Overdue::Space
            } else {
                continue;
            };
            due.push((row, bytes, reason));
        }
        due.reverse();
        done.more |= due.len() > bounds.most;
        due.truncate(bounds.most);
        if !done.dry_run {
            let dirs: Vec<String> = due.iter().map(|(row, ..)| row.session_dir.clone()).collect();
            self.remove_ended(dirs).await?;
        }
        done.sessions
            .extend(due.into_iter().map(|(row, bytes, reason)| CollectedSession {
                id: KernelId(row.id),
                name: row.name,
                reason,
                bytes,
            }));
        Ok(())
    }

    async fn remove_ended(&self, dirs: Vec<String>) -> Result<(), EngineError> {
        if dirs.is_empty() {
            return Ok(());
        }
        let now = self.time().stored_micros();
        // Before any file goes: a log that is half gone is shown to no client, now or after a crash.
        let noted = self.store.set_removed(dirs.clone(), now).await;
        noted.map_err(|error| EngineError::internal("cannot note what is removed", error))?;
        self.ended.set_removed(&dirs, now);
        // What is still being read goes later: it belongs to no session from now on.
        let free = dirs.into_iter().filter(|dir| !self.logs.open.is_used(dir));
        let (free, logs): (Vec<String>, _) = (free.collect(), self.logs.storage());
        blocking(move || free.iter().for_each(|name| logs.remove(name))).await
    }

    /// Logs that belong to no session and that are not read.
    async fn collect_logs(&self, done: &mut Collected, bounds: Bounds) -> Result<(), EngineError> {
        let dir = self.config.data_dir.join("kernels");
        // Listed first: a log that is found here and belongs to no session afterwards never will.
        let found = blocking(move || directories(&dir)).await?;
        let rows = self.rows_of_all().await?;
        let known: HashSet<String> = rows.into_iter().map(|row| row.paths.session_dir).collect();
        let mut orphans: Vec<String> = found
            .into_iter()
            .filter(|dir| !known.contains(dir) && !self.ended.keeps(dir) && !self.logs.open.is_used(dir))
            .collect();
        done.more |= orphans.len() > bounds.most;
        orphans.truncate(bounds.most);
        let (data_dir, logs, dry_run) = (self.config.data_dir.clone(), self.logs.storage(), done.dry_run);
        let removed = blocking(move || {
            let remove = |name: String| {
                let bytes = size(&data_dir.join(&name));
                if !dry_run {
                    logs.remove(&name);
                }
                Orphan {
                    kind: OrphanKind::Log,
                    name,
                    bytes: Some(bytes),
                }
            };
            orphans.into_iter().map(remove).collect::<Vec<_>>()
        });
        done.orphans.extend(removed.await?);
        Ok(())
    }

    /// Kept files of no session: their removal failed when it ended.
    async fn collect_files(&self, done: &mut Collected, bounds: Bounds) -> Result<(), EngineError> {
        for provisioner in self.provisioners.iter() {
            let names = match provisioner.kept_files().await {
                Ok(names) => names,
                Err(error) => {
                    tracing::error!(kind = %provisioner.kind(), %error, "cannot list the files of sessions");
                    continue;
                }
            };
            let rows = self.rows_of_all().await?;
            let known = known_files(&rows);
            let handles = self.registry.all_unordered();
            for name in names {
                // A name is the id of the session that the files were made for, which may be about to have a row.
                let is_coming = name.parse().is_ok_and(|id| self.registry.has(id));
                let is_used =
                    |handle: &Arc<SessionKernel>| handle.session().sandbox.kept_files.as_ref() == Some(&name);
                if known.contains(&name) || is_coming || handles.iter().any(is_used) {
                    continue;
                }
                if done.orphans.len() >= bounds.most.saturating_mul(2) {
                    done.more = true;
                    return Ok(());
                }
                if !done.dry_run {
                    remove_kept_files(provisioner, &name).await;
                }
                done.orphans.push(Orphan {
                    kind: OrphanKind::Files,
                    name,
                    bytes: None,
                });
            }
        }
        Ok(())
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, EngineError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| EngineError::internal("looking at the data directory", error))
}

/// All that is known by `known` is not looked at again.
fn measured(
    data_dir: &Path,
    rows: Vec<EndedRecord>,
    known: impl Fn(&str) -> Option<u64>,
) -> Vec<MeasuredLog> {
    let measure = |row: EndedRecord| MeasuredLog {
        bytes: known(&row.session_dir).unwrap_or_else(|| size(&data_dir.join(&row.session_dir))),
        row,
    };
    rows.into_iter().map(measure).collect()
}

/// Logs, the latest first, that must go so that `bytes` and [`MAX_KEPT`] hold: the oldest ones of the owner with the most, so that no owner's logs go
/// for those of another.
fn surplus(measured: &[MeasuredLog], bytes: u64) -> HashSet<usize> {
    let mut owners: HashMap<&str, (u64, Vec<usize>)> = HashMap::new();
    let (mut total, mut count) = (0_u64, measured.len());
    for (at, one) in measured.iter().enumerate() {
        let (sum, logs) = owners.entry(&one.row.owner).or_default();
        *sum = sum.saturating_add(one.bytes);
        logs.push(at);
        total = total.saturating_add(one.bytes);
    }
    let mut surplus = HashSet::new();
    while total > bytes || count > MAX_KEPT {
        let by_bytes = total > bytes;
        let largest = owners.values_mut().filter(|(_, logs)| !logs.is_empty());
        let largest = largest.max_by_key(|(sum, logs)| {
            (
                if by_bytes { *sum } else { logs.len() as u64 },
                logs.first().map(|at| std::cmp::Reverse(*at)),
            )
        });
        let Some((sum, logs)) = largest else { break };
        let Some(at) = logs.pop() else { break };
        let one = measured.get(at).map_or(0, |one| one.bytes);
        *sum = sum.saturating_sub(one);
        total = total.saturating_sub(one);
        count -= 1;
        surplus.insert(at);
    }
    surplus
}

/// The directories of logs, relative to the data directory.
fn directories(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories
        .filter_map(|entry| Some(format!("kernels/{}", entry.file_name().to_str()?)))
        .collect()
}
