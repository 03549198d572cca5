//! Decision about due times: one of them is run, or none.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timetable;

/// Greatest delay at which a due time is still in time: a minute.
pub const GRACE_MICROS: i64 = 60 * 1_000_000;
/// Greatest age of a missed due time that is made up for: a week.
pub const LOOK_BACK_MICROS: i64 = 7 * 24 * 3600 * 1_000_000;
/// Missed due times that are counted.
pub const MAX_COUNTED: u32 = 1000;

/// Policy for due times at which no gateway ran, or that were seen more than a minute late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissedPolicy {
    /// Missed due times are skipped.
    Skip,
    /// The latest one is made up for, if it is not more than a week ago.
    #[default]
    RunOnce,
}

/// Policy for a due time while an earlier run is in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// The run is omitted.
    #[default]
    Skip,
    /// The run starts, and both are in progress.
    Allow,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Due times that were missed.
    pub missed: MissedPolicy,
    /// Due times while a run is in progress.
    pub overlap: Overlap,
}

/// Decision about a due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Run,
    Missed,
    /// An earlier run has not ended.
    Overlaps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueTime {
    /// When.
    pub at: i64,
    /// Decision about the due time.
    pub verdict: Verdict,
    /// Due times before it that were missed, at most [`MAX_COUNTED`].
    pub missed_before: u32,
}

/// All due times up to now in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub due: DueTime,
    /// When the schedule is due next, after now.
    pub next: Option<i64>,
}

/// Decision at `now` about a schedule that is due at `next`; `None`: it is not due yet. `active`: an earlier run is in progress.
pub fn step(table: &Timetable, policy: Policy, next: i64, now: i64, active: bool) -> Option<Step> {
    if now < next {
        return None;
    }
    let at = table.latest_until(now).map_or(next, |latest| latest.max(next));
    let late = now - at;
    let in_time =
        late <= GRACE_MICROS || (policy.missed == MissedPolicy::RunOnce && late <= LOOK_BACK_MICROS);
    let verdict = match (in_time, active, policy.overlap) {
        (false, _, _) => Verdict::Missed,
        (true, true, Overlap::Skip) => Verdict::Overlaps,
        (true, _, _) => Verdict::Run,
    };
    Some(Step {
        due: DueTime {
            at,
            verdict,
            missed_before: count(table, next, at),
        },
        next: table.next_after(now),
    })
}

/// Due times from `first`, which is one, until before `end`.
fn count(table: &Timetable, first: i64, end: i64) -> u32 {
    let mut at = Some(first);
    let mut counted = 0;
    while let Some(due) = at.filter(|due| *due < end && counted < MAX_COUNTED) {
        counted += 1;
        at = table.next_after(due);
    }
    counted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: i64 = 60 * 1_000_000;
    /// 2026-10-15T00:00:00Z.
    const START: i64 = 1_792_022_400 * 1_000_000;

    fn table(cron: &str) -> Timetable {
        Timetable::parse(cron, "UTC").unwrap()
    }

    fn policy(missed: MissedPolicy, overlap: Overlap) -> Policy {
        Policy { missed, overlap }
    }

    #[test]
    fn a_due_time_is_run_once_it_is_there() {
        let hourly = table("0 * * * *");
        let all = Policy::default();
        assert_eq!(step(&hourly, all, START, START - 1, false), None);
        let done = step(&hourly, all, START, START + 5, false).unwrap();
        let due = |verdict, missed_before| DueTime {
            at: START,
            verdict,
            missed_before,
        };
        assert_eq!(done.due, due(Verdict::Run, 0));
        assert_eq!(done.next, Some(START + 60 * MINUTE));
        assert_eq!(
            step(&hourly, all, START, START, true).unwrap().due,
            due(Verdict::Overlaps, 0)
        );
        let beside = policy(MissedPolicy::Skip, Overlap::Allow);
        assert_eq!(
            step(&hourly, beside, START, START, true).unwrap().due,
            due(Verdict::Run, 0)
        );
    }

    #[test]
    fn the_latest_missed_due_time_is_made_up_for_or_left_out() {
        let hourly = table("0 * * * *");
        let now = START + 5 * 60 * MINUTE + 10 * MINUTE;
        let run = |missed| step(&hourly, policy(missed, Overlap::Skip), START, now, false).unwrap();
        let due = |verdict| DueTime {
            at: START + 5 * 60 * MINUTE,
            verdict,
            missed_before: 5,
        };
        assert_eq!(run(MissedPolicy::RunOnce).due, due(Verdict::Run));
        assert_eq!(run(MissedPolicy::Skip).due, due(Verdict::Missed));
        assert_eq!(run(MissedPolicy::Skip).next, Some(START + 6 * 60 * MINUTE));
        // A week and more ago.
        let yearly = table("0 0 15 10 *");
        let late = |days: i64| {
            let now = START + days * 24 * 60 * MINUTE;
            step(&yearly, Policy::default(), START, now, false)
                .unwrap()
                .due
                .verdict
        };
        assert_eq!((late(7), late(8)), (Verdict::Run, Verdict::Missed));
    }

    #[test]
    fn a_long_absence_costs_little() {
        let often = table("*/10 * * * * *");
        let now = START + 400 * 24 * 60 * MINUTE;
        let done = step(&often, Policy::default(), START, now, false).unwrap();
        assert_eq!((done.due.at, done.due.missed_before), (now, MAX_COUNTED));
        assert_eq!(done.next, Some(now + 10 * 1_000_000));
    }

    proptest! {
        /// However late and how often a schedule is looked at, each due time is decided at most once, in order, and none is forgotten.
        #[test]
        fn each_due_time_is_decided_once(
            cron in prop::sample::select(vec!["*/10 * * * * *", "*/7 * * * *", "30 2 * * *", "0 9 * * MON", "15 1 L * *"]),
            zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
            looks in prop::collection::vec((1_i64..40_000_000_000, any::<bool>()), 1..40),
            skips in any::<bool>(),
        ) {
            let table = Timetable::parse(cron, zone).unwrap();
            let missed = if skips { MissedPolicy::Skip } else { MissedPolicy::RunOnce };
            let policy = policy(missed, Overlap::Skip);
            let mut now = START;
            let mut next = table.next_after(now).unwrap();
            let mut last = START;
            for (later, active) in looks {
                now += later;
                let Some(done) = step(&table, policy, next, now, active) else {
                    prop_assert!(now < next);
                    continue;
                };
                prop_assert!(done.due.at >= next && done.due.at <= now && done.due.at > last);
                let following = done.next.unwrap();
                prop_assert!(following > now);
                // Between the decided one and the next one there is none.
                prop_assert_eq!(table.next_after(done.due.at), Some(following));
                let between = count(&table, next, done.due.at);
                prop_assert_eq!(done.due.missed_before, between);
                let late = now - done.due.at;
                let may_run = late <= GRACE_MICROS || (!skips && late <= LOOK_BACK_MICROS);
                let wanted = match (may_run, active) {
                    (false, _) => Verdict::Missed,
                    (true, true) => Verdict::Overlaps,
                    (true, false) => Verdict::Run,
                };
                prop_assert_eq!(done.due.verdict, wanted);
                (last, next) = (done.due.at, following);
            }
        }
    }
}
