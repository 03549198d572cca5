//! Taking over what a replica had whose lease has ended.
//!
//! Every replica looks several times a second. One statement takes the kernels of a few sandboxes; they are adopted before the next few
//! are taken. At first each replica takes no more than its share; after [`OTHERS_FIRST`] it takes what the others have left. A sandbox that this replica cannot reach is left to others, and to its
//! own replica, which may come back; after [`GIVEN_UP`] it is lost, and its session is taken without it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use himalia_model::KernelId;
use himalia_store::{DeadReplica, TakeOver, Taken};
use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::adopt::Adoptable;
use crate::SessionManager;

/// How often it is looked.
const EVERY: Duration = Duration::from_millis(100);
/// Sandboxes that are taken at once.
const MOST: u32 = 32;
/// How long the others have for their shares.
const OTHERS_FIRST: Duration = Duration::from_millis(500);
/// How long a dead replica may come back to sandboxes that no other can reach. A service manager starts it again in less.
pub(crate) const GIVEN_UP: Duration = Duration::from_mins(1);
/// The pause before what could not be taken over is tried again, and between looks at replicas of which nothing can be taken.
const AGAIN: Duration = Duration::from_secs(2);

/// What is being taken over.
#[derive(Debug, Default)]
pub(crate) struct Taking(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// A statement, or the adoption of what it took, is under way.
    under_way: bool,
    /// Rows that this replica has, and that could not be adopted.
    failed: Vec<Adoptable>,
}

impl Taking {
    /// Whether a kernel is this replica's, and not ready yet. Any kernel may be while something is being taken.
    pub(crate) fn has(&self, kernel: KernelId) -> bool {
        let state = self.0.lock();
        state.under_way || state.failed.iter().any(|one| one.row.id == kernel.0)
    }

    /// These could not be adopted.
    pub(crate) fn try_again(&self, failed: Vec<Adoptable>) {
        self.0.lock().failed.extend(failed);
    }

    fn begin(&self) {
        self.0.lock().under_way = true;
    }

    fn end(&self) {
        self.0.lock().under_way = false;
    }

    fn failed(&self) -> Vec<Adoptable> {
        std::mem::take(&mut self.0.lock().failed)
    }

    fn has_failed(&self) -> bool {
        !self.0.lock().failed.is_empty()
    }
}

/// What was seen of dead replicas.
#[derive(Debug, Default)]
struct Seen {
    /// Since when each is dead, by what this replica saw itself: one that was just started gives the others time too.
    since: HashMap<String, Instant>,
    /// The last statement may have taken something without an answer.
    unsure: bool,
    /// When nothing could be taken, or something failed.
    waits_until: Option<Instant>,
    /// What is left of the share of this replica, which counts until then.
    share: Option<(u32, Instant)>,
}

impl Seen {
    /// How many sandboxes may be taken now.
    fn allowed(&self, now: Instant) -> u32 {
        match self.share {
            Some((left, until)) if now < until => left.min(MOST),
            _ => MOST,
        }
    }

    fn took(&mut self, sandboxes: u32) {
        if let Some((left, _)) = &mut self.share {
            *left = left.saturating_sub(sandboxes);
        }
    }

