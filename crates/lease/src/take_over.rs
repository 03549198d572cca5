//! Decides which sandboxes a replica takes over from others, and when.
//!
//! At first each replica takes no more than its share; after [`OTHERS_FIRST`] it takes what the others have left. A sandbox that this
//! replica does not reach is left to others, and to its own replica, which may come back; after [`GIVEN_UP`] it is lost, and its session
//! is taken without it.

use std::collections::HashMap;
use std::time::Duration;

/// Interval of checks for replicas whose lease has ended.
pub const EVERY: Duration = Duration::from_millis(100);
/// Sandboxes that are taken at once.
pub const MOST: u32 = 32;
/// Time for other replicas to take their shares.
pub const OTHERS_FIRST: Duration = Duration::from_millis(500);
/// Time for a dead replica to come back to sandboxes that no other can reach. A service manager starts it again in less.
pub const GIVEN_UP: Duration = Duration::from_mins(1);
/// Time after its failure in which a statement may still be done: it waits in a connection, or for a lock.
pub const LATE: Duration = Duration::from_mins(1);
/// The pause before what could not be taken over is tried again, and between looks at replicas of which nothing can be taken.
pub const AGAIN: Duration = Duration::from_secs(2);

/// A replica whose lease has ended, and that still has something.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeadReplica {
    pub name: String,
    /// The places of the sandboxes of its kernels.
    pub places: Vec<String>,
    /// Number of sandboxes at these places.
    pub sandboxes: u32,
}

/// Sandboxes to take over from replicas whose lease has ended.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TakeOver {
    /// Kernels whose sandboxes are at these places.
    pub places: Vec<String>,
    /// All kernels of these replicas that have a place.
    pub given_up: Vec<String>,
    /// At most this many sandboxes and ended sessions; the kernels of one sandbox stay together.
    pub most: u32,
}

/// Observations of dead replicas, and the plan to take over from them. Times count from any fixed time.
#[derive(Debug, Default)]
pub struct TakeOverPlan {
    /// Since when each is dead, by what this replica saw itself: one that was just started gives the others time too.
    since: HashMap<String, Duration>,
    /// The last statement may have taken something without an answer.
    unsure: bool,
    /// Until when a statement without an answer may still be done.
    late_until: Option<Duration>,
    /// When nothing could be taken, or something failed.
    waits_until: Option<Duration>,
    /// Rest of the share of this replica, and the time until which it applies.
    share: Option<(u32, Duration)>,
}

impl TakeOverPlan {
    /// Number of sandboxes that the next statement may take, at most [`MOST`].
    pub fn allowed(&self, now: Duration) -> u32 {
        match self.share {
            Some((left, until)) if now < until => left.min(MOST),
            _ => MOST,
        }
    }

    /// Next take-over, if there is one, from the replicas that are dead now. `live` replicas share it, this one among them, and `reached` are the
    /// places that this one reaches.
    pub fn look(
        &mut self,
        dead: &[DeadReplica],
        live: u32,
        reached: Vec<String>,
        now: Duration,
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
            since.is_some_and(|since| now.saturating_sub(*since) >= GIVEN_UP)
                && one.places.iter().any(|place| !reached.contains(place))
        };
        let given_up: Vec<String> = dead
            .iter()
            .filter(is_given_up)
            .map(|one| one.name.clone())
            .collect();
        let waits = self.waits_until.is_some_and(|until| now < until);
        let due = !given_up.is_empty() || !reached.is_empty() || !waits;
        let late = self.late_until.is_some_and(|until| now < until) && !waits;
        let wanted = self.unsure || is_new || late || (!dead.is_empty() && due && self.allowed(now) > 0);
        wanted.then_some(TakeOver {
            places: reached,
            given_up,
            most: MOST,
        })
    }

    /// A statement has taken so many sandboxes, or `nothing` at all. Whether another one follows at once.
    pub fn took(&mut self, sandboxes: u32, nothing: bool, now: Duration) -> bool {
        self.unsure = false;
        if let Some((left, _)) = &mut self.share {
            *left = left.saturating_sub(sandboxes);
        }
        if nothing {
            self.waits_until = Some(now + AGAIN);
        }
        !nothing
    }

    /// A statement has no answer, and may have taken something, or take it later: the next ones find out.
    pub fn failed(&mut self, now: Duration) {
        self.unsure = true;
        self.late_until = Some(now + LATE);
        self.waits_until = Some(now + AGAIN);
    }
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
        let mut plan = TakeOverPlan::default();
        let all = [dead("a", &["here"]), dead("b", &["here", "there"])];
        let mut look = |after: Duration| plan.look(&all, 2, vec!["here".into()], after).unwrap();
        assert!(look(Duration::ZERO).given_up.is_empty());
        assert!(look(GIVEN_UP / 2).given_up.is_empty());
        let what = look(GIVEN_UP);
        assert_eq!(
            (what.places, what.given_up),
            (vec!["here".to_owned()], vec!["b".to_owned()])
        );
        // It came back in between.
        assert_eq!(plan.look(&[], 2, Vec::new(), GIVEN_UP), None);
        let again = plan.look(&all, 2, Vec::new(), GIVEN_UP + EVERY).unwrap();
        assert!(again.given_up.is_empty());
    }

    #[test]
    fn nothing_is_taken_again_and_again_in_vain_but_after_an_error() {
        let (mut plan, now) = (TakeOverPlan::default(), Duration::ZERO);
        let all = [dead("a", &["there"])];
        assert!(plan.look(&all, 2, Vec::new(), now).is_some());
        assert!(!plan.took(0, true, now));
        assert_eq!(plan.look(&all, 2, Vec::new(), now), None);
        plan.failed(now);
        assert!(plan.look(&all, 2, Vec::new(), now).is_some());
        assert!(plan.took(1, false, now));
        assert_eq!(plan.look(&all, 2, Vec::new(), now), None);
        assert!(plan.look(&all, 2, Vec::new(), now + AGAIN).is_some());
    }

    #[test]
    fn a_statement_without_an_answer_may_still_be_done() {
        let (mut plan, now) = (TakeOverPlan::default(), Duration::ZERO);
        assert_eq!(plan.look(&[], 2, Vec::new(), now), None);
        plan.failed(now);
        assert!(plan.look(&[], 2, Vec::new(), now).is_some());
        assert!(!plan.took(0, true, now));
        assert_eq!(plan.look(&[], 2, Vec::new(), now), None);
        assert!(plan.look(&[], 2, Vec::new(), now + AGAIN).is_some());
        assert_eq!(plan.look(&[], 2, Vec::new(), now + LATE), None);
    }

    #[test]
    fn each_takes_its_share_first() {
        let (mut plan, now) = (TakeOverPlan::default(), Duration::ZERO);
        let all = [dead("a", &["here"]), dead("b", &["here"])];
        let here = || vec!["here".to_owned()];
        assert!(plan.look(&all, 2, here(), now).is_some());
        assert_eq!(plan.allowed(now), 5);
        assert!(plan.took(5, false, now));
        assert_eq!(plan.look(&all, 2, here(), now), None);
        assert!(plan.look(&all, 2, here(), now + OTHERS_FIRST).is_some());
        assert_eq!(plan.allowed(now + OTHERS_FIRST), MOST);
    }
}