    /// What is to be taken, if anything is. `live` replicas share it.
    fn look(
        &mut self,
        dead: &[DeadReplica],
        live: u32,
        reached: Vec<String>,
        now: Instant,
    ) -> Option<TakeOver> {
        self.since
            .retain(|name, _| dead.iter().any(|one| one.name == *name));
        let mut is_new = false;
        for one in dead {
            self.since.entry(one.name.clone()).or_insert_with(|| {
                is_new = true;
                now
            });
        }
        if is_new {
            let all: u32 = dead.iter().fold(0, |all, one| all.saturating_add(one.sandboxes));
            self.share = Some((all.div_ceil(live.max(1)), now + OTHERS_FIRST));
        }
        let is_given_up = |one: &&DeadReplica| {
            let since = self.since.get(&one.name);
            since.is_some_and(|since| now.saturating_duration_since(*since) >= GIVEN_UP)
                && one.places.iter().any(|place| !reached.contains(place))
        };
        let given_up: Vec<String> = dead
            .iter()
            .filter(is_given_up)
            .map(|one| one.name.clone())
            .collect();
        let waits = self.waits_until.is_some_and(|until| now < until);
        let due = !given_up.is_empty() || !reached.is_empty() || !waits;
        let wanted = self.unsure || is_new || (!dead.is_empty() && due && self.allowed(now) > 0);
        wanted.then_some(TakeOver {
            places: reached,
            given_up,
            most: MOST,
        })
    }
}

impl SessionManager {
    /// Takes over what dead replicas had, until the engine stops.
    pub(crate) async fn keep_taking_over(self: Arc<Self>) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = Seen::default();
        let mut retry_at = Instant::now() + AGAIN;
        loop {
            tokio::select! {
                () = self.draining.cancelled() => return,
                _ = ticks.tick() => {}
            }
            if self.taking.has_failed() && Instant::now() >= retry_at {
                self.taking.begin();
                let failed = self.taking.failed();
                self.adopt_taken(failed).await;
                self.taking.end();
                retry_at = Instant::now() + AGAIN;
            }
            let dead = match self.store.dead_replicas().await {
                Ok(dead) => dead,
                Err(error) => {
                    tracing::debug!(%error, "cannot look at other replicas");
                    continue;
                }
            };
            let reached = self.reached(&dead).await;
            let live = self.live(&dead).await;
            if let Some(what) = seen.look(&dead, live, reached, Instant::now()) {
                self.take_over(&mut seen, what).await;
            }
        }
    }

    /// How many replicas live, this one among them.
    async fn live(&self, dead: &[DeadReplica]) -> u32 {
        if dead.is_empty() {
            return 1;
        }
        let all = self.store.replicas().await;
        all.map_or(1, |all| u32::try_from(all.len()).unwrap_or(u32::MAX))
    }

    /// The places of dead replicas that can be reached from here.
    async fn reached(self: &Arc<Self>, dead: &[DeadReplica]) -> Vec<String> {
        let mut places: Vec<String> = dead.iter().flat_map(|one| one.places.clone()).collect();
        if places.is_empty() {
            return places;
        }
        places.sort();
        places.dedup();
        let inner = Arc::clone(self);
        let reached = tokio::task::spawn_blocking(move || {
            places.retain(|place| inner.provisioners.reaches(place));
            places
        });
        reached.await.unwrap_or_default()
    }

    /// Takes a few at a time, until there is nothing left for this replica.
    async fn take_over(self: &Arc<Self>, seen: &mut Seen, mut what: TakeOver) {
        while !self.draining.is_cancelled() {
            what.most = seen.allowed(Instant::now());
            if what.most == 0 {
                return;
            }
            self.taking.begin();
            let taken = self.store.take_over(what.clone()).await;
            seen.unsure = taken.is_err();
            let more = match taken {
                Ok(taken) => {
                    let more = !taken.is_empty();
                    seen.took(sandboxes(&taken));
                    self.took(taken).await;
                    more
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot take over what another replica had");
                    false
                }
            };
            self.taking.end();
            if !more {
                seen.waits_until = Some(Instant::now() + AGAIN);
                return;
            }
        }
    }

    /// These are this replica's now.
    async fn took(self: &Arc<Self>, taken: Taken) {
        let Taken {
            kernels,
            epoch,
            ended,
            orphans,
        } = taken;
        tracing::info!(
            kernels = kernels.len(),
            ended = ended.len(),
            "taking over what another replica had"
        );
        self.metrics.replicas().taken_over.inc_by(kernels.len() as u64);
        self.link_epoch
            .fetch_max(epoch, std::sync::atomic::Ordering::AcqRel);
        self.ended.add(ended);
        if let Some(shared) = &self.shared_logs {
            for name in &orphans {
                shared.forget(name);
            }
        }
        let all = kernels
            .into_iter()
            .map(|(row, had)| Adoptable { row, had: Some(had) });
        self.adopt_taken(all.collect()).await;
    }

    /// Adopts what this replica has taken, and then the Jupyter sessions of these kernels: one whose kernel is not there would be
    /// forgotten.
    async fn adopt_taken(self: &Arc<Self>, all: Vec<Adoptable>) {
        if all.is_empty() {
            return;
        }
        let mut ids: Vec<uuid::Uuid> = all.iter().map(|one| one.row.id).collect();
        let failed = self.adopt_all(all, self.link_epoch()).await;
        ids.retain(|id| failed.iter().all(|one| one.row.id != *id));
        if failed.is_empty() {
            self.end_without_session().await;
        }
        self.taking.try_again(failed);
        if let Err(error) = self.store.take_jupyter_sessions(ids).await {
            tracing::error!(%error, "cannot take over the Jupyter sessions of kernels");
        }
    }
}

/// How many sandboxes the kernels are in.
fn sandboxes(taken: &Taken) -> u32 {
    let all: HashSet<&str> = taken
        .kernels
        .iter()
        .map(|(row, _)| &*row.paths.sandbox_id)
        .collect();
    u32::try_from(all.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(name: &str, places: &[&str]) -> DeadReplica {
        DeadReplica {
            name: name.into(),
            places: places.iter().map(|place| (*place).to_owned()).collect(),
            sandboxes: 5,
        }
    }

    #[test]
    fn what_cannot_be_reached_is_given_up_after_a_while() {
        let mut seen = Seen::default();
        let start = Instant::now();
        let all = [dead("a", &["here"]), dead("b", &["here", "there"])];
        let mut look = |after: Duration| seen.look(&all, 2, vec!["here".into()], start + after).unwrap();
        assert!(look(Duration::ZERO).given_up.is_empty());
        assert!(look(GIVEN_UP / 2).given_up.is_empty());
        let what = look(GIVEN_UP);
        assert_eq!(
            (what.places, what.given_up),
            (vec!["here".to_owned()], vec!["b".to_owned()])
        );
        // It came back in between.
        assert_eq!(seen.look(&[], 2, Vec::new(), start + GIVEN_UP), None);
        let again = seen.look(&all, 2, Vec::new(), start + GIVEN_UP + EVERY).unwrap();
        assert!(again.given_up.is_empty());
    }

    #[test]
    fn nothing_is_taken_again_and_again_in_vain_but_after_an_error() {
        let mut seen = Seen::default();
        let now = Instant::now();
        let all = [dead("a", &["there"])];
        assert!(seen.look(&all, 2, Vec::new(), now).is_some());
        seen.waits_until = Some(now + AGAIN);
        assert_eq!(seen.look(&all, 2, Vec::new(), now), None);
        seen.unsure = true;
        assert!(seen.look(&all, 2, Vec::new(), now).is_some());
        seen.unsure = false;
        assert!(seen.look(&all, 2, Vec::new(), now + AGAIN).is_some());
    }

    #[test]
    fn each_takes_its_share_first() {
        let mut seen = Seen::default();
        let now = Instant::now();
        let all = [dead("a", &["here"]), dead("b", &["here"])];
        let here = || vec!["here".to_owned()];
        assert!(seen.look(&all, 2, here(), now).is_some());
        assert_eq!(seen.allowed(now), 5);
        seen.took(5);
        assert_eq!(seen.look(&all, 2, here(), now), None);
        assert!(seen.look(&all, 2, here(), now + OTHERS_FIRST).is_some());
        assert_eq!(seen.allowed(now + OTHERS_FIRST), MOST);
    }
}
